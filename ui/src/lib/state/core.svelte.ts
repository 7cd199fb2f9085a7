// What the page knows of the core: snapshot, then events. Stores for lists listen here.
import type { ConnectionStatus, DemoStatus, Event, Settings, Snapshot, StoreStatus, Traffic } from "../ipc/bindings";
import { CallError, type Incoming, type ShellInfo, type Transport } from "../ipc/transport";

/** Seconds of rates that the strip's chart shows. */
export const RATE_SECONDS = 60;

const OFF = { state: "off", detail: null, problem: null, since_ms: 0 } as const;
const NO_TRAFFIC: Traffic = { at_ms: 0, up_bytes_per_s: 0, down_bytes_per_s: 0, up_bytes: 0, down_bytes: 0, open: 0 };

export class CoreState {
  attached = $state(false);
  /** The core was there before and is gone. */
  lost = $state(false);
  /** The first snapshot has come. */
  known = $state(false);
  version = $state("");
  connection: ConnectionStatus = $state.raw({
    phase: "off",
    stages: { computer: OFF, rules: OFF, node: OFF, internet: OFF },
    node: null,
    mode: "rule",
    mixed: null,
    system_proxy: false,
    connected_ms: null,
  });
  settings: Settings | null = $state.raw(null);
  store: StoreStatus = $state.raw({ key_place: null, locked: null });
  demo: DemoStatus = $state.raw({ running: false, links: [] });
  traffic: Traffic = $state.raw(NO_TRAFFIC);
  /** Down and up of the last minute, oldest first. */
  rates: { down: number; up: number }[] = $state.raw([]);
  shell: ShellInfo = $state.raw({ version: "", tray: true, native: false });
  /** A call that failed and has no better place to say so. */
  failure: CallError | null = $state.raw(null);

  private readonly listeners = new Set<(incoming: Incoming) => void>();

  constructor(readonly transport: Transport) {}

  async start(): Promise<void> {
    this.shell = await this.transport.shell();
    await this.transport.listen((incoming) => this.receive(incoming));
  }

  /** Calls `hear` for all that comes in, after this store took its part of it. */
  subscribe(hear: (incoming: Incoming) => void): () => void {
    this.listeners.add(hear);
    return () => this.listeners.delete(hear);
  }

  /** Runs `work`; what the core refuses is shown in the bar at the bottom. */
  async attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      this.failure = error;
      return undefined;
    }
  }

  receive(incoming: Incoming): void {
    if (incoming.kind === "attached") this.take(incoming.snapshot);
    else if (incoming.kind === "detached") {
      this.lost = this.attached || this.lost;
      this.attached = false;
    } else if (incoming.kind === "refused") this.failure = new CallError(incoming.error);
    else if (incoming.kind === "event") this.apply(incoming.event);
    for (const hear of this.listeners) hear(incoming);
  }

  private take(snapshot: Snapshot): void {
    this.attached = true;
    this.lost = false;
    this.known = true;
    this.version = snapshot.core_version;
    this.connection = snapshot.connection;
    this.settings = snapshot.settings;
    this.store = snapshot.store;
    this.demo = snapshot.demo;
    this.measure(snapshot.traffic);
  }

  private apply(event: Event): void {
    if (event.type === "connection.status") {
      this.connection = event.data;
      if (event.data.phase === "off") this.measure({ ...this.traffic, up_bytes_per_s: 0, down_bytes_per_s: 0, open: 0 });
    } else if (event.type === "settings.changed") this.settings = event.data;
    else if (event.type === "demo.status") this.demo = event.data;
    else if (event.type === "traffic.rates") this.measure(event.data);
    else if (event.type === "state.resnapshot") {
      void this.transport.call("state.snapshot", {}).then((snapshot) => this.receive({ kind: "attached", snapshot }));
    }
  }

  private measure(traffic: Traffic): void {
    this.traffic = traffic;
    this.rates = [...this.rates.slice(1 - RATE_SECONDS), { down: traffic.down_bytes_per_s, up: traffic.up_bytes_per_s }];
  }
}

// One object that every page finds in its context.
import { getContext, setContext } from "svelte";

import type { Transport } from "../ipc/transport";
import { CoreState } from "./core.svelte";
import { FlowsState } from "./flows.svelte";
import { LogsState } from "./logs.svelte";
import { NodesState } from "./nodes.svelte";

export const PAGES = ["nodes", "connections", "logs", "settings"] as const;
export type PageName = (typeof PAGES)[number];

/** What the undo bar offers. */
export interface Offer {
  text: string;
  undo?: () => void;
}

export class AppState {
  readonly core: CoreState;
  readonly nodes: NodesState;
  readonly flows: FlowsState;
  readonly logs: LogsState;
  page: PageName = $state("nodes");
  /** Text of the import dialog; null while it is closed. */
  importing: string | null = $state(null);
  palette = $state(false);
  picker = $state(false);
  offer: Offer | null = $state.raw(null);
  /** What a screen reader is told; `assertive` interrupts. */
  announcement: { text: string; assertive: boolean } = $state.raw({ text: "", assertive: false });
  /** Ticks once a second while the window is visible, for ages. */
  now = $state(Date.now());

  constructor(readonly transport: Transport) {
    this.core = new CoreState(transport);
    this.nodes = new NodesState(this.core);
    this.flows = new FlowsState(this.core);
    this.logs = new LogsState(this.core);
    this.core.subscribe((incoming) => {
      if (incoming.kind === "import") this.importing = incoming.text;
    });
  }

  get empty(): boolean {
    return this.nodes.loaded && this.nodes.counts.all === 0;
  }

  announce(text: string, assertive = false): void {
    this.announcement = { text, assertive };
  }

  async connect(node?: number): Promise<void> {
    await this.core.attempt(() => this.transport.call("connection.connect", node === undefined ? {} : { node }));
  }

  async disconnect(): Promise<void> {
    await this.core.attempt(() => this.transport.call("connection.disconnect", {}));
  }

  /** Connect, cancel or disconnect: what the one button does now. */
  async toggle(): Promise<void> {
    const { phase, node } = this.core.connection;
    if (phase !== "off") await this.disconnect();
    else if (this.canConnect) await this.connect(node ? undefined : (this.nodes.selected ?? this.nodes.shown[0]));
  }

  get canConnect(): boolean {
    return this.core.attached && this.nodes.counts.all > 0;
  }

  /** Uses `node`: connects through it, or switches to it. */
  async use(node: number): Promise<void> {
    await this.connect(node);
  }

  /** Takes nodes off the list; the bar at the bottom brings them back. */
  async remove(ids: number[], text: string, undone: string): Promise<void> {
    if (!(await this.nodes.remove(ids))) return;
    this.offer = {
      text,
      undo: () => {
        void this.nodes.restore(ids);
        this.announce(undone);
      },
    };
    this.announce(text);
  }
}

const KEY = Symbol("app");

export function provideApp(transport: Transport): AppState {
  return setContext(KEY, new AppState(transport));
}

export function useApp(): AppState {
  return getContext<AppState>(KEY);
}

// Live connections. At most 2,000 rows are kept; the oldest that have ended leave first.
import type { ConnectionRow } from "../ipc/bindings";
import type { CoreState } from "./core.svelte";

const MOST_ROWS = 2_000;
/** An ended row stays in its place for this long, dimmed. */
const LINGER_MS = 10_000;

export type FlowFilter = "all" | "proxied" | "direct" | "blocked" | "failed";

export interface Flow {
  row: ConnectionRow;
  down: number;
  up: number;
}

export function kindOfFlow(row: ConnectionRow): Exclude<FlowFilter, "all"> {
  if (row.problem) return "failed";
  if (row.node) return "proxied";
  return /block/i.test(row.rule) ? "blocked" : "direct";
}

export class FlowsState {
  search = $state("");
  filter: FlowFilter = $state("all");
  selected: number | null = $state(null);
  open = $state(0);
  /** Order and rows stand still; the engine goes on. */
  held = $state(false);
  flows: Flow[] = $state.raw([]);
  loaded = $state(false);

  private readonly seen = new Map<number, { row: ConnectionRow; at: number; down: number; up: number }>();
  private stop: (() => void) | null = null;

  readonly shown: Flow[] = $derived.by(() => {
    const words = this.search.toLowerCase().split(/\s+/).filter(Boolean);
    return this.flows.filter(({ row }) => {
      if (this.filter !== "all" && kindOfFlow(row) !== this.filter) return false;
      const text = `${row.process ?? ""} ${row.destination} ${row.rule} ${row.node?.name ?? ""}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
  });

  readonly counts = $derived.by(() => {
    const counts: Record<FlowFilter, number> = { all: this.flows.length, proxied: 0, direct: 0, blocked: 0, failed: 0 };
    for (const { row } of this.flows) counts[kindOfFlow(row)] += 1;
    return counts;
  });

  constructor(private readonly core: CoreState) {}

  /** Reads the list and follows it until `leave` is called. */
  enter(): () => void {
    const load = () =>
      void this.core.transport.call("connections.list", { ended: true }).then((page) => {
        this.seen.clear();
        this.take(page.rows, page.open);
        this.loaded = true;
        this.publish();
      });
    if (this.core.attached) load();
    this.stop = this.core.subscribe((incoming) => {
      if (incoming.kind === "attached") load();
      else if (incoming.kind === "event" && incoming.event.type === "connections.changed") {
        this.take(incoming.event.data.changed, incoming.event.data.open);
        this.publish();
      }
    });
    const sweep = setInterval(() => this.publish(), 2_000);
    return () => {
      clearInterval(sweep);
      this.stop?.();
      this.stop = null;
    };
  }

  async close(ids?: number[]): Promise<number> {
    const closed = await this.core.attempt(() => this.core.transport.call("connections.close", ids ? { ids } : {}));
    return closed?.count ?? 0;
  }

  private take(rows: ConnectionRow[], open: number): void {
    this.open = open;
    const at = Date.now();
    for (const row of rows) {
      const old = this.seen.get(row.id);
      const seconds = old ? Math.max(0.2, (at - old.at) / 1_000) : Math.max(1, (at - row.started_ms) / 1_000);
      const over = row.ended_ms !== null;
      this.seen.set(row.id, {
        row,
        at,
        down: over ? 0 : (row.down_bytes - (old?.row.down_bytes ?? 0)) / seconds,
        up: over ? 0 : (row.up_bytes - (old?.row.up_bytes ?? 0)) / seconds,
      });
    }
  }

  private publish(): void {
    const now = Date.now();
    for (const [id, { row }] of this.seen) {
      if (row.ended_ms !== null && now - row.ended_ms > LINGER_MS && id !== this.selected && !this.held) this.seen.delete(id);
    }
    if (this.held) return;
    let all = [...this.seen.values()].sort((a, b) => b.row.id - a.row.id);
    if (all.length > MOST_ROWS) {
      const ended = all.filter(({ row }) => row.ended_ms !== null).slice(-(all.length - MOST_ROWS));
      for (const { row } of ended) this.seen.delete(row.id);
      all = all.filter(({ row }) => this.seen.has(row.id)).slice(0, MOST_ROWS);
    }
    // A flow without news for two seconds carries nothing.
    this.flows = all.map(({ row, at, down, up }) => (now - at > 2_500 ? { row, down: 0, up: 0 } : { row, down, up }));
  }
}

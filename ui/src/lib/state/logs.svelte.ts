// Lines of the core's log.
import type { LogLine } from "../ipc/bindings";
import type { CoreState } from "./core.svelte";

const MOST_LINES = 5_000;
const LEVELS = ["error", "warn", "info", "debug"] as const;
export type Level = (typeof LEVELS)[number];

export interface Line extends LogLine {
  /** Counts up, so that a row keeps its identity. */
  number: number;
}

export class LogsState {
  search = $state("");
  level: Level = $state("info");
  follow = $state(true);
  dropped = $state(0);
  lines: Line[] = $state.raw([]);
  private next = 0;

  readonly shown: Line[] = $derived.by(() => {
    const words = this.search.toLowerCase().split(/\s+/).filter(Boolean);
    const limit = LEVELS.indexOf(this.level);
    return this.lines.filter((line) => {
      const rank = LEVELS.findIndex((level) => level === line.level.toLowerCase());
      const text = `${line.target} ${line.message}`.toLowerCase();
      return (rank === -1 ? LEVELS.length - 1 : rank) <= limit && words.every((word) => text.includes(word));
    });
  });

  constructor(private readonly core: CoreState) {}

  enter(): () => void {
    const load = () =>
      void this.core.transport.call("logs.tail", { lines: 2_000 }).then(({ lines }) => {
        this.lines = lines.map((line) => this.numbered(line));
      });
    if (this.core.attached) load();
    return this.core.subscribe((incoming) => {
      if (incoming.kind === "attached") load();
      else if (incoming.kind === "event" && incoming.event.type === "logs.lines") {
        const { lines, dropped } = incoming.event.data;
        this.dropped += dropped;
        this.lines = [...this.lines, ...lines.map((line) => this.numbered(line))].slice(-MOST_LINES);
      }
    });
  }

  private numbered(line: LogLine): Line {
    this.next += 1;
    return { ...line, number: this.next };
  }
}

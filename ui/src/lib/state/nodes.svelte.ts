// The node list: rows by number, what is shown of them, and runs of tests.
//
// Rows stand in a plain map, since tens of thousands of reactive objects would cost more than the
// list itself; `version` counts the batches (at most ten a second) that the list follows.
import { SvelteSet } from "svelte/reactivity";

import type { NodeRow, TestKind, TestProgress } from "../ipc/bindings";
import type { Incoming } from "../ipc/transport";
import type { CoreState } from "./core.svelte";
import { countRows, groupRows, haystackOf, orderRows, verdictOf, type Entry, type Filter, type Sort } from "./order";

const PAGE = 2_000;
/** Ten paints a second while results stream in. */
const BATCH_MS = 100;

export class NodesState {
  sort: Sort = $state.raw({ key: "latency", descending: false });
  selected: number | null = $state(null);
  loaded = $state(false);
  /** The pointer is over the list, so that rows must stay where they are. */
  pointerInside = $state(false);
  readonly closedGroups = new SvelteSet<string>();
  /** Nodes whose result of a run is awaited. */
  readonly pending = new SvelteSet<number>();
  runs: TestProgress[] = $state.raw([]);

  private searched = $state("");
  private filtered: Filter = $state("all");
  private version = $state(0);
  private readonly rows = new Map<number, NodeRow>();
  private readonly haystacks = new Map<number, string>();
  private nameRank: Map<number, number> | null = null;
  private readonly owners = new Map<number, Set<number>>();
  private waiting: ReturnType<typeof setTimeout> | null = null;
  private orderStale = false;

  readonly counts = $derived.by(() => {
    void this.version;
    return countRows(this.rows.values());
  });

  /** Numbers of the shown rows. Kept, not derived: it holds still while tests run or the pointer is near. */
  private order: number[] = $state.raw([]);

  /** The list as it is drawn. */
  readonly entries: Entry[] = $derived.by(() => {
    void this.version;
    const rows = this.order.flatMap((id) => this.rows.get(id) ?? []);
    return groupRows(rows, this.closedGroups);
  });

  readonly shown: number[] = $derived(this.entries.flatMap((entry) => (entry.kind === "node" ? [entry.row.id] : [])));
  readonly testing = $derived(this.runs.filter((run) => !run.ended));

  constructor(private readonly core: CoreState) {
    core.subscribe((incoming) => this.hear(incoming));
  }

  get search(): string {
    return this.searched;
  }

  set search(text: string) {
    this.searched = text;
    this.reorder();
  }

  get filter(): Filter {
    return this.filtered;
  }

  set filter(filter: Filter) {
    this.filtered = filter;
    this.reorder();
  }

  get(id: number | null | undefined): NodeRow | undefined {
    void this.version;
    return id === null || id === undefined ? undefined : this.rows.get(id);
  }

  all(): NodeRow[] {
    void this.version;
    return [...this.rows.values()];
  }

  /** The fastest node that works and is not `except`. */
  fastest(except: number | null): NodeRow | undefined {
    void this.version;
    let best: NodeRow | undefined;
    for (const row of this.rows.values()) {
      const ms = row.latency?.median_ms;
      if (row.id === except || ms === null || ms === undefined || verdictOf(row) !== "working") continue;
      if (!best || ms < (best.latency?.median_ms ?? Infinity)) best = row;
    }
    return best;
  }

  async load(): Promise<void> {
    const rows: NodeRow[] = [];
    for (;;) {
      const page = await this.core.transport.call("nodes.list", { offset: rows.length, limit: PAGE });
      rows.push(...page.rows);
      if (page.rows.length === 0 || rows.length >= page.total) break;
    }
    this.rows.clear();
    this.haystacks.clear();
    this.put(rows);
    this.nameRank = null;
    this.loaded = true;
    this.paint(true);
  }

  async test(kind: TestKind, nodes?: number[]): Promise<void> {
    const ids = (nodes ?? [...this.rows.keys()]).filter((id) => {
      const row = this.rows.get(id);
      return row && !row.unsupported && !row.locked;
    });
    if (ids.length === 0) return;
    await this.core.attempt(async () => {
      const run = await this.core.transport.call("tests.start", nodes ? { kind, nodes: ids } : { kind });
      this.await(run.run, run.total, kind, ids);
    });
  }

  private await(run: number, total: number, kind: TestKind, ids: number[]): void {
    // Results may have come before the answer that names the run.
    const known = this.runs.find((one) => one.run === run);
    if (known?.ended) return;
    this.owners.set(run, new Set(ids));
    for (const id of ids) this.pending.add(id);
    if (!known) this.runs = [...this.runs, { run, kind, total, done: 0, working: 0, ended: false, cancelled: false }];
  }

  /** Tests nodes that were just added, whose rows may still be on their way. */
  async testNew(ids: number[]): Promise<void> {
    const run = await this.core.transport.call("tests.start", { kind: "latency", nodes: ids });
    this.await(run.run, run.total, "latency", ids);
  }

  async stopTests(): Promise<void> {
    await this.core.attempt(async () => {
      await Promise.all(this.testing.map((run) => this.core.transport.call("tests.cancel", { run: run.run })));
    });
  }

  async remove(ids: number[]): Promise<boolean> {
    return (await this.core.attempt(() => this.core.transport.call("nodes.delete", { nodes: ids }))) !== undefined;
  }

  async restore(ids: number[]): Promise<void> {
    await this.core.attempt(() => this.core.transport.call("nodes.restore", { nodes: ids }));
  }

  toggleGroup(key: string, open?: boolean): void {
    const close = open === undefined ? !this.closedGroups.has(key) : !open;
    if (close) this.closedGroups.add(key);
    else this.closedGroups.delete(key);
  }

  /** Sorts anew at once: the person asked for it. */
  sortBy(sort: Sort): void {
    this.sort = sort;
    this.paint(true);
  }

  /** The pointer left the list: what waited may move now. */
  settle(inside: boolean): void {
    this.pointerInside = inside;
    if (!inside && this.orderStale && this.testing.length === 0) this.paint(true);
  }

  private hear(incoming: Incoming): void {
    if (incoming.kind === "attached") {
      this.runs = incoming.snapshot.tests;
      this.pending.clear();
      this.owners.clear();
      void this.load();
      return;
    }
    if (incoming.kind !== "event") return;
    const { event } = incoming;
    if (event.type === "nodes.reload") void this.load();
    else if (event.type === "nodes.changed") {
      const structural = event.data.removed.length > 0 || event.data.changed.some((row) => !this.rows.has(row.id));
      this.put(event.data.changed);
      for (const id of event.data.removed) this.drop(id);
      this.schedule(structural);
    } else if (event.type === "tests.results") {
      for (const result of event.data.results) this.done(event.data.run, result.node);
      this.schedule(false);
    } else if (event.type === "tests.progress") this.progress(event.data);
  }

  private progress(progress: TestProgress): void {
    const others = this.runs.filter((run) => run.run !== progress.run && !run.ended);
    this.runs = [...others, progress];
    if (!progress.ended) return;
    for (const id of this.owners.get(progress.run) ?? []) this.pending.delete(id);
    this.owners.delete(progress.run);
    this.orderStale = true;
    this.schedule(false);
  }

  private done(run: number, node: number): void {
    this.owners.get(run)?.delete(node);
    this.pending.delete(node);
  }

  private put(rows: NodeRow[]): void {
    for (const row of rows) {
      const old = this.rows.get(row.id);
      this.rows.set(row.id, row);
      if (old?.name !== row.name || old.address !== row.address) {
        this.haystacks.set(row.id, haystackOf(row));
        this.nameRank = null;
      }
      if (old && old.favourite !== row.favourite) this.orderStale = true;
    }
    if (rows.length > 0) this.orderStale = true;
  }

  private drop(id: number): void {
    if (this.selected === id) {
      const at = this.shown.indexOf(id);
      this.selected = this.shown[at + 1] ?? this.shown[at - 1] ?? null;
    }
    this.rows.delete(id);
    this.haystacks.delete(id);
    this.pending.delete(id);
  }

  private structural = false;

  private schedule(structural: boolean): void {
    this.structural ||= structural;
    this.waiting ??= setTimeout(() => {
      this.waiting = null;
      const free = this.testing.length === 0 && !this.pointerInside;
      this.paint(this.structural || (this.orderStale && free));
    }, BATCH_MS);
  }

  private paint(order: boolean): void {
    this.version += 1;
    if (!order) return;
    this.structural = false;
    this.reorder();
  }

  private reorder(): void {
    this.orderStale = false;
    this.order = orderRows(this.rows.values(), this.haystacks, this.ranks(), this.searched, this.filtered, this.sort).map((row) => row.id);
  }

  private ranks(): Map<number, number> {
    if (!this.nameRank) {
      const compare = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" }).compare;
      const sorted = [...this.rows.values()].sort((a, b) => compare(a.name, b.name));
      this.nameRank = new Map(sorted.map((row, rank) => [row.id, rank]));
    }
    return this.nameRank;
  }
}

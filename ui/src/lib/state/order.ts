// Filter, sort and group of the node list: pure, one pass over the rows.
import type { NodeRow } from "../ipc/bindings";

export type Filter = "all" | "working" | "failed" | "untested";
export type SortKey = "latency" | "name" | "speed" | "added";
export interface Sort {
  key: SortKey;
  descending: boolean;
}
export type Verdict = "working" | "failed" | "untested" | "unsupported" | "locked";

export type Entry = { kind: "group"; key: string; count: number; open: boolean } | { kind: "node"; row: NodeRow };

export interface Counts {
  all: number;
  working: number;
  failed: number;
  untested: number;
}

/** What is known of a node. */
export function verdictOf(row: NodeRow): Verdict {
  if (row.unsupported) return "unsupported";
  if (row.locked) return "locked";
  if (!row.latency) return "untested";
  return row.latency.median_ms === null ? "failed" : "working";
}

/** The text that the search looks through. */
export function haystackOf(row: NodeRow): string {
  return `${row.name}\n${row.address}\n${row.protocol}\n${row.transport}\n${row.security}`.toLowerCase();
}

/** The group of a row: favourites, then what a person added, then subscriptions. */
export function groupOf(row: NodeRow): string {
  if (row.favourite) return "favourites";
  return row.subscription === null ? "own" : `subscription:${row.subscription}`;
}

/** How many rows each filter lets through. */
export function countRows(rows: Iterable<NodeRow>): Counts {
  const counts: Counts = { all: 0, working: 0, failed: 0, untested: 0 };
  for (const row of rows) {
    counts.all += 1;
    const verdict = verdictOf(row);
    if (verdict === "working" || verdict === "failed" || verdict === "untested") counts[verdict] += 1;
  }
  return counts;
}

/** Rows that pass search and filter, in order. */
export function orderRows(rows: Iterable<NodeRow>, haystacks: ReadonlyMap<number, string>, nameRank: ReadonlyMap<number, number>, search: string, filter: Filter, sort: Sort): NodeRow[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const shown: NodeRow[] = [];
  for (const row of rows) {
    if (filter !== "all" && verdictOf(row) !== filter) continue;
    const haystack = haystacks.get(row.id) ?? "";
    if (words.every((word) => haystack.includes(word))) shown.push(row);
  }
  const sign = sort.descending ? -1 : 1;
  const value = valueOf(sort.key, nameRank);
  const keys = new Map(shown.map((row) => [row.id, value(row)]));
  return shown.sort((a, b) => {
    const left = keys.get(a.id) ?? Infinity;
    const right = keys.get(b.id) ?? Infinity;
    // What has no value stays at the end in both directions.
    if (left === Infinity || right === Infinity) return left === right ? a.id - b.id : left === Infinity ? 1 : -1;
    return (left - right) * sign || a.id - b.id;
  });
}

function valueOf(key: SortKey, nameRank: ReadonlyMap<number, number>): (row: NodeRow) => number {
  switch (key) {
    case "latency":
      return (row) => row.latency?.median_ms ?? Infinity;
    case "speed":
      // The fastest comes first: ascending means best first, as with latency.
      return (row) => (row.speed?.down_bytes_per_s ? -row.speed.down_bytes_per_s : Infinity);
    case "added":
      return (row) => row.id;
    case "name":
      return (row) => nameRank.get(row.id) ?? Infinity;
  }
}

/** The rows with group heads in between; a lone group needs none. */
export function groupRows(rows: readonly NodeRow[], closed: ReadonlySet<string>): Entry[] {
  const groups = new Map<string, NodeRow[]>();
  for (const row of rows) {
    const key = groupOf(row);
    const members = groups.get(key);
    if (members) members.push(row);
    else groups.set(key, [row]);
  }
  if (groups.size < 2) return rows.map((row) => ({ kind: "node", row }));
  const entries: Entry[] = [];
  for (const [key, members] of [...groups].sort(([a], [b]) => rank(a) - rank(b) || a.localeCompare(b))) {
    const open = !closed.has(key);
    entries.push({ kind: "group", key, count: members.length, open });
    if (open) for (const row of members) entries.push({ kind: "node", row });
  }
  return entries;
}

function rank(key: string): number {
  return key === "favourites" ? 0 : key === "own" ? 1 : 2;
}

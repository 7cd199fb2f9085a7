import { describe, expect, it } from "vitest";

import { mockNodes } from "../ipc/mock/nodes";
import { countRows, groupRows, haystackOf, orderRows, verdictOf } from "./order";

const rows = mockNodes(200, 1_800_000_000_000);
const haystacks = new Map(rows.map((row) => [row.id, haystackOf(row)]));
const ranks = new Map([...rows].sort((a, b) => a.name.localeCompare(b.name)).map((row, rank) => [row.id, rank]));
const order = (search: string, filter: Parameters<typeof orderRows>[4], sort: Parameters<typeof orderRows>[5]) => orderRows(rows, haystacks, ranks, search, filter, sort);

describe("order of the list", () => {
  it("sorts by latency with what was not measured at the end, in both directions", () => {
    for (const descending of [false, true]) {
      const sorted = order("", "all", { key: "latency", descending });
      expect(sorted).toHaveLength(rows.length);
      const medians = sorted.map((row) => row.latency?.median_ms ?? null);
      const measured = medians.filter((value) => value !== null);
      expect(medians.slice(0, measured.length)).toEqual(measured);
      expect(measured).toEqual([...measured].sort((a, b) => (descending ? b - a : a - b)));
    }
  });

  it("the fastest download comes first", () => {
    const [first, second] = order("", "all", { key: "speed", descending: false });
    expect(first?.speed?.down_bytes_per_s).toBeGreaterThanOrEqual(second?.speed?.down_bytes_per_s ?? 0);
  });

  it("filters and searches together, each word anywhere", () => {
    const found = order("tokyo VLESS", "working", { key: "name", descending: false });
    expect(found.length).toBeGreaterThan(0);
    for (const row of found) {
      expect(verdictOf(row)).toBe("working");
      expect(`${row.name} ${row.protocol}`.toLowerCase()).toContain("tokyo");
      expect(row.protocol).toBe("vless");
    }
    expect(order("nothing like that", "all", { key: "name", descending: false })).toEqual([]);
  });

  it("counts agree with the filters", () => {
    const counts = countRows(rows);
    expect(counts.all).toBe(rows.length);
    for (const filter of ["working", "failed", "untested"] as const) {
      expect(order("", filter, { key: "added", descending: false })).toHaveLength(counts[filter]);
    }
  });

  it("groups have heads, a closed one hides its rows, and a lone one has none", () => {
    const sorted = order("", "all", { key: "added", descending: false });
    const open = groupRows(sorted, new Set());
    expect(open.filter((entry) => entry.kind === "group").map((entry) => entry.kind === "group" && entry.key)).toEqual(["favourites", "own"]);
    expect(open).toHaveLength(rows.length + 2);
    expect(groupRows(sorted, new Set(["own"]))).toHaveLength(2 + sorted.filter((row) => row.favourite).length);
    expect(groupRows(sorted.filter((row) => !row.favourite), new Set()).every((entry) => entry.kind === "node")).toBe(true);
  });

  it("orders 20,000 rows quickly", () => {
    const many = mockNodes(20_000, 1_800_000_000_000);
    const texts = new Map(many.map((row) => [row.id, haystackOf(row)]));
    const started = performance.now();
    orderRows(many, texts, new Map(), "to", "all", { key: "latency", descending: false });
    // A generous bound for a busy machine; the browser test measures frames.
    expect(performance.now() - started).toBeLessThan(250);
  });
});

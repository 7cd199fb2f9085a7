import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { mockTransport } from "../ipc/mock/transport";
import { CoreState } from "./core.svelte";
import { FlowsState } from "./flows.svelte";
import { NodesState } from "./nodes.svelte";

async function open(query: string) {
  const core = new CoreState(mockTransport(new URLSearchParams(`still&${query}`)));
  const nodes = new NodesState(core);
  await core.start();
  await vi.advanceTimersByTimeAsync(200);
  return { core, nodes };
}

beforeEach(() => {
  vi.useFakeTimers({ now: 1_800_000_000_000 });
});
afterEach(() => {
  vi.useRealTimers();
});

describe("core", () => {
  it("takes the snapshot and follows the connection", async () => {
    const { core } = await open("state=off");
    expect(core.attached).toBe(true);
    expect(core.connection.phase).toBe("off");
    await core.transport.call("connection.connect", {});
    expect(core.connection.phase).toBe("connecting");
    await vi.advanceTimersByTimeAsync(1_000);
    expect(core.connection.phase).toBe("connected");
    await core.transport.call("connection.disconnect", {});
    expect(core.connection.phase).toBe("off");
    expect(core.rates.at(-1)).toEqual({ down: 0, up: 0 });
  });

  it("is lost only after it was there, and keeps what was refused", async () => {
    const { core } = await open("state=off");
    core.receive({ kind: "detached", reason: "gone" });
    expect([core.attached, core.lost]).toEqual([false, true]);
    const outcome = await core.attempt(() => core.transport.call("nodes.get", { node: 9_999 }));
    expect(outcome).toBeUndefined();
    expect(core.failure?.rpc.code).toBe("node_not_found");
  });
});

describe("nodes", () => {
  it("loads tens of thousands in pages", async () => {
    const { nodes } = await open("nodes=4500");
    expect(nodes.counts.all).toBe(4_500);
    expect(nodes.shown).toHaveLength(4_500);
  });

  it("keeps its order while tests run and while the pointer is over it", async () => {
    const { nodes } = await open("nodes=60");
    nodes.settle(true);
    const before = [...nodes.shown];
    await nodes.test("latency");
    expect(nodes.pending.size).toBeGreaterThan(50);
    await vi.advanceTimersByTimeAsync(1_500);
    expect(nodes.testing).toHaveLength(1);
    expect(nodes.shown).toEqual(before);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(nodes.testing).toHaveLength(0);
    expect(nodes.pending.size).toBe(0);
    expect(nodes.shown, "the pointer is still there").toEqual(before);
    nodes.settle(false);
    const medians = nodes.shown.map((id) => nodes.get(id)).filter((row) => row && !row.favourite).map((row) => row?.latency?.median_ms ?? Infinity);
    expect(medians).toEqual([...medians].sort((a, b) => a - b));
  });

  it("a stopped run leaves nothing waiting", async () => {
    const { nodes } = await open("nodes=60");
    await nodes.test("latency");
    await vi.advanceTimersByTimeAsync(300);
    await nodes.stopTests();
    await vi.advanceTimersByTimeAsync(1_000);
    expect([nodes.testing.length, nodes.pending.size]).toEqual([0, 0]);
    expect(nodes.runs.at(-1)?.cancelled).toBe(true);
  });

  it("deletion moves the selection to the next row and can be undone", async () => {
    const { nodes } = await open("nodes=20");
    const [first, second] = nodes.shown;
    nodes.selected = first ?? null;
    await nodes.remove([first ?? 0]);
    await vi.advanceTimersByTimeAsync(200);
    expect(nodes.counts.all).toBe(19);
    expect(nodes.selected).toBe(second);
    await nodes.restore([first ?? 0]);
    await vi.advanceTimersByTimeAsync(200);
    expect(nodes.counts.all).toBe(20);
  });
});

describe("connections", () => {
  it("lists, filters, and dims what was closed in its place", async () => {
    const { core } = await open("state=connected");
    const flows = new FlowsState(core);
    const leave = flows.enter();
    await vi.advanceTimersByTimeAsync(0);
    expect(flows.counts.all).toBe(60);
    flows.filter = "direct";
    expect(flows.shown.every(({ row }) => row.node === null)).toBe(true);
    flows.filter = "all";
    const open_ = flows.shown.find(({ row }) => row.ended_ms === null);
    await flows.close([open_?.row.id ?? 0]);
    expect(flows.shown.find(({ row }) => row.id === open_?.row.id)?.row.ended_ms).not.toBeNull();
    await vi.advanceTimersByTimeAsync(15_000);
    expect(flows.shown.some(({ row }) => row.id === open_?.row.id)).toBe(false);
    leave();
  });
});

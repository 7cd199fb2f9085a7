import { describe, expect, it } from "vitest";

import { en } from "../i18n/en";
import { MOCK_STATES, mockStatus } from "../ipc/mock/state";
import { streamView } from "./view";

const NOW = 1_800_000_000_000;
const node = { id: 1, name: "Tokyo 01" };
const view = (state: (typeof MOCK_STATES)[number]) => streamView(mockStatus(state, node, NOW), NOW, en, "en");

describe("the strip", () => {
  it("is dotted while off and solid while connected", () => {
    expect(view("off").stages.map((stage) => [stage.lineIn, stage.lineOut])).toEqual(Array(4).fill(["dot", "dot"]));
    const connected = view("connected");
    expect(connected.stages.map((stage) => stage.lineOut)).toEqual(Array(4).fill("solid"));
    expect(connected.passes).toBe(true);
    expect(connected.stages[3]?.pill).toBe("Verified 8 s ago");
  });

  it("moves dashes out of the stage that is being tried", () => {
    const { stages, passes } = view("connecting");
    expect(stages[2]).toMatchObject({ state: "working", lineOut: "dash", pill: "Connecting" });
    expect(stages[3]?.lineIn).toBe("dash");
    expect(passes).toBe(false);
  });

  it("lets only the first failed stage speak and cuts off what comes after", () => {
    const { stages, speaker } = view("failed-node");
    expect(speaker).toBe("node");
    expect(stages[2]).toMatchObject({ state: "failed", lineIn: "solid", lineOut: "dot", pill: "Failed 12 s ago, at TLS" });
    expect(stages[2]?.reason).toMatch(/handshake/);
    expect(stages[3]).toMatchObject({ cutOff: true, state: "off", lineIn: "dot" });
    expect(stages.filter((stage) => stage.reason)).toHaveLength(1);
  });

  it("a slow stage warns while traffic still passes", () => {
    const { stages, passes } = view("degraded");
    expect(stages[2]?.lineOut).toBe("slow");
    expect(stages[3]?.lineOut).toBe("solid");
    expect(passes).toBe(true);
  });

  it("every state has words and a line", () => {
    for (const state of MOCK_STATES) {
      for (const stage of view(state).stages) {
        expect(stage.pill.length, `${state} ${stage.name}`).toBeGreaterThan(1);
        if (stage.state === "failed") expect(stage.reason, `${state} ${stage.name}`).not.toBeNull();
      }
    }
  });
});

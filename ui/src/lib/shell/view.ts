// What the strip says of each stage: pure, from the core's statements to words and lines.
import { duration } from "../format/age";
import type { Catalogue } from "../i18n/en";
import type { ConnectionStatus, Stage, StageState } from "../ipc/bindings";
import { problemText } from "./reason";

export const STAGES = ["computer", "rules", "node", "internet"] as const;
export type StageName = (typeof STAGES)[number];
export type Line = "solid" | "dot" | "dash" | "slow";

export interface StageView {
  name: StageName;
  state: StageState;
  /** The word in the pill. */
  pill: string;
  /** The line that comes in from the stage before, and the one that leaves. */
  lineIn: Line;
  lineOut: Line;
  /** The stage lies after a failed one. */
  cutOff: boolean;
  /** Why it failed or is slow. Only the first such stage speaks. */
  reason: string | null;
}

export interface StreamView {
  stages: StageView[];
  /** The stage that speaks. */
  speaker: StageName | null;
  /** Traffic reaches the end of the strip. */
  passes: boolean;
  end: Line;
}

/** From what the core states to what is drawn. */
export function streamView(status: ConnectionStatus, now: number, t: Catalogue, locale: string): StreamView {
  const failedAt = STAGES.findIndex((name) => status.stages[name].state === "failed");
  const speakerAt = failedAt !== -1 ? failedAt : STAGES.findIndex((name) => status.stages[name].state === "degraded");
  let line: Line = status.phase === "off" ? "dot" : "solid";
  const stages = STAGES.map((name, at): StageView => {
    const stage = status.stages[name];
    const cutOff = failedAt !== -1 && at > failedAt;
    const state: StageState = cutOff ? "off" : stage.state;
    const lineIn: Line = at === 0 && state !== "off" ? "solid" : line;
    const lineOut = leaving(state);
    line = lineOut === "slow" ? "solid" : lineOut;
    const speaks = at === speakerAt;
    return {
      name,
      state,
      pill: pillOf(name, { ...stage, state }, now, t, locale),
      lineIn: at > 0 && status.stages[STAGES[at - 1] ?? name].state === "degraded" && failedAt === -1 ? "slow" : lineIn,
      lineOut,
      cutOff,
      reason: speaks && stage.problem ? problemText(stage.problem, t) : null,
    };
  });
  return { stages, speaker: STAGES[speakerAt] ?? null, passes: line === "solid", end: line };
}

function leaving(state: StageState): Line {
  switch (state) {
    case "off":
    case "failed":
      return "dot";
    case "working":
      return "dash";
    case "verified":
      return "solid";
    case "degraded":
      return "slow";
  }
}

function pillOf(name: StageName, stage: Stage, now: number, t: Catalogue, locale: string): string {
  const age = () => duration(Math.max(0, now - stage.since_ms), t.units, locale);
  switch (stage.state) {
    case "verified":
      return name === "internet" && stage.since_ms > 0 ? t.stage.verifiedAgo(age()) : t.stage.state.verified;
    case "working":
      return name === "node" ? t.stage.connecting : t.stage.checking;
    case "failed": {
      const phase = stage.problem?.params["phase"];
      if (stage.since_ms === 0) return t.stage.state.failed;
      return phase ? t.stage.failedAgoAt(age(), t.phases[phase] ?? phase) : t.stage.failedAgo(age());
    }
    case "off":
    case "degraded":
      return t.stage.state[stage.state];
  }
}

/** The detail of a working stage: the step's name where it is one of ours. */
export function detailText(detail: string | null, t: Catalogue): string | null {
  return detail === null ? null : (t.phases[detail] ?? detail);
}


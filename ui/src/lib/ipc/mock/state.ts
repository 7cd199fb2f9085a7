// The states of the stream that the mock core can be opened in (`?state=…`).
import type { ConnectionStatus, NodeRef, Stage, StageState } from "../bindings";
import { problem } from "./nodes";

export type MockState = "off" | "connecting" | "connected" | "degraded" | "failed-node" | "failed-internet" | "failed-computer";
export const MOCK_STATES: MockState[] = ["off", "connecting", "connected", "degraded", "failed-node", "failed-internet", "failed-computer"];

function stage(state: StageState, since_ms: number, detail: string | null = null): Stage {
  return { state, detail, problem: null, since_ms };
}

export function mockStatus(state: MockState, node: NodeRef | null, now: number): ConnectionStatus {
  const since = now - 250_000;
  const status: ConnectionStatus = {
    phase: "connected",
    stages: {
      computer: stage("verified", since),
      rules: stage("verified", since),
      node: stage("verified", since),
      internet: stage("verified", now - 8_000, "www.gstatic.com"),
    },
    node,
    mode: "rule",
    mixed: { address: "127.0.0.1", port: 2080, wanted: null, holder: null },
    system_proxy: true,
    connected_ms: since,
  };
  const off = () => stage("off", now);
  switch (state) {
    case "off":
      return { ...status, phase: "off", stages: { computer: off(), rules: off(), node: off(), internet: off() }, mixed: null, system_proxy: false, connected_ms: null };
    case "connecting":
      return { ...status, phase: "connecting", stages: { ...status.stages, node: stage("working", now, "security"), internet: off() }, connected_ms: null };
    case "connected":
      return status;
    case "degraded":
      return {
        ...status,
        stages: { ...status.stages, node: { ...stage("degraded", now - 4_000), problem: problem("timed_out", "the node answers slowly", { phase: "first_byte" }) } },
      };
    case "failed-node":
      return {
        ...status,
        phase: "failed",
        stages: {
          ...status.stages,
          node: { ...stage("failed", now - 12_000), problem: problem("handshake", "the server closed the TLS handshake", { phase: "security" }) },
          internet: off(),
        },
      };
    case "failed-internet":
      return {
        ...status,
        phase: "failed",
        stages: { ...status.stages, internet: { ...stage("failed", now - 6_000), problem: problem("target", "the node could not reach the page") } },
      };
    case "failed-computer":
      return {
        ...status,
        phase: "failed",
        stages: { computer: { ...stage("failed", now - 3_000), problem: problem("system_proxy", "the setting was not taken") }, rules: off(), node: off(), internet: off() },
        mixed: null,
        system_proxy: false,
      };
  }
}

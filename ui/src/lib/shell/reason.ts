// A failure in the words of the language: what happened, and what is probably wrong.
import type { Catalogue } from "../i18n/en";
import type { Problem, RpcError } from "../ipc/bindings";

export function problemText(problem: Problem, t: Catalogue): string {
  const phase = problem.params["phase"];
  return t.reasons[problem.code]({ message: problem.message, ...problem.params, ...(phase ? { phase: t.phases[phase] ?? phase } : {}) });
}

/** A few words for a row: “No answer in time, TCP”. */
export function problemShort(problem: Problem, t: Catalogue): string {
  const phase = problem.params["phase"];
  const words = t.reasonsShort[problem.code];
  return phase ? `${words} · ${t.phases[phase] ?? phase}` : words;
}

export function errorText(error: RpcError, t: Catalogue): string {
  const says = t.errors[error.code] as ((values: Record<string, string>) => string) | undefined;
  return says ? says({ reason: error.message, ...error.params }) : error.message;
}

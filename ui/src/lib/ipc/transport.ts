// How the pages speak with the core: one typed call, one stream of events, and what the shell
// around the page can do. The real one goes through Tauri; the mock one lives in the page.
import type { Event, Methods, RpcError, Snapshot } from "./bindings";

export type MethodName = Exclude<keyof Methods, "system.hello" | "system.shutdown" | "state.subscribe">;

/** What comes from the core without being asked for. */
export type Incoming =
  | { kind: "attached"; snapshot: Snapshot }
  | { kind: "event"; event: Event }
  | { kind: "detached"; reason: string }
  | { kind: "import"; text: string }
  | { kind: "refused"; error: RpcError };

/** What the shell around the page is. */
export interface ShellInfo {
  version: string;
  /** Whether the desktop shows a tray icon of ours. */
  tray: boolean;
  /** False in a plain browser. */
  native: boolean;
}

export interface Transport {
  call<M extends MethodName>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]>;
  /** Starts the stream; answers with the function that ends it. */
  listen(receive: (incoming: Incoming) => void): Promise<() => void>;
  shell(): Promise<ShellInfo>;
  readClipboard(): Promise<string>;
  writeClipboard(text: string): Promise<void>;
  /** Tells the tray which language to speak. */
  setLanguage(tag: string): Promise<void>;
  /** Puts the system's settings back and ends app and core. */
  quit(): Promise<void>;
}

/** A call that the core refused. */
export class CallError extends Error {
  constructor(readonly rpc: RpcError) {
    super(rpc.message);
    this.name = "CallError";
  }
}

export function asCallError(error: unknown): CallError {
  if (error instanceof CallError) return error;
  if (typeof error === "object" && error !== null && "code" in error && "message" in error) {
    return new CallError(error as RpcError);
  }
  return new CallError({ code: "internal", params: { reason: String(error) }, message: String(error) });
}

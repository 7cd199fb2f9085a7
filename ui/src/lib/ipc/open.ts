import type { Transport } from "./transport";

/** The transport of this build: the mock core is not even part of a real one. */
export async function openTransport(): Promise<Transport> {
  if (__MOCK__) {
    const { mockTransport } = await import("./mock/transport");
    return mockTransport(new URLSearchParams(location.search));
  }
  const { tauriTransport } = await import("./tauri");
  return tauriTransport();
}

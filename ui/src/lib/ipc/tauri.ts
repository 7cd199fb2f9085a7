// The real transport: commands of the shell, which forwards them to the core.
import { Channel, invoke } from "@tauri-apps/api/core";

import { asCallError, type Incoming, type ShellInfo, type Transport } from "./transport";

export function tauriTransport(): Transport {
  return {
    async call(method, params) {
      try {
        return await invoke("rpc", { method, params });
      } catch (error) {
        throw asCallError(error);
      }
    },
    async listen(receive) {
      let open = true;
      const channel = new Channel<Incoming>();
      channel.onmessage = (incoming) => {
        if (open) receive(incoming);
      };
      await invoke("listen", { channel });
      return () => {
        open = false;
      };
    },
    shell: () => invoke<ShellInfo>("shell_info"),
    readClipboard: () => invoke<string>("clipboard_read"),
    writeClipboard: (text) => invoke("clipboard_write", { text }),
    setLanguage: (tag) => invoke("set_language", { tag }),
    quit: () => invoke("quit"),
  };
}

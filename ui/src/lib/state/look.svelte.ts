// Theme, contrast, density, language and direction on the root element, as chosen or as the system has them.
import { i18n } from "../i18n/index.svelte";
import type { Density } from "../ipc/bindings";
import type { CoreState } from "./core.svelte";

export const ROW_HEIGHTS: Record<Density, number> = { compact: 30, normal: 36, relaxed: 44 };

export class Look {
  private readonly core: CoreState;
  private readonly dark = new MediaValue("(prefers-color-scheme: dark)");
  private readonly contrast = new MediaValue("(prefers-contrast: more)");
  /** `?contrast=high` in the mock build. */
  private readonly forced = __MOCK__ && new URLSearchParams(location.search).get("contrast") === "high";
  readonly theme: "light" | "dark";
  readonly high: boolean = $derived(this.forced || this.contrast.matches);
  readonly rowHeight: number;

  constructor(core: CoreState) {
    this.core = core;
    this.theme = $derived.by(() => {
      const chosen = core.settings?.theme ?? "system";
      return chosen === "system" ? (this.dark.matches ? "dark" : "light") : chosen;
    });
    this.rowHeight = $derived(ROW_HEIGHTS[core.settings?.density ?? "normal"]);
  }

  /** Keeps the root element in step; to be called while a component is set up. */
  follow(): void {
    $effect(() => {
      const root = document.documentElement;
      root.dataset["theme"] = this.theme;
      if (this.high) root.dataset["contrast"] = "high";
      else delete root.dataset["contrast"];
      root.style.setProperty("--row-h", `${this.rowHeight}px`);
    });
    $effect(() => {
      if (this.core.settings) i18n.chosen = this.core.settings.language;
    });
    $effect(() => {
      document.documentElement.lang = i18n.language === "zh" ? "zh-CN" : i18n.language;
      document.documentElement.dir = "ltr";
      void this.core.transport.setLanguage(i18n.tag);
    });
  }
}

class MediaValue {
  matches = $state(false);

  constructor(query: string) {
    const media = window.matchMedia(query);
    this.matches = media.matches;
    media.addEventListener("change", (event) => (this.matches = event.matches));
  }
}

// The keyboard map of the whole window; lists and dialogs hear their own keys first.
import { PAGES, type AppState } from "../state/app.svelte";

const REGIONS = ["stream", "sidebar", "page", "panel"];

export function windowKeys(event: KeyboardEvent, app: AppState): void {
  const target = event.target instanceof HTMLElement ? event.target : null;
  const typing = target?.matches("input, textarea, select, [contenteditable]") ?? false;
  const command = event.ctrlKey || event.metaKey;
  if (document.querySelector("dialog[open]")) return;
  if (command && !event.shiftKey && !event.altKey) {
    const page = PAGES[Number(event.key) - 1];
    if (page) return act(event, () => (app.page = page));
    if (event.key === "Enter") return act(event, () => void app.toggle());
    if (event.key.toLowerCase() === "k") return act(event, () => (app.palette = true));
    if (event.key.toLowerCase() === "f") return act(event, focusSearch);
    if (event.key.toLowerCase() === "q") return act(event, () => void app.transport.quit());
    if (event.key.toLowerCase() === "z" && !typing && app.offer?.undo) {
      return act(event, () => {
        app.offer?.undo?.();
        app.offer = null;
      });
    }
    return;
  }
  if (event.key === "F6") return act(event, () => nextRegion(event.shiftKey ? -1 : 1));
  if (event.key === "/" && !typing) act(event, focusSearch);
}

function act(event: KeyboardEvent, run: () => void): void {
  event.preventDefault();
  run();
}

function focusSearch(): void {
  document.querySelector<HTMLInputElement>("[data-page-search]")?.focus();
}

function nextRegion(step: number): void {
  const regions = REGIONS.flatMap((name) => document.querySelector<HTMLElement>(`[data-region="${name}"]`) ?? []);
  const at = regions.findIndex((region) => region.contains(document.activeElement));
  const next = regions[(at + step + regions.length) % regions.length];
  next?.querySelector<HTMLElement>('[aria-current], [tabindex="0"], button:not(:disabled), input')?.focus();
}

// The language in use. Every text of the app comes through `i18n.t`, so that a change shows at once.
import { en, type Catalogue } from "./en";
import { zh } from "./zh";

export type Language = "en" | "zh";

export const catalogues: Record<Language, Catalogue> = { en, zh };
export const languages: { tag: string; language: Language; name: string }[] = [
  { tag: "en", language: "en", name: "English" },
  { tag: "zh-CN", language: "zh", name: "简体中文" },
];

/** The number and date format of `tag`; the system's names that are no language tags (C, POSIX) read as English. */
export function safeLocale(tag: string): string {
  try {
    return Intl.getCanonicalLocales(tag.replace("_", "-").replace(/[.@].*$/, ""))[0] ?? "en";
  } catch {
    return "en";
  }
}

/** The catalogue that fits `tags` best. */
export function chooseLanguage(tags: readonly string[]): Language {
  for (const tag of tags) {
    const primary = safeLocale(tag).split("-")[0]?.toLowerCase();
    const found = languages.find((one) => one.language === primary);
    if (found) return found.language;
  }
  return "en";
}

class I18n {
  /** Chosen in Settings; empty follows the system. */
  chosen = $state("");
  readonly language: Language = $derived(this.chosen ? chooseLanguage([this.chosen]) : chooseLanguage(systemTags()));
  readonly t: Catalogue = $derived(catalogues[this.language]);
  readonly tag: string = $derived(this.language === "zh" ? "zh-CN" : this.chosen ? "en" : safeLocale(systemTags()[0] ?? "en"));
}

function systemTags(): readonly string[] {
  return typeof navigator === "undefined" ? ["en"] : navigator.languages.length > 0 ? navigator.languages : [navigator.language];
}

export const i18n = new I18n();

import { describe, expect, it } from "vitest";

import { catalogues, chooseLanguage, safeLocale } from "./index.svelte";

/** Every leaf of a catalogue by its path. */
function leaves(node: unknown, path = ""): [string, unknown][] {
  if (typeof node === "object" && node !== null) return Object.entries(node).flatMap(([key, value]) => leaves(value, path ? `${path}.${key}` : key));
  return [[path, node]];
}

describe("catalogues", () => {
  const english = leaves(catalogues.en);
  const others = Object.entries(catalogues).filter(([language]) => language !== "en");

  it.each(others)("%s has every text of the English one, and no other", (_language, catalogue) => {
    expect(leaves(catalogue).map(([path]) => path).sort()).toEqual(english.map(([path]) => path).sort());
  });

  it.each(others)("%s has the same kind of text everywhere, and none is empty", (_language, catalogue) => {
    const texts = new Map(leaves(catalogue));
    for (const [path, text] of english) {
      expect(typeof texts.get(path), path).toBe(typeof text);
      if (typeof text === "string") expect(texts.get(path), path).not.toBe("");
    }
  });

  it("Chinese texts are Chinese", () => {
    const same = new Set(["app.name", "phases.dial", "phases.security", "settings.megabytes", "units.ms"]);
    const texts = new Map(leaves(catalogues.zh));
    for (const [path, text] of english) {
      if (typeof text === "string" && !same.has(path)) expect(texts.get(path), path).toMatch(/[\u4e00-\u9fff]/);
    }
  });

  it("texts keep the rules of wording", () => {
    for (const [path, text] of [...english, ...leaves(catalogues.zh)]) {
      if (typeof text !== "string") continue;
      expect(text, path).not.toMatch(/[!！]|\bplease\b|\boops\b|\p{Extended_Pictographic}/iu);
    }
  });
});

describe("language", () => {
  it("follows the system's list", () => {
    expect(chooseLanguage(["zh-CN", "en"])).toBe("zh");
    expect(chooseLanguage(["zh-Hant-TW"])).toBe("zh");
    expect(chooseLanguage(["fr-FR", "zh"])).toBe("zh");
    expect(chooseLanguage(["de"])).toBe("en");
  });

  it("survives names that are no language tags", () => {
    for (const tag of ["C", "POSIX", "", "en_US.UTF-8", "c-UTF-8", "!"]) {
      expect(() => new Intl.NumberFormat(safeLocale(tag)), tag).not.toThrow();
    }
    expect(safeLocale("C")).toBe("en");
    expect(safeLocale("zh_CN.UTF-8")).toBe("zh-CN");
  });
});

// The settings as data: what there is, its default, how a text becomes a value. The defaults are
// the core's own; a test there and the reset button keep them honest.
import type { Settings, SettingsPatch } from "../../lib/ipc/bindings";

export type SectionName = "look" | "language" | "port" | "proxy" | "tests";

interface Common {
  key: keyof Settings & keyof SettingsPatch;
  section: SectionName;
}
export interface NumberField extends Common {
  kind: "number";
  low: number;
  high: number;
  /** Shown value times this is the stored one. */
  scale: number;
  unit: "none" | "seconds" | "megabytes";
}
export interface UrlField extends Common {
  kind: "url";
}
export interface SwitchField extends Common {
  kind: "switch";
}
export type Field = NumberField | UrlField | SwitchField;

export const FIELDS: readonly Field[] = [
  { key: "mixed_port", kind: "number", section: "port", low: 1_024, high: 65_535, scale: 1, unit: "none" },
  { key: "random_port", kind: "switch", section: "port" },
  { key: "only_my_programs", kind: "switch", section: "port" },
  { key: "system_proxy", kind: "switch", section: "proxy" },
  { key: "test_url", kind: "url", section: "tests" },
  { key: "test_timeout_ms", kind: "number", section: "tests", low: 1, high: 60, scale: 1_000, unit: "seconds" },
  { key: "test_concurrency", kind: "number", section: "tests", low: 1, high: 200, scale: 1, unit: "none" },
  { key: "speed_url", kind: "url", section: "tests" },
  { key: "speed_limit_bytes", kind: "number", section: "tests", low: 1, high: 10_000, scale: 1_000_000, unit: "megabytes" },
];

/** The stored value of a typed text; null when it is none. */
export function parseField(field: NumberField | UrlField, text: string): number | string | null {
  if (field.kind === "url") {
    try {
      const url = new URL(text);
      return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
    } catch {
      return null;
    }
  }
  if (!/^\d+$/.test(text)) return null;
  const value = Number(text);
  return value >= field.low && value <= field.high ? value * field.scale : null;
}

/** The text of a stored value. */
export function showField(field: NumberField | UrlField, settings: Settings): string {
  const value = settings[field.key];
  return field.kind === "number" ? String(Math.round(Number(value) / field.scale)) : String(value);
}

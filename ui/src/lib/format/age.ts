// Ages: 12 s, 4 min, 2 h, 3 days, then the date.
import type { Catalogue } from "../i18n/en";
import { count } from "./number";

/** How long `ms` is, in the largest unit that fits. */
export function duration(ms: number, units: Catalogue["units"], locale: string): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 60) return units.seconds(count(seconds, locale));
  if (seconds < 3_600) return units.minutes(count(Math.floor(seconds / 60), locale));
  if (seconds < 86_400) return units.hours(count(Math.floor(seconds / 3_600), locale));
  const days = Math.floor(seconds / 86_400);
  return units.days(days, count(days, locale));
}

/** How long ago `at` was: “just now” below ten seconds, the date after a month. */
export function ago(at: number, now: number, units: Catalogue["units"], locale: string): string {
  const age = now - at;
  if (age < 10_000) return units.justNow;
  if (age > 30 * 86_400_000) return new Intl.DateTimeFormat(locale, { dateStyle: "medium" }).format(at);
  return units.ago(duration(age, units, locale));
}

/** The time of day with seconds. */
export function clock(at: number, locale: string): string {
  return new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }).format(at);
}

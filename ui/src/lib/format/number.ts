// Numbers as interface.md §9 asks: three figures at most, decimal units, a missing value is “–”.

/** A figure and its unit, apart, since the unit is set quieter. */
export interface Quantity {
  figure: string;
  unit: string;
}

export const MISSING = "–";

const formats = new Map<string, Intl.NumberFormat>();

function format(locale: string, digits: number): Intl.NumberFormat {
  const key = `${locale}/${digits}`;
  let found = formats.get(key);
  if (!found) {
    found = new Intl.NumberFormat(locale, { maximumFractionDigits: digits });
    formats.set(key, found);
  }
  return found;
}

/** A count with separators. */
export function count(value: number, locale: string): string {
  return format(locale, 0).format(value);
}

/** A count that stops growing at 9,999. */
export function shortCount(value: number, locale: string): string {
  return value > 9_999 ? `${format(locale, 1).format(value / 1_000)} k` : count(value, locale);
}

/** Milliseconds: whole to 9,999, seconds above. */
export function latency(ms: number | null | undefined, locale: string): Quantity {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return { figure: MISSING, unit: "" };
  if (ms > 9_999) return { figure: format(locale, 1).format(ms / 1_000), unit: "s" };
  if (ms > 0 && ms < 1) return { figure: format(locale, 1).format(Math.max(0.1, ms)), unit: "ms" };
  return { figure: format(locale, 0).format(ms), unit: "ms" };
}

const SIZES = ["B", "kB", "MB", "GB", "TB"];

/** Bytes in decimal units. Rates start at kB, so that they don't jump between units near zero. */
export function bytes(value: number | null | undefined, locale: string, least = 0): Quantity {
  if (value === null || value === undefined || !Number.isFinite(value)) return { figure: MISSING, unit: "" };
  let scaled = value / 1_000 ** least;
  let size = least;
  while (scaled >= 999.5 && size < SIZES.length - 1) {
    scaled /= 1_000;
    size += 1;
  }
  const digits = scaled < 99.95 && size > 1 ? 1 : scaled < 9.95 && size > 0 && scaled >= 0.05 ? 1 : 0;
  return { figure: format(locale, digits).format(scaled), unit: SIZES[size] ?? "B" };
}

/** Bytes per second. */
export function rate(value: number | null | undefined, locale: string): Quantity {
  const { figure, unit } = bytes(value, locale, 1);
  return { figure, unit: unit && `${unit}/s` };
}

/** A quantity as one text. */
export function plain({ figure, unit }: Quantity): string {
  return unit ? `${figure} ${unit}` : figure;
}

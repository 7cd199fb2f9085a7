import { describe, expect, it } from "vitest";

import { en } from "../i18n/en";
import { ago, duration } from "./age";
import { countryOf, withoutFlag } from "./country";
import { kindOf, serverOf } from "./node";
import { bytes, count, latency, plain, rate, shortCount } from "./number";

describe("numbers", () => {
  it("latencies are whole ms, then seconds, and a missing one is a dash", () => {
    expect(plain(latency(112.4, "en"))).toBe("112 ms");
    expect(plain(latency(9_999, "en"))).toBe("9,999 ms");
    expect(plain(latency(10_240, "en"))).toBe("10.2 s");
    expect(plain(latency(0.4, "en"))).toBe("0.4 ms");
    expect(plain(latency(null, "en"))).toBe("–");
    expect(plain(latency(Number.NaN, "en"))).toBe("–");
  });

  it("sizes are decimal with three figures at most", () => {
    expect(plain(bytes(0, "en"))).toBe("0 B");
    expect(plain(bytes(999, "en"))).toBe("999 B");
    expect(plain(bytes(4_180_000, "en"))).toBe("4.2 MB");
    expect(plain(bytes(41_340_000, "en"))).toBe("41.3 MB");
    expect(plain(bytes(310_400_000, "en"))).toBe("310 MB");
    expect(plain(bytes(999_600_000, "en"))).toBe("1 GB");
  });

  it("rates start at kB and zero is 0", () => {
    expect(plain(rate(0, "en"))).toBe("0 kB/s");
    expect(plain(rate(310_000, "en"))).toBe("310 kB/s");
    expect(plain(rate(4_200_000, "en"))).toBe("4.2 MB/s");
    expect(plain(rate(400, "en"))).toBe("0.4 kB/s");
  });

  it("counts have separators and stop growing", () => {
    expect(count(1_038, "en")).toBe("1,038");
    expect(shortCount(9_999, "en")).toBe("9,999");
    expect(shortCount(10_040, "en")).toBe("10 k");
  });
});

describe("ages", () => {
  it("take the largest unit that fits", () => {
    expect(duration(12_000, en.units, "en")).toBe("12 s");
    expect(duration(4 * 60_000, en.units, "en")).toBe("4 min");
    expect(duration(2 * 3_600_000, en.units, "en")).toBe("2 h");
    expect(duration(86_400_000, en.units, "en")).toBe("1 day");
    expect(duration(3 * 86_400_000, en.units, "en")).toBe("3 days");
    expect(duration(-5, en.units, "en")).toBe("0 s");
  });

  it("say just now, then how long ago, then the date", () => {
    const now = Date.UTC(2026, 5, 1);
    expect(ago(now - 9_000, now, en.units, "en")).toBe("just now");
    expect(ago(now - 60_000, now, en.units, "en")).toBe("1 min ago");
    expect(ago(now - 90 * 86_400_000, now, en.units, "en")).toMatch(/2026/);
  });
});

describe("nodes", () => {
  it("countries come from flags, codes and places", () => {
    expect(countryOf("🇯🇵 Tokyo 01")).toBe("JP");
    expect(withoutFlag("🇯🇵 Tokyo 01")).toBe("Tokyo 01");
    expect(withoutFlag("🇯🇵")).toBe("🇯🇵");
    expect(countryOf("HK-03 IEPL")).toBe("HK");
    expect(countryOf("UK 2")).toBe("GB");
    expect(countryOf("新加坡 05")).toBe("SG");
    expect(countryOf("My server")).toBeNull();
    expect(countryOf("OK then")).toBeNull();
  });

  it("kinds repeat no word and servers are written as addresses", () => {
    const row = { protocol: "tuic", security: "quic", transport: "quic" } as Parameters<typeof kindOf>[0];
    expect(kindOf(row)).toBe("TUIC · QUIC");
    expect(serverOf({ address: "2001:db8::1", port: 443 })).toBe("[2001:db8::1]:443");
    expect(serverOf({ address: "example.com", port: 80 })).toBe("example.com:80");
  });
});

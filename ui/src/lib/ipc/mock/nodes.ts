// Nodes of the mock core: a few dozen to look at, or tens of thousands to scroll through.
import type { NodeRow, Problem, ReasonCode, SecurityKind } from "../bindings";
import { seeded } from "./random";

interface Kind {
  protocol: string;
  security: SecurityKind;
  transport: string;
  cipher: string | null;
}
const KINDS: Kind[] = [
  { protocol: "vless", security: "reality", transport: "tcp", cipher: null },
  { protocol: "vless", security: "reality", transport: "grpc", cipher: null },
  { protocol: "vless", security: "tls", transport: "ws", cipher: null },
  { protocol: "vmess", security: "tls", transport: "ws", cipher: "auto" },
  { protocol: "trojan", security: "tls", transport: "tcp", cipher: null },
  { protocol: "shadowsocks", security: "none", transport: "tcp", cipher: "2022-blake3-aes-128-gcm" },
  { protocol: "hysteria2", security: "quic", transport: "quic", cipher: null },
  { protocol: "tuic", security: "quic", transport: "quic", cipher: null },
];
const CITIES = [
  ["Tokyo", "tyo"],
  ["Osaka", "osa"],
  ["Singapore", "sin"],
  ["Frankfurt", "fra"],
  ["Amsterdam", "ams"],
  ["Los Angeles", "lax"],
  ["Hong Kong", "hkg"],
  ["Helsinki", "hel"],
  ["Seoul", "sel"],
  ["London", "lon"],
  ["Paris", "par"],
  ["Stockholm", "sto"],
] as const;

export function problem(code: ReasonCode, message: string, params: Record<string, string> = {}): Problem {
  return { code, params, message };
}

/** `many` nodes whose last tests lie before `now`. */
export function mockNodes(many: number, now: number): NodeRow[] {
  const random = seeded(20_260_101);
  const rows: NodeRow[] = [];
  for (let index = 0; index < many; index += 1) {
    const [city, code] = CITIES[(index * 5 + Math.floor(random() * 3)) % CITIES.length] ?? CITIES[0];
    const number = 1 + Math.floor(index / 3);
    const kind = KINDS[index % KINDS.length] ?? KINDS[0];
    if (!kind) break;
    const id = index + 1;
    const base = 40 + Math.floor(random() * 260);
    const fate = index === 4 ? "failed" : index === 7 ? "unsupported" : index === 9 ? "untested" : random() < 0.08 ? "failed" : random() < 0.06 ? "untested" : "works";
    const history = Array.from({ length: 20 }, () => (random() < 0.03 ? null : Math.round(base * (0.85 + random() * 0.35))));
    const at = now - 60_000 - Math.floor(random() * 900_000);
    const row: NodeRow = {
      id,
      name: `${city} ${String(number).padStart(2, "0")}${index === 5 ? ", residential line with a long name" : ""}`,
      address: `${code}-${number}.example.com`,
      port: 443,
      ...kind,
      insecure: index === 11,
      subscription: null,
      favourite: index === 0 || index === 2,
      unsupported: fate === "unsupported" ? "cipher rc4-md5 is unsafe" : null,
      locked: false,
      added_ms: now - 86_400_000 * 3 + index,
      latency: null,
      speed: null,
      last_success_ms: null,
      history: [],
    };
    if (fate === "works") {
      row.history = history;
      row.latency = { at_ms: at, median_ms: base, problem: null };
      row.last_success_ms = at;
      if (index % 3 !== 1) row.speed = { at_ms: at, down_bytes_per_s: 1_000_000 * (1 + random() * 9), problem: null };
    } else if (fate === "failed") {
      row.history = [...history.slice(1), null];
      row.latency = {
        at_ms: at,
        median_ms: null,
        problem: index % 2 === 0 ? problem("timed_out", "no answer in time", { phase: "dial" }) : problem("handshake", "the server closed the handshake", { phase: "security" }),
      };
      row.last_success_ms = now - 3 * 86_400_000;
    }
    rows.push(row);
  }
  return rows;
}

// Flows of the mock core.
import type { ConnectionRow, NodeRef } from "../bindings";
import { problem } from "./nodes";
import { seeded } from "./random";

const APPS = ["Firefox", "Sync", "Terminal", "Mail", "Chat", "Editor", "Music", null, "Photos"];
const HOSTS = ["video.example.com:443", "cdn.example.net:443", "files.example.org:443", "git.example.org:22", "imap.example.com:993", "ads.example.net:443", "edge-4.chat.example.com:443", "203.0.113.10:123", "upload.example.com:443", "news.example.com:80"];

export function mockFlows(many: number, node: NodeRef | null, now: number): ConnectionRow[] {
  const random = seeded(7);
  return Array.from({ length: many }, (_, index) => {
    const kind = index % 7 === 5 ? "blocked" : index % 3 === 2 ? "direct" : "node";
    const ended = index % 11 === 10 || kind === "blocked";
    const started = now - 2_000 - Math.floor(random() ** 2 * 9_000_000);
    return {
      id: index + 1,
      destination: HOSTS[Math.floor(random() * HOSTS.length)] ?? "example.com:443",
      network: index % 13 === 7 ? "udp" : "tcp",
      inbound: "mixed",
      process: APPS[Math.floor(random() * APPS.length)] ?? null,
      rule: kind === "node" ? "default" : kind === "direct" ? "private addresses" : "block",
      node: kind === "node" ? node : null,
      started_ms: started,
      ended_ms: ended ? now - 1_500 : null,
      up_bytes: Math.floor(random() * 400_000),
      down_bytes: kind === "blocked" ? 0 : Math.floor(random() * 50_000_000),
      problem: index % 29 === 28 ? problem("target", "the node could not reach the target") : null,
    };
  });
}

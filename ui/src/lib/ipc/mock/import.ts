// A line-by-line reader that is good enough to show each kind of row of the import dialog.
import type { ImportPreview, ImportRow, NodeRow } from "../bindings";

const LINK = /^([a-z0-9]+):\/\/([^@#?]*@)?(\[[0-9a-f:]+\]|[^:/?#]+)?(:(\d+))?([^#]*)(#(.*))?$/i;
const KNOWN = new Set(["vmess", "vless", "ss", "trojan", "hysteria2", "hy2", "tuic", "socks", "http"]);
const NAMES: Record<string, string> = { ss: "shadowsocks", hy2: "hysteria2" };

export function mockPreview(text: string, nodes: Iterable<NodeRow>): ImportPreview {
  const have = new Map([...nodes].map((row) => [`${row.protocol}/${row.address}:${row.port}`, row.id]));
  const seen = new Set<string>();
  const rows: ImportRow[] = [];
  text.split("\n").forEach((raw, at) => {
    const line = raw.trim();
    if (!line) return;
    const row: ImportRow = {
      index: rows.length,
      status: "ready",
      name: "",
      protocol: null,
      server: null,
      reason: null,
      line: at + 1,
      column: null,
      duplicate_of: null,
      warnings: [],
    };
    const found = LINK.exec(line);
    const scheme = found?.[1]?.toLowerCase();
    if (!found || !scheme) {
      Object.assign(row, { status: "broken", name: line.slice(0, 24), reason: "This is no link", column: 1 });
    } else if (!found[5] || !found[3]) {
      Object.assign(row, { status: "broken", name: `${scheme}://…`, reason: "The port is missing after the server's name", column: line.indexOf("?") + 1 || line.length });
    } else {
      row.protocol = NAMES[scheme] ?? scheme;
      row.server = `${found[3]}:${found[5]}`;
      row.name = decodeURIComponent(found[8] ?? found[3]);
      const key = `${row.protocol}/${row.server}`;
      if (!KNOWN.has(scheme)) Object.assign(row, { status: "unsupported", reason: scheme === "ssr" ? "Cipher rc4-md5 is unsafe, so Culvert does not offer it" : `${scheme} is not offered` });
      else if (have.has(key) || seen.has(key)) Object.assign(row, { status: "duplicate", duplicate_of: have.get(key) ?? null });
      if (/allowInsecure=1|insecure=1/.test(line)) row.warnings.push("accepts any certificate");
      seen.add(key);
    }
    rows.push(row);
  });
  const counts = { ready: 0, duplicate: 0, unsupported: 0, broken: 0 };
  for (const row of rows) counts[row.status] += 1;
  return { format: "share links", rows, counts, message: null, is_subscription_url: false };
}

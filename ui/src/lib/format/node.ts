// What a node is, in the words its protocol's users know.
import type { NodeRow } from "../ipc/bindings";

const PROTOCOLS: Record<string, string> = {
  vmess: "VMess",
  vless: "VLESS",
  shadowsocks: "Shadowsocks",
  trojan: "Trojan",
  hysteria2: "Hysteria2",
  tuic: "TUIC",
  anytls: "AnyTLS",
  socks: "SOCKS",
  http: "HTTP",
  wireguard: "WireGuard",
};
const TRANSPORTS: Record<string, string> = {
  tcp: "TCP",
  ws: "WS",
  websocket: "WS",
  grpc: "gRPC",
  h2: "HTTP/2",
  http: "HTTP",
  httpupgrade: "HTTPUpgrade",
  xhttp: "XHTTP",
  kcp: "mKCP",
  quic: "QUIC",
  udp: "UDP",
};
const SECURITY: Record<NodeRow["security"], string> = { none: "", tls: "TLS", reality: "REALITY", quic: "QUIC" };

export function protocolName(protocol: string): string {
  return PROTOCOLS[protocol] ?? protocol;
}

export function transportName(transport: string): string {
  return TRANSPORTS[transport] ?? transport;
}

export function securityName(security: NodeRow["security"]): string {
  return SECURITY[security];
}

/** “VLESS · REALITY · TCP”. */
export function kindOf(row: NodeRow): string {
  const parts = [protocolName(row.protocol), securityName(row.security), transportName(row.transport)];
  return parts.filter((part, index) => part && parts.indexOf(part) === index).join(" · ");
}

/** “VLESS · REALITY”, for narrow places. */
export function shortKindOf(row: NodeRow): string {
  return [protocolName(row.protocol), securityName(row.security)].filter(Boolean).join(" · ");
}

/** “host:port”, with brackets around an IPv6 address. */
export function serverOf(row: { address: string; port: number }): string {
  return row.address.includes(":") ? `[${row.address}]:${row.port}` : `${row.address}:${row.port}`;
}

// A core that lives in the page: the same methods and events over made-up data, so that every page
// and state can be opened in a plain browser. `?nodes=20000&state=failed-node&lang=zh-CN&theme=dark`
import type { ConnectionStatus, DemoStatus, Event, LogLine, NodeRow, Settings, TestProgress, TestResult, Traffic } from "../bindings";
import { CallError, type Incoming, type MethodName, type Transport } from "../transport";
import { mockFlows } from "./flows";
import { mockPreview } from "./import";
import { mockNodes, problem } from "./nodes";
import { seeded } from "./random";
import { MOCK_STATES, mockStatus, type MockState } from "./state";

const DEMO_LINKS = ["vless://8f6f1f0e-demo@127.0.0.1:4101?security=none#Demo VLESS", "ss://ZGVtbw@127.0.0.1:4102#Demo Shadowsocks", "vmess://demo@127.0.0.1:4103#Demo VMess"];

const DEFAULTS: Settings = {
  mixed_port: 2080,
  random_port: false,
  only_my_programs: true,
  system_proxy: true,
  mode: "rule",
  test_url: "http://www.gstatic.com/generate_204",
  test_status: 0,
  test_timeout_ms: 5_000,
  test_concurrency: 50,
  speed_url: "https://speed.cloudflare.com/__down?bytes=200000000",
  speed_duration_ms: 8_000,
  speed_limit_bytes: 500_000_000,
  language: "",
  theme: "system",
  density: "normal",
};

class MockCore {
  private readonly random = seeded(99);
  private readonly nodes: Map<number, NodeRow>;
  private readonly deleted = new Map<number, NodeRow>();
  private status: ConnectionStatus;
  private settings: Settings;
  private demo: DemoStatus = { running: false, links: [] };
  private tests: TestProgress[] = [];
  private stopped = new Set<number>();
  private nextRun = 1;
  private receive: ((incoming: Incoming) => void) | null = null;
  private clipboard = "";
  private logs: LogLine[];

  constructor(private readonly query: URLSearchParams) {
    const many = Number(query.get("nodes") ?? 24);
    this.nodes = new Map(mockNodes(many, this.now()).map((row) => [row.id, row]));
    const asked = query.get("state") ?? (many === 0 ? "off" : "connected");
    const state = MOCK_STATES.find((one) => one === asked) ?? "off";
    this.status = this.made(state);
    const theme = query.get("theme");
    this.settings = { ...DEFAULTS, language: query.get("lang") ?? "", theme: theme === "dark" || theme === "light" ? theme : "system" };
    this.logs = [
      { at_ms: this.now() - 9_000, level: "info", target: "core", message: "started, version 0.1.0" },
      { at_ms: this.now() - 8_000, level: "info", target: "inbound", message: "listens on 127.0.0.1:2080" },
      { at_ms: this.now() - 7_000, level: "warn", target: "store", message: "no keyring: the key lies in a file of its own" },
      { at_ms: this.now() - 4_000, level: "info", target: "connection", message: "the node is verified" },
      { at_ms: this.now() - 2_000, level: "error", target: "outbound", message: "the node could not reach the target" },
    ];
  }

  /** With `?still` nothing comes by itself, for screenshots that can be compared. */
  private get still(): boolean {
    return this.query.has("still");
  }

  private now(): number {
    return Date.now();
  }

  private made(state: MockState): ConnectionStatus {
    const first = this.nodes.values().next().value;
    return mockStatus(state, first ? { id: first.id, name: first.name } : null, this.now());
  }

  private emit(event: Event): void {
    this.receive?.({ kind: "event", event });
  }

  private traffic(): Traffic {
    const busy = this.status.phase === "connected";
    const swing = busy ? this.random() : 0;
    return {
      at_ms: this.now(),
      up_bytes_per_s: busy ? 310_000 * (0.4 + swing) : 0,
      down_bytes_per_s: busy ? 4_200_000 * (0.3 + swing) : 0,
      up_bytes: 7_100_000,
      down_bytes: 486_000_000,
      open: busy ? 148 : 0,
    };
  }

  private snapshot() {
    return {
      core_version: "0.1.0",
      connection: this.status,
      settings: this.settings,
      traffic: this.traffic(),
      nodes: this.nodes.size,
      tests: this.tests.filter((test) => !test.ended),
      store: { key_place: "keyring", locked: null },
      demo: this.demo,
    };
  }

  listen(receive: (incoming: Incoming) => void): () => void {
    this.receive = receive;
    receive({ kind: "attached", snapshot: this.snapshot() });
    const history = this.still ? 60 : 20;
    for (let second = 0; second < history; second += 1) this.emit({ type: "traffic.rates", data: this.traffic() });
    const timer = this.still ? undefined : setInterval(() => this.emit({ type: "traffic.rates", data: this.traffic() }), 1_000);
    return () => clearInterval(timer);
  }

  private set(status: ConnectionStatus): ConnectionStatus {
    this.status = status;
    this.emit({ type: "connection.status", data: status });
    return status;
  }

  private node(id: number): NodeRow {
    const row = this.nodes.get(id);
    if (!row) throw new CallError({ code: "node_not_found", params: { node: String(id) }, message: "no such node" });
    return row;
  }

  private result(row: NodeRow): TestResult {
    const base = row.latency?.median_ms ?? 60 + this.random() * 200;
    const failed = row.latency?.problem ?? (this.random() < 0.05 ? problem("timed_out", "no answer in time", { phase: "dial" }) : null);
    const at_ms = this.now();
    const steps = ["resolve", "dial", "security", "protocol", "first_byte"];
    const shares = [0.04, 0.31, 0.66, 0.68, 1];
    const phases = steps.map((phase, at) => ({ phase, at_us: Math.round(base * 1_000 * (shares[at] ?? 1)) }));
    if (failed) return { node: row.id, at_ms, outcome: { type: "failed", kind: "latency", phases: phases.slice(0, 2), problem: failed } };
    const samples_ms = Array.from({ length: 5 }, () => base * (0.96 + this.random() * 0.1));
    return { node: row.id, at_ms, outcome: { type: "latency", phases, median_ms: base, samples_ms, jitter_ms: 2, status: 204 } };
  }

  private runTests(ids: number[], kind: "latency" | "speed"): { run: number; total: number } {
    const run = this.nextRun;
    this.nextRun += 1;
    const progress: TestProgress = { run, kind, total: ids.length, done: 0, working: 0, ended: ids.length === 0, cancelled: false };
    this.tests.push(progress);
    const step = () => {
      const batch = this.stopped.has(run) ? [] : ids.splice(0, Math.max(1, Math.ceil(progress.total / 40)));
      const changed: NodeRow[] = [];
      const results: TestResult[] = [];
      for (const id of batch) {
        const row = this.nodes.get(id);
        if (!row) continue;
        const result = this.result(row);
        const { outcome } = result;
        const works = outcome.type === "latency";
        const next: NodeRow = {
          ...row,
          latency: { at_ms: result.at_ms, median_ms: works ? outcome.median_ms : null, problem: outcome.type === "failed" ? outcome.problem : null },
          last_success_ms: works ? result.at_ms : row.last_success_ms,
          history: [...row.history.slice(-19), works ? outcome.median_ms : null],
        };
        if (kind === "speed" && works) next.speed = { at_ms: result.at_ms, down_bytes_per_s: 1e6 * (1 + this.random() * 9), problem: null };
        this.nodes.set(id, next);
        changed.push(next);
        results.push(result);
        progress.done += 1;
        if (works) progress.working += 1;
      }
      progress.ended = ids.length === 0 || this.stopped.has(run);
      progress.cancelled = this.stopped.has(run);
      this.emit({ type: "nodes.changed", data: { changed, removed: [] } });
      this.emit({ type: "tests.results", data: { run, results } });
      this.emit({ type: "tests.progress", data: { ...progress } });
      if (!progress.ended) setTimeout(step, 120);
    };
    setTimeout(step, 150);
    return { run, total: ids.length };
  }

  // One entry a method. The parameters are what the typed `call` below let through.
  private readonly methods: Record<MethodName, (params: any) => unknown> = {
    "state.snapshot": () => this.snapshot(),
    "nodes.list": ({ offset = 0, limit = 500 }) => ({ total: this.nodes.size, rows: [...this.nodes.values()].slice(offset, offset + limit) }),
    "nodes.get": ({ node }) => {
      const row = this.node(node);
      const latency = row.latency ? this.result(row) : null;
      return {
        row,
        fields: [
          { path: "address", value: row.address, secret: false },
          { path: "uuid", value: null, secret: true },
          { path: "tls.sni", value: row.address, secret: false },
        ],
        latency,
        speed: null,
      };
    },
    "nodes.link": ({ node }) => ({ link: `${this.node(node).protocol}://secret@${this.node(node).address}:443#${encodeURIComponent(this.node(node).name)}` }),
    "nodes.update": ({ node, name, favourite }) => {
      const row = { ...this.node(node), ...(name === undefined ? {} : { name }), ...(favourite === undefined ? {} : { favourite }) };
      this.nodes.set(row.id, row);
      this.emit({ type: "nodes.changed", data: { changed: [row], removed: [] } });
      return row;
    },
    "nodes.delete": ({ nodes }: { nodes: number[] }) => {
      for (const id of nodes) {
        this.deleted.set(id, this.node(id));
        this.nodes.delete(id);
      }
      this.emit({ type: "nodes.changed", data: { changed: [], removed: nodes } });
      return { count: nodes.length };
    },
    "nodes.restore": ({ nodes }: { nodes: number[] }) => {
      const changed = nodes.flatMap((id) => this.deleted.get(id) ?? []);
      for (const row of changed) this.nodes.set(row.id, row);
      this.emit({ type: "nodes.changed", data: { changed, removed: [] } });
      return { count: changed.length };
    },
    "import.preview": ({ text }) => {
      const preview = mockPreview(text, this.nodes.values());
      if (preview.rows.length === 0) throw new CallError({ code: "nothing_usable", params: {}, message: "nothing usable" });
      return preview;
    },
    "import.commit": ({ text, rows }: { text: string; rows?: number[] }) => {
      const wanted = mockPreview(text, this.nodes.values()).rows.filter((row) => (rows ? rows.includes(row.index) : row.status === "ready"));
      const changed = wanted.map((row) => {
        const id = Math.max(0, ...this.nodes.keys(), ...this.deleted.keys()) + 1;
        const [blank] = mockNodes(1, this.now());
        const [address, port] = (row.server ?? "").split(":");
        const made: NodeRow = { ...(blank as NodeRow), id, name: row.name, address: address ?? "", port: Number(port), protocol: row.protocol ?? "vless", security: "none", favourite: false, latency: null, speed: null, history: [], last_success_ms: null };
        this.nodes.set(id, made);
        return made;
      });
      this.emit({ type: "nodes.changed", data: { changed, removed: [] } });
      return { nodes: changed.map((row) => row.id), refused: [] };
    },
    "export.nodes": () => ({ text: "", count: 0, left_out: [] }),
    "connection.connect": ({ node }) => {
      const row = node === undefined ? this.nodes.get(this.status.node?.id ?? 1) : this.node(node);
      const ref = row ? { id: row.id, name: row.name } : null;
      setTimeout(() => this.status.phase === "connecting" && this.set(mockStatus("connected", ref, this.now())), 700);
      return this.set({ ...mockStatus("connecting", ref, this.now()), system_proxy: this.settings.system_proxy });
    },
    "connection.disconnect": () => this.set({ ...this.made("off"), node: this.status.node }),
    "connection.status": () => this.status,
    "proxy.set": ({ system_proxy }) => this.set({ ...this.status, system_proxy }),
    "mode.set": ({ mode }) => this.set({ ...this.status, mode }),
    "traffic.get": () => this.traffic(),
    "connections.list": () => {
      const rows = mockFlows(Number(this.query.get("flows") ?? 60), this.status.node, this.now());
      return { open: rows.filter((row) => row.ended_ms === null).length, rows: this.status.phase === "connected" ? rows : [] };
    },
    "connections.close": ({ ids }: { ids?: number[] }) => {
      const rows = mockFlows(60, this.status.node, this.now()).filter((row) => !ids || ids.includes(row.id));
      this.emit({ type: "connections.changed", data: { changed: rows.map((row) => ({ ...row, ended_ms: this.now() })), open: 0 } });
      return { count: rows.length };
    },
    "connections.trace": ({ id }) => ({
      row: mockFlows(60, this.status.node, this.now())[id - 1],
      phases: [
        { phase: "resolve", at_us: 4_000 },
        { phase: "dial", at_us: 35_000 },
        { phase: "security", at_us: 71_000 },
        { phase: "protocol", at_us: 73_000 },
        { phase: "first_byte", at_us: 112_000 },
      ],
    }),
    "tests.start": ({ kind, nodes }: { kind: "latency" | "speed"; nodes?: number[] }) => this.runTests(nodes ? [...nodes] : [...this.nodes.values()].filter((row) => !row.unsupported).map((row) => row.id), kind),
    "tests.cancel": ({ run }) => {
      this.stopped.add(run);
      return {};
    },
    "settings.get": () => this.settings,
    "settings.set": (patch: Partial<Settings>) => {
      if (patch.mixed_port !== undefined && patch.mixed_port < 1_024) throw new CallError({ code: "invalid_setting", params: { setting: "mixed_port", reason: "a port below 1024 needs a privilege" }, message: "" });
      this.settings = { ...this.settings, ...patch };
      this.emit({ type: "settings.changed", data: this.settings });
      return this.settings;
    },
    "settings.reset": () => {
      this.settings = DEFAULTS;
      this.emit({ type: "settings.changed", data: this.settings });
      return this.settings;
    },
    "logs.tail": () => ({ lines: this.logs }),
    "qr.encode": () => ({ svg: '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 21 21"><rect width="21" height="21" fill="#fff"/><path d="M4 4h5v5H4zM12 4h5v5h-5zM4 12h5v5H4zM12 12h2v2h-2zM15 15h2v2h-2z"/></svg>' }),
    "qr.decode": () => ({ texts: [] }),
    "demo.start": () => {
      this.demo = { running: true, links: DEMO_LINKS };
      this.emit({ type: "demo.status", data: this.demo });
      return this.demo;
    },
    "demo.stop": () => {
      this.demo = { running: false, links: [] };
      this.emit({ type: "demo.status", data: this.demo });
      return this.demo;
    },
    "doctor.run": () => ({
      checks: [
        { code: "data_folder", state: "ok", message: "The data folder can be written." },
        { code: "secrets", state: "notice", message: "There is no keyring: the key lies in a file that only you can read." },
        { code: "clock", state: "ok", message: "The clock agrees with the servers." },
      ],
    }),
  };

  transport(): Transport {
    return {
      call: async (method, params) => structuredClone(this.methods[method](params)) as never,
      listen: async (receive) => this.listen(receive),
      shell: async () => ({ version: "0.1.0", tray: true, native: false }),
      readClipboard: async () => this.query.get("clipboard") ?? this.clipboard,
      writeClipboard: async (text) => {
        this.clipboard = text;
      },
      setLanguage: async () => undefined,
      quit: async () => undefined,
    };
  }
}

/** The mock core, opened in the state that `query` names. */
export function mockTransport(query: URLSearchParams): Transport {
  return new MockCore(query).transport();
}

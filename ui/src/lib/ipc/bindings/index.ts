// Generated from core/ipc by `cargo run -p culvert-ipc --bin culvert-bindings`. Not to be edited.

export const PROTOCOL_VERSION = 1;

/**
 * One thing that was checked.
 */
export type Check = { 
/**
 * Stable name: data_folder, secrets, system_proxy, mixed_port, clock, …
 */
code: string, 
/**
 * Outcome.
 */
state: CheckState, 
/**
 * What was found, and what to do.
 */
message: string, };

/**
 * Outcome of a check.
 */
export type CheckState = "ok" | "notice" | "wrong";

/**
 * All checks.
 */
export type Checks = { 
/**
 * In order.
 */
checks: Array<Check>, };

/**
 * Which node, and whether to set the system proxy.
 */
export type ConnectParams = { 
/**
 * The node; absent for the last one.
 */
node?: NodeId, 
/**
 * Set the system proxy too; absent for the setting's choice.
 */
system_proxy?: boolean, };

/**
 * One flow.
 */
export type ConnectionParams = { 
/**
 * Number.
 */
id: number, };

/**
 * What was asked for, and how far it is.
 */
export type ConnectionPhase = "off" | "connecting" | "connected" | "failed";

/**
 * One flow.
 */
export type ConnectionRow = { 
/**
 * Number, counted from the core's start.
 */
id: number, 
/**
 * Target.
 */
destination: string, 
/**
 * tcp or udp.
 */
network: string, 
/**
 * Where it came in: mixed.
 */
inbound: string, 
/**
 * The program that opened it, when known.
 */
process: string | null, 
/**
 * The rule that decided.
 */
rule: string, 
/**
 * The node; absent when it goes out directly or is blocked.
 */
node: NodeRef | null, 
/**
 * When it began.
 */
started_ms: number, 
/**
 * When it ended.
 */
ended_ms: number | null, 
/**
 * Bytes up.
 */
up_bytes: number, 
/**
 * Bytes down.
 */
down_bytes: number, 
/**
 * Why it failed, when it did.
 */
problem: Problem | null, };

/**
 * The connection as a whole.
 */
export type ConnectionStatus = { 
/**
 * How far.
 */
phase: ConnectionPhase, 
/**
 * Stage by stage.
 */
stages: Stages, 
/**
 * The node in use (or last used).
 */
node: NodeRef | null, 
/**
 * How flows are decided.
 */
mode: Mode, 
/**
 * The local port, while it is open.
 */
mixed: MixedPort | null, 
/**
 * The system's proxy setting points here, read back.
 */
system_proxy: boolean, 
/**
 * Since when connected.
 */
connected_ms: number | null, };

/**
 * A flow and how it came to be.
 */
export type ConnectionTrace = { 
/**
 * Its row.
 */
row: ConnectionRow, 
/**
 * Phases in order.
 */
phases: Array<PhaseTime>, };

/**
 * Flows to close.
 */
export type ConnectionsCloseParams = { 
/**
 * Numbers; absent for all.
 */
ids?: Array<number>, };

/**
 * How many were closed.
 */
export type ConnectionsClosed = { 
/**
 * Count.
 */
count: number, };

/**
 * Changed flows.
 */
export type ConnectionsDelta = { 
/**
 * New, changed or ended.
 */
changed: Array<ConnectionRow>, 
/**
 * Open flows in all.
 */
open: number, };

/**
 * Which flows.
 */
export type ConnectionsListParams = { 
/**
 * The ended ones of the last seconds too.
 */
ended: boolean, };

/**
 * Flows, newest first, at most 2,000.
 */
export type ConnectionsPage = { 
/**
 * Open flows in all.
 */
open: number, 
/**
 * Rows.
 */
rows: Array<ConnectionRow>, };

/**
 * The demo server.
 */
export type DemoStatus = { 
/**
 * Whether it runs.
 */
running: boolean, 
/**
 * Its share links (they open nothing but this computer's demo server).
 */
links: Array<string>, };

/**
 * Height of rows.
 */
export type Density = "compact" | "normal" | "relaxed";

/**
 * What a caller can tell apart. Stable: the app has a sentence for each.
 */
export type ErrorCode = "invalid_request" | "unknown_method" | "invalid_params" | "version_mismatch" | "node_not_found" | "node_unsupported" | "node_locked" | "not_found" | "nothing_usable" | "invalid_setting" | "port_taken" | "system_proxy" | "storage" | "too_large" | "busy" | "internal";

/**
 * Something that changed.
 */
export type Event = { "type": "state.resnapshot" } | { "type": "connection.status", "data": ConnectionStatus } | { "type": "settings.changed", "data": Settings } | { "type": "demo.status", "data": DemoStatus } | { "type": "nodes.changed", "data": NodesDelta } | { "type": "nodes.reload" } | { "type": "traffic.rates", "data": Traffic } | { "type": "connections.changed", "data": ConnectionsDelta } | { "type": "tests.progress", "data": TestProgress } | { "type": "tests.results", "data": TestResults } | { "type": "logs.lines", "data": LogsDelta };

/**
 * Form of an export.
 */
export type ExportFormat = "links" | "base64" | "json";

/**
 * Which nodes to export.
 */
export type ExportParams = { 
/**
 * Form.
 */
format: ExportFormat, 
/**
 * Numbers; absent for all.
 */
nodes?: Array<NodeId>, };

/**
 * An export; holds secrets, since it was asked for.
 */
export type Exported = { 
/**
 * The text.
 */
text: string, 
/**
 * Nodes in it.
 */
count: number, 
/**
 * Nodes that this form can't express, or that are locked.
 */
left_out: Array<NodeRef>, };

/**
 * A test that failed.
 */
export type FailedOutcome = { 
/**
 * What was measured.
 */
kind: TestKind, 
/**
 * Phases that were passed.
 */
phases: Array<PhaseTime>, 
/**
 * Why.
 */
problem: Problem, };

/**
 * Who answers.
 */
export type Hello = { 
/**
 * The core's version of the interface.
 */
protocol_version: number, 
/**
 * Version of the core.
 */
core_version: string, 
/**
 * Process id of the core.
 */
pid: number, 
/**
 * The same versions on both sides. When false, ask the core to drain
 * (`system.shutdown`) and start the one that belongs to the app.
 */
compatible: boolean, };

/**
 * Who calls.
 */
export type HelloParams = { 
/**
 * The caller's version of the interface.
 */
protocol_version: number, 
/**
 * Name and version of the caller, for the log.
 */
client: string, };

/**
 * The same text again and the rows to add.
 */
export type ImportCommitParams = { 
/**
 * The text of the preview.
 */
text: string, 
/**
 * Rows by their index; absent for all that are ready.
 */
rows?: Array<number>, };

/**
 * What was added.
 */
export type ImportCommitted = { 
/**
 * The new nodes, in order.
 */
nodes: Array<NodeId>, 
/**
 * Rows that were asked for and can't be added.
 */
refused: Array<number>, };

/**
 * Rows by status.
 */
export type ImportCounts = { 
/**
 * Can be added.
 */
ready: number, 
/**
 * There already.
 */
duplicate: number, 
/**
 * Can't be used.
 */
unsupported: number, 
/**
 * Not understood.
 */
broken: number, };

/**
 * All lines.
 */
export type ImportPreview = { 
/**
 * Name of the format that was recognised.
 */
format: string, 
/**
 * Rows, at most 20,000.
 */
rows: Array<ImportRow>, 
/**
 * Rows by status: ready, duplicate, unsupported, broken.
 */
counts: ImportCounts, 
/**
 * What a server said in place of nodes: a page's title, an error's message.
 */
message: string | null, 
/**
 * The text is nothing but the address of a subscription.
 */
is_subscription_url: boolean, };

/**
 * Text to look at.
 */
export type ImportPreviewParams = { 
/**
 * Links, a subscription or a configuration; at most 4 MiB.
 */
text: string, };

/**
 * One line or entry of the text.
 */
export type ImportRow = { 
/**
 * Place in the preview, from 0; named by the commit.
 */
index: number, 
/**
 * What it is.
 */
status: ImportStatus, 
/**
 * Name of the node; of a broken line its beginning, without what may be secret.
 */
name: string, 
/**
 * Protocol.
 */
protocol: string | null, 
/**
 * Server and port.
 */
server: string | null, 
/**
 * Why it can't be added, or what to know about it.
 */
reason: string | null, 
/**
 * Line in the text, from 1.
 */
line: number | null, 
/**
 * Character in the line, from 1.
 */
column: number | null, 
/**
 * The node that it repeats.
 */
duplicate_of: NodeId | null, 
/**
 * Weak choices to be marked, such as "accepts any certificate".
 */
warnings: Array<string>, };

/**
 * What a line is.
 */
export type ImportStatus = "ready" | "duplicate" | "unsupported" | "broken";

/**
 * Latency through the node.
 */
export type LatencyOutcome = { 
/**
 * Phases of the first request, each with its own end.
 */
phases: Array<PhaseTime>, 
/**
 * Median of the warm round trips, ms.
 */
median_ms: number, 
/**
 * The warm round trips, ms, in the order measured.
 */
samples_ms: Array<number>, 
/**
 * Mean difference of neighbouring round trips, ms.
 */
jitter_ms: number, 
/**
 * HTTP status of the page.
 */
status: number, };

/**
 * The last latency test in a row.
 */
export type LatencySummary = { 
/**
 * When it ended.
 */
at_ms: number, 
/**
 * Median round trip, ms; absent when it failed.
 */
median_ms: number | null, 
/**
 * Why it failed.
 */
problem: Problem | null, };

/**
 * One line of the log, without secrets.
 */
export type LogLine = { 
/**
 * When.
 */
at_ms: number, 
/**
 * error, warn, info, debug.
 */
level: string, 
/**
 * Part of the core.
 */
target: string, 
/**
 * Text.
 */
message: string, };

/**
 * The newest lines, oldest first.
 */
export type LogLines = { 
/**
 * Lines.
 */
lines: Array<LogLine>, };

/**
 * Lines that came in.
 */
export type LogsDelta = { 
/**
 * Lines.
 */
lines: Array<LogLine>, 
/**
 * Lines before these that were left out.
 */
dropped: number, };

/**
 * How many lines.
 */
export type LogsTailParams = { 
/**
 * Lines, at most 2,000.
 */
lines: number, };

/**
 * The local port.
 */
export type MixedPort = { 
/**
 * Address that listens, without the port.
 */
address: string, 
/**
 * Port.
 */
port: number, 
/**
 * The port that was wanted, when it was taken.
 */
wanted: number | null, 
/**
 * The process that holds the wanted port, when known.
 */
holder: string | null, };

/**
 * How flows are decided.
 */
export type Mode = "rule" | "global" | "direct";

/**
 * The new mode.
 */
export type ModeParams = { 
/**
 * Mode.
 */
mode: Mode, };

/**
 * A node with all but its secrets.
 */
export type NodeDetail = { 
/**
 * Its row.
 */
row: NodeRow, 
/**
 * Every field, in the order of the node format; a secret's value is absent.
 */
fields: Array<NodeField>, 
/**
 * The last latency test with its phases.
 */
latency: TestResult | null, 
/**
 * The last speed test.
 */
speed: TestResult | null, };

/**
 * One field of a node.
 */
export type NodeField = { 
/**
 * Path in the node format, such as `tls.sni`.
 */
path: string, 
/**
 * Value as text; absent when it is a secret.
 */
value: string | null, 
/**
 * It is a secret (and there is one).
 */
secret: boolean, };

/**
 * A node's number in the store. Never used again after the node is gone.
 */
export type NodeId = number;

/**
 * The one answer that holds a node's secrets.
 */
export type NodeLink = { 
/**
 * Share link.
 */
link: string, };

/**
 * One node.
 */
export type NodeParams = { 
/**
 * Number.
 */
node: NodeId, };

/**
 * A node by number and name.
 */
export type NodeRef = { 
/**
 * Number.
 */
id: NodeId, 
/**
 * Name.
 */
name: string, };

/**
 * One row of the node list.
 */
export type NodeRow = { 
/**
 * Number.
 */
id: NodeId, 
/**
 * Name.
 */
name: string, 
/**
 * Server.
 */
address: string, 
/**
 * Port.
 */
port: number, 
/**
 * Protocol: vmess, vless, shadowsocks, …
 */
protocol: string, 
/**
 * What protects the way to the server.
 */
security: SecurityKind, 
/**
 * Transport: tcp, ws, grpc, …
 */
transport: string, 
/**
 * The protocol's cipher, where it is a choice (VMess, Shadowsocks).
 */
cipher: string | null, 
/**
 * Any certificate is accepted: a marked, unsafe choice.
 */
insecure: boolean, 
/**
 * Subscription that brought it; absent for nodes that a person added.
 */
subscription: number | null, 
/**
 * Marked by the person.
 */
favourite: boolean, 
/**
 * Why it can't be used, when it can't.
 */
unsupported: string | null, 
/**
 * Its secrets can't be opened: the key is missing or locked.
 */
locked: boolean, 
/**
 * When it was added.
 */
added_ms: number, 
/**
 * The last latency test.
 */
latency: LatencySummary | null, 
/**
 * The last speed test.
 */
speed: SpeedSummary | null, 
/**
 * When a test last succeeded.
 */
last_success_ms: number | null, 
/**
 * Medians of up to 20 latency tests in ms, oldest first; null for a failed one.
 */
history: Array<number | null>, };

/**
 * What to change of a node; absent means unchanged.
 */
export type NodeUpdateParams = { 
/**
 * Number.
 */
node: NodeId, 
/**
 * New name.
 */
name?: string, 
/**
 * Favourite or not.
 */
favourite?: boolean, 
/**
 * Everything of the node from this share link, number and history kept.
 */
link?: string, };

/**
 * How many nodes a call touched.
 */
export type NodesChanged = { 
/**
 * Count.
 */
count: number, };

/**
 * Changed rows of the node list.
 */
export type NodesDelta = { 
/**
 * New or changed.
 */
changed: Array<NodeRow>, 
/**
 * Gone.
 */
removed: Array<NodeId>, };

/**
 * Which nodes, and from where.
 */
export type NodesListParams = { 
/**
 * Rows to skip.
 */
offset: number, 
/**
 * Rows wanted: 1 to 2,000; 500 when absent.
 */
limit?: number, 
/**
 * Only nodes whose name, address or protocol holds this text, case apart.
 */
search?: string, };

/**
 * A page of nodes in the order of the list.
 */
export type NodesPage = { 
/**
 * How many nodes match in all.
 */
total: number, 
/**
 * Rows.
 */
rows: Array<NodeRow>, };

/**
 * Several nodes.
 */
export type NodesParams = { 
/**
 * Numbers.
 */
nodes: Array<NodeId>, };

/**
 * No parameters, or nothing to say in an answer.
 */
export type Nothing = Record<symbol, never>;

/**
 * An event with its number on this connection: each is one higher than the last.
 */
export type Numbered = { 
/**
 * Number.
 */
seq: number, 
/**
 * The event.
 */
event: Event, };

/**
 * When a phase ended.
 */
export type PhaseTime = { 
/**
 * resolve, dial, security, transport, protocol, first_byte.
 */
phase: string, 
/**
 * Microseconds since the flow began.
 */
at_us: number, };

/**
 * A failure: code, values for the sentence, and the sentence in English.
 */
export type Problem = { 
/**
 * Kind.
 */
code: ReasonCode, 
/**
 * Values, never secrets.
 */
params: { [key in string]: string }, 
/**
 * Sentence.
 */
message: string, };

/**
 * On or off.
 */
export type ProxySetParams = { 
/**
 * Whether the system's proxy setting points here.
 */
system_proxy: boolean, };

/**
 * A node's share link as a QR code; holds its secrets, since it was asked for.
 */
export type QrCode = { 
/**
 * An SVG image, black on white, with its quiet zone.
 */
svg: string, };

/**
 * An image with QR codes in it.
 */
export type QrDecodeParams = { 
/**
 * The pixels as 8-bit grey, row by row, base64; at most 4 MiB.
 */
grey_base64: string, 
/**
 * Width in pixels.
 */
width: number, 
/**
 * Height in pixels.
 */
height: number, };

/**
 * What the codes say.
 */
export type QrDecoded = { 
/**
 * One text a code.
 */
texts: Array<string>, };

/**
 * Why something failed; the app has a sentence for each code.
 */
export type ReasonCode = "resolve" | "refused" | "timed_out" | "certificate" | "handshake" | "target" | "not_offered" | "network" | "status" | "answer" | "locked" | "port_taken" | "system_proxy" | "cancelled" | "internal";

/**
 * A refused or failed call.
 */
export type RpcError = { 
/**
 * What kind of failure.
 */
code: ErrorCode, 
/**
 * Values for the sentence, never secrets.
 */
params: { [key in string]: string }, 
/**
 * The sentence in English.
 */
message: string, };

/**
 * What protects the way to the node's server.
 */
export type SecurityKind = "none" | "tls" | "reality" | "quic";

/**
 * All settings.
 */
export type Settings = { 
/**
 * Port of the local proxy; the next free one when it is taken.
 */
mixed_port: number, 
/**
 * A new random port at each start of the local proxy instead.
 */
random_port: boolean, 
/**
 * Refuse programs of other users of this computer.
 */
only_my_programs: boolean, 
/**
 * Set the system's proxy on connecting.
 */
system_proxy: boolean, 
/**
 * How flows are decided.
 */
mode: Mode, 
/**
 * Page that is fetched to verify a node and to measure latency (http or https).
 */
test_url: string, 
/**
 * Status that the page must answer with; 0 for any of 200 to 399.
 */
test_status: number, 
/**
 * Time for one node's latency test, ms.
 */
test_timeout_ms: number, 
/**
 * Nodes tested at once.
 */
test_concurrency: number, 
/**
 * File that is downloaded to measure speed (http or https).
 */
speed_url: string, 
/**
 * Time of one speed test, ms.
 */
speed_duration_ms: number, 
/**
 * Bytes after which a speed test ends.
 */
speed_limit_bytes: number, 
/**
 * Language of the app as a BCP 47 tag; empty for the system's.
 */
language: string, 
/**
 * Colours.
 */
theme: Theme, 
/**
 * Height of rows.
 */
density: Density, };

/**
 * What to change; absent means unchanged.
 */
export type SettingsPatch = { 
/**
 * See [`Settings`].
 */
mixed_port?: number, 
/**
 * See [`Settings`].
 */
random_port?: boolean, 
/**
 * See [`Settings`].
 */
only_my_programs?: boolean, 
/**
 * See [`Settings`].
 */
system_proxy?: boolean, 
/**
 * See [`Settings`].
 */
mode?: Mode, 
/**
 * See [`Settings`].
 */
test_url?: string, 
/**
 * See [`Settings`].
 */
test_status?: number, 
/**
 * See [`Settings`].
 */
test_timeout_ms?: number, 
/**
 * See [`Settings`].
 */
test_concurrency?: number, 
/**
 * See [`Settings`].
 */
speed_url?: string, 
/**
 * See [`Settings`].
 */
speed_duration_ms?: number, 
/**
 * See [`Settings`].
 */
speed_limit_bytes?: number, 
/**
 * See [`Settings`].
 */
language?: string, 
/**
 * See [`Settings`].
 */
theme?: Theme, 
/**
 * See [`Settings`].
 */
density?: Density, };

/**
 * The whole state but for lists, which come in pages.
 */
export type Snapshot = { 
/**
 * Version of the core.
 */
core_version: string, 
/**
 * The connection.
 */
connection: ConnectionStatus, 
/**
 * Settings.
 */
settings: Settings, 
/**
 * Traffic.
 */
traffic: Traffic, 
/**
 * Nodes in the list.
 */
nodes: number, 
/**
 * Runs of tests under way.
 */
tests: Array<TestProgress>, 
/**
 * The store.
 */
store: StoreStatus, 
/**
 * The demo server.
 */
demo: DemoStatus, };

/**
 * Download through the node.
 */
export type SpeedOutcome = { 
/**
 * Average after the ramp-up, bytes per second.
 */
down_bytes_per_s: number, 
/**
 * Bytes that were used.
 */
bytes: number, 
/**
 * How long it took, ms.
 */
duration_ms: number, };

/**
 * The last speed test in a row.
 */
export type SpeedSummary = { 
/**
 * When it ended.
 */
at_ms: number, 
/**
 * Average after the ramp-up, bytes per second; absent when it failed.
 */
down_bytes_per_s: number | null, 
/**
 * Why it failed.
 */
problem: Problem | null, };

/**
 * One stage.
 */
export type Stage = { 
/**
 * State.
 */
state: StageState, 
/**
 * What is under way, or what was verified.
 */
detail: string | null, 
/**
 * Why it is degraded or failed.
 */
problem: Problem | null, 
/**
 * When the state began (of a verified Internet stage: when the page was fetched).
 */
since_ms: number, };

/**
 * State of a stage.
 */
export type StageState = "off" | "working" | "verified" | "degraded" | "failed";

/**
 * The four stages.
 */
export type Stages = { 
/**
 * System proxy and local port.
 */
computer: Stage, 
/**
 * Rules.
 */
rules: Stage, 
/**
 * The node.
 */
node: Stage, 
/**
 * A page fetched through it all.
 */
internet: Stage, };

/**
 * What a person should know of the store.
 */
export type StoreStatus = { 
/**
 * Where the key of the secrets lies: keyring, file, or absent while it is missing.
 */
key_place: string | null, 
/**
 * Why the secrets can't be opened.
 */
locked: string | null, };

/**
 * Topics to hear of.
 */
export type SubscribeParams = { 
/**
 * Topics; replaces the ones of an earlier call on the same connection.
 */
topics: Array<Topic>, };

/**
 * The state at the beginning of the subscription.
 */
export type Subscribed = { 
/**
 * Number of the last event before this snapshot; the next one is one higher. Events
 * state what is, so that one which the snapshot already holds does no harm.
 */
seq: number, 
/**
 * The state.
 */
snapshot: Snapshot, };

/**
 * What to measure.
 */
export type TestKind = "latency" | "speed";

/**
 * A measurement, or why there is none.
 */
export type TestOutcome = { "type": "latency" } & LatencyOutcome | { "type": "speed" } & SpeedOutcome | { "type": "failed" } & FailedOutcome;

/**
 * How far a run is.
 */
export type TestProgress = { 
/**
 * Number.
 */
run: number, 
/**
 * What is measured.
 */
kind: TestKind, 
/**
 * Nodes in it.
 */
total: number, 
/**
 * Nodes that are done.
 */
done: number, 
/**
 * Nodes that work.
 */
working: number, 
/**
 * Whether the run has ended (done or cancelled).
 */
ended: boolean, 
/**
 * Whether it was cancelled.
 */
cancelled: boolean, };

/**
 * A node's result.
 */
export type TestResult = { 
/**
 * Node.
 */
node: NodeId, 
/**
 * When it ended.
 */
at_ms: number, 
/**
 * The measurement.
 */
outcome: TestOutcome, };

/**
 * Results that came in.
 */
export type TestResults = { 
/**
 * The run.
 */
run: number, 
/**
 * Results.
 */
results: Array<TestResult>, };

/**
 * A run of tests.
 */
export type TestRun = { 
/**
 * Number.
 */
run: number, 
/**
 * Nodes in it.
 */
total: number, };

/**
 * Which run.
 */
export type TestsCancelParams = { 
/**
 * Number.
 */
run: number, };

/**
 * Which nodes, and what.
 */
export type TestsStartParams = { 
/**
 * What to measure.
 */
kind: TestKind, 
/**
 * Numbers; absent for all nodes that can be used.
 */
nodes?: Array<NodeId>, };

/**
 * Which colours.
 */
export type Theme = "system" | "light" | "dark";

/**
 * What a subscriber may ask to hear of.
 */
export type Topic = "state" | "nodes" | "traffic" | "connections" | "tests" | "logs";

/**
 * Rates and totals.
 */
export type Traffic = { 
/**
 * When measured.
 */
at_ms: number, 
/**
 * Bytes per second up, over the last second.
 */
up_bytes_per_s: number, 
/**
 * Bytes per second down, over the last second.
 */
down_bytes_per_s: number, 
/**
 * Bytes up since the core started.
 */
up_bytes: number, 
/**
 * Bytes down since the core started.
 */
down_bytes: number, 
/**
 * Flows that are open.
 */
open: number, };

/** Every method: what it takes and what it answers. */
export interface Methods {
  "system.hello": { params: HelloParams; result: Hello };
  "system.shutdown": { params: Nothing; result: Nothing };
  "state.snapshot": { params: Nothing; result: Snapshot };
  "nodes.list": { params: NodesListParams; result: NodesPage };
  "nodes.get": { params: NodeParams; result: NodeDetail };
  "nodes.link": { params: NodeParams; result: NodeLink };
  "nodes.update": { params: NodeUpdateParams; result: NodeRow };
  "nodes.delete": { params: NodesParams; result: NodesChanged };
  "nodes.restore": { params: NodesParams; result: NodesChanged };
  "import.preview": { params: ImportPreviewParams; result: ImportPreview };
  "import.commit": { params: ImportCommitParams; result: ImportCommitted };
  "export.nodes": { params: ExportParams; result: Exported };
  "connection.connect": { params: ConnectParams; result: ConnectionStatus };
  "connection.disconnect": { params: Nothing; result: ConnectionStatus };
  "connection.status": { params: Nothing; result: ConnectionStatus };
  "proxy.set": { params: ProxySetParams; result: ConnectionStatus };
  "mode.set": { params: ModeParams; result: ConnectionStatus };
  "traffic.get": { params: Nothing; result: Traffic };
  "connections.list": { params: ConnectionsListParams; result: ConnectionsPage };
  "connections.close": { params: ConnectionsCloseParams; result: ConnectionsClosed };
  "connections.trace": { params: ConnectionParams; result: ConnectionTrace };
  "tests.start": { params: TestsStartParams; result: TestRun };
  "tests.cancel": { params: TestsCancelParams; result: Nothing };
  "settings.get": { params: Nothing; result: Settings };
  "settings.set": { params: SettingsPatch; result: Settings };
  "settings.reset": { params: Nothing; result: Settings };
  "logs.tail": { params: LogsTailParams; result: LogLines };
  "qr.encode": { params: NodeParams; result: QrCode };
  "qr.decode": { params: QrDecodeParams; result: QrDecoded };
  "demo.start": { params: Nothing; result: DemoStatus };
  "demo.stop": { params: Nothing; result: DemoStatus };
  "doctor.run": { params: Nothing; result: Checks };
  "state.subscribe": { params: SubscribeParams; result: Subscribed };
}

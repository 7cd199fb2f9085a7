//! Nodes as lists and panels show them: without secrets.

use crate::types::{Problem, wire};

wire! {
    /// A node's number in the store. Never used again after the node is gone.
    #[derive(Copy, Eq, Hash, PartialOrd, Ord)]
    pub struct NodeId(pub u32);

    /// A node by number and name.
    #[derive(Eq)]
    pub struct NodeRef {
        /// Number.
        pub id: NodeId,
        /// Name.
        pub name: String,
    }

    /// What protects the way to the node's server.
    #[derive(Copy, Eq)]
    #[serde(rename_all = "snake_case")]
    pub enum SecurityKind {
        /// Nothing but the protocol itself.
        None,
        /// TLS.
        Tls,
        /// REALITY.
        Reality,
        /// QUIC (which holds TLS 1.3).
        Quic,
    }

    /// One row of the node list.
    pub struct NodeRow {
        /// Number.
        pub id: NodeId,
        /// Name.
        pub name: String,
        /// Server.
        pub address: String,
        /// Port.
        pub port: u16,
        /// Protocol: vmess, vless, shadowsocks, …
        pub protocol: String,
        /// What protects the way to the server.
        pub security: SecurityKind,
        /// Transport: tcp, ws, grpc, …
        pub transport: String,
        /// The protocol's cipher, where it is a choice (VMess, Shadowsocks).
        pub cipher: Option<String>,
        /// Any certificate is accepted: a marked, unsafe choice.
        pub insecure: bool,
        /// Subscription that brought it; absent for nodes that a person added.
        pub subscription: Option<u32>,
        /// Marked by the person.
        pub favourite: bool,
        /// Why it can't be used, when it can't.
        pub unsupported: Option<String>,
        /// Its secrets can't be opened: the key is missing or locked.
        pub locked: bool,
        /// When it was added.
        pub added_ms: u64,
        /// The last latency test.
        pub latency: Option<LatencySummary>,
        /// The last speed test.
        pub speed: Option<SpeedSummary>,
        /// When a test last succeeded.
        pub last_success_ms: Option<u64>,
        /// Medians of up to 20 latency tests in ms, oldest first; null for a failed one.
        pub history: Vec<Option<f64>>,
    }

    /// The last latency test in a row.
    pub struct LatencySummary {
        /// When it ended.
        pub at_ms: u64,
        /// Median round trip, ms; absent when it failed.
        pub median_ms: Option<f64>,
        /// Why it failed.
        pub problem: Option<Problem>,
    }

    /// The last speed test in a row.
    pub struct SpeedSummary {
        /// When it ended.
        pub at_ms: u64,
        /// Average after the ramp-up, bytes per second; absent when it failed.
        pub down_bytes_per_s: Option<f64>,
        /// Why it failed.
        pub problem: Option<Problem>,
    }

    /// Which nodes, and from where.
    #[derive(Default, Eq)]
    pub struct NodesListParams {
        /// Rows to skip.
        #[serde(default)]
        pub offset: u32,
        /// Rows wanted: 1 to 2,000; 500 when absent.
        #[serde(default)]
        #[ts(optional)]
        pub limit: Option<u32>,
        /// Only nodes whose name, address or protocol holds this text, case apart.
        #[serde(default)]
        #[ts(optional)]
        pub search: Option<String>,
    }

    /// A page of nodes in the order of the list.
    pub struct NodesPage {
        /// How many nodes match in all.
        pub total: u32,
        /// Rows.
        pub rows: Vec<NodeRow>,
    }

    /// One node.
    #[derive(Copy, Eq)]
    pub struct NodeParams {
        /// Number.
        pub node: NodeId,
    }

    /// Several nodes.
    #[derive(Eq)]
    pub struct NodesParams {
        /// Numbers.
        pub nodes: Vec<NodeId>,
    }

    /// A node with all but its secrets.
    pub struct NodeDetail {
        /// Its row.
        pub row: NodeRow,
        /// Every field, in the order of the node format; a secret's value is absent.
        pub fields: Vec<NodeField>,
        /// The last latency test with its phases.
        pub latency: Option<crate::types::TestResult>,
        /// The last speed test.
        pub speed: Option<crate::types::TestResult>,
    }

    /// One field of a node.
    #[derive(Eq)]
    pub struct NodeField {
        /// Path in the node format, such as `tls.sni`.
        pub path: String,
        /// Value as text; absent when it is a secret.
        pub value: Option<String>,
        /// It is a secret (and there is one).
        pub secret: bool,
    }

    /// The one answer that holds a node's secrets.
    #[derive(Eq)]
    pub struct NodeLink {
        /// Share link.
        pub link: String,
    }

    /// What to change of a node; absent means unchanged.
    #[derive(Eq)]
    pub struct NodeUpdateParams {
        /// Number.
        pub node: NodeId,
        /// New name.
        #[serde(default)]
        #[ts(optional)]
        pub name: Option<String>,
        /// Favourite or not.
        #[serde(default)]
        #[ts(optional)]
        pub favourite: Option<bool>,
        /// Everything of the node from this share link, number and history kept.
        #[serde(default)]
        #[ts(optional)]
        pub link: Option<String>,
    }

    /// How many nodes a call touched.
    #[derive(Copy, Eq)]
    pub struct NodesChanged {
        /// Count.
        pub count: u32,
    }

    /// Form of an export.
    #[derive(Copy, Eq)]
    #[serde(rename_all = "snake_case")]
    pub enum ExportFormat {
        /// Share links, one a line.
        Links,
        /// The same in base64, as subscriptions are served.
        Base64,
        /// The node format as JSON.
        Json,
    }

    /// Which nodes to export.
    #[derive(Eq)]
    pub struct ExportParams {
        /// Form.
        pub format: ExportFormat,
        /// Numbers; absent for all.
        #[serde(default)]
        #[ts(optional)]
        pub nodes: Option<Vec<NodeId>>,
    }

    /// An export; holds secrets, since it was asked for.
    #[derive(Eq)]
    pub struct Exported {
        /// The text.
        pub text: String,
        /// Nodes in it.
        pub count: u32,
        /// Nodes that this form can't express, or that are locked.
        pub left_out: Vec<NodeRef>,
    }
}

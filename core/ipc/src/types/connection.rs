//! Where the traffic goes: the four stages of the stream.

use std::collections::BTreeMap;

use crate::types::{NodeId, NodeRef, wire};

wire! {
    /// State of a stage.
    #[derive(Copy, Eq, Default)]
    #[serde(rename_all = "snake_case")]
    pub enum StageState {
        /// Not in use.
        #[default]
        Off,
        /// A step is under way.
        Working,
        /// Read back or fetched, not only asked for.
        Verified,
        /// Works, but badly.
        Degraded,
        /// Does not work.
        Failed,
    }

    /// Why something failed; the app has a sentence for each code.
    #[derive(Copy, Eq, Hash)]
    #[serde(rename_all = "snake_case")]
    pub enum ReasonCode {
        /// The server's name can't be resolved.
        Resolve,
        /// The server refused the connection.
        Refused,
        /// No answer in time. Parameter: `phase`.
        TimedOut,
        /// The server's certificate is not trusted.
        Certificate,
        /// The handshake broke. Parameters: `phase`, `hint`.
        Handshake,
        /// The node says that it can't reach the target.
        Target,
        /// The node can't do what was asked.
        NotOffered,
        /// The network failed. Parameter: `phase`.
        Network,
        /// The page answered with another status than wanted. Parameters: `status`, `expected`.
        Status,
        /// The page's answer is no HTTP, or ended early.
        Answer,
        /// The node's secrets can't be opened.
        Locked,
        /// The port could not be opened. Parameters: `address`, `holder` when known.
        PortTaken,
        /// The system's proxy setting could not be changed or read back.
        SystemProxy,
        /// It was stopped.
        Cancelled,
        /// A defect in the core.
        Internal,
    }

    /// A failure: code, values for the sentence, and the sentence in English.
    #[derive(Eq)]
    pub struct Problem {
        /// Kind.
        pub code: ReasonCode,
        /// Values, never secrets.
        #[serde(default)]
        pub params: BTreeMap<String, String>,
        /// Sentence.
        pub message: String,
    }

    /// One stage.
    #[derive(Eq, Default)]
    pub struct Stage {
        /// State.
        pub state: StageState,
        /// What is under way, or what was verified.
        pub detail: Option<String>,
        /// Why it is degraded or failed.
        pub problem: Option<Problem>,
        /// When the state began (of a verified Internet stage: when the page was fetched).
        pub since_ms: u64,
    }

    /// The four stages.
    #[derive(Eq, Default)]
    pub struct Stages {
        /// System proxy and local port.
        pub computer: Stage,
        /// Rules.
        pub rules: Stage,
        /// The node.
        pub node: Stage,
        /// A page fetched through it all.
        pub internet: Stage,
    }

    /// What was asked for, and how far it is.
    #[derive(Copy, Eq, Default)]
    #[serde(rename_all = "snake_case")]
    pub enum ConnectionPhase {
        /// Nothing runs.
        #[default]
        Off,
        /// Under way.
        Connecting,
        /// A page was fetched through the node.
        Connected,
        /// The port is open, but the way through the node fails.
        Failed,
    }

    /// How flows are decided.
    #[derive(Copy, Eq, Default, Hash)]
    #[serde(rename_all = "snake_case")]
    pub enum Mode {
        /// By rules.
        #[default]
        Rule,
        /// All through the node.
        Global,
        /// None through the node.
        Direct,
    }

    /// The local port.
    #[derive(Eq)]
    pub struct MixedPort {
        /// Address that listens, without the port.
        pub address: String,
        /// Port.
        pub port: u16,
        /// The port that was wanted, when it was taken.
        pub wanted: Option<u16>,
        /// The process that holds the wanted port, when known.
        pub holder: Option<String>,
    }

    /// The connection as a whole.
    #[derive(Eq, Default)]
    pub struct ConnectionStatus {
        /// How far.
        pub phase: ConnectionPhase,
        /// Stage by stage.
        pub stages: Stages,
        /// The node in use (or last used).
        pub node: Option<NodeRef>,
        /// How flows are decided.
        pub mode: Mode,
        /// The local port, while it is open.
        pub mixed: Option<MixedPort>,
        /// The system's proxy setting points here, read back.
        pub system_proxy: bool,
        /// Since when connected.
        pub connected_ms: Option<u64>,
    }

    /// Which node, and whether to set the system proxy.
    #[derive(Default, Eq)]
    pub struct ConnectParams {
        /// The node; absent for the last one.
        #[serde(default)]
        #[ts(optional)]
        pub node: Option<NodeId>,
        /// Set the system proxy too; absent for the setting's choice.
        #[serde(default)]
        #[ts(optional)]
        pub system_proxy: Option<bool>,
    }

    /// On or off.
    #[derive(Copy, Eq)]
    pub struct ProxySetParams {
        /// Whether the system's proxy setting points here.
        pub system_proxy: bool,
    }

    /// The new mode.
    #[derive(Copy, Eq)]
    pub struct ModeParams {
        /// Mode.
        pub mode: Mode,
    }
}

impl Problem {
    /// A problem of `code` that reads `message`.
    pub fn new(code: ReasonCode, message: impl Into<String>) -> Self {
        Self { code, params: BTreeMap::new(), message: message.into() }
    }

    /// Adds a value.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.params.insert(name.to_owned(), value.to_string());
        self
    }
}

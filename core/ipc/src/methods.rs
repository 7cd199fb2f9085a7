//! The list of all methods. From it come the trait that the core implements, the dispatch, the
//! client's typed calls and the app's TypeScript.

use std::future::Future;
use std::pin::Pin;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

use crate::error::{ErrorCode, RpcError};
use crate::types::*;

/// A method as a type: its name, what it takes and what it answers.
pub trait Method {
    /// Name on the wire.
    const NAME: &'static str;
    /// Parameters.
    type Params: Serialize + DeserializeOwned + TS + Send;
    /// Result.
    type Result: Serialize + DeserializeOwned + TS + Send;
}

/// A result that is being made.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Value, RpcError>> + Send + 'a>>;

macro_rules! methods {
    ($( $(#[$doc:meta])+ $marker:ident $function:ident $name:literal ($params:ty) -> $result:ty; )*) => {
        $(
            $(#[$doc])+
            #[derive(Debug, Clone, Copy)]
            pub struct $marker;

            impl Method for $marker {
                const NAME: &'static str = $name;
                type Params = $params;
                type Result = $result;
            }
        )*

        /// What the core does: a function a method.
        pub trait Core: Send + Sync + 'static {
            $(
                $(#[$doc])+
                fn $function(
                    &self,
                    params: $params,
                ) -> impl Future<Output = Result<$result, RpcError>> + Send;
            )*
        }

        /// Calls the function of `method`.
        pub fn dispatch<'a, C: Core>(core: &'a C, method: &'a str, params: Value) -> Answer<'a> {
            match method {
                $( $name => Box::pin(async move {
                    let result = core.$function(parse(params)?).await?;
                    encode(&result)
                }), )*
                other => {
                    let error = RpcError::new(
                        ErrorCode::UnknownMethod,
                        format!("there is no method {:?}", other.chars().take(64).collect::<String>()),
                    );
                    Box::pin(std::future::ready(Err(error)))
                }
            }
        }

        /// All methods by name.
        pub const NAMES: &[&str] = &[$($name),*];

        /// Visits parameters and result of every method, for the TypeScript.
        pub(crate) fn visit_types(visitor: &mut impl ts_rs::TypeVisitor) {
            $( visitor.visit::<$params>(); visitor.visit::<$result>(); )*
        }

        /// `(name, parameters, result)` of every method, in TypeScript.
        pub(crate) fn signatures(config: &ts_rs::Config) -> Vec<(&'static str, String, String)> {
            vec![$( ($name, <$params as TS>::name(config), <$result as TS>::name(config)) ),*]
        }
    };
}

methods! {
    /// Exchange of versions.
    SystemHello system_hello "system.hello" (HelloParams) -> Hello;
    /// Puts the system's settings back, ends all flows and ends the core.
    SystemShutdown system_shutdown "system.shutdown" (Nothing) -> Nothing;
    /// The whole state but for lists.
    StateSnapshot state_snapshot "state.snapshot" (Nothing) -> Snapshot;
    /// A page of nodes.
    NodesList nodes_list "nodes.list" (NodesListParams) -> NodesPage;
    /// One node with its fields.
    NodesGet nodes_get "nodes.get" (NodeParams) -> NodeDetail;
    /// A node's share link: the one method for a node's secrets.
    NodesLink nodes_link "nodes.link" (NodeParams) -> NodeLink;
    /// Changes a node.
    NodesUpdate nodes_update "nodes.update" (NodeUpdateParams) -> NodeRow;
    /// Takes nodes off the list; [`NodesRestore`] brings them back.
    NodesDelete nodes_delete "nodes.delete" (NodesParams) -> NodesChanged;
    /// Brings deleted nodes back.
    NodesRestore nodes_restore "nodes.restore" (NodesParams) -> NodesChanged;
    /// What each line of a text is. Adds nothing.
    ImportPreviewText import_preview "import.preview" (ImportPreviewParams) -> ImportPreview;
    /// Adds rows of a preview.
    ImportCommit import_commit "import.commit" (ImportCommitParams) -> ImportCommitted;
    /// Share links of nodes as a text.
    ExportNodes export_nodes "export.nodes" (ExportParams) -> Exported;
    /// Opens the local port and the way through a node.
    ConnectionConnect connection_connect "connection.connect" (ConnectParams) -> ConnectionStatus;
    /// Closes it all and puts the system's settings back.
    ConnectionDisconnect connection_disconnect "connection.disconnect" (Nothing) -> ConnectionStatus;
    /// The connection as it is.
    ConnectionGet connection_status "connection.status" (Nothing) -> ConnectionStatus;
    /// Turns the system's proxy setting on or off.
    ProxySet proxy_set "proxy.set" (ProxySetParams) -> ConnectionStatus;
    /// Chooses how flows are decided.
    ModeSet mode_set "mode.set" (ModeParams) -> ConnectionStatus;
    /// Rates and totals.
    TrafficGet traffic_get "traffic.get" (Nothing) -> Traffic;
    /// Flows.
    ConnectionsList connections_list "connections.list" (ConnectionsListParams) -> ConnectionsPage;
    /// Closes flows.
    ConnectionsClose connections_close "connections.close" (ConnectionsCloseParams) -> ConnectionsClosed;
    /// How a flow came to be.
    ConnectionsTrace connections_trace "connections.trace" (ConnectionParams) -> ConnectionTrace;
    /// Starts a run of tests; its results come as events.
    TestsStart tests_start "tests.start" (TestsStartParams) -> TestRun;
    /// Stops a run of tests.
    TestsCancel tests_cancel "tests.cancel" (TestsCancelParams) -> Nothing;
    /// The settings.
    SettingsGet settings_get "settings.get" (Nothing) -> Settings;
    /// Changes settings.
    SettingsSet settings_set "settings.set" (SettingsPatch) -> Settings;
    /// Back to the defaults.
    SettingsReset settings_reset "settings.reset" (Nothing) -> Settings;
    /// The newest lines of the log.
    LogsTail logs_tail "logs.tail" (LogsTailParams) -> LogLines;
    /// A node's share link as a QR code.
    QrEncode qr_encode "qr.encode" (NodeParams) -> QrCode;
    /// Texts of the QR codes in an image.
    QrDecode qr_decode "qr.decode" (QrDecodeParams) -> QrDecoded;
    /// Starts the demo server and answers with its links.
    DemoStart demo_start "demo.start" (Nothing) -> DemoStatus;
    /// Stops the demo server.
    DemoStop demo_stop "demo.stop" (Nothing) -> DemoStatus;
    /// Checks this computer's settings.
    DoctorRun doctor_run "doctor.run" (Nothing) -> Checks;
}

/// Chooses the events that come over this connection. Answered by the server itself, since it
/// belongs to the connection.
#[derive(Debug, Clone, Copy)]
pub struct StateSubscribe;

impl Method for StateSubscribe {
    const NAME: &'static str = "state.subscribe";
    type Params = SubscribeParams;
    type Result = Subscribed;
}

/// Reads parameters; absent ones read as an empty object.
pub(crate) fn parse<P: for<'de> Deserialize<'de>>(params: Value) -> Result<P, RpcError> {
    let params = if params.is_null() { Value::Object(serde_json::Map::new()) } else { params };
    serde_json::from_value(params).map_err(|error| {
        let problem = error.to_string();
        RpcError::new(ErrorCode::InvalidParams, format!("the parameters don't fit: {problem}")).with("problem", problem)
    })
}

/// Writes a result.
pub(crate) fn encode<R: Serialize>(result: &R) -> Result<Value, RpcError> {
    serde_json::to_value(result)
        .map_err(|error| RpcError::new(ErrorCode::Internal, format!("the result can't be written: {error}")))
}

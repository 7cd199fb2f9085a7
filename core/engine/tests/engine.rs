//! The engine over a net that dials targets itself: connecting, switching, testing, undoing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by them")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use culvert_engine::flows::FlowTable;
use culvert_engine::leave::{Associating, Connecting, Leave};
use culvert_engine::logs::LogBuffer;
use culvert_engine::net::{DemoServer, Net, Opening, Port, PortPlan, Starting};
use culvert_engine::origin::Origin;
use culvert_engine::router::Router;
use culvert_engine::store::{MemoryKey, Store};
use culvert_engine::{Engine, Parts};
use culvert_ipc::types::*;
use culvert_ipc::{Core, ErrorCode, Event, Publisher, Topic};
use culvert_net::outbound::{ConnectError, ConnectRequest, Connected, Phase, Trace};
use culvert_profile::Node;

/// Dials targets itself; nodes named "dead" refuse.
struct PlainNet;

struct Plain {
    dead: bool,
}

impl Leave for Plain {
    fn connect(&self, request: ConnectRequest) -> Connecting<'_> {
        Box::pin(async move {
            let server = request.destination.to_string();
            if self.dead {
                return Err(ConnectError::Refused { server });
            }
            let mut trace = Trace::start();
            let stream = tokio::net::TcpStream::connect(&server).await.map_err(|source| ConnectError::Io {
                server,
                phase: Phase::Dial,
                source: Arc::new(source),
            })?;
            trace.mark(Phase::Dial);
            Ok(Connected { stream: Box::new(stream), trace })
        })
    }

    fn associate(&self) -> Associating<'_> {
        Box::pin(std::future::ready(Err(ConnectError::NotOffered("no UDP here".to_owned()))))
    }
}

struct PlainPort(tokio::net::TcpListener);

impl Port for PlainPort {
    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }
}

struct NoDemo;

impl DemoServer for NoDemo {
    fn links(&self) -> Vec<String> {
        vec!["trojan://demo@127.0.0.1:1#Demo".to_owned()]
    }
}

impl Net for PlainNet {
    fn direct(&self) -> Arc<dyn Leave> {
        Arc::new(Plain { dead: false })
    }

    fn through(&self, node: &Node) -> Result<Arc<dyn Leave>, Problem> {
        Ok(Arc::new(Plain { dead: node.name == "dead" }))
    }

    fn start_demo(&self) -> Starting<'_> {
        Box::pin(std::future::ready(Ok(Box::new(NoDemo) as Box<dyn DemoServer>)))
    }

    fn open_port(&self, plan: PortPlan, _: Arc<Router>, _: Arc<FlowTable>) -> Opening<'_> {
        Box::pin(async move {
            let listener = tokio::net::TcpListener::bind(plan.address).await?;
            Ok(Box::new(PlainPort(listener)) as Box<dyn Port>)
        })
    }
}

struct Bench {
    engine: Arc<Engine>,
    publisher: Publisher,
    origin: Origin,
    _folder: tempfile::TempDir,
}

async fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let publisher = Publisher::default();
    let engine = Engine::start(Parts {
        store: Store::open(folder.path(), Arc::new(MemoryKey::default())).unwrap(),
        net: Arc::new(PlainNet),
        system_proxy: None,
        logs: LogBuffer::default(),
        publisher: publisher.clone(),
    })
    .unwrap();
    let origin = Origin::start().await.unwrap();
    engine
        .settings_set(SettingsPatch {
            random_port: Some(true),
            test_url: Some(origin.url("/generate_204")),
            test_timeout_ms: Some(2_000),
            ..SettingsPatch::default()
        })
        .await
        .unwrap();
    Bench { engine, publisher, origin, _folder: folder }
}

async fn import(engine: &Engine, text: &str) -> Vec<NodeId> {
    engine.import_commit(ImportCommitParams { text: text.to_owned(), rows: None }).await.unwrap().nodes
}

const TWO: &str = "trojan://a@192.0.2.1:443#alive\ntrojan://b@192.0.2.2:443#dead";

#[tokio::test]
async fn connected_means_that_a_page_was_fetched() {
    let bench = bench().await;
    let nodes = import(&bench.engine, TWO).await;
    let status =
        bench.engine.connection_connect(ConnectParams { node: Some(nodes[0]), system_proxy: None }).await.unwrap();
    assert_eq!(status.phase, ConnectionPhase::Connected);
    assert_eq!(status.stages.internet.state, StageState::Verified);
    let port = status.mixed.unwrap().port;

    // The port stays when the node changes, and a dead node is not called connected.
    let status =
        bench.engine.connection_connect(ConnectParams { node: Some(nodes[1]), system_proxy: None }).await.unwrap();
    assert_eq!(status.phase, ConnectionPhase::Failed);
    assert_eq!(status.mixed.unwrap().port, port);
    assert_eq!(status.stages.node.problem.unwrap().code, ReasonCode::Refused);
    assert_eq!(status.stages.internet.state, StageState::Off);

    // The last one that worked is the one that "connect" means.
    let status = bench.engine.connection_connect(ConnectParams::default()).await.unwrap();
    assert_eq!(status.node.unwrap().id, nodes[0]);

    let status = bench.engine.connection_disconnect(Nothing {}).await.unwrap();
    assert_eq!(status.phase, ConnectionPhase::Off);
    assert!(status.mixed.is_none());
    std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
}

#[tokio::test]
async fn a_taken_port_is_told_and_passed_over() {
    let bench = bench().await;
    import(&bench.engine, TWO).await;
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let wanted = holder.local_addr().unwrap().port();
    let patch = SettingsPatch { random_port: Some(false), mixed_port: Some(wanted), ..SettingsPatch::default() };
    bench.engine.settings_set(patch).await.unwrap();
    let status = bench.engine.connection_connect(ConnectParams::default()).await.unwrap();
    let mixed = status.mixed.unwrap();
    assert_eq!(mixed.wanted, Some(wanted));
    assert_ne!(mixed.port, wanted);
    let name = mixed.holder.expect("the holder is this very process");
    assert!(name.contains(&std::process::id().to_string()), "{name}");
}

#[tokio::test]
async fn silence_is_given_up_when_someone_disconnects() {
    let bench = bench().await;
    import(&bench.engine, TWO).await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    bench.engine.settings_set(SettingsPatch { test_url: Some(url), ..SettingsPatch::default() }).await.unwrap();
    let connecting = tokio::spawn({
        let engine = Arc::clone(&bench.engine);
        async move { engine.connection_connect(ConnectParams::default()).await }
    });
    let (_stream, _) = silent.accept().await.unwrap();
    let asked = std::time::Instant::now();
    let status = bench.engine.connection_disconnect(Nothing {}).await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(1));
    assert_eq!(status.phase, ConnectionPhase::Off);
    connecting.await.unwrap().unwrap();
    let status = bench.engine.connection_status(Nothing {}).await.unwrap();
    assert_eq!(status.phase, ConnectionPhase::Off);
}

#[tokio::test]
async fn tests_tell_results_as_they_come() {
    let bench = bench().await;
    let nodes = import(&bench.engine, TWO).await;
    let outbox = bench.publisher.subscribe();
    outbox.set_topics(vec![Topic::Tests]);
    let run = bench.engine.tests_start(TestsStartParams { kind: TestKind::Latency, nodes: None }).await.unwrap();
    assert_eq!(run.total, 2);
    let mut results = Vec::new();
    loop {
        let event = outbox.next().await.unwrap().event;
        if let Event::TestResults(batch) = event {
            results.extend(batch.results);
        } else if let Event::TestProgress(progress) = event
            && progress.ended
        {
            assert_eq!((progress.done, progress.working), (2, 1));
            break;
        }
    }
    results.sort_by_key(|result| result.node);
    assert!(matches!(&results[0].outcome, TestOutcome::Latency(latency) if latency.median_ms > 0.0));
    assert!(matches!(&results[1].outcome, TestOutcome::Failed(failed) if failed.problem.code == ReasonCode::Refused));
    let page = bench.engine.nodes_list(NodesListParams::default()).await.unwrap();
    assert!(page.rows[0].latency.as_ref().unwrap().median_ms.is_some());
    assert_eq!(page.rows[1].history, [None]);
    let detail = bench.engine.nodes_get(NodeParams { node: nodes[1] }).await.unwrap();
    assert!(detail.latency.is_some());

    // A run that waits can be stopped at once.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    bench.engine.settings_set(SettingsPatch { test_url: Some(url), ..SettingsPatch::default() }).await.unwrap();
    let kind = TestKind::Latency;
    let run = bench.engine.tests_start(TestsStartParams { kind, nodes: Some(vec![nodes[0]]) }).await.unwrap();
    bench.engine.tests_cancel(TestsCancelParams { run: run.run }).await.unwrap();
    loop {
        if let Event::TestProgress(progress) = outbox.next().await.unwrap().event
            && progress.run == run.run
            && progress.ended
        {
            assert!(progress.cancelled);
            break;
        }
    }
}

#[tokio::test]
async fn speed_is_measured_through_the_node() {
    let bench = bench().await;
    let nodes = import(&bench.engine, TWO).await;
    let patch =
        SettingsPatch { speed_url: Some(bench.origin.url("/__down?bytes=20000000")), ..SettingsPatch::default() };
    bench.engine.settings_set(patch).await.unwrap();
    let outbox = bench.publisher.subscribe();
    outbox.set_topics(vec![Topic::Tests]);
    let kind = TestKind::Speed;
    bench.engine.tests_start(TestsStartParams { kind, nodes: Some(vec![nodes[0]]) }).await.unwrap();
    loop {
        if let Event::TestResults(batch) = outbox.next().await.unwrap().event {
            assert!(
                matches!(&batch.results[0].outcome, TestOutcome::Speed(speed) if speed.bytes == 20_000_000),
                "{batch:?}"
            );
            break;
        }
    }
}

#[tokio::test]
async fn nodes_are_imported_changed_deleted_restored_and_exported() {
    let bench = bench().await;
    let outbox = bench.publisher.subscribe();
    outbox.set_topics(vec![Topic::Nodes]);
    let nodes = import(&bench.engine, TWO).await;
    let again = bench.engine.import_preview(ImportPreviewParams { text: TWO.to_owned() }).await.unwrap();
    assert_eq!(again.counts.duplicate, 2);
    assert!(import(&bench.engine, TWO).await.is_empty());
    assert!(matches!(outbox.next().await.unwrap().event, Event::Nodes(delta) if delta.changed.len() == 2));

    let update = NodeUpdateParams { node: nodes[1], name: Some(" new\n ".into()), favourite: Some(true), link: None };
    let row = bench.engine.nodes_update(update).await.unwrap();
    assert_eq!((row.name.as_str(), row.favourite), ("new", true));
    let deleted = bench.engine.nodes_delete(NodesParams { nodes: nodes.clone() }).await.unwrap();
    assert_eq!(deleted.count, 2);
    let gone = bench.engine.nodes_link(NodeParams { node: nodes[0] }).await.unwrap_err();
    assert_eq!(gone.code, ErrorCode::NodeNotFound);
    assert_eq!(bench.engine.nodes_restore(NodesParams { nodes: nodes.clone() }).await.unwrap().count, 2);

    let link = bench.engine.nodes_link(NodeParams { node: nodes[1] }).await.unwrap().link;
    assert!(link.starts_with("trojan://b@192.0.2.2:443") && link.ends_with("#new"), "{link}");
    let format = ExportFormat::Links;
    let exported = bench.engine.export_nodes(ExportParams { format, nodes: None }).await.unwrap();
    assert_eq!((exported.count, exported.text.lines().count()), (2, 2));
    assert!(bench.engine.qr_encode(NodeParams { node: nodes[0] }).await.unwrap().svg.contains("<svg"));
    let list = bench.engine.nodes_list(NodesListParams::default()).await.unwrap();
    let detail = bench.engine.nodes_get(NodeParams { node: nodes[0] }).await.unwrap();
    let shown = format!("{list:?} {detail:?}");
    assert!(detail.fields.iter().any(|field| field.path == "password" && field.secret && field.value.is_none()));
    assert!(!shown.contains("a@192"), "{shown}");
}

#[tokio::test]
async fn settings_are_checked_kept_and_reset() {
    let bench = bench().await;
    let refused = bench
        .engine
        .settings_set(SettingsPatch { test_timeout_ms: Some(1), ..SettingsPatch::default() })
        .await
        .unwrap_err();
    assert_eq!((refused.code, refused.params["setting"].as_str()), (ErrorCode::InvalidSetting, "test_timeout_ms"));
    let status = bench.engine.mode_set(ModeParams { mode: Mode::Global }).await.unwrap();
    assert_eq!(status.mode, Mode::Global);
    assert_eq!(bench.engine.settings_get(Nothing {}).await.unwrap().mode, Mode::Global);
    assert_eq!(bench.engine.settings_reset(Nothing {}).await.unwrap(), Settings::default());
    let checks = bench.engine.doctor_run(Nothing {}).await.unwrap();
    assert!(checks.checks.iter().any(|check| check.code == "secrets"));
    let demo = bench.engine.demo_start(Nothing {}).await.unwrap();
    assert!(demo.running && demo.links.len() == 1);
    assert!(!bench.engine.demo_stop(Nothing {}).await.unwrap().running);
}

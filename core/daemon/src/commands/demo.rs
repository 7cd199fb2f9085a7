//! `demo`: a local demo server and its share links; with `--check` a run of everything, end to end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use culvert_engine::logs::LogBuffer;
use culvert_engine::net::Net;
use culvert_engine::origin::{Origin, PAGE};
use culvert_engine::proxied::download;
use culvert_engine::real::RealNet;
use culvert_engine::store::{MemoryKey, Store};
use culvert_engine::{Engine, Parts};
use culvert_ipc::types::{
    ConnectParams, ConnectionPhase, ImportCommitParams, Mode, NodeId, NodeParams, Nothing, SettingsPatch, StageState,
    TestKind, TestOutcome, TestsStartParams,
};
use culvert_ipc::{Core, Event, Publisher, Topic};
use culvert_net::random::SystemRandom;
use culvert_wire::random::Random;
use serde::Serialize;

use super::probe::cell;
use crate::cli::DemoArguments;
use crate::{logging, output};

pub(crate) async fn run(arguments: DemoArguments, json: bool) -> anyhow::Result<bool> {
    logging::start(None, "error");
    if arguments.check {
        let folder = Scratch::new()?;
        return check(&folder, Duration::from_millis(arguments.duration.into()), json).await;
    }
    let demo = RealNet::default().start_demo().await.context("the demo server can't be started")?;
    let links = demo.links();
    if json {
        output::json(&serde_json::json!({ "links": links, "pid": std::process::id() }))?;
    } else {
        for link in &links {
            output::line(link)?;
        }
    }
    output::note("the demo server runs on this computer and hides nothing; Ctrl+C ends it");
    super::signal::end().await;
    drop(demo);
    Ok(true)
}

/// A folder for the check's store, removed afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Self> {
        let unique = u64::from_le_bytes(SystemRandom.array());
        let path = std::env::temp_dir().join(format!("culvert-check-{:016x}", unique));
        private_folder(&path).with_context(|| format!("{} can't be made", path.display()))?;
        Ok(Self(path))
    }
}

/// Makes a folder that only this user can enter.
#[cfg(unix)]
fn private_folder(path: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

/// Makes a folder; on Windows the user's own temporary folder is private already.
#[cfg(windows)]
fn private_folder(path: &std::path::Path) -> std::io::Result<()> {
    std::fs::create_dir(path)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[derive(Serialize)]
struct Row {
    node: String,
    protocol: String,
    transport: String,
    latency_ms: Option<f64>,
    page: bool,
    down_bytes_per_s: Option<f64>,
    problem: Option<String>,
}

/// Imports the demo server's links, connects through each node, fetches a page and a file through
/// the local port.
async fn check(folder: &Scratch, duration: Duration, json: bool) -> anyhow::Result<bool> {
    let publisher = Publisher::default();
    let engine = Engine::start(Parts {
        store: Store::open(&folder.0, Arc::new(MemoryKey::default()))?,
        net: Arc::new(RealNet::default()),
        system_proxy: None,
        logs: LogBuffer::default(),
        publisher: publisher.clone(),
    })?;
    let origin = Origin::start().await.context("the local origin can't be started")?;
    output::note("1/3 starting the demo server");
    let demo = engine.demo_start(Nothing {}).await?;
    ensure!(!demo.links.is_empty(), "the demo server has no links");
    engine
        .settings_set(SettingsPatch {
            random_port: Some(true),
            // The origin is on this computer, and rules would send it out directly.
            mode: Some(Mode::Global),
            test_url: Some(origin.url("/generate_204")),
            ..SettingsPatch::default()
        })
        .await?;
    output::note(&format!("2/3 importing {} share links", demo.links.len()));
    let imported = engine.import_commit(ImportCommitParams { text: demo.links.join("\n"), rows: None }).await?;
    ensure!(
        imported.nodes.len() == demo.links.len(),
        "{} of {} links were imported",
        imported.nodes.len(),
        demo.links.len()
    );
    let mut rows = Vec::new();
    for (place, node) in imported.nodes.iter().enumerate() {
        let row = check_node(&engine, &publisher, *node, &origin, duration).await?;
        let outcome = row.problem.as_deref().unwrap_or("works");
        output::note(&format!("3/3 node {}/{}: {}: {outcome}", place + 1, imported.nodes.len(), row.node));
        rows.push(row);
    }
    engine.stop().await;
    let all_work = rows.iter().all(|row| row.problem.is_none());
    if json {
        output::line(&serde_json::to_string_pretty(&rows)?)?;
    } else {
        let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
        output::table(&["NODE", "PROTOCOL", "TRANSPORT", "LATENCY", "PAGE", "DOWN"], &cells)?;
    }
    Ok(all_work)
}

impl Row {
    fn cells(&self) -> Vec<String> {
        vec![
            self.node.clone(),
            self.protocol.clone(),
            self.transport.clone(),
            self.latency_ms.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.2} ms")),
            if self.page { "ok".to_owned() } else { self.problem.clone().unwrap_or_default() },
            self.down_bytes_per_s.map_or_else(|| "–".to_owned(), |rate| format!("{:.0} MB/s", rate / 1e6)),
        ]
    }
}

async fn check_node(
    engine: &Engine,
    publisher: &Publisher,
    node: NodeId,
    origin: &Origin,
    duration: Duration,
) -> anyhow::Result<Row> {
    let shown = engine.nodes_get(NodeParams { node }).await?.row;
    let mut row = Row {
        node: shown.name,
        protocol: shown.protocol,
        transport: shown.transport,
        latency_ms: None,
        page: false,
        down_bytes_per_s: None,
        problem: None,
    };
    if let Err(error) = measure(engine, publisher, node, origin, duration, &mut row).await {
        row.problem = Some(format!("{error:#}"));
    }
    Ok(row)
}

async fn measure(
    engine: &Engine,
    publisher: &Publisher,
    node: NodeId,
    origin: &Origin,
    duration: Duration,
    row: &mut Row,
) -> anyhow::Result<()> {
    let status = engine.connection_connect(ConnectParams { node: Some(node), system_proxy: Some(false) }).await?;
    if status.phase != ConnectionPhase::Connected {
        let stages = [&status.stages.node, &status.stages.internet];
        let failed = stages.into_iter().find(|stage| stage.state == StageState::Failed);
        let reason = failed.and_then(|stage| stage.problem.as_ref()).map(|problem| problem.message.clone());
        bail!("{}", reason.unwrap_or_else(|| "not connected".to_owned()));
    }
    row.latency_ms = Some(latency(engine, publisher, node).await?);
    let mixed = status.mixed.context("the local port is not open")?;
    let mixed: SocketAddr = format!("{}:{}", mixed.address, mixed.port).parse()?;
    let page = download(mixed, &origin.url("/"), Duration::from_secs(10)).await.map_err(anyhow::Error::msg)?;
    ensure!(page.status == 200 && page.beginning == PAGE.as_bytes(), "another page came (status {})", page.status);
    row.page = true;
    let file =
        download(mixed, &origin.url("/__down?bytes=100000000000"), duration).await.map_err(anyhow::Error::msg)?;
    ensure!(file.bytes > 0, "no byte of the file came");
    row.down_bytes_per_s = Some(file.bytes as f64 / file.duration.as_secs_f64().max(1e-6));
    Ok(())
}

async fn latency(engine: &Engine, publisher: &Publisher, node: NodeId) -> anyhow::Result<f64> {
    let outbox = publisher.subscribe();
    outbox.set_topics(vec![Topic::Tests]);
    let run = engine.tests_start(TestsStartParams { kind: TestKind::Latency, nodes: Some(vec![node]) }).await?;
    while let Some(event) = outbox.next().await {
        let Event::TestResults(results) = event.event else { continue };
        if results.run != run.run {
            continue;
        }
        match results.results.first().map(|result| &result.outcome) {
            Some(TestOutcome::Latency(latency)) => return Ok(latency.median_ms),
            outcome @ (Some(TestOutcome::Speed(_) | TestOutcome::Failed(_)) | None) => {
                bail!("latency: {}", cell(outcome))
            }
        }
    }
    bail!("the test gave no result")
}

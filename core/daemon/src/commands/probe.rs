//! `probe`: latency and speed of nodes.

use std::sync::Arc;
use std::time::Duration;

use culvert_engine::fetch::Page;
use culvert_engine::measure::{LatencyPlan, SpeedPlan, warm_up};
use culvert_engine::net::Net;
use culvert_engine::real::RealNet;
use culvert_engine::runs::Plan;
use culvert_ipc::types::{Problem, TestOutcome};
use culvert_profile::Node;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::cli::ProbeArguments;
use crate::input::{BadUsage, shown};
use crate::{input, logging, output};

#[derive(Serialize)]
struct Probed {
    name: String,
    server: String,
    latency: Option<TestOutcome>,
    speed: Option<TestOutcome>,
    problem: Option<Problem>,
}

pub(crate) async fn run(arguments: ProbeArguments, json: bool) -> anyhow::Result<bool> {
    logging::start(None, "error");
    let page = |url: &str| Page::parse(url).map_err(BadUsage);
    let limit = Duration::from_millis(arguments.timeout.into());
    let latency = Plan::Latency(LatencyPlan { page: page(&arguments.url)?, status: 0, limit });
    let speed = arguments.speed.then_some(Plan::Speed(SpeedPlan {
        page: page(&arguments.speed_url)?,
        duration: Duration::from_millis(arguments.speed_duration.into()),
        limit_bytes: u64::MAX,
        connect_limit: limit,
    }));
    let mut nodes = Vec::new();
    for argument in &arguments.nodes {
        nodes.extend(input::nodes(argument)?);
    }

    warm_up().await;
    let net = RealNet::default();
    let ways: Vec<_> = nodes.iter().map(|node| net.through(node)).collect();
    let latency = Arc::new(latency);
    let mut latencies: Vec<Option<TestOutcome>> = vec![None; nodes.len()];
    let mut tests = JoinSet::new();
    let total = ways.iter().filter(|way| way.is_ok()).count();
    let mut done = 0;
    let mut waiting = ways.iter().enumerate().filter_map(|(place, way)| Some((place, Arc::clone(way.as_ref().ok()?))));
    loop {
        while tests.len() < usize::from(arguments.concurrency) {
            let Some((place, way)) = waiting.next() else { break };
            let plan = Arc::clone(&latency);
            tests.spawn(async move { (place, plan.measure(&*way).await) });
        }
        let Some(outcome) = tests.join_next().await else { break };
        let (place, outcome) = outcome?;
        done += 1;
        output::note(&format!("latency {done}/{total}: {}: {}", shown(&nodes[place]), cell(Some(&outcome))));
        latencies[place] = Some(outcome);
    }

    let mut results = Vec::with_capacity(nodes.len());
    for ((node, way), latency) in nodes.iter().zip(&ways).zip(latencies) {
        let works = matches!(latency, Some(TestOutcome::Latency(_)));
        let speed = match (&speed, way) {
            (Some(plan), Ok(way)) if works => {
                let outcome = plan.measure(&**way).await;
                output::note(&format!("speed: {}: {}", shown(node), cell(Some(&outcome))));
                Some(outcome)
            }
            (Some(_) | None, Ok(_) | Err(_)) => None,
        };
        results.push(Probed {
            name: shown(node),
            server: server(node),
            latency,
            speed,
            problem: way.as_ref().err().cloned(),
        });
    }
    let any_works = results.iter().any(|result| matches!(result.latency, Some(TestOutcome::Latency(_))));
    if json {
        output::line(&serde_json::to_string_pretty(&results)?)?;
    } else {
        show(&results, arguments.speed)?;
    }
    Ok(any_works)
}

fn server(node: &Node) -> String {
    if node.address.contains(':') {
        format!("[{}]:{}", node.address, node.port)
    } else {
        format!("{}:{}", node.address, node.port)
    }
}

fn show(results: &[Probed], with_speed: bool) -> std::io::Result<()> {
    let rows: Vec<Vec<String>> = results
        .iter()
        .map(|result| {
            let latency = match &result.problem {
                Some(problem) => problem.message.clone(),
                None => cell(result.latency.as_ref()),
            };
            let mut row = vec![result.name.clone(), result.server.clone(), latency];
            if with_speed {
                row.push(cell(result.speed.as_ref()));
            }
            row
        })
        .collect();
    let heads: &[&str] =
        if with_speed { &["NODE", "SERVER", "LATENCY", "DOWN"] } else { &["NODE", "SERVER", "LATENCY"] };
    output::table(heads, &rows)
}

/// An outcome in a few words.
pub(crate) fn cell(outcome: Option<&TestOutcome>) -> String {
    match outcome {
        Some(TestOutcome::Latency(latency)) => format!("{:.1} ms", latency.median_ms),
        Some(TestOutcome::Speed(speed)) => format!("{:.1} MB/s", speed.down_bytes_per_s / 1e6),
        Some(TestOutcome::Failed(failed)) => failed.problem.message.clone(),
        None => "–".to_owned(),
    }
}

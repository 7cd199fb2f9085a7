//! Measurements of one node on its real outbound: latency by phases, and download speed.

use std::time::{Duration, Instant};

use culvert_ipc::types::{
    FailedOutcome, LatencyOutcome, PhaseTime, Problem, ReasonCode, SpeedOutcome, TestKind, TestOutcome,
};
use http_body_util::BodyExt;

use crate::fetch::{Fetcher, Page, broken, drain};
use crate::leave::Leave;
use crate::problem::timed_out;

/// Warm round trips that are measured.
const SAMPLES: usize = 5;
/// The most of a latency page's body that is read.
const MAX_BODY: usize = 16 * 1024;
/// The part of a speed test that is not counted, since rates still rise.
const RAMP_UP: f64 = 0.2;

/// What and how to measure.
#[derive(Debug, Clone)]
pub struct LatencyPlan {
    /// The page.
    pub page: Page,
    /// Its status; 0 for any of 200 to 399.
    pub status: u16,
    /// Time for all of it.
    pub limit: Duration,
}

/// What and how long to download.
#[derive(Debug, Clone)]
pub struct SpeedPlan {
    /// The file.
    pub page: Page,
    /// Time of the download.
    pub duration: Duration,
    /// Bytes after which it ends.
    pub limit_bytes: u64,
    /// Time for the connection and the response's head.
    pub connect_limit: Duration,
}

/// Reads the system's certificates, which the first TLS handshake needs, so that no node's figure
/// holds the time for it. Does nothing the second time.
pub async fn warm_up() {
    let read = tokio::task::spawn_blocking(culvert_net::transport::tls::system_roots);
    if let Err(error) = read.await {
        tracing::warn!("the system's certificates can't be read: {error}");
    }
}

/// Measures latency: the phases of one request, then warm round trips on the same connection.
pub async fn latency(plan: &LatencyPlan, leave: &dyn Leave) -> TestOutcome {
    let mut phases = Vec::new();
    match tokio::time::timeout(plan.limit, try_latency(plan, leave, &mut phases)).await {
        Ok(Ok(outcome)) => TestOutcome::Latency(outcome),
        Ok(Err(problem)) => failed(TestKind::Latency, phases, problem),
        Err(_) => {
            let phase = if phases.is_empty() { "connecting" } else { "first_byte" };
            failed(TestKind::Latency, phases, timed_out(phase, plan.limit))
        }
    }
}

fn failed(kind: TestKind, phases: Vec<PhaseTime>, problem: Problem) -> TestOutcome {
    TestOutcome::Failed(FailedOutcome { kind, phases, problem })
}

async fn try_latency(
    plan: &LatencyPlan,
    leave: &dyn Leave,
    phases: &mut Vec<PhaseTime>,
) -> Result<LatencyOutcome, Problem> {
    let mut fetcher = open(&plan.page, leave, phases).await?;
    let (response, mut first) = fetcher.get().await?;
    phases.push(PhaseTime { phase: "first_byte".to_owned(), at_us: micros(fetcher.elapsed()) });
    let status = response.status().as_u16();
    check_status(status, plan.status)?;
    drain(response, MAX_BODY).await?;

    let mut samples = Vec::with_capacity(SAMPLES);
    while samples.len() < SAMPLES && fetcher.is_open() {
        match fetcher.get().await {
            Ok((response, time)) => {
                drain(response, MAX_BODY).await?;
                samples.push(time);
            }
            // A server may end a connection between requests; what was measured stands.
            Err(problem) if samples.is_empty() && fetcher.is_open() => return Err(problem),
            Err(_) => break,
        }
    }
    if samples.is_empty() {
        // The server wants a connection a request: the time from asking to the answer is the
        // nearest there is to a round trip.
        samples.push(std::mem::take(&mut first));
    }
    Ok(summarise(phases.clone(), &samples, status))
}

async fn open(page: &Page, leave: &dyn Leave, phases: &mut Vec<PhaseTime>) -> Result<Fetcher, Problem> {
    match Fetcher::open(page.clone(), leave).await {
        Ok(fetcher) => {
            phases.clone_from(&fetcher.phases);
            Ok(fetcher)
        }
        Err((problem, passed)) => {
            *phases = passed;
            Err(problem)
        }
    }
}

pub(crate) fn check_status(status: u16, expected: u16) -> Result<(), Problem> {
    let fits = if expected == 0 { (200..400).contains(&status) } else { status == expected };
    if fits {
        return Ok(());
    }
    let wanted = if expected == 0 { "200 to 399".to_owned() } else { expected.to_string() };
    Err(Problem::new(ReasonCode::Status, format!("the page answered with status {status}, not {wanted}"))
        .with("status", status)
        .with("expected", wanted))
}

fn summarise(phases: Vec<PhaseTime>, samples: &[Duration], status: u16) -> LatencyOutcome {
    let samples_ms: Vec<f64> = samples.iter().map(|time| time.as_secs_f64() * 1_000.0).collect();
    let mut sorted = samples_ms.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median_ms = match sorted.get(middle) {
        Some(upper) if sorted.len().is_multiple_of(2) => {
            (upper + sorted.get(middle.wrapping_sub(1)).unwrap_or(upper)) / 2.0
        }
        Some(value) => *value,
        None => 0.0,
    };
    let steps = samples_ms.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    let jitter_ms = if samples_ms.len() > 1 { steps.sum::<f64>() / (samples_ms.len() - 1) as f64 } else { 0.0 };
    LatencyOutcome { phases, median_ms, samples_ms, jitter_ms, status }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Measures download speed.
pub async fn speed(plan: &SpeedPlan, leave: &dyn Leave) -> TestOutcome {
    let mut phases = Vec::new();
    match try_speed(plan, leave, &mut phases).await {
        Ok(outcome) => TestOutcome::Speed(outcome),
        Err(problem) => failed(TestKind::Speed, phases, problem),
    }
}

async fn try_speed(plan: &SpeedPlan, leave: &dyn Leave, phases: &mut Vec<PhaseTime>) -> Result<SpeedOutcome, Problem> {
    let head = async {
        let mut fetcher = open(&plan.page, leave, phases).await?;
        let (response, _) = fetcher.get().await?;
        check_status(response.status().as_u16(), 0)?;
        Ok((fetcher, response))
    };
    let (_fetcher, response) = tokio::time::timeout(plan.connect_limit, head)
        .await
        .map_err(|_| timed_out("first_byte", plan.connect_limit))??;
    let mut body = response.into_body();
    let started = Instant::now();
    let deadline = tokio::time::Instant::now() + plan.duration;
    let ramp_up = plan.duration.mul_f64(RAMP_UP);
    let mut bytes: u64 = 0;
    let mut counted_from = None;
    let mut last = started;
    while bytes < plan.limit_bytes {
        match tokio::time::timeout_at(deadline, body.frame()).await {
            Err(_) => {
                last = Instant::now();
                break;
            }
            Ok(None) => break,
            Ok(Some(frame)) => {
                let frame = frame.map_err(|error| broken(&error))?;
                bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                last = Instant::now();
                if counted_from.is_none() && started.elapsed() >= ramp_up {
                    counted_from = Some((last, bytes));
                }
            }
        }
    }
    let (from, before) = counted_from.unwrap_or((started, 0));
    let (from, before) = if last > from { (from, before) } else { (started, 0) };
    let seconds = last.duration_since(from).as_secs_f64();
    if bytes == 0 || seconds <= 0.0 {
        return Err(Problem::new(ReasonCode::Answer, "no byte of the file came"));
    }
    Ok(SpeedOutcome {
        down_bytes_per_s: (bytes - before) as f64 / seconds,
        bytes,
        duration_ms: u64::try_from(last.duration_since(started).as_millis()).unwrap_or(u64::MAX),
    })
}

#[cfg(test)]
mod tests;

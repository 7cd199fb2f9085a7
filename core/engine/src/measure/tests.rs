use std::sync::Arc;

use culvert_net::outbound::{ConnectError, ConnectRequest, Connected, Phase, Trace};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::leave::{Associating, Connecting};
use crate::origin::Origin;

/// Dials the target itself.
struct Plain;

impl Leave for Plain {
    fn connect(&self, request: ConnectRequest) -> Connecting<'_> {
        Box::pin(async move {
            let mut trace = Trace::start();
            let server = request.destination.to_string();
            let stream = TcpStream::connect(&server).await.map_err(|source| {
                if source.kind() == std::io::ErrorKind::ConnectionRefused {
                    return ConnectError::Refused { server: server.clone() };
                }
                ConnectError::Io { server: server.clone(), phase: Phase::Dial, source: Arc::new(source) }
            })?;
            trace.mark(Phase::Dial);
            Ok(Connected { stream: Box::new(stream), trace })
        })
    }

    fn associate(&self) -> Associating<'_> {
        Box::pin(std::future::ready(Err(ConnectError::NotOffered("no UDP here".to_owned()))))
    }
}

fn plan(url: &str) -> LatencyPlan {
    LatencyPlan { page: Page::parse(url).unwrap(), status: 0, limit: Duration::from_secs(5) }
}

#[tokio::test]
async fn latency_has_phases_and_warm_samples() {
    let origin = Origin::start().await.unwrap();
    let outcome = latency(&plan(&origin.url("/generate_204")), &Plain).await;
    let TestOutcome::Latency(outcome) = outcome else { panic!("{outcome:?}") };
    assert_eq!(outcome.status, 204);
    assert_eq!(outcome.samples_ms.len(), SAMPLES);
    let names: Vec<&str> = outcome.phases.iter().map(|phase| phase.phase.as_str()).collect();
    assert_eq!(names, ["dial", "first_byte"]);
    assert!(outcome.median_ms > 0.0 && outcome.median_ms < 1_000.0);
}

#[tokio::test]
async fn each_failure_has_its_own_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // Nobody answers.
    let mut silent = plan(&format!("http://{address}/"));
    silent.limit = Duration::from_millis(100);
    let reason = |outcome: TestOutcome| match outcome {
        TestOutcome::Failed(failed) => failed.problem.code,
        TestOutcome::Latency(_) | TestOutcome::Speed(_) => panic!("{outcome:?}"),
    };
    assert_eq!(reason(latency(&silent, &Plain).await), ReasonCode::TimedOut);
    // Closed without an answer.
    let closing = tokio::spawn(async move {
        let (_kept, _) = listener.accept().await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 64];
        assert!(stream.read(&mut buffer).await.unwrap() > 0);
        drop(stream);
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut buffer).await.unwrap() > 0);
        stream.write_all(b"SSH-2.0-no http\r\n\r\n").await.unwrap();
        drop(stream);
    });
    let url = format!("http://{address}/");
    assert_eq!(reason(latency(&plan(&url), &Plain).await), ReasonCode::Answer);
    assert_eq!(reason(latency(&plan(&url), &Plain).await), ReasonCode::Answer);
    closing.await.unwrap();
    // Nobody listens any more.
    assert_eq!(reason(latency(&plan(&url), &Plain).await), ReasonCode::Refused);
    // Another status than wanted.
    let origin = Origin::start().await.unwrap();
    let mut wanted = plan(&origin.url("/generate_204"));
    wanted.status = 200;
    assert_eq!(reason(latency(&wanted, &Plain).await), ReasonCode::Status);
}

#[tokio::test]
async fn speed_is_bounded_by_time_and_bytes() {
    let origin = Origin::start().await.unwrap();
    let mut plan = SpeedPlan {
        page: Page::parse(&origin.url("/__down?bytes=1000000000000")).unwrap(),
        duration: Duration::from_millis(300),
        limit_bytes: u64::MAX,
        connect_limit: Duration::from_secs(5),
    };
    let started = Instant::now();
    let TestOutcome::Speed(by_time) = speed(&plan, &Plain).await else { panic!() };
    assert!(started.elapsed() >= Duration::from_millis(300) && by_time.bytes > 0);
    plan.duration = Duration::from_secs(60);
    plan.limit_bytes = 4 * 1024 * 1024;
    let TestOutcome::Speed(by_bytes) = speed(&plan, &Plain).await else { panic!() };
    assert!(by_bytes.bytes >= plan.limit_bytes && by_bytes.bytes < 2 * plan.limit_bytes);
    assert!(by_bytes.down_bytes_per_s > 0.0);
}

#[test]
fn the_median_is_the_middle() {
    let ms = |values: &[u64]| values.iter().map(|v| Duration::from_millis(*v)).collect::<Vec<_>>();
    let outcome = summarise(Vec::new(), &ms(&[30, 10, 20]), 204);
    assert!((outcome.median_ms - 20.0).abs() < 1e-9 && (outcome.jitter_ms - 15.0).abs() < 1e-9);
    assert!((summarise(Vec::new(), &ms(&[10, 20]), 204).median_ms - 15.0).abs() < 1e-9);
}

#[test]
fn only_web_addresses_are_pages() {
    assert!(Page::parse("file:///etc/passwd").is_err());
    assert!(Page::parse("http://").is_err());
    assert!(Page::parse("https://[2001:db8::1]:8443/x").is_ok());
}

use super::*;
use crate::event::{LogsDelta, NodesDelta, TestResults};
use crate::types::{
    ConnectionPhase, ConnectionStatus, LogLine, NodeId, Problem, ReasonCode, TestKind, TestOutcome, TestResult, Traffic,
};

fn everything() -> Vec<Topic> {
    vec![Topic::State, Topic::Nodes, Topic::Traffic, Topic::Connections, Topic::Tests, Topic::Logs]
}

#[tokio::test]
async fn the_newest_state_stands_for_all_before_it() {
    let publisher = Publisher::default();
    let outbox = publisher.subscribe();
    assert_eq!(outbox.set_topics(everything()), 0);
    for total in 0..1_000 {
        publisher.publish(&Event::Traffic(Traffic { up_bytes: total, ..Traffic::default() }));
        publisher.publish(&Event::Connection(ConnectionStatus::default()));
    }
    let connected = ConnectionStatus { phase: ConnectionPhase::Connected, ..ConnectionStatus::default() };
    publisher.publish(&Event::Connection(connected.clone()));
    let first = outbox.next().await.unwrap();
    assert_eq!(first.seq, 1);
    assert!(matches!(first.event, Event::Traffic(traffic) if traffic.up_bytes == 999));
    let second = outbox.next().await.unwrap();
    assert_eq!((second.seq, second.event), (2, Event::Connection(connected)));
}

#[tokio::test]
async fn a_topic_that_was_not_asked_for_is_not_heard() {
    let publisher = Publisher::default();
    let outbox = publisher.subscribe();
    outbox.set_topics(vec![Topic::State]);
    assert!(publisher.wanted(Topic::State) && !publisher.wanted(Topic::Traffic));
    publisher.publish(&Event::Traffic(Traffic::default()));
    publisher.publish(&Event::Connection(ConnectionStatus::default()));
    assert!(matches!(outbox.next().await.unwrap().event, Event::Connection(_)));
    drop(outbox);
    assert!(!publisher.wanted(Topic::State));
}

#[tokio::test]
async fn a_reader_that_stops_costs_at_most_four_mebibytes() {
    let publisher = Publisher::default();
    let outbox = publisher.subscribe();
    outbox.set_topics(everything());
    let line = || LogLine { at_ms: 1, level: "info".into(), target: "t".into(), message: "m".repeat(200) };
    for run in 0..200_u32 {
        for node in 0..50_u32 {
            publisher.publish(&Event::TestResults(TestResults {
                run,
                results: vec![TestResult {
                    node: NodeId(node),
                    at_ms: 1,
                    outcome: TestOutcome::Failed(crate::types::FailedOutcome {
                        kind: TestKind::Latency,
                        phases: Vec::new(),
                        problem: Problem::new(ReasonCode::Refused, "example refused the connection"),
                    }),
                }],
            }));
            publisher.publish(&Event::Logs(LogsDelta { lines: vec![line()], dropped: 0 }));
            publisher
                .publish(&Event::Nodes(NodesDelta { changed: Vec::new(), removed: vec![NodeId(run * 50 + node)] }));
        }
    }
    outbox.push(Event::NodesReload);
    let mut size = 0;
    let mut resnapshot = false;
    loop {
        let waiting = outbox.lock().events.len();
        if waiting == 0 {
            break;
        }
        let event = outbox.next().await.unwrap();
        resnapshot |= event.event == Event::Resnapshot;
        size += serde_json::to_vec(&event).unwrap().len();
    }
    assert!(size <= 4 * 1024 * 1024, "{size} bytes were queued");
    assert!(resnapshot, "200 runs can't all be told apart in a bounded queue");
}

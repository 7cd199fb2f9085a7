//! Runs of tests: many nodes at once under one limit, results told as they come.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use culvert_ipc::event::{NodesDelta, TestResults};
use culvert_ipc::types::{
    FailedOutcome, NodeId, Problem, ReasonCode, TestKind, TestOutcome, TestProgress, TestResult, TestRun,
};
use culvert_ipc::{Event, Publisher};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::leave::Leave;
use crate::measure::{LatencyPlan, SpeedPlan, latency, speed, warm_up};
use crate::store::{Store, now_ms};

/// Runs under way at once.
const MAX_RUNS: usize = 4;
/// Results that are written to the store together.
const BATCH: usize = 100;

/// A node to be tested: its way, or why there is none.
pub struct Subject {
    /// Number.
    pub node: NodeId,
    /// The way through it.
    pub way: Result<Arc<dyn Leave>, Problem>,
}

/// How to measure.
#[derive(Clone)]
pub enum Plan {
    /// Latency.
    Latency(LatencyPlan),
    /// Speed.
    Speed(SpeedPlan),
}

impl Plan {
    fn kind(&self) -> TestKind {
        match self {
            Self::Latency(_) => TestKind::Latency,
            Self::Speed(_) => TestKind::Speed,
        }
    }

    /// Measures one way.
    pub async fn measure(&self, leave: &dyn Leave) -> TestOutcome {
        match self {
            Self::Latency(plan) => latency(plan, leave).await,
            Self::Speed(plan) => speed(plan, leave).await,
        }
    }
}

/// All runs.
pub struct Runs {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<Store>,
    publisher: Publisher,
    next: AtomicU32,
    active: Mutex<HashMap<u32, Active>>,
    latency_turns: Arc<Semaphore>,
    /// Two downloads at once would measure each other.
    speed_turns: Arc<Semaphore>,
}

struct Active {
    progress: TestProgress,
    cancel: CancellationToken,
}

impl Runs {
    /// No runs yet.
    pub fn new(store: Arc<Store>, publisher: Publisher) -> Self {
        Self {
            shared: Arc::new(Shared {
                store,
                publisher,
                next: AtomicU32::new(1),
                active: Mutex::default(),
                latency_turns: Arc::new(Semaphore::new(crate::engine::MAX_CONCURRENCY.into())),
                speed_turns: Arc::new(Semaphore::new(1)),
            }),
        }
    }

    /// Runs under way.
    pub fn active(&self) -> Vec<TestProgress> {
        self.shared.active.lock().values().map(|active| active.progress).collect()
    }

    /// Starts a run. None when too many are under way.
    pub fn start(&self, subjects: Vec<Subject>, plan: Plan, concurrency: u16) -> Option<TestRun> {
        let run = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let total = u32::try_from(subjects.len()).unwrap_or(u32::MAX);
        let progress =
            TestProgress { run, kind: plan.kind(), total, done: 0, working: 0, ended: false, cancelled: false };
        let cancel = CancellationToken::new();
        {
            let mut active = self.shared.active.lock();
            if active.len() >= MAX_RUNS {
                return None;
            }
            active.insert(run, Active { progress, cancel: cancel.clone() });
        }
        self.shared.publisher.publish(&Event::TestProgress(progress));
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move { shared.run(run, subjects, plan, concurrency, cancel).await });
        Some(TestRun { run, total })
    }

    /// Stops a run at once. False when it is not under way.
    pub fn cancel(&self, run: u32) -> bool {
        let active = self.shared.active.lock();
        match active.get(&run) {
            Some(active) => {
                active.cancel.cancel();
                true
            }
            None => false,
        }
    }
}

impl Shared {
    async fn run(
        self: &Arc<Self>,
        run: u32,
        subjects: Vec<Subject>,
        plan: Plan,
        concurrency: u16,
        cancel: CancellationToken,
    ) {
        warm_up().await;
        let own_turns = Arc::new(Semaphore::new(concurrency.max(1).into()));
        let all_turns = match plan {
            Plan::Latency(_) => &self.latency_turns,
            Plan::Speed(_) => &self.speed_turns,
        };
        let plan = Arc::new(plan);
        let mut tests = JoinSet::new();
        let mut waiting = Vec::new();
        let mut subjects = subjects.into_iter();
        let mut next = subjects.next();
        let mut cancelled = false;
        while next.is_some() || !tests.is_empty() {
            let turn = async {
                let own = Arc::clone(&own_turns).acquire_owned().await;
                let all = Arc::clone(all_turns).acquire_owned().await;
                (own, all)
            };
            tokio::select! {
                () = cancel.cancelled() => {
                    cancelled = true;
                    tests.abort_all();
                    break;
                }
                permits = turn, if next.is_some() => {
                    if let Some(subject) = next.take() {
                        let plan = Arc::clone(&plan);
                        tests.spawn(async move {
                            let _permits = permits;
                            test(subject, &plan).await
                        });
                    }
                    next = subjects.next();
                }
                Some(done) = tests.join_next() => {
                    if let Ok(result) = done {
                        self.tell(run, &result);
                        waiting.push(result);
                    }
                    if waiting.len() >= BATCH {
                        self.keep(std::mem::take(&mut waiting)).await;
                    }
                }
            }
        }
        self.keep(waiting).await;
        let ended = self.active.lock().remove(&run);
        if let Some(Active { mut progress, .. }) = ended {
            progress.ended = true;
            progress.cancelled = cancelled;
            self.publisher.publish(&Event::TestProgress(progress));
        }
    }

    fn tell(&self, run: u32, result: &TestResult) {
        let works = !matches!(result.outcome, TestOutcome::Failed(_));
        let progress = {
            let mut active = self.active.lock();
            let Some(active) = active.get_mut(&run) else {
                return;
            };
            active.progress.done += 1;
            active.progress.working += u32::from(works);
            active.progress
        };
        self.publisher.publish(&Event::TestResults(TestResults { run, results: vec![result.clone()] }));
        self.publisher.publish(&Event::TestProgress(progress));
    }

    async fn keep(self: &Arc<Self>, results: Vec<TestResult>) {
        if results.is_empty() {
            return;
        }
        let shared = Arc::clone(self);
        let written = tokio::task::spawn_blocking(move || {
            shared.store.add_results(&results)?;
            let ids: Vec<NodeId> = results.iter().map(|result| result.node).collect();
            shared.store.rows(&ids)
        });
        match written.await {
            Ok(Ok(changed)) => {
                self.publisher.publish(&Event::Nodes(NodesDelta { changed, removed: Vec::new() }));
            }
            Ok(Err(error)) => tracing::warn!("results of tests can't be kept: {error}"),
            Err(error) => tracing::warn!("results of tests can't be kept: {error}"),
        }
    }
}

async fn test(subject: Subject, plan: &Plan) -> TestResult {
    let outcome = match &subject.way {
        Ok(leave) => plan.measure(&**leave).await,
        Err(problem) => {
            TestOutcome::Failed(FailedOutcome { kind: plan.kind(), phases: Vec::new(), problem: problem.clone() })
        }
    };
    TestResult { node: subject.node, at_ms: now_ms(), outcome }
}

/// Why a node that the store can't open is not tested.
pub(crate) fn locked() -> Problem {
    Problem::new(ReasonCode::Locked, "the node's secrets can't be opened: their key is missing or locked")
}

//! Shards: threads with a current-thread runtime each, on which flows and their outbounds are
//! created, polled and dropped.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, watch};

type Job = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// A set of shards. Dropping it ends them and everything that runs on them.
pub struct Shards {
    jobs: Vec<mpsc::UnboundedSender<Job>>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

impl Shards {
    /// Starts `count` shards (at least one).
    ///
    /// # Errors
    /// A thread or its runtime can't be started.
    pub fn start(count: usize) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let mut shards = Self { jobs: Vec::new(), stop, threads: Vec::new() };
        for index in 0..count.max(1) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            // Jobs are few (one for each inbound): they need no bound.
            let (jobs, queue) = mpsc::unbounded_channel();
            let stopped = stopped.clone();
            let thread = std::thread::Builder::new()
                .name(format!("shard-{index}"))
                .spawn(move || runtime.block_on(tokio::task::LocalSet::new().run_until(run(queue, stopped))))?;
            shards.jobs.push(jobs);
            shards.threads.push(thread);
        }
        Ok(shards)
    }

    /// How many shards there are.
    pub fn count(&self) -> usize {
        self.jobs.len()
    }

    /// Runs what `job` makes on the shard `index` (modulo their count). The future need not be
    /// `Send`: it is made on the shard.
    pub fn run_on<F, T>(&self, index: usize, job: F)
    where
        F: FnOnce() -> T + Send + 'static,
        T: Future<Output = ()> + 'static,
    {
        if let Some(jobs) = self.jobs.get(index % self.jobs.len().max(1)) {
            // A shard ends only when this set does.
            let _ = jobs.send(Box::new(move || Box::pin(job())));
        }
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        self.jobs.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

async fn run(mut queue: mpsc::UnboundedReceiver<Job>, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            job = queue.recv() => match job {
                Some(job) => drop(tokio::task::spawn_local(job())),
                None => return,
            },
            _ = stopped.wait_for(|stop| *stop) => return,
        }
    }
}

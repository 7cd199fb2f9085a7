//! Shards: threads with a runtime of their own, on which flows live from accept to end.

use std::io;
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use tokio::sync::watch;

/// Threads with a current-thread runtime each. Dropping them ends all that runs there.
pub struct Shards {
    handles: Vec<Handle>,
    threads: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
}

impl Shards {
    /// Starts `count` shards (at least one).
    pub fn start(count: usize) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let mut shards = Self { handles: Vec::new(), threads: Vec::new(), stop };
        for index in 0..count.max(1) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            shards.handles.push(runtime.handle().clone());
            let mut stopped = stopped.clone();
            let thread = std::thread::Builder::new().name(format!("shard-{index}")).spawn(move || {
                runtime.block_on(async {
                    // An error means that the owner is gone: stop as well.
                    let _ = stopped.wait_for(|stop| *stop).await;
                });
                runtime.shutdown_background();
            })?;
            shards.threads.push(thread);
        }
        Ok(shards)
    }

    /// The runtimes, one a shard.
    pub fn handles(&self) -> &[Handle] {
        &self.handles
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

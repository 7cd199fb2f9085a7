//! One shard: reads the device's queue and starts a task for each flow.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Instant;

use culvert_netstack::device::Device;
use culvert_netstack::stack::{Arrivals, FlowId, Limits, Stack};
use tokio::sync::watch;
use tokio::task::LocalSet;

use super::relay::serve;
use super::udp::Mappings;
use super::{OpenQueue, TunDispatch};
use crate::random::SystemRandom;

/// Packets read before the flows that they touched are served.
const BATCH: usize = 16;

/// What the tasks of a shard share. Nothing of it is borrowed across an await.
pub(super) struct Shard {
    pub(super) stack: RefCell<Stack<Box<dyn Device>>>,
    pub(super) mappings: RefCell<Mappings>,
    reader: Cell<Option<Waker>>,
}

impl Shard {
    /// Has the reader wait for room in the device, if it is full.
    pub(super) fn note_blocked(&self) {
        if self.stack.borrow().is_blocked()
            && let Some(waker) = self.reader.take()
        {
            waker.wake();
        }
    }
}

/// Runs a shard on this thread until `stopped`, or until its device fails.
pub(super) fn run<T: TunDispatch>(
    open: OpenQueue,
    dispatch: T,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = LocalSet::new();
    let served = async {
        let stack = Stack::new(open()?, limits, Box::new(SystemRandom), Instant::now());
        let shard = Rc::new(Shard {
            stack: RefCell::new(stack),
            mappings: RefCell::new(Mappings::default()),
            reader: Cell::new(None),
        });
        let dispatch = Rc::new(dispatch);
        tokio::select! {
            result = read(&shard, &dispatch) => result,
            _ = stopped.wait_for(|stopped| *stopped) => Ok(()),
        }
    };
    let result = tasks.block_on(&runtime, served);
    // Flows reset their connections while the runtime still lives.
    let _inside = runtime.enter();
    drop(tasks);
    result
}

async fn read<T: TunDispatch>(shard: &Rc<Shard>, dispatch: &Rc<T>) -> io::Result<()> {
    let mut new_flows = Vec::new();
    loop {
        poll_fn(|cx| {
            shard.reader.set(Some(cx.waker().clone()));
            let mut stack = shard.stack.borrow_mut();
            if let Poll::Ready(Err(error)) = stack.poll_flush(cx) {
                return Poll::Ready(Err(error));
            }
            stack.poll_readable(cx)
        })
        .await?;
        let now = Instant::now();
        let count = {
            let mut arrivals = Batch { now, new_flows: &mut new_flows, mappings: &mut shard.mappings.borrow_mut() };
            let mut stack = shard.stack.borrow_mut();
            let count = stack.receive(now, BATCH, &mut arrivals)?;
            if let Some(error) = stack.take_refusal() {
                tracing::debug!(%error, "the TUN device refused a packet");
            }
            count
        };
        for (id, source, destination) in new_flows.drain(..) {
            let task = serve(shard.clone(), dispatch.clone(), id, source, destination);
            tokio::task::spawn_local(task);
        }
        let new_mappings = shard.mappings.borrow_mut().take_new();
        for mapping in new_mappings {
            tokio::task::spawn_local(super::udp::serve(shard.clone(), dispatch.clone(), mapping));
        }
        if count == BATCH {
            next_turn().await;
        }
    }
}

/// Lets every task that is ready run once.
async fn next_turn() {
    let mut waited = false;
    let turn = pin!(poll_fn(|cx| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }));
    turn.await;
}

struct Batch<'a> {
    now: Instant,
    new_flows: &'a mut Vec<(FlowId, SocketAddr, SocketAddr)>,
    mappings: &'a mut Mappings,
}

impl Arrivals for Batch<'_> {
    fn tcp(&mut self, id: FlowId, source: SocketAddr, destination: SocketAddr) {
        self.new_flows.push((id, source, destination));
    }

    fn udp(&mut self, source: SocketAddr, destination: SocketAddr, payload: &[u8]) {
        self.mappings.push(self.now, source, destination, payload);
    }
}

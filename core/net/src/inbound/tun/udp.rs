//! UDP of a shard: one association for each of the applications' sockets, whatever it sends to
//! (endpoint-independent mapping, RFC 4787).

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use culvert_netstack::stack::Refusal;
use culvert_wire::Destination;

use super::TunDispatch;
use super::shard::Shard;
use crate::datagram::{BoxDatagramFlow, Datagram};

/// Associations that may live at once in a shard; beyond, the one that was idle longest is closed.
const MAX_MAPPINGS: usize = 4_096;
/// Datagrams of one association that may wait for its outbound; further ones are dropped.
const MAX_WAITING: usize = 512;
/// Bytes of one association that may wait for its outbound; further ones are dropped.
const MAX_WAITING_BYTES: usize = 1 << 20;
/// Datagrams taken from an outbound in one turn.
const BATCH: usize = 64;
/// An association without traffic is closed after this long (RFC 4787 asks for two minutes).
const IDLE_LIMIT: Duration = Duration::from_secs(120);
/// The same for resolvers' questions, which come from a new port each.
const DNS_IDLE_LIMIT: Duration = Duration::from_secs(15);

const DNS_PORT: u16 = 53;

/// Which association a datagram belongs to. Questions to resolvers have their own: what decides
/// about them differs from what decides about the other datagrams of the same socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    source: SocketAddr,
    dns: bool,
}

struct State {
    waiting: VecDeque<Datagram>,
    waiting_bytes: usize,
    waker: Option<Waker>,
    active: Instant,
    evicted: bool,
}

/// A mapping that has just begun.
pub(super) struct Mapping {
    key: Key,
    first: SocketAddr,
    state: Rc<RefCell<State>>,
}

/// The associations of a shard.
#[derive(Default)]
pub(super) struct Mappings {
    by_key: HashMap<Key, Rc<RefCell<State>>>,
    new: Vec<Mapping>,
    dropped: u64,
}

impl Mappings {
    /// Takes a datagram from the application.
    pub(super) fn push(&mut self, now: Instant, source: SocketAddr, destination: SocketAddr, payload: &[u8]) {
        let key = Key { source, dns: destination.port() == DNS_PORT };
        let state = match self.by_key.get(&key) {
            Some(state) => state.clone(),
            None => self.begin(now, key, destination),
        };
        let mut state = state.borrow_mut();
        if state.waiting.len() >= MAX_WAITING || state.waiting_bytes + payload.len() > MAX_WAITING_BYTES {
            self.dropped += 1;
            return;
        }
        state.waiting_bytes += payload.len();
        state.active = now;
        state.waiting.push_back(Datagram { peer: Destination::from(destination), payload: BytesMut::from(payload) });
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn begin(&mut self, now: Instant, key: Key, first: SocketAddr) -> Rc<RefCell<State>> {
        if self.by_key.len() >= MAX_MAPPINGS {
            let idlest = self.by_key.iter().min_by_key(|(_, state)| state.borrow().active);
            if let Some(key) = idlest.map(|(key, _)| *key)
                && let Some(state) = self.by_key.remove(&key)
            {
                let mut state = state.borrow_mut();
                state.evicted = true;
                if let Some(waker) = state.waker.take() {
                    waker.wake();
                }
            }
        }
        let state = Rc::new(RefCell::new(State {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            waker: None,
            active: now,
            evicted: false,
        }));
        self.by_key.insert(key, state.clone());
        self.new.push(Mapping { key, first, state: state.clone() });
        state
    }

    /// The mappings that began since this was asked before.
    pub(super) fn take_new(&mut self) -> Vec<Mapping> {
        std::mem::take(&mut self.new)
    }
}

/// Serves one mapping from its first datagram to its end.
pub(super) async fn serve<T: TunDispatch>(shard: Rc<Shard>, dispatch: Rc<T>, mapping: Mapping) {
    let (key, state) = (mapping.key, mapping.state);
    match dispatch.associate(key.source, mapping.first).await {
        Ok(associated) => {
            if let Err(error) = carry(&shard, key, &state, associated.flow).await {
                tracing::debug!(source = %key.source, %error, "a UDP association ended");
            }
        }
        Err(error) => {
            tracing::debug!(source = %key.source, destination = %mapping.first, %error,
                "a UDP flow was refused");
            refuse(&shard, key, &state);
        }
    }
    let mut mappings = shard.mappings.borrow_mut();
    if mappings.by_key.get(&key).is_some_and(|known| Rc::ptr_eq(known, &state)) {
        mappings.by_key.remove(&key);
    }
}

fn refuse(shard: &Shard, key: Key, state: &RefCell<State>) {
    let mut stack = shard.stack.borrow_mut();
    for datagram in state.borrow_mut().waiting.drain(..) {
        if let Some(destination) = datagram.peer.socket_address() {
            stack.refuse_udp(key.source, destination, datagram.payload.len(), Refusal::Port);
        }
    }
    drop(stack);
    shard.note_blocked();
}

async fn carry(shard: &Shard, key: Key, state: &RefCell<State>, mut flow: BoxDatagramFlow) -> io::Result<()> {
    let limit = if key.dns { DNS_IDLE_LIMIT } else { IDLE_LIMIT };
    let mut received = Vec::with_capacity(BATCH);
    let mut idle = pin!(tokio::time::sleep(limit));
    poll_fn(|cx| {
        if state.borrow().evicted {
            return Poll::Ready(Ok(()));
        }
        poll_send(state, &mut flow, cx)?;
        for turn in 0.. {
            match flow.poll_receive(cx, &mut received, BATCH)? {
                Poll::Ready(0) => return Poll::Ready(Ok(())),
                Poll::Ready(_) => {
                    state.borrow_mut().active = Instant::now();
                    deliver(shard, key.source, &received);
                    received.clear();
                }
                Poll::Pending => break,
            }
            if turn == 3 {
                cx.waker().wake_by_ref();
                break;
            }
        }
        while idle.as_mut().poll(cx).is_ready() {
            let until = state.borrow().active + limit;
            if until <= Instant::now() {
                return Poll::Ready(Ok(()));
            }
            idle.as_mut().reset(tokio::time::Instant::from_std(until));
        }
        Poll::Pending
    })
    .await
}

fn poll_send(state: &RefCell<State>, flow: &mut BoxDatagramFlow, cx: &mut Context<'_>) -> io::Result<()> {
    let mut state = state.borrow_mut();
    let state = &mut *state;
    while !state.waiting.is_empty() {
        match flow.poll_send(cx, &mut state.waiting) {
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Pending => break,
        }
    }
    state.waiting_bytes = state.waiting.iter().map(|datagram| datagram.payload.len()).sum();
    match &state.waker {
        Some(known) if known.will_wake(cx.waker()) => {}
        _ => state.waker = Some(cx.waker().clone()),
    }
    Ok(())
}

/// Hands datagrams to the application, those from one peer together. What a full device does not
/// take is dropped, as any full link would.
fn deliver(shard: &Shard, to: SocketAddr, datagrams: &[Datagram]) {
    let mut stack = shard.stack.borrow_mut();
    let mut payloads: Vec<&[u8]> = Vec::with_capacity(datagrams.len());
    for same_peer in datagrams.chunk_by(|a, b| a.peer == b.peer) {
        if let Some(from) = same_peer.first().and_then(|first| first.peer.socket_address()) {
            payloads.clear();
            payloads.extend(same_peer.iter().map(|datagram| &datagram.payload[..]));
            stack.send_udp(from, to, &payloads);
        }
    }
    drop(stack);
    shard.note_blocked();
}

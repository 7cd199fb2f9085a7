//! Reads send what waits, so the task that reads and the task that writes may both wait for room in
//! the stream below, which remembers only the last of them.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// The task that waits in the sending half, if any.
#[derive(Default)]
pub(super) struct WaitingTask(Option<Waker>);

impl WaitingTask {
    /// Remembers the task when its poll is pending.
    pub(super) fn note<T>(&mut self, polled: Poll<T>, cx: &Context<'_>) -> Poll<T> {
        match (&polled, &self.0) {
            (Poll::Ready(_), _) => self.0 = None,
            (Poll::Pending, Some(known)) if known.will_wake(cx.waker()) => {}
            (Poll::Pending, _) => self.0 = Some(cx.waker().clone()),
        }
        polled
    }

    /// Polls the sending half for another task, without taking the remembered task's place.
    pub(super) fn poll_beside(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        let Some(writing) = self.0.as_ref().filter(|task| !task.will_wake(cx.waker())) else {
            return poll(cx);
        };
        let both = Waker::from(Arc::new(Both(writing.clone(), cx.waker().clone())));
        let polled = poll(&mut Context::from_waker(&both));
        if polled.is_ready()
            && let Some(writing) = self.0.take()
        {
            writing.wake();
        }
        polled
    }
}

struct Both(Waker, Waker);

impl Wake for Both {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake_by_ref();
        self.1.wake_by_ref();
    }
}

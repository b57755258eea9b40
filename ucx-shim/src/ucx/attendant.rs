//! The thread that progresses an owner's worker for the others' operations.

use core::ffi::c_int;
use core::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use probeline_ucx_sys::{Ucp, ucp_worker_h};

use super::OpenError;
use super::worker::{Lent, Worker};

/// Milliseconds that a wait for events lasts at most: should one be missed, others' operations
/// stand still no longer than that.
const WAIT_MS: c_int = 100;

/// What the thread is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Attend,
    Pause,
    /// As [`Pause`](Self::Pause), and it has stopped.
    Paused,
    Leave,
}

#[derive(Debug)]
struct Desk {
    order: Mutex<Order>,
    changed: Condvar,
}

impl Desk {
    fn order(&self) -> MutexGuard<'_, Order> {
        // Nothing panics while it is held, and a value of one word is never half set.
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, order: Order) {
        *self.order() = order;
        self.changed.notify_all();
    }
}

/// A thread that waits for events of a worker and progresses it. Dropping it ends the thread.
pub(super) struct Attendant {
    desk: Arc<Desk>,
    bell: Bell,
    thread: Option<JoinHandle<()>>,
}

/// Wakes the thread, from any other.
struct Bell {
    ucp: Ucp,
    worker: ucp_worker_h,
}

impl Bell {
    fn ring(&self) {
        // SAFETY: may be called from any thread in any thread mode; the worker lives, by the
        // contract of `Attendant::start`. Should it fail, the thread wakes in time by itself.
        unsafe { (self.ucp.ucp_worker_signal)(self.worker) };
    }
}

impl Attendant {
    /// # Safety
    /// The worker outlives what is returned, and nobody else progresses it unless it is paused.
    pub(super) unsafe fn start(worker: &Worker) -> Result<Self, OpenError> {
        let events = worker.event_fd()?;
        let bell = Bell { ucp: worker.context.ucp, worker: worker.handle };
        // SAFETY: the contract above.
        let lent = unsafe { worker.lend() };
        let desk = Arc::new(Desk { order: Mutex::new(Order::Attend), changed: Condvar::new() });
        let of_thread = Arc::clone(&desk);
        let thread = thread::Builder::new()
            .name("ucx-attendant".into())
            .spawn(move || attend(lent, events, &of_thread))
            .map_err(|error| OpenError::Thread { errno: error.raw_os_error().unwrap_or(0) })?;
        Ok(Self { desk, bell, thread: Some(thread) })
    }

    /// Returns when the thread has stopped to attend: within [`WAIT_MS`] and what one call on the
    /// worker takes.
    pub(super) fn pause(&self) {
        self.desk.set(Order::Pause);
        self.bell.ring();
        let mut order = self.desk.order();
        while *order == Order::Pause {
            order = self.desk.changed.wait(order).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn resume(&self) {
        self.desk.set(Order::Attend);
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        self.desk.set(Order::Leave);
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            // It cannot panic, and if it did it would have ended too.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Attendant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attendant").field("order", &self.desk.order()).finish_non_exhaustive()
    }
}

fn attend(worker: Lent, events: c_int, desk: &Desk) {
    loop {
        if !heed(desk) {
            return;
        }
        if worker.progress() {
            continue;
        }
        // Where it cannot be armed the wait is a nap, and what comes is seen after it. What came
        // before a completion queue was armed rings no bell (ibv_req_notify_cq(3)): so once more.
        if worker.arm().unwrap_or(true) && !worker.progress() {
            wait(events);
        }
    }
}

/// Stands still as long as it is paused; `false` when it is to leave.
fn heed(desk: &Desk) -> bool {
    let mut order = desk.order();
    loop {
        match *order {
            Order::Attend => return true,
            Order::Leave => return false,
            Order::Pause => {
                *order = Order::Paused;
                desk.changed.notify_all();
            }
            Order::Paused => {
                order = desk.changed.wait(order).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

fn wait(events: c_int) {
    let mut descriptor = libc::pollfd { fd: events, events: libc::POLLIN, revents: 0 };
    // SAFETY: one live descriptor. Whether it is ready, late or interrupted, progress follows.
    unsafe { libc::poll(&raw mut descriptor, 1, WAIT_MS) };
}

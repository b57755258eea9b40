//! Threads, each pinned to a CPU of its own, that do together what they are told, and sleep else.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{AcqRel, Acquire};
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use probeline_pin::{Affinity, CpuId};

use super::Result;

/// The longest a thread is waited for: filling a table is the longest work, a minute or so.
const LONGEST: Duration = Duration::from_secs(600);

/// Threads with a state `W` each, which is made in its thread and never leaves it.
pub(crate) struct Crew<W> {
    members: Vec<Member<W>>,
}

struct Member<W> {
    orders: Option<Sender<Order<W>>>,
    thread: Option<JoinHandle<()>>,
}

type Order<W> = Box<dyn FnOnce(&mut W) + Send>;

impl<W: 'static> Crew<W> {
    /// A thread for each seat, pinned to its CPU, which makes its state of what the seat holds.
    pub(crate) fn start<S: Send + 'static>(
        affinity: &Affinity,
        seats: Vec<(CpuId, S)>,
        make: impl Fn(S) -> Result<W> + Send + Sync + 'static,
    ) -> Result<Self> {
        let make = Arc::new(make);
        let mut members = Vec::new();
        let mut ready = Vec::new();
        for (cpu, seat) in seats {
            let (orders, work) = channel::<Order<W>>();
            let (tell, told) = channel();
            let (affinity, make) = (affinity.clone(), Arc::clone(&make));
            let thread = thread::spawn(move || {
                let made = affinity.pin(cpu).map_err(Into::into).and_then(|()| make(seat));
                live(made, &tell, &work);
            });
            members.push(Member { orders: Some(orders), thread: Some(thread) });
            ready.push(told);
        }
        // Members that failed end; what they failed of is told by the first.
        let crew = Self { members };
        ready.into_iter().try_for_each(|told| answer(&told)?)?;
        Ok(crew)
    }

    /// How many threads there are.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// The first `count` threads do `work` at once; what they give, in order.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        count: usize,
        work: impl Fn(usize, &mut W) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>> {
        let work = Arc::new(work);
        let mut answers = Vec::new();
        for (at, member) in self.members.iter().take(count).enumerate() {
            let (tell, told) = channel();
            let work = Arc::clone(&work);
            let order: Order<W> = Box::new(move |state| {
                // Nobody listens once another member has failed.
                let _ = tell.send(work(at, state));
            });
            let sent = member.orders.as_ref().map(|orders| orders.send(order));
            if !matches!(sent, Some(Ok(()))) {
                return Err("a thread has ended: see its message above".into());
            }
            answers.push(told);
        }
        answers.iter().map(answer).collect()
    }
}

fn live<W>(made: Result<W>, tell: &Sender<Result<()>>, work: &Receiver<Order<W>>) {
    let mut state = match made {
        Ok(state) => state,
        Err(error) => {
            let _ = tell.send(Err(error));
            return;
        }
    };
    let _ = tell.send(Ok(()));
    while let Ok(order) = work.recv() {
        order(&mut state);
    }
}

fn answer<R>(told: &Receiver<R>) -> Result<R> {
    told.recv_timeout(LONGEST).map_err(|_| {
        let seconds = LONGEST.as_secs();
        format!("a thread gave no answer: see its message above, or it took over {seconds} s")
            .into()
    })
}

impl<W> Drop for Crew<W> {
    fn drop(&mut self) {
        // Without orders to come a thread ends, and what it holds is dropped where it was made.
        self.members.iter_mut().for_each(|member| drop(member.orders.take()));
        for member in &mut self.members {
            if let Some(thread) = member.thread.take() {
                // A panic has been told by the thread itself.
                let _ = thread.join();
            }
        }
    }
}

/// Where threads wait for each other, so that they start at once.
pub(crate) struct Gate {
    missing: AtomicUsize,
}

/// Making keys is all that is done before a gate, a second at most; a thread that does not come
/// by then never will.
const GATE_LIMIT: Duration = Duration::from_secs(60);

impl Gate {
    pub(crate) fn new(threads: usize) -> Arc<Self> {
        Arc::new(Self { missing: AtomicUsize::new(threads) })
    }

    /// Waits for all threads, spinning: a thread that sleeps wakes up late.
    pub(crate) fn pass(&self) -> Result<()> {
        self.missing.fetch_sub(1, AcqRel);
        let start = Instant::now();
        while self.missing.load(Acquire) > 0 {
            if start.elapsed() > GATE_LIMIT {
                return Err("a thread did not come to the start: see its message above".into());
            }
            // Threads may have to share a CPU.
            thread::yield_now();
        }
        Ok(())
    }
}

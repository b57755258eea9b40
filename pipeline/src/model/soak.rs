//! Operations drawn at random on several clients at once, in every form of call, for the tests of structures over any
//! transport.

use core::cell::RefCell;
use core::future::Future;
use core::mem;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

use probeline_transport::Transport;

use crate::error::Error;
use crate::future::{Host, OperationFuture};
use crate::kind::Kind;
use crate::operation::{Finished, Tag};
use crate::structure::OutcomeOf;

/// Steps before a run counts as stuck.
pub const MAX_STEPS: u64 = 1 << 26;
/// Most operations that one poll reports.
const MAX_POLLED: usize = 4;

/// An operation that has ended, with the steps of the run at which it began and ended.
#[derive(Clone, Copy, Debug)]
pub struct Past<O> {
    /// Its number, from 0 in the order of draws.
    pub number: u64,
    /// The step at which it began.
    pub begun: u64,
    /// The step at which it ended, below [`MAX_STEPS`].
    pub ended: u64,
    /// Its outcome.
    pub result: Result<O, Error>,
}

/// The outcome of an operation of this host.
type Outcome<H> = OutcomeOf<<H as Host>::Kind>;
/// The result of an operation of this host.
pub type EndOf<H> = Result<Outcome<H>, Error>;
/// An operation of this host: its key and its action.
pub type RequestOf<H> = (<<H as Host>::Kind as Kind>::Key, <<H as Host>::Kind as Kind>::Action);

/// Draws a number below a bound.
pub type Below<'b> = &'b mut dyn FnMut(u64) -> u64;

/// The operations of a soak, and what happens beside them.
pub trait Work<H: Host> {
    /// Draws the operation of this number on a client, if there is one more.
    fn draw(&mut self, number: u64, client: &mut H, below: Below<'_>) -> Option<RequestOf<H>>;

    /// Draws the client that makes the next step, of this number.
    fn next_client(&mut self, clients: usize, below: Below<'_>) -> usize {
        below(clients as u64) as usize
    }

    /// Returns whether calls and batches may block, which wait in vain for locks of operations that other clients have
    /// submitted.
    fn blocks(&self) -> bool {
        true
    }

    /// Checks the result of a client's operation at the step at which it ends. One that never started ends as
    /// [`Error::Busy`] when all engines are dead.
    ///
    /// # Errors
    /// The violated rule.
    fn check(&mut self, _client: usize, _past: &Past<Outcome<H>>) -> Result<(), String> {
        Ok(())
    }

    /// Returns whether to drop the future of an operation now, whose outcome then stays unknown.
    fn drops(&mut self, _number: u64, _below: Below<'_>) -> bool {
        false
    }

    /// Hears that the engine of a client is dead.
    fn on_fault(&mut self, _client: usize) {}

    /// Runs operations as one batch.
    ///
    /// # Errors
    /// The batch fails.
    fn run_batch(&mut self, client: &mut H, all: &[RequestOf<H>]) -> Result<Vec<EndOf<H>>, Error> {
        let mut ends = vec![None; all.len()];
        let store = |place: usize, end| assert!(ends[place].replace(end).is_none(), "two results");
        client.structure().call_each(|place| all.get(place).copied(), store)?;
        Ok(ends.into_iter().map(|end| end.expect("each has a result")).collect())
    }
}

/// A number of operations.
pub struct Count<F> {
    /// The number.
    pub count: u64,
    /// See [`Work::blocks`].
    pub blocks: bool,
    /// Draws the operation of a number.
    pub draw: F,
}

impl<H: Host, F: FnMut(u64, &mut H, Below<'_>) -> RequestOf<H>> Work<H> for Count<F> {
    fn draw(&mut self, number: u64, client: &mut H, below: Below<'_>) -> Option<RequestOf<H>> {
        (number < self.count).then(|| (self.draw)(number, client, below))
    }

    fn blocks(&self) -> bool {
        self.blocks
    }
}

/// Runs operations as futures, which are polled in turn.
pub fn run_futures<H: Host>(host: &RefCell<H>, all: &[RequestOf<H>]) -> Vec<EndOf<H>> {
    let future = |(key, action): &RequestOf<H>| (OperationFuture::new(host, key, *action), None);
    let mut futures: Vec<_> = all.iter().map(future).collect();
    while futures.iter().any(|(_, end)| end.is_none()) {
        for (future, end) in futures.iter_mut().filter(|(_, end)| end.is_none()) {
            *end = poll(future);
        }
    }
    futures.into_iter().filter_map(|(_, end)| end).collect()
}

fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(end) => Some(end),
        Poll::Pending => None,
    }
}

/// Polls a future until it is ready.
pub fn ready<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Some(end) = poll(&mut future) {
            return end;
        }
    }
}

/// A client, and what it waits for.
struct Client<'h, H: Host> {
    host: &'h RefCell<H>,
    submitted: Vec<(u64, RequestOf<H>)>,
    futures: Vec<(u64, RequestOf<H>, OperationFuture<'h, H>)>,
    is_dead: bool,
}

struct Run<'r, 'h, H: Host, W> {
    work: &'r mut W,
    below: Below<'r>,
    clients: Vec<Client<'h, H>>,
    /// The step at which each operation began.
    begun: Vec<u64>,
    /// Operations that found no free storage.
    again: Vec<(u64, RequestOf<H>)>,
    /// Whether there was no operation to draw, and none has ended since.
    is_drained: bool,
    step: u64,
    history: Vec<Past<Outcome<H>>>,
}

/// Runs operations on random clients, several in flight on each, and returns them in the order in which they ended.
///
/// # Errors
/// A result that the work refuses, an error of a call itself, or a run that is stuck.
///
/// # Panics
/// If something of a client is in flight at the end.
pub fn soak<H: Host>(
    hosts: &[RefCell<H>],
    work: &mut impl Work<H>,
    below: Below<'_>,
) -> Result<Vec<Past<Outcome<H>>>, String> {
    let client = |host| Client { host, submitted: vec![], futures: vec![], is_dead: false };
    let clients = hosts.iter().map(client).collect();
    let (begun, again, history) = (Vec::new(), Vec::new(), Vec::new());
    let mut run = Run { work, below, clients, begun, again, is_drained: false, step: 0, history };
    while !run.is_over() {
        if run.step == MAX_STEPS {
            return Err(format!("stuck after {} operations", run.history.len()));
        }
        run.step()?;
        run.step += 1;
    }
    for (number, _) in mem::take(&mut run.again) {
        let begun = run.begun[number as usize];
        let past = Past { number, begun, ended: run.step, result: Err(Error::Busy) };
        run.work.check(0, &past)?;
    }
    for host in hosts {
        let mut host = host.borrow_mut();
        let structure = host.structure();
        structure.pipeline().quiesce().ok();
        let in_flight = (structure.in_flight(), structure.transport().in_flight());
        assert_eq!(in_flight, (0, 0), "operations are in flight at the end");
    }
    Ok(run.history)
}

impl<'h, H: Host, W: Work<H>> Run<'_, 'h, H, W> {
    fn is_over(&self) -> bool {
        let is_idle = |of: &Client<H>| of.submitted.is_empty() && of.futures.is_empty();
        let is_drained = self.is_drained && self.again.is_empty();
        self.clients.iter().all(|client| client.is_dead || is_drained && is_idle(client))
    }

    fn step(&mut self) -> Result<(), String> {
        let who = self.work.next_client(self.clients.len(), self.below);
        if self.clients[who].is_dead {
            return Ok(());
        }
        let starts = (self.below)(2) == 0;
        match if starts { self.request(who) } else { None } {
            Some(request) => self.start(who, request),
            None => {
                self.poll(who)?;
                self.poll_futures(who)
            }
        }
    }

    /// Returns the next operation of a client, which begins now.
    fn request(&mut self, who: usize) -> Option<(u64, RequestOf<H>)> {
        if let Some((number, request)) = self.again.pop() {
            self.begun[number as usize] = self.step;
            return Some((number, request));
        }
        let number = self.begun.len() as u64;
        let host = &mut *self.clients[who].host.borrow_mut();
        let request = self.work.draw(number, host, self.below);
        self.is_drained = request.is_none();
        self.begun.extend(request.map(|_| self.step));
        request.map(|request| (number, request))
    }

    fn start(&mut self, who: usize, (number, request): (u64, RequestOf<H>)) -> Result<(), String> {
        let (form, (key, action), host) = ((self.below)(16), request, self.clients[who].host);
        let had_room = host.borrow_mut().structure().has_room();
        match form {
            0..3 if !self.work.blocks() => self.submit(who, (number, request), had_room),
            0 | 1 => {
                let end = host.borrow_mut().structure().call(&key, action);
                self.end(who, (number, request), end, had_room)
            }
            2 => self.run_batch(who, (number, request), had_room),
            3..7 => {
                let future = OperationFuture::new(host, &key, action);
                self.clients[who].futures.push((number, request, future));
                Ok(())
            }
            _ => self.submit(who, (number, request), had_room),
        }
    }

    fn submit(
        &mut self,
        who: usize,
        (number, request): (u64, RequestOf<H>),
        had_room: bool,
    ) -> Result<(), String> {
        let client = &mut self.clients[who];
        let (key, action) = &request;
        let submitted = client.host.borrow_mut().structure().submit(Tag(number), key, *action);
        match submitted {
            Ok(()) => client.submitted.push((number, request)),
            Err(error) => self.end(who, (number, request), Err(error), had_room)?,
        }
        Ok(())
    }

    /// Runs a batch of random length, often longer than the storage.
    fn run_batch(
        &mut self,
        who: usize,
        first: (u64, RequestOf<H>),
        had_room: bool,
    ) -> Result<(), String> {
        let mut batch = vec![first];
        let max = if (self.below)(8) == 0 { 100 } else { 12 };
        for _ in 0..(self.below)(max) {
            batch.extend(self.request(who));
        }
        let requests: Vec<_> = batch.iter().map(|(_, request)| *request).collect();
        let ends = self.work.run_batch(&mut self.clients[who].host.borrow_mut(), &requests);
        let ends = ends.map_err(|error| error.to_string())?;
        batch.into_iter().zip(ends).try_for_each(|(of, end)| self.end(who, of, end, had_room))
    }

    fn poll(&mut self, who: usize) -> Result<(), String> {
        let mut out = [Finished::default(); MAX_POLLED];
        let room = (self.below)(MAX_POLLED as u64 + 1) as usize;
        let polled = self.clients[who].host.borrow_mut().structure().poll_into(&mut out[..room]);
        let count = match polled.map(<[_]>::len) {
            Ok(count) => count,
            Err(Error::Fault(_)) => {
                let Client { submitted, futures, is_dead, .. } = &mut self.clients[who];
                if !submitted.is_empty() {
                    return Err(format!("a fault before {} results", submitted.len()));
                }
                *is_dead = futures.is_empty();
                if *is_dead {
                    self.work.on_fault(who);
                }
                0
            }
            Err(error) => return Err(error.to_string()),
        };
        for Finished { tag: Tag(number), result } in &out[..count] {
            let submitted = &mut self.clients[who].submitted;
            let place = submitted.iter().position(|(running, _)| running == number);
            let place =
                place.ok_or_else(|| format!("operation {number} is not of client {who}"))?;
            let request = submitted.swap_remove(place);
            self.end(who, request, *result, true)?;
        }
        Ok(())
    }

    fn poll_futures(&mut self, who: usize) -> Result<(), String> {
        let mut at = 0;
        while let Some((number, request, future)) = self.clients[who].futures.get_mut(at) {
            let (operation, end) = ((*number, *request), poll(future));
            if end.is_some() || self.work.drops(operation.0, self.below) {
                drop(self.clients[who].futures.swap_remove(at));
            } else {
                at += 1;
            }
            end.map_or(Ok(()), |end| self.end(who, operation, end, false))?;
        }
        Ok(())
    }

    /// Notes the end of an operation, or keeps it for later if it found no free storage.
    fn end(
        &mut self,
        who: usize,
        (number, request): (u64, RequestOf<H>),
        result: EndOf<H>,
        had_room: bool,
    ) -> Result<(), String> {
        if let Err(Error::Busy) = result {
            self.again.push((number, request));
            return if had_room { Err(format!("client {who} is busy")) } else { Ok(()) };
        }
        self.is_drained = false;
        let past = Past { number, begun: self.begun[number as usize], ended: self.step, result };
        self.history.push(past);
        self.work.check(who, &past)
    }
}

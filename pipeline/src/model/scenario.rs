//! The part of a check that a structure gives: its machines, what its clients do, and the rules that must hold.

use core::fmt::Debug;
use core::hash::Hash;

use super::wire::{Action, Wire};
use crate::machine::Run;
use crate::operation::Operation;
use crate::pipeline::Pipeline;
use crate::sink::ResultOf;

/// The largest number of clients.
pub const MAX_CLIENTS: usize = 3;

/// An error describes the violated rule.
pub type Verdict = Result<(), String>;

/// The pipeline of one client.
pub type Driven<S, const N: usize> = Pipeline<
    Wire<N>,
    <S as Scenario<N>>::Storage,
    <S as Scenario<N>>::Context,
    <S as Scenario<N>>::Machine,
>;

/// A request of a client's script.
#[derive(Clone, Copy, Debug)]
pub struct Turn<R> {
    /// The client.
    pub who: usize,
    /// Number of the client's requests before this one.
    pub nth: usize,
    /// The number of the request among those of all clients.
    pub number: usize,
    /// The operation that the client asks for.
    pub request: R,
}

/// The requests of all clients, and how many operations fail.
#[derive(Clone, Copy, Debug)]
pub struct Plan<R: 'static> {
    /// The requests of each client, in order.
    pub scripts: &'static [&'static [R]],
    /// After how many requests of all clients each client starts.
    pub starts: [u8; MAX_CLIENTS],
    /// The number of WRITEs and atomics that may fail.
    pub failures: u8,
}

/// A structure in a memory of `N` words, what its clients do, and the rules that must hold.
pub trait Scenario<const N: usize> {
    /// Requests that a client may make.
    type Request: Copy + 'static;
    /// State that the requests of a client share.
    type Context: Clone + Hash;
    /// A request in progress.
    type Machine: Run<Self::Context, Outcome: Debug> + Clone;
    /// Storage for the requests of a client.
    type Storage: AsMut<[Operation<Self::Machine>]> + Clone + Hash;
    /// The sequential model: what the rules need to know of the past.
    type History: Clone + Hash + Default;

    /// Returns what the clients do.
    fn plan(&self) -> Plan<Self::Request>;

    /// Returns the memory before the first request.
    fn memory(&self) -> [u64; N];

    /// Creates the pipeline of a client.
    fn client(&self, who: usize) -> Driven<Self, N>;

    /// Creates the machine of a request.
    fn machine(&self, turn: Turn<Self::Request>, context: &Self::Context) -> Self::Machine;

    /// Returns the number of requests, from this one on, that the client runs as one blocking call, or
    /// 0 if it submits this one and polls.
    fn in_call(&self, _: Turn<Self::Request>) -> usize {
        0
    }

    /// Runs the blocking call that begins with this request, and returns the results of its requests,
    /// or `None` if the client submits this one instead.
    fn call(
        &self,
        _: Turn<Self::Request>,
        _: &mut Driven<Self, N>,
    ) -> Option<Vec<ResultOf<Self::Machine>>> {
        None
    }

    /// Notes that a request starts.
    fn begin(&self, turn: Turn<Self::Request>, memory: &[u64; N], history: &mut Self::History);

    /// Checks the result of a request. Returns false if the client repeats it.
    ///
    /// # Errors
    /// The violated rule.
    fn end(
        &self,
        turn: Turn<Self::Request>,
        result: ResultOf<Self::Machine>,
        context: &Self::Context,
        memory: &[u64; N],
        history: &mut Self::History,
    ) -> Result<bool, String>;

    /// Checks the memory of each world.
    ///
    /// # Errors
    /// The violated rule.
    fn check_memory(&self, _: &[u64; N]) -> Verdict {
        Ok(())
    }

    /// Checks a world in which nothing more can happen. `has_failed` says whether an operation did.
    ///
    /// # Errors
    /// The violated rule.
    fn check_end(&self, memory: &[u64; N], history: &Self::History, has_failed: bool) -> Verdict;

    /// Checks an operation in flight.
    ///
    /// # Errors
    /// The violated rule.
    fn check_posted(&self, _: Action) -> Verdict {
        Ok(())
    }

    /// Returns what a READ may return of a word that had these values, at least one, in order.
    fn torn(&self, _at: usize, values: Vec<u64>) -> Vec<u64> {
        values
    }

    /// Returns what the completion of an atomic reports that has found this word.
    fn answer(&self, old: u64) -> u64 {
        old
    }

    /// Returns what the model knows after a collective call with which all scripts start again from
    /// the first memory, or `None` if there is no such call.
    fn again(&self, _: &Self::History) -> Option<Self::History> {
        None
    }

    /// Changes the context of a client in the collective call.
    fn forget(&self, _: &mut Self::Context) {}
}

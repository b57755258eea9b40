//! An operation that is one atomic.

use probeline_transport::{Owner, RemoteWord, Request, Transport};

use crate::machine::{Completed, Machine, Next, Run, Step};
use crate::port::Port;

/// Posts one compare-and-swap or fetch-and-add. The outcome is the word before the atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Atomic(pub Request);

impl Machine for Atomic {
    type Outcome = u64;
    const IDLE: Self =
        Self(Request::FetchAdd { at: RemoteWord { owner: Owner(0), index: 0 }, addend: 0 });
    const SLOTS: u32 = 0;
}

impl<X> Run<X> for Atomic {
    #[inline]
    fn advance(&mut self, _: &mut X, port: &mut Port<'_, impl Transport>) -> Next<u64> {
        port.post(0, self.0)?;
        Ok(Step::Wait)
    }

    #[inline]
    fn on_completion(
        &mut self,
        completed: Completed,
        _: &mut X,
        _: &mut Port<'_, impl Transport>,
    ) -> Next<u64> {
        Ok(Step::Done(completed.word))
    }
}

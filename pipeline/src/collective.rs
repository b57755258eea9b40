//! Collective calls of structures: whether an owner failed, sums, and agreement on parameters.
//!
//! A [`Collective`] is one call in progress. It takes the steps that its structure needs, each of
//! them one reduction of four words. Every owner takes every step: an owner that fails in its part
//! says so in the next step, and all owners return an error. Each step carries the name of the call
//! and the structure, so that owners in different calls report both.
//!
//! Between two steps of a call no operation is in flight on any owner.

use probeline_transport::{Call, Exchange, ExchangeError, Fingerprint, Owner, Term};
use thiserror::Error as ThisError;

use crate::error::{ConfigError, Error};

/// The reason why a collective call returned no result.
///
/// After an error in a call that changes the structure, its content is undefined, unless the call
/// says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum CollectiveError {
    /// The exchange failed.
    #[error("a collective call failed: {0}")]
    Exchange(#[from] ExchangeError),
    /// The structure was not opened, because its configuration is invalid on this engine.
    #[error("cannot open the structure: {0}")]
    Config(#[from] ConfigError),
    /// A one-sided operation of this owner failed, in the call or before it.
    #[error("an operation of a collective call failed: {0}")]
    Operation(#[from] Error),
    /// The exchange and the engine disagree on the number of owners.
    #[error(
        "the exchange has {exchange} members, the engine {engine} owners: open the engine with the \
         same exchange"
    )]
    Owners {
        /// Members of the exchange.
        exchange: u32,
        /// Owners of the engine.
        engine: u32,
    },
    /// An owner could not open the structure; its own error gives the reason.
    #[error("{owner} could not open its part: see its error")]
    NotOpened {
        /// The owner without the structure.
        owner: Owner,
    },
    /// An owner could not do its part; its own error gives the reason.
    #[error("{owner} could not do its part of a collective call: see its error")]
    PartFailed {
        /// The owner that failed.
        owner: Owner,
    },
    /// An owner is at a barrier of another region, or at another barrier of this one.
    #[error(
        "{owner} is at another barrier of a region: let all ranks pass the same barriers in the same order, and close \
         these regions"
    )]
    OtherBarrier {
        /// The first owner at another barrier.
        owner: Owner,
    },
    /// An owner opened the structure with different parameters.
    #[error(
        "{owner} has other parameters: its {what} is {theirs}, here it is {mine}; start all of them \
         with the same parameters"
    )]
    Differs {
        /// The owner whose parameters differ.
        owner: Owner,
        /// The name of the parameter that differs.
        what: &'static str,
        /// The value on this owner.
        mine: u64,
        /// The value on the other owner.
        theirs: u64,
    },
    /// Elements were moved into a target that has no room for all of them. All owners return this
    /// error.
    #[error("the target is full, and {left} keys were not moved: open a larger one")]
    Full {
        /// Keys of the whole structure that owners had not moved when they found it full.
        left: u64,
    },
    /// An owner asked to stop. All owners return this error.
    #[error("the move of the keys was stopped before its end")]
    Stopped,
    /// The target holds other keys than those that were moved, or an owner's part changed during the
    /// call. All owners return an error.
    #[error(
        "the target holds {held} keys after {keys} were moved: open an empty target, and let no \
         client use either structure during the call"
    )]
    NotMoved {
        /// Keys to move.
        keys: u64,
        /// Keys of the target.
        held: u64,
    },
    /// The engines of a structure and of its target belong to different jobs, or number their owners in
    /// different ways.
    #[error(
        "this process is {me} of {owners}, but {target_me} of {target_owners} in the target: open \
         both with the same exchange"
    )]
    Job {
        /// This process.
        me: Owner,
        /// Owners of the structure.
        owners: u32,
        /// This process in the target.
        target_me: Owner,
        /// Owners of the target.
        target_owners: u32,
    },
}

/// A parameter that all owners of a structure must have in common: its name and its value.
pub type Parameter = (&'static str, u64);

/// The name of the parameter that tells builds of a structure apart.
pub const FINGERPRINT: &str =
    "fingerprint of the build (use the same build of the library everywhere)";

/// The name of the first parameter, which is compared for every structure. Owners whose structures
/// have different numbers of parameters run different builds.
const PARAMETERS: &str = "number of parameters, which depends on the build";

/// A collective call in progress.
pub struct Collective<'e, E: ?Sized> {
    exchange: &'e mut E,
    call: Call,
}

/// Findings of a step on all owners.
struct Step {
    /// The first owner that failed.
    failed: Option<Owner>,
    sum: u64,
    min: u64,
    max: u64,
}

impl<'e, E: Exchange + ?Sized> Collective<'e, E> {
    /// Begins a call on a structure that the job's call `opened` has opened, or on none if `opened` is
    /// 0.
    pub fn new(exchange: &'e mut E, call: Call, opened: u64) -> Self {
        Self { exchange, call: call.with_structure(opened) }
    }

    /// Returns the number of collective calls that the job has made, which numbers structures.
    pub fn calls(&self) -> u64 {
        self.exchange.calls()
    }

    /// Returns the exchange, for calls between two steps, which all owners make.
    pub fn exchange(&mut self) -> &mut E {
        self.exchange
    }

    /// Returns this owner.
    pub fn me(&self) -> Owner {
        self.exchange.me()
    }

    fn take(&mut self, has_failed: bool, sum: u64, value: u64) -> Result<Step, ExchangeError> {
        const NOBODY: u64 = u64::MAX;
        let failed = if has_failed { u64::from(self.me().0) } else { NOBODY };
        let mut terms = [Term::Min(failed), Term::Sum(sum), Term::Min(value), Term::Max(value)];
        self.exchange.reduce(self.call, &mut terms)?;
        let [failed, sum, min, max] = terms.map(Term::value);
        Ok(Step { failed: u32::try_from(failed).ok().map(Owner), sum, min, max })
    }

    /// Waits for all owners. Returns this owner's result if all of them succeeded.
    ///
    /// # Errors
    /// This owner's error, or else [`CollectiveError::PartFailed`] if another failed.
    pub fn together<R, X>(&mut self, mine: Result<R, X>) -> Result<R, X>
    where
        X: From<CollectiveError>,
    {
        let step = self.take(mine.is_err(), 0, 0);
        let mine = mine?;
        succeeded(step).map(|_| mine).map_err(X::from)
    }

    /// Returns the sum of `mine` over all owners, at most `u64::MAX`.
    ///
    /// # Errors
    /// This owner's error, or else [`CollectiveError::PartFailed`] if another failed.
    pub fn sum<X>(&mut self, mine: Result<u64, X>) -> Result<u64, X>
    where
        X: From<CollectiveError>,
    {
        let step = self.take(mine.is_err(), *mine.as_ref().unwrap_or(&0), 0);
        mine?;
        succeeded(step).map(|step| step.sum).map_err(X::from)
    }

    /// Tells the other owners, who are in a step of the same call, that this one has failed.
    pub fn fail(mut self) {
        // This owner returns the error that made it fail.
        self.take(true, 0, 0).ok();
    }

    /// Checks that all owners have the same parameters and an engine with as many owners as the
    /// exchange. Returns whether `is_asked` is true on all of them.
    ///
    /// # Errors
    /// This owner's error; [`CollectiveError::NotOpened`] if another failed;
    /// [`CollectiveError::Differs`] with the first owner whose parameters differ from this one's.
    pub fn agree(
        &mut self,
        mine: Result<(), CollectiveError>,
        engine_owners: u32,
        parameters: impl IntoIterator<Item = Parameter, IntoIter: Clone>,
        is_asked: bool,
    ) -> Result<bool, CollectiveError> {
        let exchange = self.exchange.owners();
        let same_owners = if engine_owners == exchange {
            Ok(())
        } else {
            Err(CollectiveError::Owners { exchange, engine: engine_owners })
        };
        let mine = mine.and(same_owners);
        let parameters = parameters.into_iter();
        let all = || {
            let count = parameters.clone().count() as u64;
            core::iter::once((PARAMETERS, count)).chain(parameters.clone())
        };
        let digest = all().fold(Fingerprint::new(1), |digest, (_, value)| digest.with(value)).get();
        let step = self.take(mine.is_err(), is_asked.into(), digest);
        mine?;
        let step = step?;
        if let Some(owner) = step.failed {
            return Err(CollectiveError::NotOpened { owner });
        }
        if step.min != step.max {
            for (what, value) in all() {
                self.compare(what, value)?;
            }
        }
        Ok(step.sum == exchange.into())
    }

    /// Checks that all owners have the same value. If not, they take the same steps to find out who
    /// differs.
    ///
    /// # Errors
    /// [`CollectiveError::Differs`] with the first owner whose value differs from this one's.
    pub fn compare(&mut self, what: &'static str, mine: u64) -> Result<(), CollectiveError> {
        let step = self.take(false, 0, mine)?;
        if step.min == step.max {
            return Ok(());
        }
        let me = self.me();
        let is_first = me == Owner(0);
        let first = self.take(false, if is_first { mine } else { 0 }, 0)?.sum;
        let odd = if mine == first { u64::MAX } else { me.0.into() };
        // Smaller than the number of owners.
        #[allow(clippy::cast_possible_truncation)]
        let odd = Owner(self.take(false, 0, odd)?.min as u32);
        let theirs = self.take(false, if me == odd { mine } else { 0 }, 0)?.sum;
        let (owner, theirs) = if mine == first { (odd, theirs) } else { (Owner(0), first) };
        Err(CollectiveError::Differs { owner, what, mine, theirs })
    }
}

fn succeeded(step: Result<Step, ExchangeError>) -> Result<Step, CollectiveError> {
    let step = step?;
    match step.failed {
        Some(owner) => Err(CollectiveError::PartFailed { owner }),
        None => Ok(step),
    }
}

#[cfg(test)]
mod tests {
    use probeline_transport::Alone;

    use super::*;

    /// Two owners, of which this one sees the other's words.
    struct Two {
        me: u32,
        theirs: [u64; 4],
        steps: u32,
    }

    impl Exchange for Two {
        fn me(&self) -> Owner {
            Owner(self.me)
        }

        fn owners(&self) -> u32 {
            2
        }

        fn all_gather(&mut self, _: &[u8], _: &mut [u8]) -> Result<(), ExchangeError> {
            Err(ExchangeError::System { errno: 0 })
        }

        fn reduce(&mut self, _: Call, terms: &mut [Term]) -> Result<(), ExchangeError> {
            self.steps += 1;
            terms.iter_mut().zip(self.theirs).for_each(|(term, word)| term.add(word));
            Ok(())
        }
    }

    #[test]
    fn names_failed_owner() {
        let mut two = Two { me: 0, theirs: [1, 5, 0, 0], steps: 0 };
        let mut call = Collective::new(&mut two, Call::new("test"), 0);
        let failed = CollectiveError::PartFailed { owner: Owner(1) };
        assert_eq!(call.together::<(), _>(Ok(())), Err(failed));
        assert_eq!(call.sum::<CollectiveError>(Ok(3)), Err(failed));
        let own = Err(CollectiveError::Operation(Error::Window));
        assert_eq!(call.together::<(), _>(own), own);
        let opened = call.agree(Ok(()), 2, [], false);
        assert_eq!(opened, Err(CollectiveError::NotOpened { owner: Owner(1) }));
        two.theirs = [u64::MAX, 5, 0, 0];
        assert_eq!(
            Collective::new(&mut two, Call::new("test"), 0).sum::<CollectiveError>(Ok(3)),
            Ok(8)
        );
    }

    #[test]
    fn refuses_engine_with_other_owners() {
        let mut alone = Alone;
        let mut call = Collective::new(&mut alone, Call::new("test"), 0);
        let error = CollectiveError::Owners { exchange: 1, engine: 2 };
        assert_eq!(call.agree(Ok(()), 2, [("size", 1)], true), Err(error));
        assert_eq!(call.agree(Ok(()), 1, [("size", 1)], true), Ok(true));
        assert_eq!(call.agree(Ok(()), 1, [("size", 1)], false), Ok(false));
    }
}

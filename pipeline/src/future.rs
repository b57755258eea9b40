//! Operations as futures, for runtimes that poll futures. This module has no executor and no
//! thread.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use probeline_transport::Transport;

use crate::error::Error;
use crate::kind::Kind;
use crate::structure::{OperationOf, OutcomeOf, Structure};

/// A [`Structure`], or a type around one, whose operations can be futures.
pub trait Host {
    /// The engine.
    type Transport: Transport;
    /// The storage of its operations.
    type Storage: AsMut<[OperationOf<Self::Kind>]>;
    /// The kind of the structure.
    type Kind: Kind;

    /// Returns the structure whose operations the futures are.
    fn structure(&mut self) -> &mut Structure<Self::Transport, Self::Storage, Self::Kind>;
}

impl<T: Transport, S: AsMut<[OperationOf<K>]>, K: Kind> Host for Structure<T, S, K> {
    type Transport = T;
    type Storage = S;
    type Kind = K;

    fn structure(&mut self) -> &mut Self {
        self
    }
}

/// The future of one operation of a structure that the tasks of one thread share.
///
/// **Who polls the transport.** The first poll of a future only submits its operation, so that the
/// operations of all tasks are in flight together. If no storage is free, the future waits
/// until another operation completes and its result is taken.
/// Each later poll of the future takes the completions that wait in the transport, by up to 4 polls
/// of it, and advances *all* operations, unless another future has done so since this future was
/// last polled. The transport is therefore polled once per round in which the executor polls its
/// tasks. A single task polls it each time.
///
/// **When wakers are called.** A polled device wakes no task. A pending future therefore wakes its
/// own task before it returns. An executor that polls only woken tasks polls every pending
/// operation once per round, and does not sleep while an operation is pending. The future stores no
/// waker.
///
/// **If the future is dropped early**, the operation continues and may take effect; its storage is
/// then freed. A leaked future keeps its storage. After it has returned its result, a future is
/// pending forever and wakes no task.
#[must_use = "the operation starts with the first poll"]
pub struct OperationFuture<'h, H: Host> {
    host: &'h RefCell<H>,
    stage: Stage<KeyOf<H>, ActionOf<H>>,
}

#[derive(Clone, Copy)]
enum Stage<K, A> {
    /// Not submitted; the round of its last poll, if any.
    New {
        key: K,
        action: A,
        round: Option<u32>,
    },
    /// Started in the storage of this index; the round of its last poll.
    Started {
        index: u32,
        round: u32,
    },
    Ended,
}

impl<H: Host> Unpin for OperationFuture<'_, H> {}

impl<'h, H: Host> OperationFuture<'h, H> {
    /// Creates a future that runs an operation of `host`.
    #[inline]
    pub fn new(host: &'h RefCell<H>, key: &KeyOf<H>, action: ActionOf<H>) -> Self {
        Self { host, stage: Stage::New { key: *key, action, round: None } }
    }

    /// Starts the operation, if storage is free.
    #[inline(always)]
    fn start(
        &mut self,
        host: &mut H,
        (key, action): (KeyOf<H>, ActionOf<H>),
        last: Option<u32>,
    ) -> Polled<H> {
        let pipeline = host.structure().pipeline();
        // A poll of the transport may free storage.
        if last == Some(pipeline.rounds) {
            pipeline.make_progress()?;
        }
        if pipeline.is_full() {
            self.stage = Stage::New { key, action, round: Some(pipeline.rounds) };
            return Poll::Pending;
        }
        self.stage = Stage::Ended;
        let index =
            pipeline.start_for_future(H::Kind::machine(&key, action, pipeline.shared())?)?;
        self.stage = Stage::Started { index, round: pipeline.rounds };
        Poll::Pending
    }

    /// Takes the result of the started operation.
    #[inline(always)]
    fn take(&mut self, host: &mut H, index: u32, last: u32) -> Polled<H> {
        let structure = host.structure();
        if last == structure.pipeline().rounds {
            // Operations that the CPU runs wait for no poll.
            structure.poll_sometimes()?;
        }
        let pipeline = structure.pipeline();
        let mut taken = pipeline.take(index)?;
        if taken.is_none() && last == pipeline.rounds {
            pipeline.progress_all()?;
            taken = pipeline.take(index)?;
        }
        let Some(result) = taken else {
            self.stage = Stage::Started { index, round: pipeline.rounds };
            return Poll::Pending;
        };
        self.stage = Stage::Ended;
        Poll::Ready(result)
    }
}

type KeyOf<H> = <<H as Host>::Kind as Kind>::Key;
type ActionOf<H> = <<H as Host>::Kind as Kind>::Action;
type Output<H> = Result<OutcomeOf<<H as Host>::Kind>, Error>;
type Polled<H> = Poll<Output<H>>;

impl<H: Host> Future for OperationFuture<'_, H> {
    type Output = Output<H>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let borrowed = this.host.try_borrow_mut();
        let polled = match (&this.stage, borrowed) {
            (&Stage::Started { index, round }, Ok(mut host)) => this.take(&mut host, index, round),
            (&Stage::New { key, action, round }, Ok(mut host)) => {
                this.start(&mut host, (key, action), round)
            }
            (Stage::Ended, _) => return Poll::Pending,
            // Only another poll borrows the host, and a poll runs no code of the caller.
            (_, Err(_)) => Poll::Pending,
        };
        if polled.is_pending() {
            context.waker().wake_by_ref();
        }
        polled
    }
}

impl<H: Host> Drop for OperationFuture<'_, H> {
    #[inline]
    fn drop(&mut self) {
        if let (Stage::Started { index, .. }, Ok(mut host)) =
            (&self.stage, self.host.try_borrow_mut())
        {
            host.structure().pipeline().abandon(*index);
        }
    }
}

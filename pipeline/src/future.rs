//! Operations as futures, for runtimes that poll futures. This module has no executor and no
//! thread.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use probeline_transport::Transport;

use crate::machine::{Machine, Run};
use crate::operation::Operation;
use crate::pipeline::Pipeline;

/// A data structure whose operations run in a pipeline.
pub trait Host {
    /// The engine.
    type Transport: Transport;
    /// The storage of its operations.
    type Storage: AsMut<[Operation<Self::Machine>]>;
    /// The context that its operations share.
    type Shared;
    /// The machine of its operations.
    type Machine: Run<Self::Shared>;

    /// Returns the pipeline of its operations.
    #[allow(clippy::type_complexity)]
    fn pipeline(
        &mut self,
    ) -> &mut Pipeline<Self::Transport, Self::Storage, Self::Shared, Self::Machine>;
}

/// The future of one operation of a structure that the tasks of one thread share.
///
/// **Who polls the transport.** The first poll of a future only submits its operation, so that the
/// operations of all tasks are in flight together. If no storage is free, the future waits for it.
/// Each later poll of the future polls the transport and advances *all* operations, unless another
/// future has done so since this future was last polled. The transport is therefore polled once per
/// round in which the executor polls its tasks. A single task polls it each time.
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
    stage: Stage<H::Machine>,
}

enum Stage<M: Machine> {
    /// Not submitted; the round of its last poll, if any.
    New {
        machine: M,
        round: Option<u32>,
    },
    /// Started in the storage of this index; the round of its last poll.
    Started {
        index: u32,
        round: u32,
    },
    Refused(M::Error),
    Ended,
}

impl<H: Host> Unpin for OperationFuture<'_, H> {}

impl<'h, H: Host> OperationFuture<'h, H> {
    /// Creates a future that runs `machine` in the pipeline of `host`, or that fails with the given
    /// error at its first poll.
    pub fn new(
        host: &'h RefCell<H>,
        machine: Result<H::Machine, <H::Machine as Machine>::Error>,
    ) -> Self {
        let new = |machine| Stage::New { machine, round: None };
        Self { host, stage: machine.map_or_else(Stage::Refused, new) }
    }
}

type Output<H> =
    Result<<<H as Host>::Machine as Machine>::Outcome, <<H as Host>::Machine as Machine>::Error>;

impl<H: Host> Future for OperationFuture<'_, H> {
    type Output = Output<H>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if matches!(self.stage, Stage::Ended) {
            return Poll::Pending;
        }
        let host = self.host;
        let polled = match host.try_borrow_mut() {
            Ok(mut host) => self.stage.poll(host.pipeline()),
            // Only another poll borrows the host, and a poll runs no code of the caller.
            Err(_) => Poll::Pending,
        };
        if polled.is_pending() {
            context.waker().wake_by_ref();
        }
        polled
    }
}

impl<M: Machine> Stage<M> {
    fn poll<T: Transport, S: AsMut<[Operation<M>]>, X>(
        &mut self,
        pipeline: &mut Pipeline<T, S, X, M>,
    ) -> Poll<Result<M::Outcome, M::Error>>
    where
        M: Run<X>,
    {
        match self {
            Self::Refused(error) => {
                let error = *error;
                *self = Self::Ended;
                Poll::Ready(Err(error))
            }
            Self::Ended => Poll::Pending,
            Self::New { machine, round } => {
                // A poll of the transport may free storage.
                if *round == Some(pipeline.rounds) {
                    pipeline.make_progress()?;
                }
                *round = Some(pipeline.rounds);
                match pipeline.start_for_future(*machine) {
                    Some(Err(error)) => {
                        *self = Self::Ended;
                        return Poll::Ready(Err(error));
                    }
                    Some(Ok(index)) => *self = Self::Started { index, round: pipeline.rounds },
                    None => {}
                }
                Poll::Pending
            }
            Self::Started { index, round } => {
                let mut taken = pipeline.take(*index)?;
                if taken.is_none() && *round == pipeline.rounds {
                    pipeline.make_progress()?;
                    taken = pipeline.take(*index)?;
                }
                match taken {
                    None => {
                        *round = pipeline.rounds;
                        Poll::Pending
                    }
                    Some(result) => {
                        *self = Self::Ended;
                        Poll::Ready(result)
                    }
                }
            }
        }
    }
}

impl<H: Host> Drop for OperationFuture<'_, H> {
    fn drop(&mut self) {
        if let (Stage::Started { index, .. }, Ok(mut host)) =
            (&self.stage, self.host.try_borrow_mut())
        {
            host.pipeline().abandon(*index);
        }
    }
}

//! Operations as futures, for runtimes that poll futures. There is no executor and no thread here.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use probeline_transport::Transport;

use crate::driver::Pipeline;
use crate::machine::{Machine, Run};
use crate::operation::Operation;

/// A structure whose operations run in a pipeline.
pub trait Host {
    /// The engine.
    type Transport: Transport;
    /// The storage of its operations.
    type Storage: AsMut<[Operation<Self::Machine>]>;
    /// What its operations have in common.
    type Shared;
    /// Its operations.
    type Machine: Run<Self::Shared>;

    /// The pipeline that its operations run in.
    #[allow(clippy::type_complexity)]
    fn pipeline(
        &mut self,
    ) -> &mut Pipeline<Self::Transport, Self::Storage, Self::Shared, Self::Machine>;
}

/// One operation of a structure that tasks of one thread share.
///
/// **Who polls the transport.** The first poll of a future only submits its operation, so that the
/// operations of all tasks are in flight together; it waits for storage if there is none. Any later
/// poll moves *all* operations on if none has done so since this future was last polled. So the
/// transport is polled once in each round in which the executor polls its tasks, by whichever
/// future comes first, and a single task polls it each time.
///
/// **When wakers are called.** A device that is polled wakes no one. A future that stays pending
/// wakes its task before it returns, so an executor that polls only woken tasks polls every
/// pending operation once a round, and never sleeps while there is one. No waker is kept.
///
/// **Dropped before its end**, the operation goes on by itself and may take effect; its storage
/// comes free. A future that is leaked keeps its storage. After its end a future is pending for
/// ever and wakes nothing.
#[must_use = "the operation starts with the first poll"]
pub struct OperationFuture<'h, H: Host> {
    host: &'h RefCell<H>,
    stage: Stage<H::Machine>,
}

enum Stage<M: Machine> {
    /// Not submitted; last polled in this round, if it was.
    New {
        machine: M,
        round: Option<u32>,
    },
    /// In the storage of this index; last polled in this round.
    Started {
        index: u32,
        round: u32,
    },
    Refused(M::Error),
    Ended,
}

impl<H: Host> Unpin for OperationFuture<'_, H> {}

impl<'h, H: Host> OperationFuture<'h, H> {
    /// A future that runs `machine` in the pipeline of `host`; or ends at once with this error.
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
            // Borrowed by another poll only, in which nothing of a caller's runs.
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
                if *round == Some(pipeline.rounds()) {
                    pipeline.make_progress()?;
                }
                *round = Some(pipeline.rounds());
                match pipeline.start_for_future(*machine) {
                    Some(Err(error)) => {
                        *self = Self::Ended;
                        return Poll::Ready(Err(error));
                    }
                    Some(Ok(index)) => *self = Self::Started { index, round: pipeline.rounds() },
                    None => {}
                }
                Poll::Pending
            }
            Self::Started { index, round } => {
                let mut taken = pipeline.take(*index)?;
                if taken.is_none() && *round == pipeline.rounds() {
                    pipeline.make_progress()?;
                    taken = pipeline.take(*index)?;
                }
                match taken {
                    None => {
                        *round = pipeline.rounds();
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

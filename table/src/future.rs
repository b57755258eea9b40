//! Operations as futures, for runtimes that poll futures. There is no executor here, and nobody to
//! wake a task: a device that is polled tells nothing by itself. So each poll of a future moves
//! the whole table on, and asks to be polled again.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use probeline_transport::Transport;

use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::error::{OperationError, SubmitError};
use crate::find_or_put::{Intent, Outcome};
use crate::operation::{Operation, Report};
use crate::table::Table;

/// A table whose operations are futures, as many at once as it has storage for; the others wait
/// for storage. For the tasks of one thread.
///
/// ```
/// # use core::future::Future;
/// # async fn example<T, S, C>(table: probeline_table::Shared<T, S, C>) -> Result<(), probeline_table::OperationError>
/// # where T: probeline_transport::Transport, S: AsMut<[probeline_table::Operation]>, C: AsMut<[probeline_table::CacheEntry]> {
/// let first = table.find_or_put(1);
/// let second = table.find_or_put(2);
/// // A runtime would poll both together.
/// println!("{:?} {:?}", first.await?, second.await?);
/// # Ok(()) }
/// ```
pub struct Shared<T, S, C = [CacheEntry; 0]>(RefCell<Table<T, S, C>>);

impl<T, S, C> Shared<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    /// Shares `table` between futures.
    pub fn new(table: Table<T, S, C>) -> Self {
        Self(RefCell::new(table))
    }

    /// The table again, once all futures are gone; what they left in flight is not lost.
    pub fn into_table(self) -> Table<T, S, C> {
        self.0.into_inner()
    }

    /// The table itself, where no future is being polled.
    pub fn table(&mut self) -> &mut Table<T, S, C> {
        self.0.get_mut()
    }

    /// As [`Table::find_or_put`]. Begins with the first poll.
    pub fn find_or_put(&self, data: u64) -> FindOrPut<'_, T, S, C> {
        self.begin(data, Intent::FindOrPut)
    }

    /// As [`Table::find`]: the outcome is [`Outcome::Found`] or [`Outcome::Absent`].
    pub fn find(&self, data: u64) -> FindOrPut<'_, T, S, C> {
        self.begin(data, Intent::Find)
    }

    fn begin(&self, data: u64, intent: Intent) -> FindOrPut<'_, T, S, C> {
        FindOrPut { table: &self.0, data, intent, stage: Stage::New }
    }
}

/// A find or find-or-put to be polled. Dropped before its end it goes on by itself: what it was to
/// insert may be inserted. One that is leaked before its end keeps its storage.
///
/// It ends [`SubmitError::Busy`] where all storage holds ends of [`Table::submit`] that were not
/// polled for.
#[must_use = "nothing happens until it is polled"]
pub struct FindOrPut<'t, T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    table: &'t RefCell<Table<T, S, C>>,
    data: u64,
    intent: Intent,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    New,
    /// In the storage of this number.
    Begun(u32),
    Ended,
}

impl<T, S, C> Future for FindOrPut<'_, T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    type Output = Result<Outcome, OperationError>;

    /// After its end it stays pending, and asks for nothing.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Borrowed only if the table polls a future itself, which it does not.
        let Ok(mut table) = self.table.try_borrow_mut() else { return Poll::Pending };
        let pipeline = &mut table.pipeline;
        let stage = match self.stage {
            Stage::New => match Bucket::new(self.data) {
                Err(refused) => return self.end(Err(SubmitError::Data(refused).into())),
                Ok(bucket) => match pipeline.start(bucket, self.intent, Report::Asker) {
                    Ok(index) => Stage::Begun(index),
                    Err(busy) if pipeline.only_polls_make_room() => {
                        return self.end(Err(busy.into()));
                    }
                    Err(_) => {
                        pipeline.progress();
                        Stage::New
                    }
                },
            },
            Stage::Begun(index) => {
                pipeline.progress();
                if let Some(result) = pipeline.take_end(index) {
                    return self.end(result);
                }
                Stage::Begun(index)
            }
            Stage::Ended => return Poll::Pending,
        };
        drop(table);
        self.stage = stage;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<T, S, C> FindOrPut<'_, T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    fn end(
        &mut self,
        result: Result<Outcome, OperationError>,
    ) -> Poll<Result<Outcome, OperationError>> {
        self.stage = Stage::Ended;
        Poll::Ready(result)
    }
}

impl<T, S, C> Drop for FindOrPut<'_, T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    fn drop(&mut self) {
        if let (Stage::Begun(index), Ok(mut table)) = (self.stage, self.table.try_borrow_mut()) {
            table.pipeline.abandon(index);
        }
    }
}

//! The state behind the handle of a map.

use core::mem::MaybeUninit;
use core::ptr;

use probeline::map::{Bytes, Config, OperationError, Tag};

use crate::cache::{self, Access, Cache};
use crate::handle::Abandon;
use crate::job::{Members, Opened, Shared};
use crate::map_options::{mode_of, probeline_map_options};
use crate::options::Options;
use crate::status::{Error, probeline_finished, probeline_outcome, probeline_status};

/// A map and the job that it belongs to.
pub(crate) struct Inner {
    pub(crate) cache: Box<dyn Cache>,
    pub(crate) opened: Opened,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    /// Submitted operations, by the tag inside the map.
    submitted: Vec<Submitted>,
    /// Places in `submitted` that are free.
    free: Vec<usize>,
}

impl Abandon for Inner {
    fn abandon(self) -> Option<Self> {
        core::mem::forget(self.cache);
        self.opened.job.abandon();
        None
    }
}

/// What the caller gave with a submitted operation.
#[derive(Clone, Copy)]
pub(crate) struct Submitted {
    pub(crate) tag: u64,
    /// Where the value of a get goes.
    pub(crate) value: *mut u8,
}

/// Checks the options, and returns the configuration. No memory was allocated before.
fn plan(members: &mut Members, options: &probeline_map_options) -> Result<Config, Error> {
    options.check()?;
    let (operations, owners) = (options.operations, members.owners());
    let config = match options.buckets_per_rank {
        0 => Config::for_entries(options.entries, owners),
        buckets => Config::new(buckets),
    };
    members.check_depth(operations, config.sizes::<Bytes<1>, Bytes<1>>(operations).depth)?;
    Ok(Config {
        candidates: options.candidates,
        claims_with_read: options.claims_with_read != 0,
        // Checked.
        claim_ticks: u8::try_from(options.claim_ticks).unwrap_or(u8::MAX),
        direct: options.direct != 0,
        format: options.format,
        mode: mode_of(options.mode),
        key_bytes: options.key_bytes,
        value_bytes: options.value_bytes,
        ..config
    })
}

/// Opens a map in the call of this name.
pub(crate) fn open(
    name: &str,
    job: &Shared,
    options: &probeline_map_options,
) -> Result<Inner, Error> {
    let mut members = job.borrow_mut();
    let config = plan(&mut members, options);
    let (key_bytes, value_bytes) = (options.key_bytes, options.value_bytes);
    let parameters = [
        ("key_bytes", key_bytes as u64),
        ("value_bytes", value_bytes as u64),
        ("buckets_per_rank", options.buckets_per_rank),
        ("entries", options.entries),
    ];
    let config = members.agree(name, config, &parameters)?;
    let cache = cache::open(&mut members, config, options.operations)?;
    let operations = options.operations as usize;
    let submitted = vec![Submitted { tag: 0, value: ptr::null_mut() }; operations];
    let free = (0..operations).collect();
    let opened = members.opened(job);
    Ok(Inner { cache, opened, key_bytes, value_bytes, submitted, free })
}

impl Inner {
    /// Waits for all ranks in the call of this name, and closes the map.
    pub(crate) fn close(self, name: &str) -> Result<(), Error> {
        let engine = self.cache.into_engine();
        let closed = self.opened.barrier(name);
        drop(engine);
        closed
    }

    /// Gathers numbers of all ranks in the call of this name.
    pub(crate) fn gather<const N: usize>(
        &self,
        name: &str,
        mine: [u64; N],
    ) -> Result<Vec<[u64; N]>, Error> {
        self.opened.collective(name, Ok(()), |(), exchange| {
            let mut all = vec![[[0; 8]; N]; exchange.owners() as usize];
            let bytes = mine.map(u64::to_le_bytes);
            exchange.all_gather(bytes.as_flattened(), all.as_flattened_mut().as_flattened_mut())?;
            Ok(all.into_iter().map(|rank| rank.map(u64::from_le_bytes)).collect())
        })
    }

    /// Starts an operation.
    pub(crate) fn submit(
        &mut self,
        mine: Submitted,
        key: &[u8],
        access: Access<'_>,
    ) -> Result<(), Error> {
        let busy = OperationError::Busy;
        let place = *self.free.last().ok_or(busy)?;
        self.cache.submit(Tag(place as u64), key, access)?;
        self.free.pop();
        if let Some(submitted) = self.submitted.get_mut(place) {
            *submitted = mine;
        }
        Ok(())
    }

    /// Stores what has ended.
    ///
    /// # Safety
    /// The places given with gets that were submitted are valid for writes of a value.
    pub(crate) unsafe fn poll(
        &mut self,
        finished: &mut [MaybeUninit<probeline_finished>],
    ) -> Result<usize, Error> {
        let Self { cache, submitted, free, value_bytes, .. } = self;
        let capacity = finished.len();
        let mut room = finished.iter_mut();
        let count = cache.poll(capacity, &mut |Tag(place), result, value| {
            // The map returns the tags that it was given.
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            let Some(Submitted { tag, value: to }) = submitted.get(place).copied() else { return };
            free.push(place);
            if let Some(value) = value {
                debug_assert_eq!(value.len(), *value_bytes, "the map has values of one size");
                // SAFETY: the caller keeps the places of submitted gets valid (# Safety); the value is
                // as long as those of the map.
                unsafe { ptr::copy_nonoverlapping(value.as_ptr(), to, value.len()) };
            }
            let (status, outcome) = match result {
                Ok(outcome) => (probeline_status::PROBELINE_OK, outcome),
                Err(error) => (Error::from(error).report(), probeline_outcome::PROBELINE_ABSENT),
            };
            if let Some(to) = room.next() {
                to.write(probeline_finished { tag, status, outcome });
            }
        })?;
        Ok(count)
    }
}

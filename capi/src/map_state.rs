//! The state behind the handle of a map.

use core::mem::MaybeUninit;
use core::ptr;

use probeline::map::{Bytes, Config, OperationError, Tag};

use crate::cache::{self, Access, Cache};
use crate::handle::Handle;
use crate::job::Members;
use crate::map::probeline_map;
use crate::map_options::{mode_of, probeline_map_options};
use crate::status::{Error, probeline_finished, probeline_outcome, probeline_status};
use crate::structure::{self, Plan, PlanOf, Pointee, tuple_of_handle};

pub(crate) type Inner = structure::Inner<dyn Cache, Detail>;

pub(crate) struct Detail {
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    /// Submitted operations, by the tag inside the map.
    submitted: Vec<Submitted>,
    /// Places in `submitted` that are free.
    free: Vec<usize>,
}

/// What the caller gave with a submitted operation.
#[derive(Clone, Copy)]
pub(crate) struct Submitted {
    pub(crate) tag: u64,
    /// Where the value of a get goes.
    pub(crate) value: *mut u8,
}

impl Pointee for probeline_map {
    const NAME: &'static str = "map";
    type Options = probeline_map_options;
    type Structure = dyn Cache;
    type Detail = Detail;

    fn plan(members: &mut Members, options: &Self::Options) -> Result<PlanOf<Self>, Error> {
        let (operations, owners) = (options.operations, members.owners());
        let (key_bytes, value_bytes) = (options.key_bytes, options.value_bytes);
        let config = match options.buckets_per_rank {
            0 => Config::for_entries(options.entries, owners),
            buckets => Config::new(buckets),
        };
        members.check_depth(operations, config.sizes::<Bytes<1>, Bytes<1>>(operations).depth)?;
        let config = Config {
            candidates: options.candidates,
            claims_with_read: options.claims_with_read != 0,
            // Checked.
            claim_ticks: u8::try_from(options.claim_ticks).unwrap_or(u8::MAX),
            direct: options.direct != 0,
            format: options.format,
            mode: mode_of(options.mode),
            key_bytes,
            value_bytes,
            ..config
        };
        let places = operations as usize;
        let submitted = vec![Submitted { tag: 0, value: ptr::null_mut() }; places];
        Ok(Plan {
            parameters: vec![
                ("key_bytes", key_bytes as u64),
                ("value_bytes", value_bytes as u64),
                ("buckets_per_rank", options.buckets_per_rank),
                ("entries", options.entries),
            ],
            detail: Detail { key_bytes, value_bytes, submitted, free: (0..places).collect() },
            open: Box::new(move |members| cache::open(members, config, operations)),
        })
    }

    tuple_of_handle!();
}

impl Inner {
    /// Starts an operation.
    pub(crate) fn submit(
        &mut self,
        mine: Submitted,
        key: &[u8],
        access: Access<'_>,
    ) -> Result<(), Error> {
        let busy = OperationError::Busy;
        let Self { structure, detail: Detail { submitted, free, .. }, .. } = self;
        let place = *free.last().ok_or(busy)?;
        structure.submit(Tag(place as u64), key, access)?;
        free.pop();
        if let Some(submitted) = submitted.get_mut(place) {
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
        let Self { structure, detail: Detail { submitted, free, value_bytes, .. }, .. } = self;
        let capacity = finished.len();
        let mut room = finished.iter_mut();
        let count = structure.poll(capacity, &mut |Tag(place), result, value| {
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

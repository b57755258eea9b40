//! The state behind the handle of a map.

use probeline::map::{Bytes, Config};

use crate::cache::{self, Cache};
use crate::handle::Handle;
use crate::job::Members;
use crate::map::probeline_map;
use crate::map_options::{mode_of, probeline_map_options};
use crate::status::Error;
use crate::structure::{self, Plan, PlanOf, Pointee, tuple_of_handle};

pub(crate) type Inner = structure::Inner<dyn Cache, Detail>;

pub(crate) struct Detail {
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
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
        Ok(Plan {
            parameters: vec![
                ("key_bytes", key_bytes as u64),
                ("value_bytes", value_bytes as u64),
                ("buckets_per_rank", options.buckets_per_rank),
                ("entries", options.entries),
            ],
            detail: Detail { key_bytes, value_bytes },
            submitted: operations,
            open: Box::new(move |members| cache::open(members, config, operations)),
        })
    }

    tuple_of_handle!();
}

//! The elements of an array as a container.

use core::marker::PhantomData;
use core::sync::atomic::AtomicU64;

use probeline_pipeline::{Error, Plain};
use probeline_transport::Segment;

use super::access::{Access, Action};
use super::{Config, direct};
use crate::element::{Context, Element};
use crate::placement::Placement;

/// The elements of an [`Array`](super::Array) of `V`.
pub struct Elements<V>(PhantomData<V>);

impl<V: Plain> Element for Elements<V> {
    type Config = Config;
    type Key = u64;
    type Action = Action<V>;
    type Machine = Access<V>;
    const NAME: &'static str = "Array";
    const DETAIL: &'static str = "bytes of an element";

    fn placement(config: &Config, owners: u32) -> Placement {
        config.placement::<V>(owners)
    }

    fn detail(config: &Config) -> (u64, u64) {
        (config.bytes::<V>() as u64, V::CAPACITY as u64)
    }

    fn allows_direct(config: &Config) -> bool {
        config.direct
    }

    #[inline(always)]
    fn index(index: &u64, _: &Context) -> u64 {
        *index
    }

    #[inline(always)]
    fn machine(at: Segment, _: &u64, action: Action<V>, _: &Context) -> Result<Access<V>, Error> {
        action.check(at.words)?;
        Ok(Access::new(at, action))
    }

    #[inline(always)]
    fn run(
        element: &[AtomicU64],
        _: &u64,
        action: &Action<V>,
        context: &Context,
    ) -> Result<V, Error> {
        direct::run(element, action, context.bytes())
    }

    fn count(_: &[AtomicU64], context: &Context) -> u64 {
        context.placement.count(context.me)
    }
}

impl Context {
    /// Returns the bytes of an array's element.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "it was a usize")]
    pub(super) fn bytes(&self) -> usize {
        self.detail as usize
    }
}

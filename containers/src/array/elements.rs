//! The elements of an array as a container.

use core::marker::PhantomData;
use core::sync::atomic::AtomicU64;

use probeline_pipeline::{Error, Placement, Plain};
use probeline_transport::Segment;
use probeline_transport::line::Compare;

use super::access::{Access, Action};
use super::{Config, direct};
use crate::element::{Bounded, Context, Element};

/// The elements of an [`Array`](super::Array) of `V`.
pub struct Elements<V>(PhantomData<V>);

impl<V: Plain> Element for Elements<V> {
    type Config = Config;
    type Key = u64;
    type Home = u64;
    type Action = Action<V>;
    type Machine = Access<V>;
    type Detail = usize;
    const NAME: &'static str = "Array";

    fn placement(config: &Config, owners: u32) -> Placement {
        config.placement::<V>(owners)
    }

    fn parameters(config: &Config) -> impl Iterator<Item = Bounded> + Clone {
        [("bytes of an element", config.bytes::<V>() as u64, 1..=V::CAPACITY as u64)].into_iter()
    }

    fn detail(config: &Config) -> usize {
        config.bytes::<V>()
    }

    fn allows_direct(config: &Config) -> bool {
        config.direct
    }

    #[inline(always)]
    fn home(index: &u64, _: &Context<usize>) -> u64 {
        *index
    }

    #[inline(always)]
    fn index(home: &u64) -> u64 {
        *home
    }

    #[inline(always)]
    fn machine(
        at: Segment,
        _: (&u64, u64),
        action: Action<V>,
        _: &Context<usize>,
    ) -> Result<Access<V>, Error> {
        action.check(at.words)?;
        Ok(Access::new(at, action))
    }

    #[inline(always)]
    fn run<'t, C: Compare>(
        element: &'t [AtomicU64],
        _: impl Fn(u64) -> Option<&'t [AtomicU64]>,
        _: (&u64, u64),
        action: &Action<V>,
        context: &Context<usize>,
    ) -> Result<V, Error> {
        direct::run(element, action, context.detail)
    }

    fn count(_: &[AtomicU64], context: &Context<usize>) -> u64 {
        context.placement.count(context.me)
    }
}

//! The verbs, over a real device: programs of the workspace that run in the guests.
//!
//! A case names what cargo has to build (`needs`) and calls it by [`crate::program`] or
//! [`crate::example`].

use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::patience::PATIENCE;

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Loopback, "the_device_is_active", the_device_is_active),
    Case::new(Layer::Loopback, "the_address_is_one_that_routers_know", the_address),
];

fn the_device_is_active(bed: &Bed) -> Result<(), Failure> {
    let text = bed.machine(1).output("ibv_devinfo -d rxe0", PATIENCE)?;
    let line = text.lines().find(|line| line.trim_start().starts_with("state:"));
    ensure(line.is_some_and(|line| line.contains("PORT_ACTIVE")), || text.clone())
}

fn the_address(bed: &Bed) -> Result<(), Failure> {
    let table = "/sys/class/infiniband/rxe0/ports/1";
    let show = format!("cd {table}; cat gids/$GID_INDEX gid_attrs/types/$GID_INDEX");
    let text = bed.machine(1).output(&show, PATIENCE)?;
    let expected = "0000:0000:0000:0000:0000:ffff:0a00:0001\nRoCE v2\n";
    ensure(text == expected, || text.clone())
}

//! Parts that all engines share: private slots, queues of operations, and joint opening.
//!
//! - [`Slots`] are buffers in private memory, with a record of the operations that use each
//!   ([`Busy`]).
//! - [`Ring`] holds operations that complete in the order of their posts, [`Ledger`] those that
//!   complete in any order.
//! - [`setup`] checks sizes, exchanges connection info, and reports [`SetupError`](crate::SetupError) on every owner
//!   if one of them fails.
//! - [`Calls`] makes the collective calls of an exchange of a gather.
//! - [`Deadline`] bounds the waits of opening and closing.
//!
//! Nothing in this module allocates after set-up. It needs core, alloc and libc.

mod busy;
mod calls;
mod clock;
mod memory;
mod operations;
pub mod setup;
mod window;

pub use busy::{Busy, InFlight, InFlightOrUntil, Until};
pub use calls::{Calls, Gathering};
pub use clock::{Deadline, monotonic_now};
pub use memory::{CpuMemory, Memory, PrivateMemory, Releases, Slots};
pub use operations::{Kind, Ledger, Operation, Ring, Taken, Vacant};
pub use window::{PAGE_WORDS, lost_owner, lost_word, own_words};

/// Declares methods of a builder that set the field of the same name.
#[macro_export]
macro_rules! setters {
    ($($(#[$meta:meta])* $name:ident: $type:ty,)*) => {
        $(
            $(#[$meta])*
            #[must_use]
            pub fn $name(mut self, $name: $type) -> Self {
                self.$name = $name;
                self
            }
        )*
    };
}

//! Virtual machines with Soft-RoCE, in which the verbs are tried for real: one or two guests with
//! a Linux kernel of the distribution, on the host's own root file system, emulated without KVM.
//!
//! [`Site::open`] finds the tools and the kernel, [`Bed::boot`] starts the machines of a [`Plan`],
//! [`Machine::start`] runs a command in one of them, and [`Bed::end`] tells whether they ended
//! well. [`runner`] runs the [`cases`], those of one layer in one boot.
//!
//! Nothing outlives the process that started it, not even when that is killed: see [`Tool`].
#![forbid(unsafe_code)]

mod bed;
mod case;
pub mod cases;
mod channel;
mod error;
mod faults;
mod initrd;
mod kernel;
mod machine;
mod monitor;
mod options;
mod patience;
mod plan;
mod programs;
mod report;
pub mod runner;
mod running;
mod site;
mod tool;
mod verdict;

pub use bed::Bed;
pub use case::{Case, Failure, Layer, Outcome, Run, ensure};
pub use error::Error;
pub use faults::Link;
pub use kernel::Kernel;
pub use machine::Machine;
pub use plan::{Cpu, Plan};
pub use programs::{Build, example, program, test_programs};
pub use running::{Ended, Running};
pub use site::Site;
pub use tool::Tool;
pub use verdict::{Bound, Verdict};

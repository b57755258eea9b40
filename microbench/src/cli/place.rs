//! Options for the placement of ranks and their memory.

use clap::{Args, ValueEnum};

/// Cores, nodes and pages.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Placement (shm, verbs)")]
pub(crate) struct PlaceArgs {
    /// Pin each rank to its own core and prefer memory of that core's node, or leave both to the
    /// kernel [default: cores, but ranks that cannot be pinned continue]
    #[arg(long = "pin", value_enum, value_name = "PIN")]
    pin_asked: Option<PinName>,

    /// Use huge pages for the windows [default: try]
    #[arg(long = "huge-pages", value_enum, value_name = "HUGE_PAGES")]
    huge_pages_asked: Option<HugeName>,
}

impl PlaceArgs {
    pub(crate) fn pin(&self) -> PinName {
        self.pin_asked.unwrap_or(PinName::Cores)
    }

    /// Returns whether a rank that cannot be pinned is an error.
    pub(crate) fn pin_is_asked(&self) -> bool {
        self.pin_asked == Some(PinName::Cores)
    }

    pub(crate) fn huge_pages(&self) -> HugeName {
        self.huge_pages_asked.unwrap_or(HugeName::Try)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PinName {
    Cores,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HugeName {
    /// If the machine has free ones
    Try,
    Never,
    /// Fail without them
    Require,
}

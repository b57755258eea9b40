//! The engine's own words, behind those of the table in every window.

use probeline_transport::Owner;

/// Where they are in the window of every owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Control {
    window_words: u64,
    owners: u32,
}

impl Control {
    pub(super) fn new(window_words: u64, owners: u32) -> Self {
        Self { window_words, owners }
    }

    /// Words of a window, these included.
    pub(super) fn all_words(self) -> Option<usize> {
        let own = u64::from(self.owners) + 2;
        usize::try_from(self.window_words.checked_add(own)?).ok()
    }

    /// Where `owner` tells that it leaves: 0, or 1 more than the number of the owner that was lost
    /// first, as far as it knows.
    #[inline]
    pub(super) fn farewell(self, owner: Owner) -> u64 {
        self.window_words + u64::from(owner.0)
    }

    /// Where an owner tells whether it is asleep outside MPI, by stores of its own.
    pub(super) fn asleep(self) -> u64 {
        self.window_words + u64::from(self.owners)
    }

    /// What others try atomics on meanwhile.
    pub(super) fn tried(self) -> u64 {
        self.asleep() + 1
    }
}

//! The options of an engine, and its opening.

use probeline_transport::SetupError;
use probeline_transport::engine::Slots;
use probeline_transport::engine::setup::{
    agree, check_memory, check_owners, check_sizes, gather_records, together,
};
use probeline_transport::{AtomicScope, Caps, Exchange, Fingerprint, Owner, Sizes};

use super::OpenError;
use super::engine::Engine;
use super::exchange::Members;
use super::in_flight::Operands;
use super::info::{Component, Info, is_loaded};
use super::request::EndlessReceive;
use super::window::Window;

/// The maximum depth of an engine. Every operation in flight has 4 words for an atomic.
pub const MAX_DEPTH: u32 = 1 << 20;
/// Version of the connection information and of the collective calls of opening.
const VERSION: u64 = 3;
/// The networks that osc rdma prefers (Open MPI's `osc_rdma_btls`).
const PREFERRED: [&str; 3] = ["btl_openib", "btl_ugni", "btl_uct"];

/// The options of an engine. All owners of a job choose the same window and slot sizes.
#[derive(Clone, Debug)]
pub struct Builder {
    sizes: Sizes,
    word_reads_whole: bool,
}

impl Builder {
    /// Configures an engine of these sizes, of a depth up to 2^20.
    #[must_use]
    pub fn new(sizes: Sizes) -> Self {
        Self { sizes, word_reads_whole: false }
    }

    probeline_transport::setters! {
        /// States that a READ never brings a torn word, which MPI does not promise:
        /// [`Caps::word_reads_whole`]. If this is wrong, a table loses data.
        word_reads_whole: bool,
    }

    /// Opens this owner's engine. All `members` call it, in the thread that will use the engine.
    /// The window is zero.
    ///
    /// # Errors
    /// [`OpenError`]: what this owner, or another one, is missing. If one fails, all do.
    pub fn open(&self, members: &mut Members) -> Result<Engine, OpenError> {
        let (me, owners) = (members.me(), members.owners());
        check_owners(owners)?;
        // An owner that fails still takes part, so that no owner waits for it in vain.
        let memory = self.allocate();
        let agreed = self.agree(members, memory.is_ok());
        let (slots, operands) = memory?;
        agreed?;
        let neighbours = members.on_this_machine()?;
        // MPI_Win_allocate would wait forever for memory that does not exist.
        together(members, check_memory(&self.sizes, neighbours))?;
        let one_machine = neighbours == owners;
        let window = self.window(members, one_machine);
        let (window, info) = together(members, window)?;
        let number = members.runtime.new_window();
        let needs_owner = info.component.needs_owner();
        let progress =
            needs_owner.then(|| EndlessReceive::start(members.comm, me.0)).transpose()?;
        let caps = Caps {
            depth: self.sizes.depth,
            atomics: AtomicScope::Device,
            words_per_op: self.sizes.slot_words,
            word_reads_whole: self.word_reads_whole,
            // MPI orders accumulates only with each other.
            write_then_atomic: false,
            names_lost_owners: false,
            needs_owner_progress: needs_owner,
            poll_may_wait: needs_owner,
        };
        let runtime = members.runtime.clone();
        let geometry = self.sizes.geometry(me, owners);
        Ok(Engine::new(
            caps,
            geometry,
            info,
            (slots, operands),
            (window, number, runtime),
            progress,
        ))
    }

    /// Allocates the private memory.
    fn allocate(&self) -> Result<(Slots, Operands), OpenError> {
        const TOO_LONG: &str = "a slot must have less than 2^31 words, the limit of MPI";
        let Sizes { slots, slot_words, depth, .. } = self.sizes;
        check_sizes(&self.sizes, MAX_DEPTH)?;
        i32::try_from(slot_words).map_err(|_| SetupError::Sizes(TOO_LONG))?;
        let memory = Slots::new(slots, slot_words).zip(Operands::new(depth));
        Ok(memory.ok_or(SetupError::NO_SLOT_MEMORY)?)
    }

    /// Compares the options of all owners, and frees the windows that none of them uses any more.
    fn agree(&self, members: &mut Members, able: bool) -> Result<(), OpenError> {
        let runtime = members.runtime.clone();
        let Sizes { window_words, slot_words, .. } = self.sizes;
        let mine = [window_words, slot_words.into(), runtime.in_use_from()];
        let all = gather_records(members, Fingerprint::new(VERSION), able.then_some(mine))?;
        for (owner, theirs) in (0..).map(Owner).zip(&all) {
            agree(owner, "words in the window", mine[0], theirs[0])?;
            agree(owner, "words in a slot", mine[1], theirs[1])?;
        }
        let until = all.iter().map(|[.., in_use_from]| *in_use_from).min().unwrap_or(0);
        runtime.free_until(until)
    }

    fn window(&self, members: &Members, one_machine: bool) -> Result<(Window, Info), OpenError> {
        let words = self.sizes.window_words;
        let window = Window::allocate(members.comm, words)?;
        let info = Info::from_window(&window);
        refuse_crash(&info, one_machine)?;
        Ok((window, info))
    }
}

/// Refuses components of Open MPI 4 that abort the process: osc rdma over btl vader, which it uses
/// on one machine, or over btl ofi, unless one of its preferred networks is loaded.
fn refuse_crash(info: &Info, one_machine: bool) -> Result<(), OpenError> {
    let is_rdma = info.component == Component::Osc("rdma".to_owned());
    if !is_rdma || PREFERRED.into_iter().any(is_loaded) {
        return Ok(());
    }
    let carrier = if one_machine && is_loaded("btl_vader") {
        "btl vader"
    } else if is_loaded("btl_ofi") {
        "btl ofi"
    } else {
        return Ok(());
    };
    Err(OpenError::AtomicsCrash { carrier })
}

#[cfg(test)]
mod tests {
    use probeline_transport::MAX_OWNERS;

    use super::*;

    #[test]
    fn refuses_more_than_available_memory() {
        let refused = |builder: Builder| builder.allocate().err().map(|error| error.to_string());
        assert_eq!(refused(Builder::new(Sizes::new(64))), None);
        let too_long = refused(Builder::new(Sizes::new(64).with_slots(1, 1 << 31))).unwrap();
        assert!(too_long.contains("2^31"), "{too_long}");
        let too_large = refused(Builder::new(Sizes::new(1 << 50))).unwrap();
        assert!(too_large.contains("GiB of memory"), "{too_large}");
    }

    /// No call of MPI is made, which would end this process.
    #[test]
    fn refuses_too_many_owners() {
        let mut members = core::mem::ManuallyDrop::new(Members::without_mpi(MAX_OWNERS + 1));
        let error = Builder::new(Sizes::new(64)).open(&mut members).unwrap_err();
        let too_many = SetupError::TooManyOwners { found: MAX_OWNERS + 1 };
        assert_eq!(error, OpenError::Setup(too_many));
    }
}

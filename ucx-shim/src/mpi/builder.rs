//! The sizes of an engine, and how the engines of a job find one another.

use probeline_transport::{AtomicScope, Caps, Exchange, Geometry, MAX_OWNERS, Owner};

use super::control::Control;
use super::engine::Engine;
use super::exchange::Members;
use super::facts::{Component, Facts};
use super::hello::Hello;
use super::idle::Trial;
use super::ledger::Ledger;
use super::private::Private;
use super::progress::Progress;
use super::window::Window;
use super::world::Name;
use super::{OpenError, component};

/// The greatest depth. Every operation in flight has 4 words of its own.
const MAX_DEPTH: u32 = 1 << 20;
/// Single copy mechanisms of btl vader with which osc rdma uses it, for whose atomics it sends
/// messages and ends the process. Seen with the first two; the third gives copies only, too.
const CRASHING: [&str; 3] = ["cma", "emulated", "knem"];
/// What osc rdma prefers to it (Open MPI's `osc_rdma_btls`).
const PREFERRED: [&str; 3] = ["btl_openib", "btl_ugni", "btl_uct"];

/// The sizes of an engine. All owners of a job choose the same window and slot sizes.
#[derive(Clone, Debug)]
pub struct Builder {
    window_words: u64,
    slots: u32,
    slot_words: u32,
    depth: u32,
    word_reads_whole: bool,
    single: Option<bool>,
}

impl Builder {
    /// An engine whose window has `window_words` words, with 64 slots of 64 words and depth 64.
    #[must_use]
    pub fn new(window_words: u64) -> Self {
        let (slots, slot_words, depth) = (64, 64, 64);
        Self { window_words, slots, slot_words, depth, word_reads_whole: false, single: None }
    }

    /// The number of private slots, and the words in each: a multiple of 8.
    #[must_use]
    pub fn slots(mut self, slots: u32, words_each: u32) -> Self {
        self.slots = slots;
        self.slot_words = words_each;
        self
    }

    /// The most operations in flight, at least 1 and at most 2^20.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// Says that READs are known to bring words whole. No clause of MPI promises it; false unless
    /// said.
    #[must_use]
    pub fn word_reads_whole(mut self, whole: bool) -> Self {
        self.word_reads_whole = whole;
        self
    }

    /// Open MPI's "acc_single_intrinsic": whether osc ucx and osc rdma do atomics by those of the
    /// device or CPU, rather than each under a lock that is taken and given back over the network.
    /// `None`, as unless said, leaves it to the library's parameters. Others take no notice.
    #[must_use]
    pub fn acc_single_intrinsic(mut self, on: Option<bool>) -> Self {
        self.single = on;
        self
    }

    /// Opens this owner's engine; all of `members` do so, in the thread that will use it. The window
    /// is zero. The first opening takes some naps of 10 ms, to learn who needs an owner's CPU; up to
    /// 620 ms for each doubling of members where somebody does.
    ///
    /// # Errors
    /// [`OpenError`]: what this owner, or another one, is missing. If one fails, all do.
    pub fn open(&self, members: &mut Members) -> Result<Engine, OpenError> {
        if members.owners() > MAX_OWNERS {
            return Err(OpenError::Sizes("mpi connects at most 4096 owners: start fewer ranks"));
        }
        // An owner that fails still takes part, so that nobody waits for it in vain.
        let private = self.create();
        self.agree(members, private.is_ok())?;
        let private = private?;
        let one_machine = members.neighbours()? == members.owners();
        let control = Control::new(self.window_words, members.owners());
        let ready = self.window(members, control, one_machine);
        tell(members, ready.is_ok())?;
        let (window, mut facts) = ready?;
        facts.idle = match members.tried {
            Some((single, idle)) if single == self.single => idle,
            _ => Trial { members, window: &window, private: &private, control }.measure()?,
        };
        members.tried = Some((self.single, facts.idle));
        let geometry = Geometry {
            me: members.me(),
            owners: members.owners(),
            window_words: self.window_words,
            slots: self.slots,
            slot_words: self.slot_words,
        };
        let name = Name { group: members.group, serial: members.windows };
        members.windows += 1;
        members.runtime.use_window(name);
        let progress = facts.idle.waits().then(|| Progress::new(members.comm, geometry.me.0));
        let (progress, shared) = (progress.transpose()?, (members.runtime.clone(), name));
        let caps = self.caps(&facts);
        Ok(Engine::new(caps, geometry, facts, (window, private), shared, progress))
    }

    /// What is this owner's alone.
    fn create(&self) -> Result<Private, OpenError> {
        self.check()?;
        Private::new(self.slots, self.slot_words, Ledger::places(self.depth))
            .ok_or(OpenError::Sizes("no memory for the slots: choose fewer or shorter ones"))
    }

    fn check(&self) -> Result<(), OpenError> {
        let refusal = match self {
            Self { window_words: 0, .. } => "a window needs at least 1 word",
            Self { slots: 0, .. } => "an engine needs at least 1 slot",
            Self { slot_words, .. } if *slot_words == 0 || slot_words % 8 != 0 => {
                "a slot's words must be a multiple of 8, at least 8"
            }
            Self { slot_words, .. } if i32::try_from(*slot_words).is_err() => {
                "a slot's words must be less than 2^31, which MPI counts to"
            }
            Self { depth, .. } if !(1..=MAX_DEPTH).contains(depth) => {
                "the depth must be at least 1 and at most 2^20"
            }
            _ => return Ok(()),
        };
        Err(OpenError::Sizes(refusal))
    }

    /// Makes sure that all owners want the same, and frees what none of them uses any more.
    fn agree(&self, members: &mut Members, able: bool) -> Result<(), OpenError> {
        let (group, runtime) = (members.group, members.runtime.clone());
        let in_use_from = runtime.in_use_from(group);
        let hello = Hello::new(self.window_words, self.slot_words, self.single, in_use_from);
        let all = if able { hello } else { Hello::FAILED }.gather(members)?;
        if !able {
            // Nobody goes on.
            return Ok(());
        }
        (0..).map(Owner).zip(&all).try_for_each(|(owner, theirs)| hello.agree(owner, theirs))?;
        let until = all.iter().map(|hello| hello.in_use_from).min().unwrap_or(0);
        Ok(runtime.free_until(group, until)?)
    }

    /// A window that can be used, and what serves it.
    fn window(
        &self,
        members: &Members,
        control: Control,
        one_machine: bool,
    ) -> Result<(Window, Facts), OpenError> {
        let too_large = OpenError::Sizes("the window is larger than memory can be");
        let words = control.all_words().ok_or(too_large)?;
        let window = Window::allocate(members.comm, words, self.single)?;
        let facts = Facts::of(&window, self.single)?;
        refuse_crash(&facts, one_machine)?;
        Ok((window, facts))
    }

    fn caps(&self, facts: &Facts) -> Caps {
        Caps {
            depth: self.depth,
            atomics: AtomicScope::Device,
            words_per_op: self.slot_words,
            word_reads_whole: self.word_reads_whole,
            needs_owner_progress: facts.idle.waits(),
            poll_may_wait: facts.idle.waits(),
        }
    }
}

/// Refuses what is known to end the process, of Open MPI 4: osc rdma over btl vader, which it uses
/// on one machine, or over btl ofi, unless one of the networks that it prefers is there.
fn refuse_crash(facts: &Facts, one_machine: bool) -> Result<(), OpenError> {
    let is_rdma = facts.component == Component::Osc("rdma".to_owned());
    if !is_rdma || PREFERRED.into_iter().any(component::is_loaded) {
        return Ok(());
    }
    let carrier = match &facts.single_copy {
        Some(mechanism) if one_machine && CRASHING.contains(&mechanism.as_str()) => {
            format!("btl vader with single copy by {mechanism}")
        }
        _ if component::is_loaded("btl_ofi") => "btl ofi".to_owned(),
        _ => return Ok(()),
    };
    Err(OpenError::AtomicsCrash { carrier })
}

/// Tells everybody whether this owner is ready; returns when all have told.
fn tell(members: &mut Members, ready: bool) -> Result<(), OpenError> {
    let mut all = vec![0; members.owners() as usize];
    members.all_gather(&[u8::from(ready)], &mut all)?;
    match (0..).zip(all).find(|&(_, ready)| ready == 0) {
        // Whoever failed says so itself.
        Some((owner, _)) if ready => Err(OpenError::PeerFailed(Owner(owner))),
        _ => Ok(()),
    }
}

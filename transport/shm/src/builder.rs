//! The sizes of an engine, and how the engines of a job find one another.

use std::os::fd::{AsRawFd, OwnedFd};

use probeline_pin::{MemoryPolicy, Pages, PolicyRefused};
use probeline_transport::{AtomicScope, Caps, Exchange, Geometry, MAX_OWNERS, Owner};

use crate::hello::Hello;
use crate::queue::Queue;
use crate::slots::Slots;
use crate::window::Window;
use crate::{Engine, OpenError};

/// The sizes of an engine. All owners of a job choose the same window and slot sizes.
#[derive(Clone, Debug)]
pub struct Builder {
    window_words: u64,
    slots: u32,
    slot_words: u32,
    depth: u32,
    memory: MemoryPolicy,
}

impl Builder {
    /// An engine whose window has `window_words` words, with 64 slots of 64 words, depth 64 and
    /// huge pages where there are any.
    #[must_use]
    pub fn new(window_words: u64) -> Self {
        let memory = MemoryPolicy::default();
        Self { window_words, slots: 64, slot_words: 64, depth: 64, memory }
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

    /// Where the window is to lie and how large its pages are to be. Slots are small and stay
    /// where the opening thread touches them first.
    #[must_use]
    pub fn memory(mut self, policy: MemoryPolicy) -> Self {
        self.memory = policy;
        self
    }

    /// Opens this owner's engine; every member of `exchange` does so, in the thread that will use
    /// it. The window is zero. Waits for the others as long as the exchange does.
    ///
    /// # Errors
    /// [`OpenError`]: what this owner, or another one, is missing. If one fails, all do.
    pub fn open<E: Exchange + ?Sized>(&self, exchange: &mut E) -> Result<Engine, OpenError> {
        if exchange.owners() > MAX_OWNERS {
            return Err(OpenError::Sizes("shm connects at most 4096 owners: start fewer ranks"));
        }
        // An owner that fails still takes part in both calls, so that nobody waits for it in vain.
        let mut own = self.create();
        let hello = own.as_ref().map_or(Hello::FAILED, |own| own.hello);
        let all = match hello.gather(exchange) {
            Ok(all) => all,
            Err(error) => return Err(own.err().unwrap_or(OpenError::Exchange(error))),
        };
        let me = exchange.me();
        let windows = own.as_mut().map_err(|error| *error).and_then(|own| own.reach(me, &all));
        let everybody = tell(exchange, windows.is_ok());
        let (windows, ()) = (windows?, everybody?);
        let Own { pages, policy_refused, slots, queue, .. } = own?;
        let geometry = Geometry {
            me,
            owners: exchange.owners(),
            window_words: self.window_words,
            slots: self.slots,
            slot_words: self.slot_words,
        };
        let memory = (pages, policy_refused);
        Ok(Engine::new(self.caps(), geometry, memory, windows, slots, queue))
    }

    /// Everything that is this owner's alone.
    fn create(&self) -> Result<Own, OpenError> {
        self.check()?;
        let slots = Slots::new(self.slots, self.slot_words)
            .ok_or(OpenError::Sizes("no memory for the slots: choose fewer or shorter ones"))?;
        let nonce = random()?;
        let (window, file) = Window::create(self.window_words, nonce, &self.memory)?;
        let fd = u64::from(file.as_raw_fd().unsigned_abs());
        let hello = Hello::new(fd, nonce, self.window_words, u64::from(self.slot_words));
        Ok(Own {
            hello,
            pages: window.pages(),
            policy_refused: window.policy_refused(),
            window: Some(window),
            _file: file,
            slots,
            queue: Queue::new(self.depth),
        })
    }

    fn check(&self) -> Result<(), OpenError> {
        let refusal = match self {
            Self { window_words: 0, .. } => "a window needs at least 1 word",
            Self { slots: 0, .. } => "an engine needs at least 1 slot",
            Self { slot_words, .. } if *slot_words == 0 || slot_words % 8 != 0 => {
                "a slot's words must be a multiple of 8, at least 8"
            }
            Self { depth, .. } if !(1..=Queue::MAX_DEPTH).contains(depth) => {
                "the depth must be at least 1 and at most 2^20"
            }
            _ => return Ok(()),
        };
        Err(OpenError::Sizes(refusal))
    }

    fn caps(&self) -> Caps {
        Caps {
            depth: self.depth,
            atomics: AtomicScope::Cpu,
            words_per_op: self.slot_words,
            word_reads_whole: true,
            needs_owner_progress: false,
            poll_may_wait: false,
        }
    }
}

/// What an owner has before it knows the others.
struct Own {
    hello: Hello,
    pages: Pages,
    policy_refused: Option<PolicyRefused>,
    window: Option<Window>,
    /// Open until the others have mapped the window, or never will.
    _file: OwnedFd,
    slots: Slots,
    queue: Queue,
}

impl Own {
    /// The windows of all owners, this one's among them, by what they told.
    fn reach(&mut self, me: Owner, all: &[Hello]) -> Result<Box<[Window]>, OpenError> {
        let owners = || (0..).map(Owner).zip(all);
        // Before anything is mapped, for mapping provides every page and takes its time.
        owners().try_for_each(|(owner, theirs)| self.hello.agree(owner, theirs))?;
        owners()
            .map(|(owner, theirs)| match self.window.take_if(|_| owner == me) {
                Some(own) => Ok(own),
                None => Window::of_peer(owner, theirs),
            })
            .collect()
    }
}

/// Tells everybody whether this owner is ready; returns when all have told.
fn tell<E: Exchange + ?Sized>(exchange: &mut E, ready: bool) -> Result<(), OpenError> {
    let mut all = vec![0; exchange.owners() as usize];
    exchange.all_gather(&[u8::from(ready)], &mut all).map_err(OpenError::Exchange)?;
    match (0..).zip(all).find(|&(_, ready)| ready == 0) {
        Some((owner, _)) => Err(OpenError::PeerFailed(Owner(owner))),
        None => Ok(()),
    }
}

fn random() -> Result<u64, OpenError> {
    let mut bytes = [0; size_of::<u64>()];
    // SAFETY: the kernel writes at most as many bytes as there are.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if usize::try_from(got) == Ok(bytes.len()) {
        return Ok(u64::from_ne_bytes(bytes));
    }
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    Err(OpenError::Random { errno })
}

#[cfg(test)]
mod tests;

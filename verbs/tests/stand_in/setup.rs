//! The devices of a machine, and its faults.

use core::net::Ipv6Addr;

use probeline_verbs_sys::*;

/// The devices of a machine.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) devices: Vec<Device>,
}

/// The attributes of a device with one port.
#[derive(Clone)]
pub(crate) struct Device {
    pub(crate) name: &'static str,
    pub(crate) active: bool,
    pub(crate) ethernet: bool,
    pub(crate) firmware: &'static str,
    pub(crate) vendor: u32,
    pub(crate) part: u32,
    /// The codes of the link's width and speed.
    pub(crate) link: (u8, u8),
    pub(crate) mtu: ibv_mtu,
    pub(crate) gids: Vec<Gid>,
    pub(crate) message_bytes: u32,
    pub(crate) atomics: ibv_atomic_cap,
    pub(crate) queue_pairs: i32,
    pub(crate) work_requests: i32,
    pub(crate) completions: i32,
    pub(crate) region_bytes: u64,
    /// The maximum number of READs and atomics outstanding, as initiator and as responder.
    pub(crate) reads: i32,
    pub(crate) inline_bytes: u32,
}

/// An entry of a GID table: its address and type.
pub(crate) type Gid = (&'static str, u32);

/// The behaviour of atomics.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum Atomics {
    #[default]
    Right,
    /// Values are in big-endian order.
    Swapped,
    /// Atomics complete without changing the word.
    Idle,
    /// Fetch-and-add adds one too much.
    Wrong,
    /// A compare-and-swap that fails writes the old value back before it completes.
    WriteBack,
}

/// The faults of a machine. A count is the number of calls or requests that succeed before the
/// fault.
#[derive(Default)]
pub(crate) struct Faults {
    /// The call of this name fails with this errno after the count.
    pub(crate) call: Option<(&'static str, u32, i32)>,
    /// Requests are refused with this errno when they are posted, after the count.
    pub(crate) post: Option<(u32, i32)>,
    /// The device takes all requests, and ibv_post_send fails with this errno and a null `bad_wr`.
    pub(crate) doorbell: Option<i32>,
    /// One request completes with this status after the count.
    pub(crate) status: Option<(u32, ibv_wc_status)>,
    /// The value that polls return: a failure, or 0 for a device that reports no completions.
    pub(crate) poll: Option<i32>,
    /// The next completion is reported twice.
    pub(crate) twice: bool,
    /// Its queue pairs do not respond, like those of a killed process.
    pub(crate) cut_off: bool,
    pub(crate) atomics: Atomics,
}

impl Default for Setup {
    fn default() -> Self {
        Self { devices: vec![Device::default()] }
    }
}

impl Setup {
    /// Returns a machine with one default device that `change` has modified.
    pub(crate) fn with(change: impl FnOnce(&mut Device)) -> Self {
        let mut device = Device::default();
        change(&mut device);
        Self { devices: vec![device] }
    }
}

impl Default for Device {
    fn default() -> Self {
        Self {
            name: "stand0",
            active: true,
            ethernet: true,
            firmware: "20.31.1014",
            vendor: 0x2c9,
            part: 4123,
            link: (2, 32),
            mtu: IBV_MTU_1024,
            gids: vec![
                ("fe80::5054:ff:fe12:1", IBV_GID_TYPE_ROCE_V1),
                ("fe80::5054:ff:fe12:1", IBV_GID_TYPE_ROCE_V2),
                ("::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2),
            ],
            message_bytes: 1 << 30,
            atomics: IBV_ATOMIC_HCA,
            queue_pairs: 1 << 10,
            work_requests: 1 << 14,
            completions: 1 << 16,
            region_bytes: 1 << 40,
            reads: 16,
            inline_bytes: 64,
        }
    }
}

impl Device {
    pub(super) fn gid(&self, index: usize) -> Option<([u8; 16], u32)> {
        let (text, kind) = self.gids.get(index)?;
        Some((text.parse::<Ipv6Addr>().unwrap().octets(), *kind))
    }
}

/// Returns whether a fault is due, and otherwise counts down to it.
fn is_due(right: &mut u32) -> bool {
    let is_due = *right == 0;
    *right = right.saturating_sub(1);
    is_due
}

impl Faults {
    /// Returns the errno with which this call of `name` must fail.
    pub(super) fn call(&mut self, name: &str) -> Option<i32> {
        let (_, right, errno) = self.call.as_mut().filter(|(broken, ..)| *broken == name)?;
        is_due(right).then_some(*errno)
    }

    /// Returns the errno with which this request must be refused.
    pub(super) fn post(&mut self) -> Option<i32> {
        let (right, errno) = self.post.as_mut()?;
        is_due(right).then_some(*errno)
    }

    /// Returns the status with which this request must complete.
    pub(super) fn status(&mut self) -> Option<ibv_wc_status> {
        Some(self.status.take_if(|(right, _)| is_due(right))?.1)
    }
}

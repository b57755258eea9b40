//! What the library hands out. Objects are never freed, so that a use after destruction is found
//! and noted instead of being undefined.

use core::mem::MaybeUninit;

use probeline_verbs_sys::*;

use super::Machine;

/// A context, with the machine it is of.
#[repr(C)]
pub(super) struct Context {
    base: ibv_context,
    pub(super) machine: Machine,
    /// Which of the machine's devices.
    pub(super) device: usize,
    pub(super) handle: u32,
}

/// A device in a list.
#[repr(C)]
pub(super) struct Listed {
    base: ibv_device,
    pub(super) machine: Machine,
    pub(super) device: usize,
}

/// All zeros. A value of every type that this is used for.
pub(super) fn zeroed<T>() -> T {
    // SAFETY: used for C structs of integers, pointers and optional functions only.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

pub(super) fn boxed<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

impl Listed {
    pub(super) fn list(machine: &Machine, device: usize, name: &str) -> *mut ibv_device {
        let mut base: ibv_device = zeroed();
        for (to, from) in base.name.iter_mut().zip(name.bytes()) {
            *to = from.cast_signed();
        }
        boxed(Self { base, machine: machine.clone(), device }).cast()
    }

    /// # Safety
    /// From [`list`](Self::list).
    pub(super) unsafe fn of<'a>(device: *mut ibv_device) -> &'a Self {
        // SAFETY: the caller's promise; the base is the first field, and nothing is freed.
        unsafe { &*device.cast() }
    }
}

impl Context {
    pub(super) fn open(listed: &Listed, ops: ibv_context_ops, handle: u32) -> *mut ibv_context {
        let base = ibv_context { ops, ..zeroed() };
        let (machine, device) = (listed.machine.clone(), listed.device);
        boxed(Self { base, machine, device, handle }).cast()
    }

    /// # Safety
    /// From [`open`](Self::open).
    pub(super) unsafe fn of<'a>(context: *mut ibv_context) -> &'a Self {
        // SAFETY: the caller's promise; the base is the first field, and nothing is freed.
        unsafe { &*context.cast() }
    }
}

//! The objects that the library returns. They are never freed, so that a use after destruction is
//! recorded instead of being undefined behaviour.

use core::mem::MaybeUninit;

use probeline_verbs_sys::*;

use super::Machine;

/// A context, with its machine.
#[repr(C)]
pub(super) struct Context {
    base: ibv_context,
    pub(super) machine: Machine,
    /// The index of the device in the machine.
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

/// Returns a value of all zero bytes, which is valid for every type that this is used for.
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
    /// [`list`](Self::list) returned `device`.
    pub(super) unsafe fn of<'a>(device: *mut ibv_device) -> &'a Self {
        // SAFETY: `open` or `list` created it with this type and never frees it; the base is the
        // first field.
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
    /// [`open`](Self::open) returned `context`.
    pub(super) unsafe fn of<'a>(context: *mut ibv_context) -> &'a Self {
        // SAFETY: `open` or `list` created it with this type and never frees it; the base is the
        // first field.
        unsafe { &*context.cast() }
    }
}

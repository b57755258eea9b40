//! The objects that the library returns. They are never freed, so that a use after destruction is
//! recorded instead of being undefined behaviour.

use core::mem::MaybeUninit;

use probeline_verbs_sys::*;

use super::Machine;

/// A listed device or a context, with its machine.
#[repr(C)]
pub(super) struct Object<B> {
    base: B,
    pub(super) machine: Machine,
    /// The index of the device in the machine.
    pub(super) device: usize,
    pub(super) handle: u32,
}

pub(super) type Context = Object<ibv_context>;

/// Returns a value of all zero bytes, which is valid for every type that this is used for.
pub(super) fn zeroed<T>() -> T {
    // SAFETY: used for C structs of integers, pointers and optional functions only.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

pub(super) fn boxed<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

impl<B> Object<B> {
    pub(super) fn create(base: B, machine: &Machine, device: usize, handle: u32) -> *mut B {
        boxed(Self { base, machine: machine.clone(), device, handle }).cast()
    }

    /// # Safety
    /// [`create`](Self::create) returned `base`.
    pub(super) unsafe fn of<'a>(base: *mut B) -> &'a Self {
        // SAFETY: `create` created it with this type and never frees it; the base is the first field.
        unsafe { &*base.cast() }
    }
}

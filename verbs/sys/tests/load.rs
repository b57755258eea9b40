//! Tests of loading libibverbs, on machines with and without it.

use core::ffi::{CStr, c_void};
use core::ptr;
use std::collections::HashSet;
use std::io;

use probeline_exchange::testing::Plan;
use probeline_verbs_sys::*;

fn main() {
    let library = (!installed()).then_some("libibverbs is not installed");
    let devices = library.or_else(|| no_rdma().then_some("this kernel has no RDMA support"));
    let plan =
        |obstacle: Option<&'static str>, test| obstacle.map_or(Plan::Run(test), Plan::Ignore);
    probeline_exchange::testing::run(&[
        ("the_library_loads", plan(library, the_library_loads)),
        ("the_devices_have_names", plan(devices, the_devices_have_names)),
        ("each_call_is_looked_up_once_and_each_is_needed", Plan::Run(each_call_is_looked_up_once)),
    ]);
}

fn installed() -> bool {
    // SAFETY: the name ends in NUL.
    let library = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW) };
    !library.is_null()
}

/// Returns the list of devices, which the caller frees, and its length.
fn devices(verbs: &Verbs) -> io::Result<(*mut *mut ibv_device, usize)> {
    let mut count = -1;
    // SAFETY: `count` can be written.
    let list = unsafe { (verbs.ibv_get_device_list)(&raw mut count) };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    Ok((list, usize::try_from(count).unwrap()))
}

fn no_rdma() -> bool {
    let Ok(verbs) = Verbs::load() else { return false };
    match devices(&verbs) {
        // SAFETY: the list is freed once.
        Ok((list, _)) => unsafe { (verbs.ibv_free_device_list)(list) },
        Err(error) => return error.raw_os_error() == Some(libc::ENOSYS),
    }
    false
}

fn the_library_loads() {
    Verbs::load().unwrap();
}

/// Tests the list and the names in it; the list may be empty.
fn the_devices_have_names() {
    let verbs = Verbs::load().unwrap();
    let (list, count) = devices(&verbs).unwrap();
    println!("{count} devices");
    for index in 0..count {
        // SAFETY: the list has `count` devices; the name lives as long as the list.
        let name = unsafe { CStr::from_ptr((verbs.ibv_get_device_name)(*list.add(index))) };
        assert!(!name.is_empty());
    }
    // SAFETY: the list has `count` devices and a null, and is freed once.
    unsafe {
        assert_eq!(*list.add(count), ptr::null_mut());
        (verbs.ibv_free_device_list)(list);
    }
}

fn each_call_is_looked_up_once() {
    let mut names = Vec::new();
    let address = (each_call_is_looked_up_once as fn()) as *mut c_void;
    // SAFETY: the address is that of a function of this program, and no call is made.
    let all = unsafe {
        Verbs::from_symbols(|name| {
            names.push(name);
            address
        })
    };
    assert!(all.is_ok());
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    assert!(names.len() > 15);
    for &missing in &names {
        let address_of = |name| if name == missing { ptr::null_mut() } else { address };
        // SAFETY: as above.
        let table = unsafe { Verbs::from_symbols(address_of) };
        assert_eq!(table.unwrap_err(), SetupError::Symbol { library: LIBIBVERBS, name: missing });
    }
}

//! Loading, on machines with the library and without.

#[allow(dead_code, reason = "shared with the other tests")]
mod stand_in;

use core::ffi::CStr;
use core::ptr;
use std::collections::HashSet;
use std::io;

use verbs_sys::*;

fn installed() -> bool {
    // SAFETY: the name ends in NUL.
    let library = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW) };
    !library.is_null()
}

#[test]
fn an_installed_library_loads_and_answers_and_a_missing_one_is_named() {
    let loaded = Verbs::load();
    if !installed() {
        println!("libibverbs is not installed: the error is tested, not the calls");
        assert_eq!(loaded.unwrap_err(), LoadError::Library);
        return;
    }
    let verbs = loaded.unwrap();
    // SAFETY: these calls return static strings for any number.
    let (status, event) = unsafe {
        let status = (verbs.ibv_wc_status_str)(IBV_WC_WR_FLUSH_ERR);
        let event = (verbs.ibv_event_type_str)(IBV_EVENT_QP_FATAL);
        (CStr::from_ptr(status), CStr::from_ptr(event))
    };
    assert_eq!(status, c"Work Request Flushed Error");
    assert_eq!(event, c"local work queue catastrophic error");

    let mut count = -1;
    // SAFETY: `count` can be written.
    let list = unsafe { (verbs.ibv_get_device_list)(&raw mut count) };
    if list.is_null() {
        let error = io::Error::last_os_error();
        println!("no RDMA support in this kernel: {error}");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSYS));
        return;
    }
    let count = usize::try_from(count).unwrap();
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

#[test]
fn each_call_is_looked_up_once_and_each_is_needed() {
    let mut names = Vec::new();
    // SAFETY: the stand-ins are functions of this program, and none is called here.
    let all = unsafe {
        Verbs::from_symbols(|name| {
            names.push(name);
            stand_in::symbol(name)
        })
    };
    assert!(all.is_ok());
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    assert!(names.len() > 30);
    for &missing in &names {
        // SAFETY: as above.
        let table = unsafe {
            Verbs::from_symbols(|name| {
                if name == missing { ptr::null_mut() } else { stand_in::symbol(name) }
            })
        };
        assert_eq!(table.unwrap_err(), LoadError::Symbol { name: missing });
    }
}

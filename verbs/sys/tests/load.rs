//! Tests of loading libibverbs, on machines with and without it. A custom harness reports tests
//! that cannot run on this machine as ignored.

#[allow(dead_code, reason = "shared with the other tests")]
mod stand_in;

use core::ffi::CStr;
use core::ptr;
use std::collections::HashSet;
use std::panic::catch_unwind;
use std::{env, io, process};

use probeline_verbs_sys::*;

/// The reason why a test cannot run on this machine; `None` if it can.
type Obstacle = Option<&'static str>;

fn main() {
    let library = (!installed()).then_some("libibverbs is not installed");
    let devices = library.or_else(|| no_rdma().then_some("this kernel has no RDMA support"));
    run(&[
        ("the_library_loads", library, the_library_loads),
        ("the_devices_have_names", devices, the_devices_have_names),
        ("each_call_is_looked_up_once_and_each_is_needed", None, each_call_is_looked_up_once),
    ]);
}

/// Runs the tests whose names contain the program's first argument, or all tests without an
/// argument, and counts them like the standard test harness.
fn run(tests: &[(&str, Obstacle, fn())]) {
    let wanted = env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| wanted.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let [mut passed, mut failed, mut ignored] = [0; 3];
    for (name, obstacle, test) in tests.iter().filter(|(name, ..)| wanted(name)) {
        let (end, count) = match obstacle {
            Some(why) => (format!("ignored, {why}"), &mut ignored),
            None if catch_unwind(test).is_ok() => ("ok".to_owned(), &mut passed),
            None => ("FAILED".to_owned(), &mut failed),
        };
        *count += 1;
        println!("test {name} ... {end}");
    }
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {result}. {passed} passed; {failed} failed; {ignored} ignored");
    process::exit(failed);
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
    // SAFETY: the stand-ins are functions of this program, and none is called here.
    let all = unsafe {
        Verbs::from_symbols(|name| {
            names.push(name);
            stand_in::symbol(name)
        })
    };
    assert!(all.is_ok());
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    assert!(names.len() > 15);
    for &missing in &names {
        // SAFETY: as above.
        let table = unsafe {
            Verbs::from_symbols(|name| {
                if name == missing { ptr::null_mut() } else { stand_in::symbol(name) }
            })
        };
        assert_eq!(table.unwrap_err(), LoadError::Symbol { library: LIBIBVERBS, name: missing });
    }
}

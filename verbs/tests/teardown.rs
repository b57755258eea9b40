//! Every object is destroyed once, in an order that the kernel accepts. An object that cannot be
//! destroyed is leaked together with the objects that it uses.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use crate::stand_in::{Fabric, Setup};
use crate::{job, stand_in};
use probeline_transport::{Alone, Completion, Owner, RemoteWord, Token, Transport};
use probeline_verbs::{Access, DeviceList, Engine, Memory, MemoryRegion, ProtectionDomain};

/// Memory that counts its drops.
struct Counted {
    words: Vec<AtomicU64>,
    freed: Arc<AtomicU64>,
}

// SAFETY: the vector never grows, so its words, which are atomics, stay in place.
unsafe impl Memory for Counted {
    fn words(&self) -> &[AtomicU64] {
        &self.words
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.freed.fetch_add(1, Relaxed);
    }
}

/// Returns a machine, an engine on it, and the number of drops of its window.
fn alone(fabric: &Fabric) -> (stand_in::Machine, Engine, Arc<AtomicU64>) {
    let machine = fabric.machine(Setup::default());
    let freed = Arc::new(AtomicU64::new(0));
    let builder = job::builder(&machine);
    let engine = builder.open_in(&mut Alone, |_, words| {
        Ok(Box::new(Counted { words: job::zeroes(words), freed: Arc::clone(&freed) }))
    });
    (machine, engine.unwrap(), freed)
}

fn post_some(engine: &mut Engine) {
    for token in 0..20 {
        let at = RemoteWord { owner: Owner(0), index: token };
        engine.fetch_add(Token(token), at, 1).unwrap();
    }
}

#[test]
fn engine_destroys_its_objects() {
    for busy in [false, true] {
        let fabric = Fabric::lazy(3);
        let (_, mut engine, freed) = alone(&fabric);
        // Context, domain, completion queue, slots, window, queue pair and loopback.
        assert_eq!(fabric.created(), 7);
        assert_eq!(fabric.alive(), [1, 1, 2, 1, 2]);
        if busy {
            post_some(&mut engine);
        }
        assert_eq!(freed.load(Relaxed), 0);
        drop(engine);
        assert_eq!(freed.load(Relaxed), 1);
        fabric.judge_empty();
    }
}

#[test]
fn failed_deregistration_keeps_memory() {
    let fabric = Fabric::lazy(4);
    let (machine, mut engine, freed) = alone(&fabric);
    post_some(&mut engine);
    engine.poll(&mut [Completion::default(); 4]).unwrap();
    machine.break_it(|faults| faults.call = Some(("ibv_dereg_mr", 0, libc::EBUSY)));
    drop(engine);
    assert_eq!(freed.load(Relaxed), 0, "the device may reach it still");
    // Both regions, their domain and its context are leaked.
    assert_eq!(fabric.alive(), [1, 1, 2, 0, 0]);
    fabric.judge();
}

#[test]
fn frees_only_deregistered_region() {
    let fabric = Fabric::new();
    let (machine, engine, freed) = alone(&fabric);
    machine.break_it(|faults| faults.call = Some(("ibv_dereg_mr", 1, libc::EBUSY)));
    drop(engine);
    // The slots were deregistered first; the window could not be.
    assert_eq!(freed.load(Relaxed), 0);
    assert_eq!(fabric.alive(), [1, 1, 1, 0, 0]);
    fabric.judge();
}

#[test]
fn undestroyed_queue_pair_keeps_dependencies() {
    for right in 0..2 {
        let fabric = Fabric::lazy(5);
        let (machine, mut engine, freed) = alone(&fabric);
        post_some(&mut engine);
        machine.break_it(|faults| faults.call = Some(("ibv_destroy_qp", right, libc::EBUSY)));
        drop(engine);
        assert_eq!(freed.load(Relaxed), 1, "its keys open nothing any more");
        assert_eq!(fabric.alive(), [1, 1, 0, 1, 2 - right as usize]);
        fabric.judge();
    }
}

#[test]
fn frees_window_despite_leaks() {
    for (call, alive) in [("ibv_dealloc_pd", [1, 1, 0, 0, 0]), ("ibv_destroy_cq", [1, 0, 0, 1, 0])]
    {
        let fabric = Fabric::new();
        let (machine, engine, freed) = alone(&fabric);
        machine.break_it(|faults| faults.call = Some((call, 0, libc::EBUSY)));
        drop(engine);
        assert_eq!(freed.load(Relaxed), 1);
        assert_eq!(fabric.alive(), alive);
        fabric.judge();
    }
}

#[test]
fn destroys_in_required_order() {
    let fabric = Fabric::new();
    let machine = fabric.machine(Setup::default());
    let list = DeviceList::new(machine.libibverbs()).unwrap();
    let context = list.iter().next().unwrap().open().unwrap();
    let domain = ProtectionDomain::new(&context).unwrap();
    let memory = Counted { words: job::zeroes(8), freed: Arc::default() };
    let freed = Arc::clone(&memory.freed);
    let region = MemoryRegion::register(&domain, memory, Access::WINDOW).unwrap();
    drop(list);
    drop(context);
    drop(domain);
    assert_eq!(fabric.alive(), [1, 1, 1, 0, 0]);
    assert_eq!((region.words().len(), freed.load(Relaxed)), (8, 0));
    drop(region);
    assert_eq!(freed.load(Relaxed), 1);
    fabric.judge_empty();
}

#[test]
fn frees_unregistered_memory() {
    let fabric = Fabric::new();
    let machine = fabric.machine(Setup::default());
    let list = DeviceList::new(machine.libibverbs()).unwrap();
    let domain = ProtectionDomain::new(&list.iter().next().unwrap().open().unwrap()).unwrap();
    machine.break_it(|faults| faults.call = Some(("ibv_reg_mr", 0, libc::ENOMEM)));
    let memory = Counted { words: job::zeroes(8), freed: Arc::default() };
    let freed = Arc::clone(&memory.freed);
    let failed = MemoryRegion::register(&domain, memory, Access::WINDOW).unwrap_err();
    assert!(failed.to_string().contains("ulimit -l"));
    assert_eq!(freed.load(Relaxed), 1);
    drop(domain);
    fabric.judge_empty();
}

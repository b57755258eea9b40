//! Every object is destroyed once, in an order that the kernel accepts. An object that cannot be
//! destroyed is leaked together with the objects that it uses.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use crate::stand_in::{Fabric, Setup};
use crate::{job, stand_in};
use probeline_transport::conformance::word;
use probeline_transport::{Alone, Completion, Token, Transport};
use probeline_verbs::{Access, Engine, Memory, MemoryRegion, ProtectionDomain};

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
        engine.fetch_add(Token(token), word(0, token), 1).unwrap();
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
fn leaks_what_undestroyed_object_uses() {
    // The call, the number of such calls that succeed before, the objects that are leaked, and
    // whether the window is freed: not while the device may still access it.
    for (call, right, leaked, freed) in [
        ("ibv_dereg_mr", 0, [1, 1, 2, 0, 0], 0),
        // The slots are deregistered first.
        ("ibv_dereg_mr", 1, [1, 1, 1, 0, 0], 0),
        ("ibv_destroy_qp", 0, [1, 1, 0, 1, 2], 1),
        ("ibv_destroy_qp", 1, [1, 1, 0, 1, 1], 1),
        ("ibv_dealloc_pd", 0, [1, 1, 0, 0, 0], 1),
        ("ibv_destroy_cq", 0, [1, 0, 0, 1, 0], 1),
    ] {
        let fabric = Fabric::lazy(4);
        let (machine, mut engine, drops) = alone(&fabric);
        post_some(&mut engine);
        engine.poll(&mut [Completion::default(); 4]).unwrap();
        machine.break_it(|faults| faults.call = Some((call, right, libc::EBUSY)));
        drop(engine);
        assert_eq!((fabric.alive(), drops.load(Relaxed)), (leaked, freed), "{call} {right}");
        fabric.judge();
    }
}

#[test]
fn destroys_in_required_order() {
    let fabric = Fabric::new();
    let machine = fabric.machine(Setup::default());
    let context = machine.open_device();
    let domain = ProtectionDomain::new(&context).unwrap();
    let freed = Arc::new(AtomicU64::new(0));
    let register = || {
        let memory = Counted { words: job::zeroes(8), freed: Arc::clone(&freed) };
        MemoryRegion::register(&domain, memory, Access::WINDOW)
    };
    let region = register().unwrap();
    machine.break_it(|faults| faults.call = Some(("ibv_reg_mr", 0, libc::ENOMEM)));
    assert!(register().unwrap_err().to_string().contains("ulimit -l"));
    assert_eq!(freed.load(Relaxed), 1, "memory that is not registered");
    drop((context, domain));
    assert_eq!(fabric.alive(), [1, 1, 1, 0, 0]);
    assert_eq!((region.words().len(), freed.load(Relaxed)), (8, 1));
    drop(region);
    assert_eq!(freed.load(Relaxed), 2);
    fabric.judge_empty();
}

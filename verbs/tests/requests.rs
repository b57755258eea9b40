//! Work requests are posted with the fields that they were created with, and have the effects that
//! the specification defines.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::stand_in::{Fabric, Machine, Seen, Setup};
use probeline_transport::conformance::allocations;
use probeline_verbs::{
    Access, Capacity, CompletionQueue, GidEntry, MemoryRegion, Path, Peer, ProtectionDomain,
    QueuePair, ReadyToSend, RemoteRegion, Status, WorkCompletion, WorkRequest, WorkRequestList,
};
use probeline_verbs_sys::*;

const WORDS: u32 = 64;
const REQUESTS: u32 = 8;

/// Two connected queue pairs on one device, each with a completion queue of its own.
struct Two {
    fabric: Fabric,
    machine: Machine,
    pair: QueuePair<ReadyToSend>,
    completions: CompletionQueue,
    local: MemoryRegion<Vec<AtomicU64>>,
    remote: MemoryRegion<Vec<AtomicU64>>,
    answers: QueuePair<ReadyToSend>,
    answered: CompletionQueue,
}

fn words() -> Vec<AtomicU64> {
    (100..100 + u64::from(WORDS)).map(AtomicU64::new).collect()
}

fn two(inline_words: u32, access: Access, pair_access: Access) -> Two {
    let fabric = Fabric::new();
    let machine = fabric.machine(Setup::default());
    let context = machine.open_device();
    let domain = ProtectionDomain::new(&context).unwrap();
    let port = context.port(1).unwrap();
    let GidEntry { index, gid, .. } = context.choose_gid(&port, None).unwrap();
    let capacity = Capacity { requests: REQUESTS, inline_words };
    let make = |access| {
        let queue = CompletionQueue::new(&context, REQUESTS).unwrap();
        let pair = QueuePair::new(&domain, &queue, capacity).unwrap();
        (pair.init(&port, 0, access).unwrap(), queue)
    };
    let ((pair, completions), (answers, answered)) = (make(Access::PRIVATE), make(pair_access));
    let path = Path { gid_index: index, rd_atomic: 16, psn: 5, ..Path::over(&port) };
    let peer = |queue_pair| Peer { queue_pair, psn: 5, lid: 0, gid };
    let (to, from) = (peer(answers.number()), peer(pair.number()));
    let pair = pair.ready_to_receive(&to, &path).unwrap().ready_to_send(&path).unwrap();
    let answers = answers.ready_to_receive(&from, &path).unwrap().ready_to_send(&path).unwrap();
    let local = MemoryRegion::register(&domain, words(), Access::PRIVATE).unwrap();
    let remote = MemoryRegion::register(&domain, words(), access).unwrap();
    Two { fabric, machine, pair, completions, local, remote, answers, answered }
}

fn with_all_access() -> Two {
    two(8, Access::WINDOW, Access::WINDOW)
}

impl Two {
    fn read(&self, id: u64) -> WorkRequest {
        let into = self.local.local(8, 4).unwrap();
        WorkRequest::read(id, self.remote.remote().at(16, 4).unwrap(), into)
    }

    /// Polls for the next completion; `None` if there is none.
    fn next_completion(&mut self) -> Option<(u64, Result<(), Status>)> {
        let mut out = [WorkCompletion::default()];
        // More polls than a request without a responder needs to fail.
        let found = (0..200).any(|_| self.completions.poll(&mut out).unwrap() == 1);
        let [completion] = out;
        assert!(!found || completion.queue_pair() == self.pair.number());
        found.then(|| (completion.id(), completion.result()))
    }

    /// Posts `request` and returns its result. Nothing is allocated.
    fn outcome(&mut self, request: WorkRequest) -> Result<(), Status> {
        let before = allocations();
        self.pair.post(&request).unwrap();
        let (_, result) = self.next_completion().unwrap();
        assert_eq!(allocations(), before);
        result
    }

    fn address(region: &MemoryRegion<Vec<AtomicU64>>, word: usize) -> u64 {
        region.words()[word].as_ptr().addr() as u64
    }
}

/// Returns the parts of a request that do not depend on where it was posted.
fn parts(seen: &Seen) -> (u64, u32, u32, (u64, u64)) {
    (seen.id, seen.opcode, seen.flags, seen.operands)
}

#[test]
fn sets_fields_of_each_operation() {
    let mut two = with_all_access();
    two.fabric.watch();
    let at = two.remote.remote().at(3, 1).unwrap();
    let one = two.local.local(2, 1).unwrap();
    let from = two.local.local(40, 5).unwrap();
    let to = two.remote.remote().at(50, 5).unwrap();
    let requests = [
        two.read(1),
        WorkRequest::write(2, from, to),
        WorkRequest::compare_and_swap(3, at, 103, 7, one),
        WorkRequest::fetch_add(4, at, 9, one),
        WorkRequest::write_inline(5, &[1, 2, 3], to).unwrap().unsignalled(),
        WorkRequest::read(6, to, from).unsignalled(),
    ];
    for request in &requests {
        two.pair.post(request).unwrap();
    }
    let seen = two.fabric.seen();
    let (signalled, inline) = (IBV_SEND_SIGNALED, IBV_SEND_INLINE);
    assert_eq!(
        seen.iter().map(parts).collect::<Vec<_>>(),
        [
            (1, IBV_WR_RDMA_READ, signalled, (0, 0)),
            (2, IBV_WR_RDMA_WRITE, signalled, (0, 0)),
            (3, IBV_WR_ATOMIC_CMP_AND_SWP, signalled, (103, 7)),
            (4, IBV_WR_ATOMIC_FETCH_AND_ADD, signalled, (9, 0)),
            (5, IBV_WR_RDMA_WRITE, inline, (0, 0)),
            (6, IBV_WR_RDMA_READ, 0, (0, 0)),
        ]
    );
    let (local, remote) = (&two.local, &two.remote);
    let key = remote.remote().key;
    let remotes = [16, 50, 3, 3, 50, 50].map(|word| (Two::address(remote, word), key));
    assert_eq!(seen.iter().map(|seen| seen.remote).collect::<Vec<_>>(), remotes);
    let ranges =
        [(8, 32), (40, 40), (2, 8), (2, 8)].map(|(w, bytes)| (Two::address(local, w), bytes));
    for (seen, range) in seen.iter().zip(ranges) {
        assert_eq!((seen.local.0, seen.local.1), range);
    }
    assert_eq!(seen[4].local.1, 24);
    assert!(seen.iter().zip(1..).all(|(seen, call)| seen.call == call), "a doorbell each");
    let out: Vec<_> = core::iter::from_fn(|| two.next_completion()).collect();
    assert_eq!(out, [1, 2, 3, 4].map(|id| (id, Ok(()))));
    let now = |words: &[AtomicU64], place: usize| words[place].load(Relaxed);
    assert_eq!(now(two.remote.words(), 3), 16);
    assert_eq!(now(two.local.words(), 2), 7, "the sum's old value");
    let read: Vec<_> = (40..45).map(|place| now(two.local.words(), place)).collect();
    assert_eq!(read, [1, 2, 3, 143, 144], "inline words over those written before");
}

#[test]
fn posts_list_with_one_doorbell() {
    let mut two = with_all_access();
    two.fabric.watch();
    let mut list = WorkRequestList::new(4);
    for _ in 0..3 {
        for id in 0..4 {
            assert!(list.push(&two.read(id)));
        }
        assert!(!list.push(&two.read(9)));
        two.pair.post_list(&mut list).unwrap();
        assert!(list.is_empty());
        let seen = two.fabric.seen();
        assert!(seen.iter().all(|other| other.call == seen[0].call));
        assert_eq!(seen.iter().map(|seen| seen.id).collect::<Vec<_>>(), [0, 1, 2, 3]);
        (0..4).for_each(|id| assert_eq!(two.next_completion(), Some((id, Ok(())))));
    }
    two.pair.post_list(&mut list).unwrap();
    assert_eq!(two.fabric.seen(), [], "an empty list rings no doorbell");
    // A list that is shorter than the previous one posts none of the previous requests.
    assert!(list.push(&two.read(7)));
    two.pair.post_list(&mut list).unwrap();
    assert_eq!(two.fabric.seen().len(), 1);
}

#[test]
fn partly_refused_list_keeps_rest() {
    for right in 0..4_u32 {
        let mut two = with_all_access();
        two.fabric.watch();
        let mut list = WorkRequestList::new(6);
        (0..4).for_each(|id| assert!(list.push(&two.read(id))));
        two.machine.break_it(|faults| faults.post = Some((right, libc::ENOMEM)));
        let failed = two.pair.post_list(&mut list).unwrap_err();
        assert_eq!((failed.posted, failed.errno), (right as usize, libc::ENOMEM));
        assert!(failed.to_string().contains("poll, then post"));
        assert!(list.ids().eq(u64::from(right)..4));
        assert_eq!(list.len(), 4 - right as usize);
        two.machine.break_it(|faults| faults.post = None);
        // After a partial post the list accepts no requests until the others are posted.
        assert_eq!(list.push(&two.read(4)), right == 0);
        let len = list.len();
        two.pair.post_list(&mut list).unwrap();
        assert!(list.is_empty());
        let ids: Vec<_> = two.fabric.seen().iter().map(|seen| seen.id).collect();
        assert_eq!(ids.len(), right as usize + len, "{ids:?}: none is lost");
        assert!(ids.into_iter().eq(0..if right == 0 { 5 } else { 4 }));
    }
}

#[test]
fn refuses_when_send_queue_full() {
    let mut two = with_all_access();
    for id in 0..u64::from(REQUESTS) - 1 {
        two.pair.post(&two.read(id).unsignalled()).unwrap();
    }
    two.pair.post(&two.read(77)).unwrap();
    let refused = two.pair.post(&two.read(78)).unwrap_err();
    assert_eq!((refused.posted, refused.errno), (0, libc::ENOMEM));
    assert_eq!(two.next_completion(), Some((77, Ok(()))));
    assert_eq!(two.next_completion(), None, "the others were silent");
    two.pair.post(&two.read(79)).unwrap();
}

#[test]
fn inline_words_need_capacity() {
    let mut two = two(2, Access::WINDOW, Access::WINDOW);
    let to = two.remote.remote().at(0, 8).unwrap();
    assert!(WorkRequest::write_inline(1, &[], to).is_none());
    assert!(WorkRequest::write_inline(1, &[0; 9], to).is_none());
    let refused = two.pair.post(&WorkRequest::write_inline(1, &[0; 3], to).unwrap()).unwrap_err();
    assert_eq!(refused.errno, libc::EINVAL);
    assert_eq!(two.outcome(WorkRequest::write_inline(1, &[8; 2], to).unwrap()), Ok(()));
    assert_eq!(two.remote.words()[1].load(Relaxed), 8);
}

/// Posts each operation without its right on the region or the queue pair, with another key, and
/// beyond the region.
#[test]
fn refused_operations_change_nothing() {
    type Build = fn(RemoteRegion, u64, &MemoryRegion<Vec<AtomicU64>>) -> Option<WorkRequest>;
    let end = u64::from(WORDS);
    let operations: [(Access, u64, Build); 4] = [
        (Access::LOCAL_WRITE | Access::REMOTE_WRITE, end - 1, |region, start, local| {
            Some(WorkRequest::read(1, region.at(start, 2)?, local.local(0, 2)?))
        }),
        (Access::REMOTE_READ, end - 1, |region, start, local| {
            Some(WorkRequest::write(1, local.local(0, 2)?, region.at(start, 2)?))
        }),
        (Access::LOCAL_WRITE | Access::REMOTE_READ, end, |region, start, local| {
            Some(WorkRequest::fetch_add(1, region.at(start, 1)?, 1, local.local(0, 1)?))
        }),
        (Access::LOCAL_WRITE | Access::REMOTE_WRITE, end, |region, start, local| {
            Some(WorkRequest::compare_and_swap(1, region.at(start, 1)?, 100, 1, local.local(0, 1)?))
        }),
    ];
    for (at, (without, end, build)) in operations.into_iter().enumerate() {
        for (access, of_pair, wrong_bits, start) in [
            (without, Access::WINDOW, 0, 0),
            (Access::WINDOW, without, 0, 0),
            (Access::WINDOW, Access::WINDOW, 0x5555, 0),
            (Access::WINDOW, Access::WINDOW, 0, end),
        ] {
            let mut two = two(8, access, of_pair);
            let region = two.remote.remote();
            let words = 2 * region.words;
            let region = RemoteRegion { key: region.key ^ wrong_bits, words, ..region };
            let request = build(region, start, &two.local).unwrap();
            let context = format!("operation {at}, {access:?}, {of_pair:?}, {start}");
            assert_eq!(two.outcome(request), Err(Status::REMOTE_ACCESS), "{context}");
            let all = [two.local.words(), two.remote.words()];
            let unchanged =
                |region: &[AtomicU64]| region.iter().zip(100..).all(|(w, v)| w.load(Relaxed) == v);
            assert!(all.into_iter().all(unchanged), "{context}");
            // Both queue pairs are in the error state.
            assert_eq!(two.outcome(two.read(2)), Err(Status::FLUSHED));
            two.answers.post(&two.read(3)).unwrap();
            let mut out = [WorkCompletion::default()];
            assert_eq!(two.answered.poll(&mut out), Ok(1));
            assert_eq!(out[0].result(), Err(Status::FLUSHED));
            assert_ne!(out[0].vendor_error(), 0);
        }
    }
}

/// Requests do not keep regions alive: they fail if they are posted after the region was dropped.
#[test]
fn request_of_dropped_region_fails() {
    for drops_local in [false, true] {
        let Two { fabric, mut pair, mut completions, local, remote, answers, .. } =
            with_all_access();
        let from = remote.remote().at(0, 1).unwrap();
        let request = WorkRequest::read(1, from, local.local(0, 1).unwrap());
        let (dropped, kept, status) = match drops_local {
            true => (local, remote, Status::LOCAL_PROTECTION),
            false => (remote, local, Status::REMOTE_ACCESS),
        };
        drop(dropped);
        pair.post(&request).unwrap();
        let mut out = [WorkCompletion::default()];
        assert_eq!((completions.poll(&mut out), out[0].result()), (Ok(1), Err(status)));
        drop((kept, answers));
        fabric.judge();
    }
}

#[test]
fn failed_queue_pair_flushes() {
    let mut two = with_all_access();
    two.pair.fail().unwrap();
    assert_eq!(two.outcome(two.read(1)), Err(Status::FLUSHED));
    two.fabric.judge();
}

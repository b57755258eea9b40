//! Collective calls: results, deaths, limits and damaged streams.

use std::sync::{Barrier, Mutex, mpsc};

use probeline_transport::ExchangeError;
use proptest::prelude::*;
use rustix::io::Errno;

use super::*;
use crate::limits::MAX_RESULT_BYTES;
use crate::link::flush_all;
use crate::tcp::encode_error;
use crate::{THREADS_LIMIT, threads};

/// The ranks of a job, all in this process.
fn ranks(size: u32, collective: Duration) -> Vec<Tcp> {
    let spec = |rank| {
        let mut spec = spec(rank, size);
        spec.limits.collective = collective;
        spec
    };
    let (address, rank_0) = start_rank_0(spec(0));
    let members: Vec<_> = (1..size).map(|rank| start_member(address, spec(rank))).collect();
    [rank_0].into_iter().chain(members).map(|rank| rank.join().unwrap().unwrap()).collect()
}

fn run<E: Send, R: Send>(ranks: Vec<E>, body: impl Fn(E) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let body = &body;
        let running: Vec<_> =
            ranks.into_iter().map(|rank| scope.spawn(move || body(rank))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn gathers_in_the_order_of_owners_many_times() {
    run(ranks(5, LIMIT), |mut rank| {
        for call in 0..200_u32 {
            let mine = (rank.me().0 * 1000 + call).to_le_bytes();
            let mut all = [0; 20];
            rank.all_gather(&mine, &mut all).unwrap();
            for (owner, given) in (0..).zip(all.chunks_exact(4)) {
                assert_eq!(given, (owner * 1000 + call).to_le_bytes());
            }
            rank.barrier().unwrap();
        }
    });
}

#[test]
fn all_to_all_delivers_each_part_to_its_rank() {
    let part = |from: u32, to: u32, call: u32| [from, to, call].map(|n| n.to_le_bytes()[0]);
    run(ranks(5, LIMIT), |mut rank| {
        let me = rank.me().0;
        for call in 0..50 {
            let mine: Vec<_> = (0..5).flat_map(|to| part(me, to, call)).collect();
            let expected: Vec<_> = (0..5).flat_map(|from| part(from, me, call)).collect();
            let mut theirs = [0; 15];
            rank.all_to_all(&mine, &mut theirs).unwrap();
            assert_eq!(theirs[..], expected);
            rank.all_to_all(&[], &mut []).unwrap();
        }
    });
}

#[test]
fn all_ranks_refuse_an_all_to_all_above_the_limit() {
    let part = 2 * MAX_RESULT_BYTES / 3;
    let results = run(ranks(2, LIMIT), |mut rank| {
        rank.all_to_all(&vec![0; 2 * part], &mut vec![0; 2 * part])
    });
    let error = ExchangeError::System { errno: Errno::MSGSIZE.raw_os_error() };
    assert_eq!(results, [Err(error); 2]);
}

#[test]
fn a_result_of_the_largest_size_arrives() {
    let each = MAX_RESULT_BYTES / 4;
    run(ranks(4, LIMIT), |mut rank| {
        let mine = vec![u8::try_from(rank.me().0).unwrap(); each];
        let mut all = vec![9; MAX_RESULT_BYTES];
        rank.all_gather(&mine, &mut all).unwrap();
        for (owner, given) in (0..).zip(all.chunks_exact(each)) {
            assert!(given.iter().all(|byte| *byte == owner));
        }
    });
}

#[test]
fn a_larger_result_is_refused_by_all() {
    let each = MAX_RESULT_BYTES / 2 + 1;
    let results =
        run(ranks(2, LIMIT), |mut rank| rank.all_gather(&vec![0; each], &mut vec![0; 2 * each]));
    let error = ExchangeError::System { errno: Errno::MSGSIZE.raw_os_error() };
    assert_eq!(results, [Err(error); 2]);
}

#[test]
fn a_barrier_waits_for_the_last() {
    let times = run(ranks(3, LIMIT), |mut rank| {
        thread::sleep(Duration::from_millis(50) * rank.me().0);
        let arrived = Instant::now();
        rank.barrier().unwrap();
        (arrived, Instant::now())
    });
    let last = times.iter().map(|(arrived, _)| *arrived).max().unwrap();
    assert!(times.iter().all(|(_, left)| *left >= last));
}

/// A barrier is a small message in each direction. It must not wait for the acknowledgement of the
/// previous message.
#[test]
fn small_messages_are_sent_at_once() {
    for rank in ranks(3, LIMIT) {
        assert!(rank.links.iter().all(|link| link.socket.has_nodelay()));
    }
}

#[test]
fn leaving_after_the_last_call_disturbs_no_rank_inside_it() {
    for _ in 0..20 {
        let results = run(ranks(4, LIMIT), |mut rank| {
            let mut all = vec![0; 4 << 16];
            rank.barrier().and_then(|()| rank.all_gather(&[1; 1 << 16], &mut all))
        });
        assert_eq!(results, [Ok(()); 4]);
    }
}

/// All wait, and then `who` goes.
fn end_of_call_without(who: u32, gather: bool) {
    let results = run(ranks(4, LIMIT), |mut rank| {
        rank.barrier().unwrap();
        if rank.me() == Owner(who) {
            thread::sleep(SECOND / 5);
            return Instant::now();
        }
        let lost = Err(ExchangeError::OwnerLost(Owner(who)));
        let result = if gather { rank.all_gather(&[1], &mut [0; 4]) } else { rank.barrier() };
        let noticed = Instant::now();
        assert_eq!(result, lost);
        assert_eq!(rank.barrier(), lost, "the same error again");
        noticed
    });
    for noticed in &results {
        assert!(noticed.saturating_duration_since(results[who as usize]) < AT_ONCE);
    }
}

#[test]
fn any_rank_that_leaves_is_named_to_all_that_wait() {
    for who in 0..4 {
        end_of_call_without(who, false);
        end_of_call_without(who, true);
    }
}

/// Rank 1 has given its part and dies, while all the others wait for rank 2.
#[test]
fn a_death_is_noticed_while_all_wait_for_another_rank() {
    let others_have_ended = Barrier::new(3);
    let results = run(ranks(4, LIMIT), |mut rank| match rank.me().0 {
        1 => {
            rank.links[0].send(Kind::AllGather, &[]);
            flush_all(&mut rank.links, LIMIT).unwrap();
            Err(ExchangeError::OwnerLost(Owner(1)))
        }
        2 => {
            others_have_ended.wait();
            rank.barrier()
        }
        _ => {
            let result = rank.barrier();
            others_have_ended.wait();
            result
        }
    });
    assert_eq!(results, [Err(ExchangeError::OwnerLost(Owner(1))); 4]);
}

/// Rank 0 leaves outside any call, as it does when its transport reports the loss.
#[test]
fn a_rank_0_that_leaves_for_a_loss_names_who_was_lost() {
    let (goes, gone) = mpsc::channel();
    let (goes, gone) = (Mutex::new(goes), Mutex::new(gone));
    let results = run(ranks(4, LIMIT), |mut rank| match rank.me() {
        Owner(0) => {
            gone.lock().unwrap().recv().unwrap();
            Ok(())
        }
        Owner(2) => {
            drop(rank);
            goes.lock().unwrap().send(()).unwrap();
            Ok(())
        }
        _ => rank.barrier(),
    });
    let lost = Err(ExchangeError::OwnerLost(Owner(2)));
    assert_eq!(results, [Ok(()), lost, Ok(()), lost]);
}

#[test]
fn waiting_is_bounded_and_all_hear_who_is_missing() {
    for who in [1, 2] {
        let (all_here, others_have_ended) = (Barrier::new(3), Barrier::new(3));
        let results = run(ranks(3, 2 * SECOND), |mut rank| {
            all_here.wait();
            if rank.me() == Owner(who) {
                others_have_ended.wait();
                return rank.barrier();
            }
            let result = rank.barrier();
            others_have_ended.wait();
            result
        });
        let error = ExchangeError::TimedOut { after_s: 2, missing: Some(Owner(who)) };
        assert_eq!(results, [Err(error); 3]);
    }
}

#[test]
fn a_rank_0_that_does_not_come_is_named_by_the_others_themselves() {
    let mut members = ranks(3, SECOND / 5);
    let _late = members.remove(0);
    let error = ExchangeError::TimedOut { after_s: 1, missing: Some(Owner(0)) };
    assert_eq!(run(members, |mut rank| rank.barrier()), [Err(error); 2]);
}

/// Takes 4 s: rank 0 waits for that time.
#[test]
fn a_member_that_takes_no_result_is_a_bounded_wait_too() {
    let each = MAX_RESULT_BYTES / 3;
    let others_have_ended = Barrier::new(3);
    let results = run(ranks(3, 4 * SECOND), |mut rank| {
        if rank.me() == Owner(2) {
            rank.links[0].send(Kind::AllGather, &vec![1; each]);
            flush_all(&mut rank.links, LIMIT).unwrap();
            others_have_ended.wait();
            return Ok(());
        }
        let result = rank.all_gather(&vec![1; each], &mut vec![0; 3 * each]);
        others_have_ended.wait();
        result
    });
    let error = ExchangeError::TimedOut { after_s: 4, missing: Some(Owner(2)) };
    assert_eq!(results, [Err(error), Ok(()), Ok(())]);
}

#[test]
fn errors_are_the_same_for_all_and_as_for_threads() {
    fn lengths<E: Exchange>(mut rank: E) -> Result<(), ExchangeError> {
        let each = if rank.me() == Owner(1) { 3 } else { 2 };
        rank.all_gather(&vec![0; each], &mut vec![0; each * 3])
    }
    fn result<E: Exchange>(mut rank: E) -> Result<(), ExchangeError> {
        rank.all_gather(&[0; 2], &mut vec![0; 6 + usize::from(rank.me() == Owner(2))])
    }
    fn kinds<E: Exchange>(mut rank: E) -> Result<(), ExchangeError> {
        if rank.me() == Owner(1) { rank.all_gather(&[1], &mut [0; 3]) } else { rank.barrier() }
    }
    fn parts<E: Exchange>(mut rank: E) -> Result<(), ExchangeError> {
        let each = if rank.me() == Owner(1) { 6 } else { 3 };
        rank.all_to_all(&vec![0; each], &mut vec![0; each])
    }
    fn no_parts<E: Exchange>(mut rank: E) -> Result<(), ExchangeError> {
        rank.all_to_all(&[0; 4], &mut [0; 4])
    }
    fn calls<E: Exchange>(mut rank: E) -> Result<(), ExchangeError> {
        let (mine, mut all) = ([0; 3], [0; 9]);
        match rank.me() {
            Owner(1) => rank.all_to_all(&mine, &mut [0; 3]),
            _ => rank.all_gather(&mine, &mut all),
        }
    }
    let tcp = || ranks(3, LIMIT);
    let same = |found: Vec<_>, expected| {
        assert_eq!(found, expected);
        assert!(found.iter().all(Result::is_err), "{found:?}");
    };
    same(run(tcp(), parts), run(threads(3), parts));
    same(run(tcp(), no_parts), run(threads(3), no_parts));
    same(run(tcp(), calls), run(threads(3), calls));
    assert_eq!(run(tcp(), lengths), run(threads(3), lengths));
    assert_eq!(run(tcp(), result), run(threads(3), result));
    assert_eq!(run(tcp(), kinds), run(threads(3), kinds));
    assert!(run(tcp(), kinds).iter().all(Result::is_err));
    assert!(THREADS_LIMIT >= LIMIT);
}

#[test]
fn a_job_of_one_waits_for_no_rank() {
    let mut alone = ranks(1, SECOND).pop().unwrap();
    let mut all = [0; 2];
    alone.all_gather(&[1, 2], &mut all).unwrap();
    assert_eq!((all, alone.barrier()), ([1, 2], Ok(())));
}

#[test]
fn an_abort_of_a_member_reaches_all() {
    let error = ExchangeError::System { errno: 5 };
    let results = run(ranks(3, LIMIT), |mut rank| {
        if rank.me() == Owner(2) {
            rank.links[0].send(Kind::Abort, &encode_error(error));
            flush_all(&mut rank.links, LIMIT).unwrap();
            return Err(error);
        }
        rank.barrier()
    });
    assert_eq!(results, [Err(error); 3]);
}

/// What is not a sealed frame ends the job, naming whose stream is damaged.
fn end_with_noise(from: u32, noise: &[u8]) {
    let results = run(ranks(3, LIMIT), |mut rank| {
        if rank.me() == Owner(from) {
            rank.links[0].socket.outgoing.extend(noise);
            flush_all(&mut rank.links, LIMIT).unwrap();
            thread::sleep(SECOND / 20);
            return Err(ExchangeError::OwnerLost(Owner(from)));
        }
        rank.barrier()
    });
    match from {
        0 => assert_eq!(results[1], Err(ExchangeError::OwnerLost(Owner(0)))),
        _ => assert_eq!(results, [Err(ExchangeError::OwnerLost(Owner(from))); 3]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn injected_bytes_end_the_job_and_nothing_else(
        from in 0..3_u32, kind in 0..10_u8, noise in prop::collection::vec(any::<u8>(), 0..200)
    ) {
        let header = [&[kind][..], &0_u32.to_le_bytes(), &[0; 8]].concat();
        end_with_noise(from, &[header, noise].concat());
    }
}

//! Collective calls: results, lost ranks, time limits and damaged streams.

use std::sync::{Barrier, Mutex, mpsc};

use probeline_transport::{Call, ExchangeError, Term};
use proptest::prelude::*;

use super::*;
use crate::limits::MAX_RESULT_BYTES;
use crate::link::flush_all;
use crate::tcp::{contribution, encode_error};
use crate::threads::threads_within;
use crate::{THREADS_LIMIT, threads};

/// Returns the ranks of a job, all in this process.
fn ranks(size: u32, collective: Duration) -> Vec<Job> {
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
fn gathers_in_owner_order() {
    fn gathers<E: Exchange>(mut rank: E) {
        for call in 0..200_u32 {
            let mine = (rank.me().0 * 1000 + call).to_le_bytes();
            let mut all = [0; 20];
            rank.all_gather(&mine, &mut all).unwrap();
            for (owner, given) in (0..).zip(all.chunks_exact(4)) {
                assert_eq!(given, (owner * 1000 + call).to_le_bytes());
            }
            rank.barrier().unwrap();
        }
    }
    run(ranks(5, LIMIT), gathers);
    run(threads(5), gathers);
}

/// A fork has another process number than the rank, and shares its sockets.
#[test]
fn refuses_forked_calls() {
    let mut ranks = ranks(3, LIMIT);
    ranks[0].process += 1;
    assert_eq!(ranks[0].barrier(), Err(ExchangeError::Forked));
    ranks[0].process -= 1;
    // The rank itself goes on.
    let mut ranks = run(ranks, |mut rank| {
        rank.barrier().unwrap();
        rank
    });
    // A fork of rank 0 that is dropped does not tell the others that rank 1 has left.
    drop(ranks.remove(1));
    ranks[0].process += 1;
    drop(ranks.remove(0));
    assert_eq!(ranks[0].barrier(), Err(ExchangeError::OwnerLost(Owner(0))));
}

#[test]
fn all_to_all_delivers_parts() {
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

/// The calls that an exchange has by default, of parts of any length.
#[test]
fn defaults_need_only_all_gather() {
    struct Gathers(Job);
    impl Exchange for Gathers {
        fn me(&self) -> Owner {
            self.0.me()
        }
        fn owners(&self) -> u32 {
            self.0.owners()
        }
        fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
            self.0.all_gather(mine, all)
        }
    }
    run(ranks(3, LIMIT), |rank| {
        let (me, mut gathers) = (rank.me().0, Gathers(rank));
        for part in [0, 1, 8, 21] {
            let of = |from: u32, to: u32| vec![u8::try_from(16 * from + to).unwrap(); part];
            let mine: Vec<u8> = (0..3).flat_map(|to| of(me, to)).collect();
            let mut theirs = vec![0xff; mine.len()];
            gathers.all_to_all(&mine, &mut theirs).unwrap();
            assert_eq!(theirs, (0..3).flat_map(|from| of(from, me)).collect::<Vec<_>>());
        }
        assert_eq!((gathers.sum(me.into()), gathers.max(me.into())), (Ok(3), Ok(2)));
        // All ranks have a wrong length, one rank has, and one has longer parts than the others.
        let one_in = |rank| if me == rank { 6 } else { 3 };
        for [mine, theirs] in [[4, 4], [3, one_in(1)], [one_in(2); 2]] {
            let uneven = gathers.all_to_all(&vec![0; mine], &mut vec![0; theirs]);
            assert!(matches!(uneven, Err(ExchangeError::LengthDiffers { .. })), "{uneven:?}");
        }
    });
}

#[test]
fn refuses_oversized_result_and_continues() {
    let part = 2 * MAX_RESULT_BYTES / 3;
    let results = run(ranks(2, LIMIT), |mut rank| {
        let refused = [
            rank.all_to_all(&vec![0; 2 * part], &mut vec![0; 2 * part]),
            rank.all_gather(&vec![0; 2 * part], &mut vec![0; 4 * part]),
        ];
        rank.barrier().unwrap();
        refused
    });
    let most = MAX_RESULT_BYTES as u64;
    let error = |bytes: usize| Err(ExchangeError::TooLarge { found: bytes as u64, max: most });
    assert_eq!(results, [[error(2 * part), error(4 * part)]; 2]);
}

/// The rank whose call was refused makes the next one, which is the same as that of the others but
/// for its number.
#[test]
fn names_calls_after_refusal() {
    let results = run(ranks(3, LIMIT), |mut rank| {
        if rank.me() == Owner(1) {
            let each = MAX_RESULT_BYTES;
            rank.all_gather(&vec![0; each], &mut vec![0; 3 * each]).unwrap_err();
        }
        rank.all_gather(&[1], &mut [0; 3])
    });
    let call = |number| Call::new("all_gather").numbered(number);
    let (expected, found) = (call(1), call(2));
    assert_eq!(results, [Err(ExchangeError::CallsDiffer { owner: Owner(1), expected, found }); 3]);
}

#[test]
fn names_differing_calls() {
    fn other_call<E: Exchange>(mut rank: E) -> Result<(), ExchangeError> {
        let call = if rank.me() == Owner(2) { "Map::clear" } else { "Map::len" };
        rank.barrier()?;
        rank.reduce(Call::new(call), &mut [Term::Sum(1)])
    }
    fn other_structure<E: Exchange>(mut rank: E) -> Result<(), ExchangeError> {
        let opened = if rank.me() == Owner(1) { 7 } else { 5 };
        rank.reduce(Call::new("Map::len").of_structure(opened), &mut [])
    }
    let error = run(ranks(3, LIMIT), other_call).pop().unwrap().unwrap_err();
    let text = "owner 2 called Map::clear (call 2), owner 0 called Map::len (call 2): all ranks must \
                make the same collective calls in the same order";
    assert_eq!(error.to_string(), text);
    for found in [run(ranks(3, LIMIT), other_call), run(threads(3), other_call)] {
        assert_eq!(found, [Err(error); 3]);
    }
    let found = run(ranks(3, LIMIT), other_structure);
    assert!(matches!(found[0], Err(ExchangeError::CallsDiffer { owner: Owner(1), .. })));
    assert_eq!(found, run(threads(3), other_structure));
}

#[test]
fn reduces_words() {
    fn reduce<E: Exchange>(mut rank: E) {
        let me = u64::from(rank.me().0);
        let mut terms = [Term::Sum(me + 1), Term::Min(me + 3), Term::Max(me), Term::Sum(u64::MAX)];
        rank.reduce(Call::new("test"), &mut terms).unwrap();
        assert_eq!(terms.map(Term::value), [10, 3, 3, u64::MAX]);
        assert_eq!(rank.sum(me), Ok(6));
        assert_eq!((rank.min(me + 5), rank.max(me)), (Ok(5), Ok(3)));
        assert_eq!(rank.calls(), 4);
    }
    run(ranks(4, LIMIT), reduce);
    run(threads(4), reduce);
    run(ranks(1, LIMIT), |mut alone| assert_eq!(alone.sum(3), Ok(3)));
}

#[test]
fn delivers_largest_result() {
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
fn barrier_waits_for_last_rank() {
    let times = run(ranks(3, LIMIT), |mut rank| {
        thread::sleep(Duration::from_millis(50) * rank.me().0);
        let arrived = Instant::now();
        rank.barrier().unwrap();
        (arrived, Instant::now())
    });
    let last = times.iter().map(|(arrived, _)| *arrived).max().unwrap();
    assert!(times.iter().all(|(_, left)| *left >= last));
}

/// A barrier is a small message in each direction, which must not wait for the acknowledgement of
/// the previous message.
#[test]
fn disables_nagle_algorithm() {
    for rank in ranks(3, LIMIT) {
        assert!(rank.links.iter().all(|link| link.socket.has_nodelay()));
    }
}

#[test]
fn leaving_disturbs_no_last_call() {
    fn calls<E: Exchange>(mut rank: E) -> Result<(), ExchangeError> {
        let mut all = vec![0; 4 << 16];
        rank.barrier().and_then(|()| rank.all_gather(&[1; 1 << 16], &mut all))
    }
    for _ in 0..20 {
        assert_eq!(run(ranks(4, LIMIT), calls), [Ok(()); 4]);
        assert_eq!(run(threads(4), calls), [Ok(()); 4]);
    }
}

#[test]
fn dropped_thread_fails_all_calls() {
    let start = Instant::now();
    let results = run(threads(3), |mut member| {
        member.barrier().unwrap();
        if member.me() == Owner(1) {
            return Err(ExchangeError::OwnerLost(Owner(1)));
        }
        let first = member.barrier();
        assert_eq!(first, member.barrier(), "the same error again");
        first
    });
    assert_eq!(results, [Err(ExchangeError::OwnerLost(Owner(1))); 3]);
    assert!(start.elapsed() < THREADS_LIMIT / 2);
    let mut members = threads(2);
    let last = members.pop().unwrap();
    let died = thread::spawn(move || {
        let _owned = last;
        panic!("on purpose");
    });
    assert_eq!(members[0].barrier(), Err(ExchangeError::OwnerLost(Owner(1))));
    assert!(died.join().is_err());
}

#[test]
fn threads_name_missing_rank() {
    let mut members = threads_within(3, 2 * SECOND);
    let late = members.pop().unwrap();
    let error = ExchangeError::TimedOut { after_s: 2, missing: Some(Owner(2)) };
    let both_here = Barrier::new(2);
    let results = run(members, |mut member| {
        both_here.wait();
        member.barrier()
    });
    assert_eq!(results, [Err(error); 2]);
    assert_eq!(run(vec![late], |mut member| member.barrier()), [Err(error)]);
}

/// Drops rank `who` while all others wait in a call.
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
fn all_ranks_report_leaver() {
    for who in 0..4 {
        end_of_call_without(who, false);
        end_of_call_without(who, true);
    }
}

/// Rank 1 dies after it has sent its contribution, while the others wait for rank 2.
#[test]
fn detects_loss_while_awaiting_another() {
    let others_have_ended = Barrier::new(3);
    let results = run(ranks(4, LIMIT), |mut rank| match rank.me().0 {
        1 => {
            let call = Call::new("barrier").numbered(1);
            rank.links[0].send(Kind::Contribution, &contribution(call, &[]));
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
fn giving_up_loses_rank_everywhere() {
    for lost in [Owner(0), Owner(2)] {
        let ended = run(ranks(3, LIMIT), |mut rank| {
            if rank.me() == lost {
                rank.give_up();
            }
            (rank.barrier(), rank.barrier())
        });
        let error = Err(ExchangeError::OwnerLost(lost));
        assert_eq!(ended, [(error, error); 3]);
    }
}

#[test]
fn leaving_rank_0_reports_loss() {
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
fn all_ranks_report_missing_rank() {
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
fn members_report_missing_rank_0() {
    let mut members = ranks(3, SECOND / 5);
    let _late = members.remove(0);
    let error = ExchangeError::TimedOut { after_s: 1, missing: Some(Owner(0)) };
    assert_eq!(run(members, |mut rank| rank.barrier()), [Err(error); 2]);
}

/// This test takes 4 s, the time for which rank 0 waits.
#[test]
fn unread_result_times_out() {
    let each = MAX_RESULT_BYTES / 3;
    let others_have_ended = Barrier::new(3);
    let results = run(ranks(3, 4 * SECOND), |mut rank| {
        if rank.me() == Owner(2) {
            let call = Call::new("all_gather").numbered(1);
            rank.links[0].send(Kind::Contribution, &contribution(call, &vec![1; each]));
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
fn errors_match_those_of_threads() {
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
    let differs = |owner, expected, found| {
        [Err(ExchangeError::LengthDiffers { owner: Owner(owner), expected, found }); 3]
    };
    assert_eq!(run(tcp(), lengths), differs(1, 2, 3));
    assert_eq!(run(threads(3), lengths), differs(1, 2, 3));
    assert_eq!(run(tcp(), result), differs(2, 7, 6));
    assert_eq!(run(threads(3), result), differs(2, 7, 6));
    assert_eq!(run(tcp(), kinds), run(threads(3), kinds));
    assert!(run(tcp(), kinds).iter().all(Result::is_err));
    assert!(THREADS_LIMIT >= LIMIT);
}

#[test]
fn single_rank_waits_for_none() {
    fn calls<E: Exchange>(mut alone: E) {
        let mut all = [0; 2];
        alone.all_gather(&[1, 2], &mut all).unwrap();
        assert_eq!((all, alone.barrier()), ([1, 2], Ok(())));
    }
    run(ranks(1, SECOND), calls);
    run(threads(1), calls);
}

#[test]
fn all_ranks_receive_abort() {
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

/// Checks that bytes which are not an encrypted frame end the job, and that the ranks report the
/// sender.
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
    fn injected_bytes_only_end_job(
        from in 0..3_u32, kind in 0..10_u8, noise in prop::collection::vec(any::<u8>(), 0..200)
    ) {
        let header = [&[kind][..], &0_u32.to_le_bytes(), &[0; 8]].concat();
        end_with_noise(from, &[header, noise].concat());
    }
}

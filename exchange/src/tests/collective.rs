//! Collective calls over TCP and among threads: results, lost ranks, time limits and damaged streams.

use std::sync::{Barrier, Mutex, mpsc};

use probeline_transport::conformance::on_threads as run;
use probeline_transport::{Call, ExchangeError, Term};
use proptest::prelude::*;

use super::*;
use crate::abort::encode_error;
use crate::limits::MAX_RESULT_BYTES;
use crate::link::flush_all;
use crate::tcp::contribution;
use crate::testing::check_calls;
use crate::{threads, threads_within};

type Ended = Result<(), ExchangeError>;

/// Returns the ranks of a job, all in this process.
fn ranks(size: u32, collective: Duration) -> Vec<Job> {
    let spec = |rank| {
        let mut spec = spec(rank, size);
        spec.limits.collective = collective;
        spec
    };
    let (address, rank_0) = start_rank_0(spec(0));
    let members: Vec<_> = (1..size).rev().map(|rank| start_member(address, spec(rank))).collect();
    [rank_0]
        .into_iter()
        .chain(members.into_iter().rev())
        .map(|rank| rank.join().unwrap().unwrap())
        .collect()
}

/// Runs `body` as the ranks of a job over TCP, and then as threads. Returns the results, which are equal.
fn on_both<R>(size: u32, body: impl Fn(&mut dyn Exchange) -> R + Sync) -> Vec<R>
where
    R: Send + PartialEq + core::fmt::Debug,
{
    let found = run(ranks(size, LIMIT), |mut rank| body(&mut rank));
    assert_eq!(run(threads(size), |mut rank| body(&mut rank)), found);
    found
}

#[test]
fn returns_right_results() {
    for size in [1, 2, 5] {
        on_both(size, |rank| check_calls(rank, 1 << 16));
    }
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

/// The calls that an exchange has by default, of parts of any length.
#[test]
fn defaults_need_only_all_gather() {
    struct Gathers<'a>(&'a mut dyn Exchange);
    impl Exchange for Gathers<'_> {
        fn me(&self) -> Owner {
            self.0.me()
        }
        fn owners(&self) -> u32 {
            self.0.owners()
        }
        fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Ended {
            self.0.all_gather(mine, all)
        }
    }
    on_both(3, |rank| {
        let me = rank.me().0;
        let gathers = &mut Gathers(rank);
        check_calls(gathers, 21);
        // All ranks have a wrong length, one rank has, and one has longer parts than the others.
        let one_in = |rank| if me == rank { 6 } else { 3 };
        for [mine, theirs] in [[4, 4], [3, one_in(1)], [one_in(2); 2]] {
            let uneven = gathers.all_to_all(&vec![0; mine], &mut vec![0; theirs]);
            assert!(matches!(uneven, Err(ExchangeError::LengthDiffers { .. })), "{uneven:?}");
        }
    });
}

/// The largest result is delivered. A larger one is refused, and the job goes on.
#[test]
fn bounds_results() {
    let part = 2 * MAX_RESULT_BYTES / 3;
    let results = run(ranks(2, LIMIT), |mut rank| {
        let mine = vec![u8::try_from(rank.me().0).unwrap(); MAX_RESULT_BYTES / 2];
        let mut all = vec![9; MAX_RESULT_BYTES];
        rank.all_gather(&mine, &mut all).unwrap();
        let (first, second) = all.split_at(mine.len());
        assert!(first.iter().all(|byte| *byte == 0) && second.iter().all(|byte| *byte == 1));
        let refused = [
            rank.all_to_all(&vec![0; 2 * part], &mut vec![0; 2 * part]),
            rank.all_gather(&vec![0; 2 * part], &mut vec![0; 4 * part]),
        ];
        rank.barrier().unwrap();
        refused
    });
    let max = MAX_RESULT_BYTES as u64;
    let error = |bytes: usize| Err(ExchangeError::TooLarge { found: bytes as u64, max });
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

/// Calls of three ranks, of which one differs.
#[test]
fn names_difference_on_all_ranks() {
    let error = on_both(3, |rank| {
        let call = if rank.me() == Owner(2) { "Map::clear" } else { "Map::len" };
        rank.barrier()?;
        rank.reduce(Call::new(call), &mut [Term::Sum(1)])
    });
    let text = "owner 2 called Map::clear (call 2), owner 0 called Map::len (call 2): all ranks must \
                make the same collective calls in the same order";
    assert!(error.iter().all(|error| error.unwrap_err().to_string() == text));
    let found = on_both(3, |rank| {
        let opened = if rank.me() == Owner(1) { 7 } else { 5 };
        rank.reduce(Call::new("Map::len").with_structure(opened), &mut [])
    });
    assert!(matches!(found[0], Err(ExchangeError::CallsDiffer { owner: Owner(1), .. })));
    let fails: [fn(&mut dyn Exchange) -> Ended; 4] = [
        |rank| match rank.me() {
            Owner(1) => rank.all_to_all(&[0; 3], &mut [0; 3]),
            _ => rank.all_gather(&[0; 3], &mut [0; 9]),
        },
        |rank| match rank.me() {
            Owner(1) => rank.all_gather(&[1], &mut [0; 3]),
            _ => rank.barrier(),
        },
        |rank| {
            let each = if rank.me() == Owner(1) { 6 } else { 3 };
            rank.all_to_all(&vec![0; each], &mut vec![0; each])
        },
        |rank| rank.all_to_all(&[0; 4], &mut [0; 4]),
    ];
    for call in fails {
        assert!(on_both(3, call).iter().all(Result::is_err));
    }
    let differs = |owner, expected, found| {
        [Err(ExchangeError::LengthDiffers { owner: Owner(owner), expected, found }); 3]
    };
    let found = on_both(3, |rank| {
        let each = if rank.me() == Owner(1) { 3 } else { 2 };
        rank.all_gather(&vec![0; each], &mut vec![0; each * 3])
    });
    assert_eq!(found, differs(1, 2, 3));
    let found = on_both(3, |rank| {
        rank.all_gather(&[0; 2], &mut vec![0; 6 + usize::from(rank.me() == Owner(2))])
    });
    assert_eq!(found, differs(2, 7, 6));
}

#[test]
fn waits_for_last_rank() {
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
        assert!(rank.links.iter().all(|link| link.socket.stream.nodelay().unwrap()));
    }
}

#[test]
fn leaves_without_disturbing_calls() {
    for _ in 0..20 {
        let ended = on_both(4, |rank| {
            let mut all = vec![0; 4 << 16];
            rank.barrier().and_then(|()| rank.all_gather(&[1; 1 << 16], &mut all))
        });
        assert_eq!(ended, [Ok(()); 4]);
    }
}

#[test]
fn reports_leaver_on_all_ranks() {
    for who in 0..4 {
        let (start, lost) = (Instant::now(), Err(ExchangeError::OwnerLost(Owner(who))));
        for gather in [false, true] {
            let ended = on_both(4, |rank| {
                rank.barrier().unwrap();
                if rank.me() == Owner(who) {
                    thread::sleep(SECOND / 5);
                    return lost;
                }
                let ended =
                    if gather { rank.all_gather(&[1], &mut [0; 4]) } else { rank.barrier() };
                assert_eq!(rank.barrier(), ended, "the same error again");
                ended
            });
            assert_eq!(ended, [lost; 4]);
        }
        assert!(start.elapsed() < AT_ONCE);
    }
}

/// Sends a contribution to rank 0 that belongs to no call of this rank.
fn contribute(rank: &mut Job, call: &'static str, mine: &[u8]) {
    rank.links[0].send(Kind::Contribution, &contribution(Call::new(call).numbered(1), mine));
    flush_all(&mut rank.links, LIMIT).unwrap();
}

/// Rank 1 dies after it has sent its contribution, while the others wait for rank 2.
#[test]
fn detects_loss_while_awaiting_another() {
    let (others_have_ended, lost) = (Barrier::new(3), Err(ExchangeError::OwnerLost(Owner(1))));
    let results = run(ranks(4, LIMIT), |mut rank| match rank.me().0 {
        1 => {
            contribute(&mut rank, "barrier", &[]);
            lost
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
    assert_eq!(results, [lost; 4]);
}

/// Rank 0 leaves outside any call, as it does when its transport reports the loss.
#[test]
fn gives_up_rank_everywhere() {
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
fn reports_loss_when_leaving() {
    let (goes, gone) = mpsc::channel();
    let (goes, gone) = (Mutex::new(goes), Mutex::new(gone));
    let results = run(ranks(4, LIMIT), |mut rank| match rank.me() {
        Owner(0) => gone.lock().unwrap().recv_timeout(LIMIT).map_err(|_| unreachable!()),
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

/// Lets all ranks but `late` make a call, and `late` after they have ended it. Returns the results.
fn with_late<E: Exchange + Send>(ranks: Vec<E>, late: u32) -> Vec<Ended> {
    let all = ranks.len();
    let (all_here, others_have_ended) = (Barrier::new(all), Barrier::new(all));
    run(ranks, |mut rank| {
        all_here.wait();
        if rank.me() == Owner(late) {
            others_have_ended.wait();
            return rank.barrier();
        }
        let result = rank.barrier();
        others_have_ended.wait();
        result
    })
}

#[test]
fn reports_missing_rank_everywhere() {
    let missing = |late| ExchangeError::TimedOut { after_s: 2, missing: Some(Owner(late)) };
    for late in [1, 2] {
        assert_eq!(with_late(ranks(3, 2 * SECOND), late), [Err(missing(late)); 3]);
    }
    assert_eq!(with_late(threads_within(3, 2 * SECOND), 2), [Err(missing(2)); 3]);
    let mut members = ranks(3, 2 * SECOND);
    let _late = members.remove(0);
    assert_eq!(run(members, |mut rank| rank.barrier()), [Err(missing(0)); 2]);
}

/// This test takes 4 s, the time for which rank 0 waits.
#[test]
fn bounds_wait_for_reader() {
    let each = MAX_RESULT_BYTES / 3;
    let others_have_ended = Barrier::new(3);
    let results = run(ranks(3, 4 * SECOND), |mut rank| {
        if rank.me() == Owner(2) {
            contribute(&mut rank, "all_gather", &vec![1; each]);
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
fn sends_abort_to_all_ranks() {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Bytes that are not an encrypted frame end the job, and the ranks report the sender.
    #[test]
    fn ends_job_on_injected_bytes(
        from in 0..3_u32, kind in 0..10_u8, noise in prop::collection::vec(any::<u8>(), 0..200)
    ) {
        let noise = [&[kind][..], &0_u32.to_le_bytes(), &[0; 8], &noise].concat();
        let lost = Err(ExchangeError::OwnerLost(Owner(from)));
        let results = run(ranks(3, LIMIT), |mut rank| {
            if rank.me() == Owner(from) {
                rank.links[0].socket.outgoing.extend(&noise);
                flush_all(&mut rank.links, LIMIT).unwrap();
                thread::sleep(SECOND / 20);
                return lost;
            }
            rank.barrier()
        });
        // Noise of rank 0 reaches rank 1 alone.
        prop_assert_eq!(&results[..2], [lost; 2]);
        prop_assert!(from == 0 || results[2] == lost);
    }
}

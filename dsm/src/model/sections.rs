//! Critical sections drawn at random.

use super::*;

/// Ranks that look at halves of words and add to them, each under its lock.
struct Sections {
    ranks: usize,
    requests: usize,
}

impl Sections {
    /// Draws a critical section: one lock, or both in their order, and accesses to what they protect.
    fn section(draw: &mut Draw) -> Vec<Request> {
        let locks = draw.one_of(&[&[0_u32][..], &[1], &[0, 1]]);
        let mut requests = Vec::new();
        let access = |draw: &mut Draw, locks: &[u32]| {
            // The halves of a word are of different locks.
            if locks.len() == 2 && draw.once_in(2) {
                let half = draw.one_of(&[0, 2, SECOND, SECOND + 2]);
                return if draw.once_in(3) { Five(half) } else { Both(half) };
            }
            let half = draw.one_of(locks) as usize + draw.one_of(&[0, 2, SECOND, SECOND + 2]);
            if draw.once_in(3) { View(half) } else { Add(half) }
        };
        if locks.len() == 1 && draw.once_in(3) {
            let half = locks[0] as usize + draw.one_of(&[0, SECOND]);
            requests.push(Ahead(half, locks[0]));
        } else {
            requests.extend(locks.iter().map(|lock| Acquire(*lock)));
        }
        for _ in 0..1 + draw.below(2) {
            requests.push(access(draw, locks));
        }
        let mut held = locks.to_vec();
        while !held.is_empty() {
            let lock = held.remove(draw.below(held.len()));
            requests.push(Release(lock));
            if !held.is_empty() && draw.once_in(2) {
                requests.push(access(draw, &held));
            }
        }
        requests
    }
}

impl Subject for Sections {
    type Scenario = Litmus;

    fn draw(&self, draw: &mut Draw) -> Litmus {
        let scripts = draw.items(self.ranks, |draw| {
            let mut script: Vec<Request> = Vec::new();
            // A copy from before.
            if draw.once_in(2) {
                script.push(View(draw.one_of(&[12, SECOND + 12])));
            }
            while script.len() < self.requests {
                script.extend(Self::section(draw));
            }
            &*script.leak()
        });
        let litmus = Litmus::new(scripts);
        let config = Config {
            notices: 1 + draw.below(3) as u32,
            mirror_pages: 1 + draw.below(2) as u32,
            edited_pages: 1 + draw.below(2) as u32,
            compares: draw.once_in(2),
            directory: draw.once_in(2),
            ..litmus.config
        };
        let is_ordered = draw.once_in(3);
        // Here a CPU changes halves of a word at its home in one step, which regions in windows do not ask for.
        let has_all_pages = config.mirror_pages == 2 && !config.compares;
        Litmus {
            config,
            is_in_windows: has_all_pages && draw.once_in(2),
            starts: draw.starts(scripts),
            // Without an order between a WRITE that fails and the atomic behind it.
            failures: u8::from(!is_ordered && draw.once_in(3)),
            tears: if draw.once_in(4) { HALVES_OF_WORDS } else { &[] },
            is_ordered,
            ticket: draw.one_of(&[0, u16::MAX - 1, u16::MAX]),
            reaches: draw.below(self.ranks + 1) as u32,
            ..litmus
        }
    }

    fn check(&self, litmus: &Litmus, max_moves: usize) -> Result<Explored, Stopped> {
        check(*litmus, max_moves)
    }

    fn smaller(&self, litmus: &Litmus) -> Vec<Litmus> {
        let with = |(scripts, starts)| Litmus { scripts, starts, ..*litmus };
        let mut smaller: Vec<_> =
            shorter(litmus.scripts, litmus.starts).into_iter().map(with).collect();
        // Without a release or an acquire, a script is not properly synchronised.
        smaller.retain(|litmus| litmus.scripts.iter().all(|script| is_synchronised(script)));
        smaller.push(Litmus { failures: 0, ..*litmus });
        smaller.push(Litmus { tears: &[], ..*litmus });
        smaller.push(Litmus { ticket: 0, ..*litmus });
        smaller.push(Litmus { reaches: 0, ..*litmus });
        smaller.push(Litmus { is_in_windows: false, ..*litmus });
        smaller.push(Litmus { config: Config { directory: false, ..litmus.config }, ..*litmus });
        smaller.push(Litmus { config: Config { compares: false, ..litmus.config }, ..*litmus });
        smaller.push(Litmus { is_ordered: false, ..*litmus });
        smaller
    }
}

/// Returns whether a rank looks only at what its locks protect, and holds none at the end.
fn is_synchronised(script: &[Request]) -> bool {
    let mut held = [false; LOCKS];
    let is_valid = script.iter().all(|request| match *request {
        Acquire(lock) => !core::mem::replace(&mut held[lock as usize], true),
        Ahead(half, lock) => {
            half % 2 == lock as usize && !core::mem::replace(&mut held[lock as usize], true)
        }
        Release(lock) => core::mem::replace(&mut held[lock as usize], false),
        View(half) if half % SECOND == 12 => true,
        Add(half) | View(half) => held[half % 2],
        Both(_) | Over(_) | Five(_) => held == [true; LOCKS],
        Barrier => true,
        Try(_) | AheadOfAll(_) => false,
    });
    is_valid && held == [false; LOCKS]
}

#[test]
fn two_ranks_respect_happens_before() {
    let check = RandomCheck { name: "two ranks", scenarios: 100, max_moves: 30_000 };
    check_random(check, &Sections { ranks: 2, requests: 6 });
}

#[test]
fn three_ranks_respect_happens_before() {
    let check = RandomCheck { name: "three ranks", scenarios: 60, max_moves: 30_000 };
    check_random(check, &Sections { ranks: 3, requests: 3 });
}

//! The home of pages and locks: an active process beside the computing one of its node.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::fence;
use std::collections::VecDeque;

use bytemuck::{cast_slice, cast_slice_mut};
use probeline::transport::Owner;

use super::diff::{apply, records};
use super::port::{Layout, Port, REQUEST_HEAD, Wait, number};
use crate::{Error, Timed};

/// The kinds of requests of a rank: a page; a lock; the end of a change under a lock, after which its notices follow; and
/// none any more.
pub(super) const FETCH: u64 = 0;
pub(super) const ACQUIRE: u64 = 1;
pub(super) const RELEASE: u64 = 2;
pub(super) const LEAVE: u64 = 3;

#[derive(Default)]
struct Lock {
    is_held: bool,
    /// Ranks that wait, and the barrier that each has passed last.
    waiting: VecDeque<(usize, u64)>,
    /// The barrier before the releases of the log: it has told all ranks of those before it.
    barrier: u64,
    /// Notices of releases since it: the rank, and its pages.
    log: Vec<(usize, Vec<u64>)>,
    /// The notices of the log that each rank has had.
    seen: Vec<usize>,
}

impl Lock {
    /// Forgets the notices from before a barrier that a rank has passed, and so all have reached.
    fn forget(&mut self, barrier: u64) {
        if barrier > self.barrier {
            self.barrier = barrier;
            self.log.clear();
            self.seen.fill(0);
        }
    }
}

pub(super) struct Home<E> {
    port: Port<E>,
    layout: Layout,
    node: usize,
    locks: Vec<Lock>,
    /// Messages taken from each mailbox.
    taken: Vec<u64>,
    left: usize,
}

impl<E: Timed> Home<E> {
    pub(super) fn new(port: Port<E>, layout: Layout, node: usize) -> Self {
        Self {
            port,
            layout,
            node,
            locks: Vec::new(),
            taken: vec![0; layout.ranks * layout.boxes()],
            left: 0,
        }
    }

    /// Serves all ranks until they have left. Returns the number of messages sent.
    pub(super) fn serve(&mut self) -> Result<u64, Error> {
        let mut wait = Wait::default();
        while self.left < self.layout.ranks {
            // The own node's rank first: a home's own pages need no message in the paper.
            let ranks = (0..self.layout.ranks).map(|nth| (self.node + nth) % self.layout.ranks);
            let bells = self.port.own(0, self.taken.len())?;
            let all = ranks.flat_map(|rank| (0..self.layout.boxes()).map(move |nth| (rank, nth)));
            let rung = |&(rank, nth): &(usize, usize)| {
                let bell = self.layout.bell(rank, nth);
                bells[bell] > self.taken[bell]
            };
            let rung: Vec<_> = all.filter(rung).collect();
            if rung.is_empty() {
                self.port.idle(&mut wait)?;
                continue;
            }
            wait = Wait::default();
            for (rank, nth) in rung {
                self.taken[self.layout.bell(rank, nth)] += 1;
                if rank != self.node {
                    self.port.work(self.port.costs.handler_ns);
                }
                if nth == self.layout.buffers { self.answer(rank)? } else { self.take(rank, nth)? }
            }
        }
        Ok(self.port.messages)
    }

    /// Applies the diffs of a message, and frees its buffer.
    fn take(&mut self, rank: usize, nth: usize) -> Result<(), Error> {
        let buffer = self.layout.buffer(rank, nth);
        let count = usize::try_from(self.port.own(buffer, 1)?[0]).unwrap_or(usize::MAX);
        let words = count.div_ceil(2);
        let message = self.port.own(buffer + 1, words.min(self.layout.buffer_words - 1))?.to_vec();
        let message = cast_slice(&message).get(..count);
        let longer =
            || Error::Wrong(format!("rank {rank} has sent a message longer than a buffer"));
        let mut bytes = 0;
        for (page, _, runs) in records(message.ok_or_else(longer)?) {
            let first = self.layout.page(page as usize);
            let window = &self.port.engine.window()[first..first + self.layout.page_words];
            let mut words: Vec<u64> = window.iter().map(|word| word.load(Relaxed)).collect();
            apply(runs, cast_slice_mut(&mut words));
            window.iter().zip(words).for_each(|(word, new)| word.store(new, Relaxed));
            bytes += size_of_val(runs);
        }
        // The rank tells others of the changes when it has the answer.
        fence(SeqCst);
        self.port.copy(bytes);
        self.port.ring(owner(rank), self.layout.free(nth))
    }

    fn answer(&mut self, rank: usize) -> Result<(), Error> {
        let words = REQUEST_HEAD + self.layout.notice_words();
        let request = self.port.own(self.layout.request(rank), words)?.to_vec();
        let nth = usize::try_from(request[1]).unwrap_or(usize::MAX);
        match request[0] {
            FETCH => self.send_page(rank, nth),
            ACQUIRE => {
                self.lock(nth).waiting.push_back((rank, request[2]));
                self.grant(nth)
            }
            RELEASE => {
                let held = self.lock(nth);
                held.is_held = false;
                held.forget(request[2]);
                // No rank passes a barrier that the holder has not reached.
                if held.barrier != request[2] {
                    return Err(Error::Wrong(format!("rank {rank} released a lock too late")));
                }
                held.log.push((rank, request[REQUEST_HEAD..].to_vec()));
                self.port.ring(owner(rank), self.layout.answered())?;
                self.grant(nth)
            }
            _ => {
                self.left += 1;
                self.port.ring(owner(rank), self.layout.answered())
            }
        }
    }

    fn lock(&mut self, lock: usize) -> &mut Lock {
        if self.locks.len() <= lock {
            self.locks.resize_with(lock + 1, Lock::default);
        }
        &mut self.locks[lock]
    }

    fn send_page(&mut self, rank: usize, page: usize) -> Result<(), Error> {
        let words = self.layout.page_words;
        let first = self.layout.page(page);
        self.port.copy(words * size_of::<u64>());
        let window = &self.port.engine.window()[first..first + words];
        let page: Vec<u64> = window.iter().map(|word| word.load(Relaxed)).collect();
        self.port.stage(1 + rank, words)?.copy_from_slice(&page);
        self.send(rank, words)
    }

    /// Passes a free lock to the rank that has waited longest, with the notices that it lacks.
    fn grant(&mut self, lock: usize) -> Result<(), Error> {
        let (ranks, words) = (self.layout.ranks, self.layout.notice_words());
        let lock = self.lock(lock);
        lock.seen.resize(ranks, 0);
        if lock.is_held {
            return Ok(());
        }
        let Some((rank, barrier)) = lock.waiting.pop_front() else { return Ok(()) };
        lock.is_held = true;
        let mut notices = vec![0; words];
        lock.forget(barrier);
        let unseen = lock.log.iter().skip(lock.seen[rank]);
        for (_, pages) in unseen.filter(|(from, _)| lock.barrier == barrier && *from != rank) {
            notices.iter_mut().zip(pages).for_each(|(all, pages)| *all |= pages);
        }
        lock.seen[rank] = lock.log.len();
        self.port.stage(1 + rank, words)?.copy_from_slice(&notices);
        self.send(rank, words)
    }

    fn send(&mut self, rank: usize, words: usize) -> Result<(), Error> {
        let boxes = (self.layout.answer(), self.layout.answered());
        self.port.send((1 + rank, words), owner(rank), boxes)
    }
}

/// Returns the owner that computes as a rank.
pub(super) fn owner(rank: usize) -> Owner {
    Owner(2 * number(rank))
}

/// Returns the owner that is the home on a rank's node.
pub(super) fn home_owner(rank: usize) -> Owner {
    Owner(2 * number(rank) + 1)
}

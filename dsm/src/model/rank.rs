//! The calls of a rank, and its barriers without an exchange: messages lie in the windows.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

use bytemuck::cast_slice;
use probeline_pipeline::Finished;
use probeline_transport::{Exchange, ExchangeError, Transport};

use super::*;
use crate::lock::Hold;
use crate::memory::Frame;
use crate::transfer::Fetch;

type Rank<const N: usize> = Region<u32, Wire<N>, [Operation<Transfer>; 2], Memory>;

/// Starts the READ of a page as a prefetch does, without its poll, which waits for a completion here.
fn start_fetch<const N: usize>(region: &mut Rank<N>, page: u32) -> Result<(), Error> {
    let (parts, layout, ..) = region.pipeline.shared_mut().parts()?;
    let frame = &mut parts.frames[layout.frame(page)];
    if frame.has(page) || frame.edit().is_some() {
        return Ok(());
    }
    *frame = Frame::fetching(page);
    region.submit(Fetch::start(page))
}

/// Waits for what a call has left in flight, after which the rank does nothing any more.
pub(super) fn rest<const N: usize>(pipeline: &mut Driven<Litmus, N>) {
    pipeline.quiesce().ok();
    let mut out = [Finished::default(); 2];
    while pipeline.in_flight() > 0 && pipeline.poll_into(&mut out).is_ok() {}
}

/// Notes that a rank does nothing any more.
fn give_up<const N: usize>(region: &mut Rank<N>) -> Result<Outcome, Error> {
    region.pipeline.shared_mut().failed = Some(Error::BarrierFailed);
    Ok(Outcome::Waiting)
}

/// The messages of all ranks at a barrier.
struct Gathered(Owner, Vec<u64>);

impl Exchange for Gathered {
    fn me(&self) -> Owner {
        self.0
    }

    fn owners(&self) -> u32 {
        unreachable!("the ranks are those of the region")
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        let gathered = cast_slice(&self.1);
        assert_eq!(mine, &gathered[self.0.0 as usize * mine.len()..][..mine.len()]);
        all.copy_from_slice(gathered);
        Ok(())
    }
}

/// Passes a barrier as the region does, with messages in the windows. Returns false if the others have not reached it.
fn pass<const N: usize>(
    region: &mut Rank<N>,
    ahead: Option<u32>,
    nth: usize,
) -> Result<bool, Error> {
    region.send_all().0?;
    if let Some(page) = ahead {
        start_fetch(region, page)?;
    }
    let mut context = region.pipeline.shared().clone();
    context.fill_message(false)?;
    let (parts, layout, ..) = context.parts()?;
    let (words, owners) = (layout.message_words(), layout.owners as usize);
    let window = region.pipeline.transport().window();
    assert!(words < BOARD, "a message of {words} words");
    let board = PART + nth * BOARD;
    window[board].store(1, SeqCst);
    let to = &window[board + 1..];
    to.iter().zip(&parts.messages[..words]).for_each(|(to, word)| to.store(*word, SeqCst));
    // The others may come now. What is prefetched stays in flight.
    if region.pipeline.in_flight() == 0 {
        region.take_results()?;
    }
    let memory = region.pipeline.transport().memory();
    let boards = memory.chunks_exact(N / owners).map(|part| &part[board..][..=words]);
    if boards.clone().any(|board| board[0] == 0) {
        return Ok(false);
    }
    let gathered = boards.flat_map(|board| board[1..].to_vec()).collect();
    let mut job = Gathered(context.me, gathered);
    region.exchange_notices(false, &mut job).map_err(|_| Error::Window)?;
    Ok(true)
}

/// A rank that has not got a lock, or not passed a barrier, does nothing any more.
pub(super) fn run<const N: usize>(
    region: &mut Rank<N>,
    request: Request,
    barriers: usize,
) -> Result<Outcome, Error> {
    if region.pipeline.shared().failed == Some(Error::BarrierFailed) {
        return Ok(Outcome::Waiting);
    }
    if let Ahead(half, _) = request {
        start_fetch(region, (half / SECOND) as u32)?;
    }
    let range = halves(request);
    match request {
        Acquire(lock) | Ahead(_, lock) | Try(lock) => {
            let hold = region.pipeline.shared_mut().lock_state(lock)?.hold();
            let acquired = if hold == Hold::Holds { Ok(()) } else { region.acquire(lock) };
            match (acquired, request) {
                (Err(Error::LockWait { .. }), Try(_)) => return Ok(Outcome::Sent),
                (Err(Error::LockWait { .. }), _) => return give_up(region),
                (acquired, _) => acquired?,
            }
        }
        Barrier | AheadOfAll(_) => {
            let ahead = range.clone().next().map(|half| (half / SECOND) as u32);
            if !pass(region, ahead, barriers)? {
                return give_up(region);
            }
            // Changes for which a mutant has not waited.
            while ahead.is_none() && region.pipeline.in_flight() > 0 {
                region.progress()?;
            }
        }
        _ => {}
    }
    let before = see_home(region, range.start)?;
    match request {
        Acquire(_) | Try(_) => return Ok(Outcome::Acquired),
        Barrier => {}
        Release(lock) => {
            region.release(lock)?;
            // Changes for which a mutant has not waited.
            while region.pipeline.in_flight() > 0 {
                region.progress()?;
            }
            return Ok(Outcome::Released);
        }
        View(_) | Ahead(..) | AheadOfAll(_) => drop(region.view(range)?.len()),
        Over(_) => region.overwrite(range)?.fill(OVER.into()),
        Add(_) | Both(_) | Five(_) => region.edit(range)?.iter_mut().for_each(|half| *half += 1),
    }
    if let Some((page, before)) = before {
        let (mirror, window) = home_of(region, page)?;
        for ((new, old), word) in mirror.iter().zip(before).zip(window) {
            if *new != old {
                word.store(*new, SeqCst);
            }
        }
    }
    Ok(Outcome::Fetched)
}

/// Brings to the mirror what the page of a half of a word has at its home, if that is this rank's window. In windows both
/// are the same words. Returns the page and its words.
fn see_home<const N: usize>(
    region: &mut Rank<N>,
    half: usize,
) -> Result<Option<(u32, [u64; PAGE_WORDS])>, Error> {
    let page = (half / SECOND) as u32;
    if !region.frame(page)?.is_home() {
        return Ok(None);
    }
    let (mirror, window) = home_of(region, page)?;
    mirror.iter_mut().zip(window).for_each(|(to, word)| *to = word.load(SeqCst));
    Ok(mirror.try_into().ok().map(|words| (page, words)))
}

/// Returns the words of a page in the mirror, and in this rank's window.
fn home_of<const N: usize>(
    region: &mut Rank<N>,
    page: u32,
) -> Result<(&mut [u64], &[AtomicU64]), Error> {
    let (wire, context) = region.pipeline.parts();
    let (parts, layout, ..) = context.parts()?;
    let home = layout.page(page).ok_or(Error::Window)?.start.index as usize;
    let mirror = &mut parts.mirror[layout.frame(page) * PAGE_WORDS..][..PAGE_WORDS];
    Ok((mirror, &wire.window()[home..][..PAGE_WORDS]))
}

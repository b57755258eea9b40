//! Requests that must be refused, each with its status, by two queue pairs of this machine; and
//! that nothing was changed by them.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use probeline_verbs::{
    Access, Capacity, CompletionQueue, Context, DeviceList, Library, MemoryRegion, Path, Peer,
    Port, ProtectionDomain, QueuePair, ReadyToSend, RemoteRegion, Retry, RetryError, Status,
    WorkCompletion, WorkRequest, WorkRequestList,
};

use crate::failure::{Failure, Result, ensure};
use crate::patience::PATIENCE;

/// Makes a request that must be refused.
type Request = fn(&Pair) -> WorkRequest;
type Region = MemoryRegion<Vec<AtomicU64>>;

/// Two connected queue pairs, with a region at each end.
struct Pair {
    near: QueuePair<ReadyToSend>,
    _far: QueuePair<ReadyToSend>,
    completions: CompletionQueue,
    own: Region,
    theirs: Region,
}

const WORDS: u64 = 64;
/// Work requests outstanding on a queue pair; more than any trial here posts at once.
const REQUESTS: u32 = 16;
const UNTOUCHED: u64 = 0x1111_2222_3333_4444;

pub(crate) fn run() -> Result<()> {
    let (context, port) = active_port()?;
    endless_retries()?;
    let remote_access: &[(&str, Request)] = &[
        ("READ with a wrong key", |pair| read(pair, wrong_key(pair), 0, 1)),
        ("READ beyond the region", |pair| read(pair, longer(pair), WORDS, 1)),
        ("READ across the region's end", |pair| read(pair, longer(pair), WORDS - 1, 2)),
        ("CAS with a wrong key", |pair| swap(pair, wrong_key(pair))),
        ("FAA beyond the region", |pair| add(pair, longer(pair), WORDS)),
    ];
    for (name, request) in remote_access {
        let pair = Pair::new(&context, &port, Access::WINDOW)?;
        refused(name, pair, request, Status::RemoteAccess)?;
    }
    let rights: &[(&str, Access, Request)] = &[
        ("WRITE without the right", Access::REMOTE_READ, |pair| write(pair)),
        ("READ without the right", Access::LOCAL_WRITE, |pair| {
            read(pair, pair.theirs.remote(), 0, 1)
        }),
        ("CAS without the right", Access::LOCAL_WRITE.union(Access::REMOTE_WRITE), |pair| {
            swap(pair, pair.theirs.remote())
        }),
    ];
    for (name, access, request) in rights {
        let pair = Pair::new(&context, &port, *access)?;
        refused(name, pair, request, Status::RemoteAccess)?;
    }
    flushed_behind_an_error(&context, &port)?;
    inline_words_are_carried(&context, &port)?;
    silent_until_signalled(&context, &port)
}

/// The first one there is, and its device.
fn active_port() -> Result<(Context, Port)> {
    for device in DeviceList::new(Library::load()?)?.iter() {
        let context = device.open()?;
        for number in 1..=context.limits()?.ports {
            let port = context.port(number)?;
            if port.active {
                return Ok((context, port));
            }
        }
    }
    Err(Failure("no active port".into()))
}

/// Counts and timers with which a device waits for ever are no values of the type.
fn endless_retries() -> Result<()> {
    ensure(Retry::new(14, 7) == Err(RetryError::Count(7)), || "7 retries were taken".into())?;
    ensure(Retry::new(0, 6) == Err(RetryError::Timeout(0)), || "timeout 0 was taken".into())
}

fn wrong_key(pair: &Pair) -> RemoteRegion {
    let region = pair.theirs.remote();
    region.with_key(region.key() ^ 0x5555)
}

fn longer(pair: &Pair) -> RemoteRegion {
    pair.theirs.remote().with_words(2 * WORDS)
}

fn read(pair: &Pair, from: RemoteRegion, start: u64, words: u32) -> WorkRequest {
    let (Some(from), Some(into)) = (from.at(start, words), pair.own.local(0, words)) else {
        unreachable!("ranges of these regions")
    };
    WorkRequest::read(7, from, into)
}

fn write(pair: &Pair) -> WorkRequest {
    let (Some(to), Some(from)) = (pair.theirs.remote().at(0, 1), pair.own.local(0, 1)) else {
        unreachable!("ranges of these regions")
    };
    WorkRequest::write(7, from, to)
}

fn swap(pair: &Pair, at: RemoteRegion) -> WorkRequest {
    let (Some(at), Some(into)) = (at.at(0, 1), pair.own.local(0, 1)) else {
        unreachable!("ranges of these regions")
    };
    WorkRequest::compare_and_swap(7, at, UNTOUCHED, 1, into)
}

fn add(pair: &Pair, region: RemoteRegion, start: u64) -> WorkRequest {
    let (Some(at), Some(into)) = (region.at(start, 1), pair.own.local(0, 1)) else {
        unreachable!("ranges of these regions")
    };
    WorkRequest::fetch_add(7, at, 1, into)
}

impl Pair {
    fn new(context: &Context, port: &Port, access: Access) -> Result<Self> {
        let domain = ProtectionDomain::new(context)?;
        let limits = context.limits()?;
        let requests = REQUESTS.min(limits.work_requests);
        let entries = (4 * REQUESTS).min(limits.completions);
        let completions = CompletionQueue::new(context, entries)?;
        let capacity = Capacity { requests, inline_words: 8 };
        let pair = || QueuePair::new(&domain, &completions, capacity)?.init(port, Access::WINDOW);
        let (near, far) = (pair()?, pair()?);
        let gid = context.choose_gid(port, None)?;
        let path = Path {
            gid_index: gid.index,
            // Both ends are this device.
            rd_atomic: limits.initiator_rd_atomic.min(limits.responder_rd_atomic),
            psn: 0x1234,
            retry: Retry::new(14, 6)?,
            ..Path::over(port)
        };
        let at = |queue_pair| Peer { queue_pair, psn: path.psn, lid: port.lid, gid: gid.gid };
        let (to_far, to_near) = (at(far.number()), at(near.number()));
        let near = near.ready_to_receive(&to_far, &path)?.ready_to_send(&path)?;
        let far = far.ready_to_receive(&to_near, &path)?.ready_to_send(&path)?;
        let region = |access| {
            let words = (0..WORDS).map(|_| AtomicU64::new(UNTOUCHED)).collect();
            MemoryRegion::register(&domain, words, access)
        };
        let (own, theirs) = (region(Access::PRIVATE)?, region(access)?);
        Ok(Self { near, _far: far, completions, own, theirs })
    }

    /// The next completion.
    fn end(&mut self) -> Result<WorkCompletion> {
        let begin = Instant::now();
        let mut end = [WorkCompletion::default()];
        while self.completions.poll(&mut end)? == 0 {
            ensure(begin.elapsed() < PATIENCE, || "no completion".into())?;
        }
        let [end] = end;
        Ok(end)
    }

    fn is_untouched(&self) -> bool {
        let all = self.own.words().iter().chain(self.theirs.words());
        all.into_iter().all(|word| word.load(SeqCst) == UNTOUCHED)
    }
}

fn refused(name: &str, mut pair: Pair, request: &Request, status: Status) -> Result<()> {
    let begin = Instant::now();
    let request = request(&pair);
    pair.near.post(&request)?;
    let end = pair.end()?;
    let took = begin.elapsed();
    ensure(end.result() == Err(status) && end.id() == 7, || format!("{name}: {end:?}"))?;
    ensure(pair.is_untouched(), || format!("{name}: something was changed"))?;
    println!("{name}: {status} after {took:.1?}");
    Ok(())
}

/// An error is the end of its queue pair: what is behind it ends as flushed, each once.
fn flushed_behind_an_error(context: &Context, port: &Port) -> Result<()> {
    let mut pair = Pair::new(context, port, Access::WINDOW)?;
    let bad = read(&pair, wrong_key(&pair), 0, 1);
    let good = add(&pair, pair.theirs.remote(), 0);
    let mut list = WorkRequestList::new(4);
    for request in [&bad, &good, &good] {
        list.push(request)?;
    }
    pair.near.post_list(&mut list)?;
    ensure(pair.end()?.result() == Err(Status::RemoteAccess), || "the error".into())?;
    for _ in 0..2 {
        let end = pair.end()?;
        ensure(end.result() == Err(Status::Flushed), || format!("behind it: {end:?}"))?;
    }
    pair.near.post(&good)?;
    let end = pair.end()?;
    ensure(end.result() == Err(Status::Flushed), || format!("posted later: {end:?}"))?;
    let more = pair.completions.poll(&mut [WorkCompletion::default()])?;
    ensure(more == 0 && pair.is_untouched(), || "something took effect".into())?;
    println!("behind an error everything is flushed, once");
    Ok(())
}

/// Words carried by the request may change as soon as it was posted.
fn inline_words_are_carried(context: &Context, port: &Port) -> Result<()> {
    let mut pair = Pair::new(context, port, Access::WINDOW)?;
    let mut words = [1, 2, 3, 4, 5, 6, 7, 8];
    let to = pair.theirs.remote().at(8, 8).ok_or_else(|| Failure("range".into()))?;
    let request = WorkRequest::write_inline(9, &words, to).ok_or_else(|| Failure("8".into()))?;
    pair.near.post(&request)?;
    words.fill(0);
    pair.end()?.result()?;
    let landed: Vec<u64> =
        pair.theirs.words().iter().skip(8).take(8).map(|word| word.load(SeqCst)).collect();
    ensure(landed == [1, 2, 3, 4, 5, 6, 7, 8], || format!("inline: {landed:?}"))?;
    println!("inline words are carried");
    Ok(())
}

/// Of a list with one signalled request at its end one completion comes.
fn silent_until_signalled(context: &Context, port: &Port) -> Result<()> {
    let mut pair = Pair::new(context, port, Access::WINDOW)?;
    let add = add(&pair, pair.theirs.remote(), 0);
    let mut list = WorkRequestList::new(8);
    for _ in 0..7 {
        list.push(&add.unsignalled())?;
    }
    list.push(&add)?;
    pair.near.post_list(&mut list)?;
    let end = pair.end()?;
    end.result()?;
    let sum = pair.theirs.words().first().map_or(0, |word| word.load(SeqCst));
    ensure(sum == UNTOUCHED + 8, || format!("8 additions made {:#x}", sum))?;
    let more = pair.completions.poll(&mut [WorkCompletion::default()])?;
    ensure(more == 0, || "an unsignalled request completed aloud".into())?;
    println!("8 requests, 1 doorbell, 1 completion");
    Ok(())
}

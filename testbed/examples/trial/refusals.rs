//! Two queue pairs of this machine post requests that must be refused: each completes with the
//! right status and changes nothing.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use probeline_verbs::{
    Access, Capacity, CompletionQueue, Context, DeviceList, Library, MemoryRegion, Path, Peer,
    Port, ProtectionDomain, QueuePair, ReadyToSend, RemoteRegion, Retry, Status, WorkCompletion,
    WorkRequest, WorkRequestList,
};

use crate::job::HANG_TIMEOUT;

/// Builds a request that must be refused.
type Request = fn(&Pair) -> WorkRequest;
type Region = MemoryRegion<Vec<AtomicU64>>;

/// Two connected queue pairs, with a region at each end.
struct Pair {
    near: QueuePair<ReadyToSend>,
    _far: QueuePair<ReadyToSend>,
    completions: CompletionQueue,
    local: Region,
    remote: Region,
}

const WORDS: u64 = 64;
/// Capacity of a queue pair, more than is posted at once here.
const REQUESTS: u32 = 16;
const INITIAL: u64 = 0x1111_2222_3333_4444;

pub(crate) fn run() -> Result<()> {
    let (context, port) = active_port()?;
    unbounded_retries()?;
    let remote_access: &[(&str, Request)] = &[
        ("READ with a wrong key", |pair| read(pair, wrong_key(pair), 0, 1)),
        ("READ beyond the region", |pair| read(pair, too_long(pair), WORDS, 1)),
        ("READ across the region's end", |pair| read(pair, too_long(pair), WORDS - 1, 2)),
        ("CAS with a wrong key", |pair| swap(pair, wrong_key(pair))),
        ("FAA beyond the region", |pair| add(pair, too_long(pair), WORDS)),
    ];
    for (name, request) in remote_access {
        let pair = Pair::new(&context, &port, Access::WINDOW)?;
        refused(name, pair, request, Status::REMOTE_ACCESS)?;
    }
    let rights: &[(&str, Access, Request)] = &[
        ("WRITE without the right", Access::REMOTE_READ, |pair| write(pair)),
        ("READ without the right", Access::LOCAL_WRITE, |pair| {
            read(pair, pair.remote.remote(), 0, 1)
        }),
        ("CAS without the right", Access::LOCAL_WRITE.union(Access::REMOTE_WRITE), |pair| {
            swap(pair, pair.remote.remote())
        }),
    ];
    for (name, access, request) in rights {
        let pair = Pair::new(&context, &port, *access)?;
        refused(name, pair, request, Status::REMOTE_ACCESS)?;
    }
    flushed_behind_an_error(&context, &port)?;
    inline_words_are_carried(&context, &port)?;
    silent_until_signalled(&context, &port)
}

/// Finds the first active port of any device.
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
    bail!("no active port")
}

/// `Retry` refuses counts and timeouts with which a device retries without end.
fn unbounded_retries() -> Result<()> {
    ensure!(Retry::new(14, 7).is_err(), "7 retries were accepted");
    ensure!(Retry::new(0, 6).is_err(), "timeout 0 was accepted");
    Ok(())
}

fn wrong_key(pair: &Pair) -> RemoteRegion {
    let region = pair.remote.remote();
    RemoteRegion { key: region.key ^ 0x5555, ..region }
}

fn too_long(pair: &Pair) -> RemoteRegion {
    RemoteRegion { words: 2 * WORDS, ..pair.remote.remote() }
}

fn read(pair: &Pair, from: RemoteRegion, start: u64, words: u32) -> WorkRequest {
    let (Some(from), Some(into)) = (from.at(start, words), pair.local.local(0, words)) else {
        unreachable!("the ranges lie in the regions")
    };
    WorkRequest::read(7, from, into)
}

fn write(pair: &Pair) -> WorkRequest {
    let (Some(to), Some(from)) = (pair.remote.remote().at(0, 1), pair.local.local(0, 1)) else {
        unreachable!("the ranges lie in the regions")
    };
    WorkRequest::write(7, from, to)
}

fn swap(pair: &Pair, at: RemoteRegion) -> WorkRequest {
    let (Some(at), Some(into)) = (at.at(0, 1), pair.local.local(0, 1)) else {
        unreachable!("the ranges lie in the regions")
    };
    WorkRequest::compare_and_swap(7, at, INITIAL, 1, into)
}

fn add(pair: &Pair, region: RemoteRegion, start: u64) -> WorkRequest {
    let (Some(at), Some(into)) = (region.at(start, 1), pair.local.local(0, 1)) else {
        unreachable!("the ranges lie in the regions")
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
        let pair =
            || QueuePair::new(&domain, &completions, capacity)?.init(port, 0, Access::WINDOW);
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
            let words = (0..WORDS).map(|_| AtomicU64::new(INITIAL)).collect();
            MemoryRegion::register(&domain, words, access)
        };
        let (local, remote) = (region(Access::PRIVATE)?, region(access)?);
        Ok(Self { near, _far: far, completions, local, remote })
    }

    /// Waits for the next completion.
    fn complete(&mut self) -> Result<WorkCompletion> {
        let start = Instant::now();
        let mut completion = [WorkCompletion::default()];
        while self.completions.poll(&mut completion)? == 0 {
            ensure!(start.elapsed() < HANG_TIMEOUT, "hang: no completion");
        }
        let [completion] = completion;
        Ok(completion)
    }

    fn is_unchanged(&self) -> bool {
        let all = self.local.words().iter().chain(self.remote.words());
        all.into_iter().all(|word| word.load(SeqCst) == INITIAL)
    }
}

fn refused(name: &str, mut pair: Pair, request: &Request, status: Status) -> Result<()> {
    let start = Instant::now();
    let request = request(&pair);
    pair.near.post(&request)?;
    let completion = pair.complete()?;
    let took = start.elapsed();
    let expected = completion.result() == Err(status) && completion.id() == 7;
    ensure!(expected, "{name}: {completion:?}");
    ensure!(pair.is_unchanged(), "{name}: a region was changed");
    println!("refused: {name}: {status} after {took:.1?}");
    Ok(())
}

/// After an error the queue pair flushes every request behind it, each once.
fn flushed_behind_an_error(context: &Context, port: &Port) -> Result<()> {
    let mut pair = Pair::new(context, port, Access::WINDOW)?;
    let bad = read(&pair, wrong_key(&pair), 0, 1);
    let good = add(&pair, pair.remote.remote(), 0);
    let mut list = WorkRequestList::new(4);
    for request in [&bad, &good, &good] {
        ensure!(list.push(request), "the list is full");
    }
    pair.near.post_list(&mut list)?;
    let error = pair.complete()?;
    ensure!(error.result() == Err(Status::REMOTE_ACCESS), "first request: {error:?}");
    for _ in 0..2 {
        let flushed = pair.complete()?;
        ensure!(flushed.result() == Err(Status::FLUSHED), "request behind it: {flushed:?}");
    }
    pair.near.post(&good)?;
    let flushed = pair.complete()?;
    ensure!(flushed.result() == Err(Status::FLUSHED), "request posted later: {flushed:?}");
    let more = pair.completions.poll(&mut [WorkCompletion::default()])?;
    ensure!(more == 0 && pair.is_unchanged(), "a flushed request took effect");
    println!("requests behind an error are flushed, each once");
    Ok(())
}

/// An inline request carries its words, so that the caller may change them once it is posted.
fn inline_words_are_carried(context: &Context, port: &Port) -> Result<()> {
    let mut pair = Pair::new(context, port, Access::WINDOW)?;
    let mut words = [1, 2, 3, 4, 5, 6, 7, 8];
    let to = pair.remote.remote().at(8, 8).context("range")?;
    let request = WorkRequest::write_inline(9, &words, to).context("8 inline words")?;
    pair.near.post(&request)?;
    words.fill(0);
    pair.complete()?.result()?;
    let landed: Vec<u64> =
        pair.remote.words().iter().skip(8).take(8).map(|word| word.load(SeqCst)).collect();
    ensure!(landed == [1, 2, 3, 4, 5, 6, 7, 8], "inline words: {landed:?}");
    println!("inline words are carried");
    Ok(())
}

/// A list whose last request alone is signalled gives one completion.
fn silent_until_signalled(context: &Context, port: &Port) -> Result<()> {
    let mut pair = Pair::new(context, port, Access::WINDOW)?;
    let add = add(&pair, pair.remote.remote(), 0);
    let mut list = WorkRequestList::new(8);
    for _ in 0..7 {
        ensure!(list.push(&add.unsignalled()), "the list is full");
    }
    ensure!(list.push(&add), "the list is full");
    pair.near.post_list(&mut list)?;
    pair.complete()?.result()?;
    let sum = pair.remote.words().first().map_or(0, |word| word.load(SeqCst));
    ensure!(sum == INITIAL + 8, "8 additions gave {sum:#x}");
    let more = pair.completions.poll(&mut [WorkCompletion::default()])?;
    ensure!(more == 0, "an unsignalled request completed");
    println!("8 requests, 1 doorbell, 1 completion");
    Ok(())
}

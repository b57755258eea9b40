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
type Request = fn(&Pair) -> Option<WorkRequest>;
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

/// Requests with the access that the remote region allows.
const REFUSED: &[(&str, Access, Request)] = &[
    ("READ with a wrong key", Access::WINDOW, |pair| pair.read(pair.wrong_key(), 0, 1)),
    ("READ beyond the region", Access::WINDOW, |pair| pair.read(pair.too_long(), WORDS, 1)),
    ("READ across its end", Access::WINDOW, |pair| pair.read(pair.too_long(), WORDS - 1, 2)),
    ("CAS with a wrong key", Access::WINDOW, |pair| pair.swap(pair.wrong_key())),
    ("FAA beyond the region", Access::WINDOW, |pair| pair.add(pair.too_long(), WORDS)),
    ("WRITE without the right", Access::REMOTE_READ, |pair| {
        let (to, from) = (pair.remote.remote().at(0, 1)?, pair.local.local(0, 1)?);
        Some(WorkRequest::write(7, from, to))
    }),
    ("READ without the right", Access::LOCAL_WRITE, |pair| pair.read(pair.remote.remote(), 0, 1)),
    ("CAS without the right", Access::LOCAL_WRITE.union(Access::REMOTE_WRITE), |pair| {
        pair.swap(pair.remote.remote())
    }),
];

pub(crate) fn run() -> Result<()> {
    let (context, port) = active_port()?;
    for (name, access, request) in REFUSED {
        refused(name, Pair::new(&context, &port, *access)?, request)?;
    }
    let pair = || Pair::new(&context, &port, Access::WINDOW);
    flushed_behind_an_error(pair()?)?;
    inline_words_are_carried(pair()?)?;
    silent_until_signalled(pair()?)
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

    fn wrong_key(&self) -> RemoteRegion {
        let region = self.remote.remote();
        RemoteRegion { key: region.key ^ 0x5555, ..region }
    }

    fn too_long(&self) -> RemoteRegion {
        RemoteRegion { words: 2 * WORDS, ..self.remote.remote() }
    }

    fn read(&self, from: RemoteRegion, start: u64, words: u32) -> Option<WorkRequest> {
        Some(WorkRequest::read(7, from.at(start, words)?, self.local.local(0, words)?))
    }

    fn swap(&self, at: RemoteRegion) -> Option<WorkRequest> {
        let (at, into) = (at.at(0, 1)?, self.local.local(0, 1)?);
        Some(WorkRequest::compare_and_swap(7, at, INITIAL, 1, into))
    }

    fn add(&self, region: RemoteRegion, start: u64) -> Option<WorkRequest> {
        Some(WorkRequest::fetch_add(7, region.at(start, 1)?, 1, self.local.local(0, 1)?))
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

fn refused(name: &str, mut pair: Pair, request: &Request) -> Result<()> {
    let request = request(&pair).context("the ranges lie in the regions")?;
    pair.near.post(&request)?;
    let completion = pair.complete()?;
    let expected = completion.result() == Err(Status::REMOTE_ACCESS) && completion.id() == 7;
    ensure!(expected, "{name}: {completion:?}");
    ensure!(pair.is_unchanged(), "{name}: a region was changed");
    println!("refused: {name}");
    Ok(())
}

/// Checks that after an error the queue pair flushes every request behind it, each once.
fn flushed_behind_an_error(mut pair: Pair) -> Result<()> {
    let bad = pair.read(pair.wrong_key(), 0, 1).context("range")?;
    let good = pair.add(pair.remote.remote(), 0).context("range")?;
    let mut list = WorkRequestList::new(4);
    for request in [&bad, &good, &good] {
        ensure!(list.push(request), "the list is full");
    }
    pair.near.post_list(&mut list)?;
    for (place, status) in
        [Status::REMOTE_ACCESS, Status::FLUSHED, Status::FLUSHED, Status::FLUSHED]
            .into_iter()
            .enumerate()
    {
        if place == 3 {
            pair.near.post(&good)?;
        }
        let completion = pair.complete()?;
        ensure!(completion.result() == Err(status), "request {place}: {completion:?}");
    }
    let more = pair.completions.poll(&mut [WorkCompletion::default()])?;
    ensure!(more == 0 && pair.is_unchanged(), "a flushed request took effect");
    Ok(())
}

/// Checks that an inline request carries its words, so that the caller may change them once it is posted.
fn inline_words_are_carried(mut pair: Pair) -> Result<()> {
    let mut words = [1, 2, 3, 4, 5, 6, 7, 8];
    let to = pair.remote.remote().at(8, 8).context("range")?;
    let request = WorkRequest::write_inline(9, &words, to).context("8 inline words")?;
    pair.near.post(&request)?;
    words.fill(0);
    pair.complete()?.result()?;
    let landed = pair.remote.words()[8..16].iter().map(|word| word.load(SeqCst));
    ensure!(landed.eq(1..=8), "inline words: {:?}", pair.remote.words());
    Ok(())
}

/// Checks that a list whose last request alone is signalled gives one completion.
fn silent_until_signalled(mut pair: Pair) -> Result<()> {
    let add = pair.add(pair.remote.remote(), 0).context("range")?;
    let mut list = WorkRequestList::new(8);
    for _ in 0..7 {
        ensure!(list.push(&add.unsignalled()), "the list is full");
    }
    ensure!(list.push(&add), "the list is full");
    pair.near.post_list(&mut list)?;
    pair.complete()?.result()?;
    let sum = pair.remote.words()[0].load(SeqCst);
    ensure!(sum == INITIAL + 8, "8 additions gave {sum:#x}");
    let more = pair.completions.poll(&mut [WorkCompletion::default()])?;
    ensure!(more == 0, "an unsignalled request completed");
    Ok(())
}

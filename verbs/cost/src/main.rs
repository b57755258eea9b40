//! The loops of `c/loops.c` with the safe verbs: `post N` and `list N`. Two more loops use an
//! [`Engine`]: `engine N` executes the same READs, `atomic N` compare-and-swaps.

use core::ffi::{c_char, c_void};
use core::hint::black_box;
use core::sync::atomic::AtomicU64;
use std::error::Error;

use probeline_transport::{
    Alone, Completion, Owner, PostError, RemoteWord, Segment, Sizes, Slot, SlotRange, Token,
    Transport,
};
use probeline_verbs::{
    Access, Builder, Capacity, CompletionQueue, Context, DeviceList, Engine, Library, MemoryRegion,
    Path, Peer, ProtectionDomain, QueuePair, ReadyToSend, RemoteRegion, WorkCompletion,
    WorkRequest, WorkRequestList,
};
use probeline_verbs_sys::Verbs;

const BATCH: usize = 32;
const WINDOW_WORDS: u64 = 4096;
const SLOTS: u64 = 64;
const WORDS: u32 = 8;

unsafe extern "C" {
    /// Returns a call of the stand-in device, which `c/device.c` defines.
    fn device_symbol(name: *const c_char) -> *mut c_void;
}

type Words = Vec<AtomicU64>;

/// The objects that the loops of the safe verbs use.
struct Reader {
    pair: QueuePair<ReadyToSend>,
    completions: CompletionQueue,
    local: MemoryRegion<Words>,
    remote: RemoteRegion,
    _window: MemoryRegion<Words>,
}

impl Reader {
    /// Returns the request `id`: a READ of `WORDS` words.
    #[inline]
    fn request(&self, id: u64) -> Option<WorkRequest> {
        let into = self.local.local(id % SLOTS * u64::from(WORDS), WORDS)?;
        let from = self.remote.at(id * u64::from(WORDS) % WINDOW_WORDS, WORDS)?;
        Some(WorkRequest::read(id, from, into))
    }
}

/// Posts one READ and waits for its completion.
#[inline(never)]
fn read_one(reader: &mut Reader, id: u64, end: &mut [WorkCompletion; 1]) -> u64 {
    let request = reader.request(id).unwrap();
    reader.pair.post(&request).unwrap();
    while reader.completions.poll(end).unwrap() == 0 {}
    let [end] = end;
    end.result().unwrap();
    end.id()
}

fn post_loop(reader: &mut Reader, count: u64) -> u64 {
    let mut end = [WorkCompletion::default()];
    (0..count).map(|id| read_one(reader, id, &mut end)).sum()
}

/// Posts `BATCH` READs in one list, and waits for their completions.
#[inline(never)]
fn read_batch(
    reader: &mut Reader,
    first: u64,
    list: &mut WorkRequestList,
    ends: &mut [WorkCompletion; BATCH],
) -> u64 {
    for id in first..first + BATCH as u64 {
        let request = reader.request(id).unwrap();
        assert!(list.push(&request));
    }
    reader.pair.post_list(list).unwrap();
    let (mut ended, mut sum) = (0, 0);
    while ended < BATCH {
        let found = reader.completions.poll(ends).unwrap();
        for end in &ends[..found] {
            end.result().unwrap();
            sum += end.id();
        }
        ended += found;
    }
    sum
}

fn list_loop(reader: &mut Reader, count: u64) -> u64 {
    let mut list = WorkRequestList::new(BATCH);
    let mut ends = [WorkCompletion::default(); BATCH];
    let firsts = (0..count).step_by(BATCH);
    firsts.map(|first| read_batch(reader, first, &mut list, &mut ends)).sum()
}

/// Posts READ `id` through the engine.
#[inline(always)]
fn engine_read(engine: &mut Engine, id: u64) -> Result<(), PostError> {
    let index = id * u64::from(WORDS) % WINDOW_WORDS;
    let from = Segment { start: RemoteWord { owner: Owner(0), index }, words: WORDS };
    #[allow(clippy::cast_possible_truncation, reason = "less than SLOTS")]
    let slot = Slot((id % SLOTS) as u32);
    engine.read(Token(id), from, SlotRange { slot, start: 0, words: WORDS })
}

/// Posts compare-and-swap `id` through the engine.
#[inline(always)]
fn engine_swap(engine: &mut Engine, id: u64) -> Result<(), PostError> {
    let index = id * u64::from(WORDS) % WINDOW_WORDS;
    engine.compare_and_swap(Token(id), RemoteWord { owner: Owner(0), index }, id, id + 1)
}

/// Posts `BATCH` operations through the engine, and waits for their completions.
#[inline(always)]
fn engine_batch(
    engine: &mut Engine,
    first: u64,
    ends: &mut [Completion; BATCH],
    post: impl Fn(&mut Engine, u64) -> Result<(), PostError>,
) -> u64 {
    for id in first..first + BATCH as u64 {
        post(engine, id).unwrap();
    }
    let (mut ended, mut sum) = (0, 0);
    while ended < BATCH {
        let found = engine.poll(ends).unwrap();
        for end in &ends[..found] {
            end.result.unwrap();
            sum += end.token.0;
        }
        ended += found;
    }
    sum
}

#[inline(never)]
fn read_batch_by_engine(engine: &mut Engine, first: u64, ends: &mut [Completion; BATCH]) -> u64 {
    engine_batch(engine, first, ends, engine_read)
}

#[inline(never)]
fn swap_batch_by_engine(engine: &mut Engine, first: u64, ends: &mut [Completion; BATCH]) -> u64 {
    engine_batch(engine, first, ends, engine_swap)
}

fn engine_loop(
    engine: &mut Engine,
    count: u64,
    batch: impl Fn(&mut Engine, u64, &mut [Completion; BATCH]) -> u64,
) -> u64 {
    let mut ends = [Completion::default(); BATCH];
    (0..count).step_by(BATCH).map(|first| batch(engine, first, &mut ends)).sum()
}

fn words(count: u64) -> Words {
    (0..count).map(AtomicU64::new).collect()
}

fn open(context: &Context) -> Result<Reader, Box<dyn Error>> {
    let domain = ProtectionDomain::new(context)?;
    let completions = CompletionQueue::new(context, BATCH as u32)?;
    let local = MemoryRegion::register(&domain, words(SLOTS * u64::from(WORDS)), Access::PRIVATE)?;
    let window = MemoryRegion::register(&domain, words(WINDOW_WORDS), Access::WINDOW)?;
    let port = context.port(1)?;
    let path = Path { rd_atomic: 16, ..Path::over(&port) };
    let capacity = Capacity { requests: BATCH as u32, inline_words: 0 };
    let pair = QueuePair::new(&domain, &completions, capacity)?.init(&port, 0, Access::WINDOW)?;
    let peer = Peer { queue_pair: pair.number(), psn: 0, lid: port.lid, gid: Default::default() };
    let pair = pair.ready_to_receive(&peer, &path)?.ready_to_send(&path)?;
    Ok(Reader { pair, completions, local, remote: window.remote(), _window: window })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(which), Some(count)) = (arguments.next(), arguments.next()) else {
        return Err("usage: verbs-cost post|list|engine|atomic COUNT".into());
    };
    let count = black_box(count.parse()?);
    // SAFETY: the calls in `c/device.c` have the signatures of infiniband/verbs.h and stay linked.
    // Those that this program uses behave as their manual pages specify.
    let library =
        unsafe { Library::from_verbs(Verbs::from_symbols(|name| device_symbol(name.as_ptr()))?) };
    let sum = match which.as_str() {
        "engine" | "atomic" => {
            let sizes = Sizes::new(WINDOW_WORDS).with_slots(SLOTS as u32, WORDS);
            let builder = Builder::new(sizes.with_depth(BATCH as u32)).libibverbs(library);
            let mut engine =
                builder.open_in(&mut Alone, |_, count| Ok(Box::new(words(count as u64))))?;
            match which.as_str() {
                "atomic" => engine_loop(&mut engine, count, swap_batch_by_engine),
                _ => engine_loop(&mut engine, count, read_batch_by_engine),
            }
        }
        _ => {
            let list = DeviceList::new(library)?;
            let device = list.iter().next().ok_or("no device")?;
            let mut reader = open(&device.open()?)?;
            match which.as_str() {
                "post" => post_loop(&mut reader, count),
                "list" => list_loop(&mut reader, count),
                other => return Err(format!("no loop {other}").into()),
            }
        }
    };
    println!("{sum}");
    Ok(())
}

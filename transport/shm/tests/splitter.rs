//! Channels of one engine: plans and dropped channels. The simulator and the verbs run the
//! conformance suite on channels; `ci/posted-cost` counts their instructions.

use core::sync::atomic::Ordering::Acquire;

use probeline_shm::{Builder, Engine};
use probeline_transport::{
    Alone, Completion, Owner, Pending, PostError, RemoteWord, Sizes, Splitter, Token, Transport,
};

/// Opens an engine with room for two parts.
fn open() -> Engine {
    Builder::new(PART.plus(PART)).open(&mut Alone).unwrap()
}

const PART: Sizes = Sizes { window_words: 12, slots: 2, slot_words: 8, depth: 4 };
const WORD: RemoteWord = RemoteWord { owner: Owner(0), index: 3 };

#[test]
fn refuses_oversized_plan() {
    let mut engine = open();
    // 12 words, padded by 4 to a line, then 12 more.
    assert_eq!(engine.geometry().window_words, 28);
    let mut storage = [Pending::EMPTY; 8];
    let error = |engine: &mut Engine, part: Sizes, storage: &mut [Pending]| {
        Splitter::new(engine, [PART, part], storage).err().map(|error| error.to_string())
    };
    for (part, lacks) in [
        (Sizes { window_words: 13, ..PART }, "29 window words, there are 28"),
        (Sizes { slots: 3, ..PART }, "5 slots, there are 4: open a larger engine, or plan smaller"),
        (Sizes { slot_words: 16, ..PART }, "16 words in a slot"),
        (Sizes { depth: 5, ..PART }, "9 operations in flight (depth)"),
    ] {
        let error = error(&mut engine, part, &mut storage).unwrap();
        assert!(error.contains(&format!("the channels need {lacks}")), "{error}");
    }
    let short = "the channels need 8 entries of storage, there are 7: pass longer storage";
    assert_eq!(error(&mut engine, PART, &mut storage[..7]).as_deref(), Some(short));
    assert_eq!(error(&mut engine, PART, &mut storage), None);
}

#[test]
fn opens_channels_once() {
    let mut engine = open();
    let mut storage = [Pending::EMPTY; 8];
    let splitter = Splitter::new(&mut engine, [PART, PART], &mut storage).unwrap();
    assert!(splitter.channels().is_some());
    assert!(splitter.channels().is_none());
}

/// Dropping a channel with operations in flight takes no depth from the other channel.
#[test]
fn dropped_channel_leaves_other_depth() {
    let mut engine = open();
    let mut storage = [Pending::EMPTY; 8];
    let splitter = Splitter::new(&mut engine, [PART, PART], &mut storage).unwrap();
    let [dropped, mut channel] = splitter.channels().unwrap();
    {
        let mut dropped = dropped;
        for token in 0..4 {
            dropped.fetch_add(Token(token), WORD, 1).unwrap();
        }
    }
    for round in 0..10 {
        for token in 0..4 {
            channel.fetch_add(Token(token), WORD, 1).unwrap();
        }
        assert_eq!(channel.fetch_add(Token(9), WORD, 1), Err(PostError::Full));
        let mut done = [Completion::default(); 8];
        let mut polled = 0;
        while polled < 4 {
            polled += channel.poll(&mut done[polled..]).unwrap();
        }
        let expected = (0..4).map(|token| (Token(token), Ok(4 * round + token)));
        assert!(
            done[..4].iter().map(|completion| (completion.token, completion.result)).eq(expected),
            "{done:?}"
        );
        assert_eq!((polled, channel.in_flight()), (4, 0));
    }
    // The operations of the dropped channel took effect.
    assert_eq!(engine.window()[3].load(Acquire), 4);
}

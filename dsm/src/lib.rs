//! Shared memory by pages, with release consistency, in the memory of many processes.
//!
//! A [`Region`] is an array of plain elements that every rank sees. A rank works on a private mirror of it,
//! in views and edits of ranges, which are slices: pages that it lacks are read from their homes. A
//! [release](Region::release) of a lock or a [barrier](Region::barrier) sends the words that were edited, and an
//! [acquire](Region::acquire) or a barrier drops the copies of pages that others have changed. All of it takes READs,
//! WRITEs and fetch-and-adds, or loads and stores where the CPU addresses the home: no CPU of a home takes part.
//!
//! # Which write a read returns
//!
//! Two accesses to an element by different ranks *conflict* if one of them is an edit. A program is
//! *properly synchronised* if of any two conflicting accesses one *happens before* the other:
//!
//! - accesses of one rank happen in their order;
//! - what a rank does before it releases a lock happens before what the next holder does after its acquire;
//! - what any rank does before a barrier happens before what any rank does after it;
//! - and so on along any chain of these, also over different locks.
//!
//! In such a program a read returns the last edit before it, as if all ranks shared one memory; edits of
//! neighbours are kept, even in one word, unless [`Config::shares_words`] is off. In others the elements that ranks
//! race for are undefined, and so are the other elements of their words unless elements are whole words.
//! An edit of a range is an edit of all its elements, also of those that it does not change.
//!
//! # The rule
//!
//! 1. A page is sent as the words that this rank has edited, so ranks that edit different elements of a page
//!    keep each other's changes. The words of a range that it edits are its own until its next release: it sends them
//!    without a look at what they were. Of a word at an end of a range of which only a part is in the range, it keeps
//!    the old value, the twin, and adds the difference to the word by an atomic: nobody else changes these bytes, so
//!    the sums of several ranks commute. With [`Config::compares`] the twin has the whole page: words all of
//!    whose elements differ from it are sent, and of others the difference.
//! 2. A rank tells which pages it has changed (*notices*) only when all its changes have arrived, and passes
//!    a lock on only when its notices have. So the holder reads notices that no rank is writing, and reads
//!    pages that have the changes.
//! 3. Notices are cumulative: a rank passes on, with any lock, also those that it had from others since the last
//!    barrier. They carry the writer and the number of its interval, so that each is obeyed once.
//!    The lock's word counts the releases that had notices, so a rank that finds the count of its last release reads no
//!    list.
//! 4. Lists of notices are bounded. Who finds that one has lost notices drops all its copies, and passes on a
//!    notice for all pages.
//! 5. A READ of a page may be stale or torn only in bytes that another rank changes at this time, which a
//!    properly synchronised program does not look at. A page whose notice comes while its READ is in flight, or
//!    while it is edited, is read again before the next access.
//! 6. Where the CPU addresses a home's words and is coherent with the transport's atomics
//!    ([`AtomicScope::Cpu`](probeline_transport::AtomicScope::Cpu)), it loads and stores pages between the mirror and
//!    the home itself, at the same times. A fence follows the stores of a release, and only then come the WRITE of its
//!    notices, the atomic that passes the lock on, or the barrier's message. Who has read one of these has a fence
//!    before its loads. So the stores happen before the loads, as a WRITE that has arrived does before a READ. Other
//!    ranks may reach the same page by the transport: words of an edit are of one rank, and parts of words are changed
//!    by atomics on both ways.
//! 7. With [`Config::directory`], locks carry no notices. A rank registers by an atomic on a word at the home of a page as a
//!    reader when it first reads the page, and as a writer with its first changes of it. The atomics are in one order. So
//!    a reader finds all writers before it, and a writer finds all before it that may have a copy, and adds to a
//!    byte in their windows, and waits for that as for its changes. Who acquires a lock afterwards, along any chain,
//!    reads its own bytes: it drops its copies of all pages that others have written. At barriers there are notices.
//! 8. With [`Config::in_windows`], which needs a CPU that is coherent as by rule 6, a rank edits the pages whose home it
//!    is in place, and drops none of them. At a release or barrier it tells that it has changed them, as it does of
//!    pages that it sends, after a fence behind its stores. So others read them again, as after a WRITE that has
//!    arrived. What others send arrives before they tell of it, and an acquire or a barrier has a fence before this
//!    rank's loads. Others may read its changes before it tells of them, or half of them: by rule 5 no properly
//!    synchronised program looks at these. Words are whole here, so no atomic meets a store of this rank in a word.
//! 9. After an error it is unknown which changes have arrived. The region then refuses everything and keeps its
//!    locks, and the next barrier fails on all ranks.
#![cfg_attr(not(any(test, feature = "fault")), no_std)]
#![deny(unsafe_code)]

mod access;
mod config;
mod context;
mod directory;
mod edit;
#[cfg(feature = "fault")]
#[allow(unsafe_code, reason = "page protection, and the handler of its faults")]
pub mod fault;
mod lock;
mod memory;
#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "numbers are small here")]
mod model;
mod notices;
#[allow(unsafe_code, reason = "slices of one slice that are apart")]
mod ranges;
mod region;
mod transfer;
#[allow(unsafe_code, reason = "words of the own window as slices of elements")]
mod window;

pub use config::Config;
pub use context::{Context, Stats};
pub use probeline_pipeline::{CollectiveError, ConfigError, Distribution, Error as OperationError};
pub use region::{Operation, Region};
pub use transfer::Transfer;
pub use window::Window;

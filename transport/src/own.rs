//! Reads of the own window while peers change it.

use core::sync::atomic::AtomicU64;

use crate::{AtomicScope, PostError, RemoteWord, Request, Segment, SlotRange, Token, Transport};

/// The result of [`read_own_window`]: the words, or a READ of them.
#[derive(Debug)]
pub enum OwnRead<'t> {
    /// The words, which loads read now.
    Words(&'t [AtomicU64]),
    /// A READ was posted: its completion has the token, and brings the words to the slot.
    Posted,
}

/// Reads words of this process's own window as the peers' operations have changed them so far,
/// without waiting for a barrier.
///
/// If the device's atomics are coherent with the CPU, loads do it. Elsewhere a peer's operation
/// may reach this process's loads only at the next barrier ([`Transport::window`]), so the device
/// has to read the words: a READ of the own window is posted.
///
/// # Errors
/// As for [`Transport::post`], even where no READ is needed, except for [`PostError::Full`].
pub fn read_own_window<T: Transport + ?Sized>(
    transport: &mut T,
    token: Token,
    first_word: u64,
    into: SlotRange,
) -> Result<OwnRead<'_>, PostError> {
    let start = RemoteWord { owner: transport.geometry().me, index: first_word };
    let from = Segment { start, words: into.words };
    let request = Request::Read { from, into };
    transport.geometry().check(transport.caps(), &request)?;
    let coherent = transport.caps().atomics == AtomicScope::Cpu;
    if !coherent || transport.direct(from).is_none() {
        transport.post(token, request)?;
        return Ok(OwnRead::Posted);
    }
    T::direct(transport, from).map(OwnRead::Words).ok_or(PostError::OutOfRange)
}

//! The fast path of gets and puts, shared by the CPU and by blocking calls over a transport.
//!
//! It handles hits, misses and uncontended puts: while the candidates show entries of other keys only, a
//! search remembers nothing that decides. `None` makes the caller run the request again as a full search
//! ([`Search`](crate::search::Search)) or a machine. Until then it has only read, or lost a claim.

use probeline_pipeline::Error;

use crate::context::Context;
use crate::control::Control;
use crate::outcome::{Outcome, Request, Written};
use crate::search::{Kind, Seen, Target};

/// Access of a request on a key to its candidates.
pub(crate) trait Quick {
    fn context(&mut self) -> &mut Context;

    /// Looks at a candidate, and counts that. Stores the key's value in `room`, if there is any.
    fn probe(
        &mut self,
        nth: u32,
        writes: bool,
        room: Option<&mut [u8]>,
    ) -> Result<(Control, Seen), Error>;

    /// Stores the value in the candidate probed last. Returns `None`, and has stored nothing, if
    /// another client was faster, or if other candidates must be compared.
    fn store(&mut self, target: Target, value: &[u8]) -> Result<Option<Written>, Error>;
}

/// Runs a request. Returns `None` if it has to run again from its beginning. After a hit `room` has the
/// value.
#[inline(always)]
pub(crate) fn run(
    access: &mut impl Quick,
    request: Request<&[u8]>,
    room: &mut [u8],
) -> Result<Option<Outcome<()>>, Error> {
    match request {
        Request::Get => get(access, room),
        Request::Put(value) => put(access, value, true),
        Request::PutIfAbsent(value) => put(access, value, false),
        Request::Replace(..) | Request::Remove => Ok(None),
    }
}

#[inline(always)]
fn get(access: &mut impl Quick, room: &mut [u8]) -> Result<Option<Outcome<()>>, Error> {
    for nth in 0..access.context().layout.candidates {
        match access.probe(nth, false, Some(&mut *room))?.1 {
            Seen::Other => {}
            Seen::Key => {
                access.context().stats.hits += 1;
                return Ok(Some(Outcome::Hit(())));
            }
            Seen::Empty => break,
            _ => return Ok(None),
        }
    }
    access.context().stats.misses += 1;
    Ok(Some(Outcome::Miss))
}

#[inline(always)]
fn put(access: &mut impl Quick, value: &[u8], over: bool) -> Result<Option<Outcome<()>>, Error> {
    for nth in 0..access.context().layout.candidates {
        let written = match access.probe(nth, true, None)? {
            (_, Seen::Other) => continue,
            (_, Seen::Key) if !over => Some(Written::Present),
            (seen, Seen::Key) => access.store(Target { nth, seen, kind: Kind::Key }, value)?,
            (seen, Seen::Empty) => access.store(Target { nth, seen, kind: Kind::Empty }, value)?,
            _ => None,
        };
        if let Some(written) = written {
            access.context().stats.count(written, false);
        }
        return Ok(written.map(Outcome::Written));
    }
    Ok(None)
}

//! Both sides prove that they know the secret, before either says anything of the job.
//!
//! ```text
//! member -> hub   magic (8 bytes), version (4), nonce of the member (32),
//!                 HMAC(secret, "first" | version | nonce of the member) (32)
//! hub -> member   magic, version, status (1), nonce of the hub (32)
//! member -> hub   HMAC(secret, "member" | version | both nonces) (32)
//! hub -> member   status, HMAC(secret, "hub" | version | both nonces) (32)
//! ```
//! With the first HMAC the hub distinguishes members from strangers after one message, so strangers
//! cannot take the places of members. An observer of the network can replay the first HMAC, so the
//! hub counts only the first message with each nonce ([`SeenNonces`]). The second HMAC cannot be
//! replayed, and only the second one admits a member.
//!
//! All lengths are fixed, so a stranger has no length to lie about, and integers are little
//! endian. What follows are frames whose keys, one each way, are HMACs of the same nonces, so that
//! rank, size and parameters are authenticated and a recorded session is of no use in another.
//! The first 12 bytes of either side stay as they are in every version to come.

use std::collections::HashSet;

use hmac::Mac;
use zeroize::Zeroizing;

use crate::frame::{Channel, keyed};
use crate::secret::{Secret, SecretError};
use crate::wire::Wire;

/// The version of everything this crate sends.
pub(crate) const VERSION: u32 = 2;

const MAGIC: [u8; 8] = *b"probelin";

/// 256 bits, so that no two sessions ever have the same pair.
pub(crate) type Nonce = [u8; 32];
type Proof = [u8; 32];

/// # Errors
/// [`SecretError::NoRandom`].
pub(crate) fn nonce() -> Result<Nonce, SecretError> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|_| SecretError::NoRandom)?;
    Ok(nonce)
}

/// The nonces of the valid first messages of a rendezvous.
#[derive(Default)]
pub(crate) struct SeenNonces(HashSet<Nonce>);

impl SeenNonces {
    /// The maximum number of nonces. Only members create valid first messages, one for each
    /// attempt to connect: this is 16 attempts of each rank of the largest job.
    const MAX: usize = 1 << 16;

    /// Adds `nonce`. Returns whether it is new; `false` if the set is full.
    fn add(&mut self, nonce: Nonce) -> bool {
        self.0.len() < Self::MAX && self.0.insert(nonce)
    }
}

/// What rank 0 answers, one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    Good = 0,
    OtherVersion = 1,
    WrongSecret = 2,
    OtherSize = 3,
    OutOfRange = 4,
    Taken = 5,
    OtherParameters = 6,
}

impl Status {
    const ALL: [Self; 7] = [
        Self::Good,
        Self::OtherVersion,
        Self::WrongSecret,
        Self::OtherSize,
        Self::OutOfRange,
        Self::Taken,
        Self::OtherParameters,
    ];

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|status| *status as u8 == code)
    }
}

/// Why a handshake ended without a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// What came is not this protocol, in any version.
    Garbage,
    /// The other side's version.
    Version(u32),
    /// The other side does not know the secret, or says that this one does not.
    Secret,
}

/// What is kept secret of a session: the two channels.
pub(crate) struct Session {
    pub(crate) send: Channel,
    pub(crate) receive: Channel,
}

/// The HMAC of a member's first message.
fn first_mac(secret: &Secret, member: &Nonce) -> hmac::Hmac<sha2::Sha256> {
    keyed(secret.bytes())
        .chain_update("probeline exchange: first message of the member")
        .chain_update(VERSION.to_le_bytes())
        .chain_update(member)
}

/// The nonces of one handshake, and what is derived from them and the secret.
struct Transcript {
    member: Nonce,
    hub: Nonce,
}

impl Transcript {
    fn mac(&self, secret: &Secret, purpose: &str) -> hmac::Hmac<sha2::Sha256> {
        // The purposes are prefix-free, as none is the start of another, and the rest is fixed.
        keyed(secret.bytes())
            .chain_update(purpose)
            .chain_update(VERSION.to_le_bytes())
            .chain_update(self.member)
            .chain_update(self.hub)
    }

    fn proof(&self, secret: &Secret, side: Side) -> Proof {
        self.mac(secret, side.proof()).finalize().into_bytes().into()
    }

    fn proves(&self, secret: &Secret, side: Side, proof: &Proof) -> bool {
        self.mac(secret, side.proof()).verify_slice(proof).is_ok()
    }

    fn session(&self, secret: &Secret, side: Side) -> Session {
        let channel = |from: Side| {
            let key = self.mac(secret, from.key()).finalize().into_bytes().into();
            Channel::new(&Zeroizing::new(key))
        };
        Session { send: channel(side), receive: channel(side.other()) }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Member,
    Hub,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Member => Self::Hub,
            Self::Hub => Self::Member,
        }
    }

    fn proof(self) -> &'static str {
        match self {
            Self::Member => "probeline exchange: proof of the member",
            Self::Hub => "probeline exchange: proof of the hub",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Member => "probeline exchange: frames of the member",
            Self::Hub => "probeline exchange: frames of the hub",
        }
    }
}

/// What a side waits for.
enum Step {
    Greeting,
    Nonce,
    Proof(Transcript),
}

fn send_greeting(wire: &mut Wire) {
    wire.outgoing.extend(MAGIC);
    wire.outgoing.extend(VERSION.to_le_bytes());
}

/// Checks the first 12 bytes; `None` until they are there.
fn greeting(wire: &mut Wire) -> Result<Option<()>, Stop> {
    // Refused at the first wrong byte: whoever speaks another protocol may be waiting for us.
    let known = wire.incoming.iter().zip(MAGIC).all(|(found, expected)| *found == expected);
    if !known {
        return Err(Stop::Garbage);
    }
    let Some([_, _, _, _, _, _, _, _, version @ ..]) = wire.take::<12>() else { return Ok(None) };
    match u32::from_le_bytes(version) {
        VERSION => Ok(Some(())),
        theirs => Err(Stop::Version(theirs)),
    }
}

/// The hub's side of one handshake.
pub(crate) struct Guest {
    nonce: Nonce,
    step: Step,
    is_vouched_for: bool,
}

impl Guest {
    pub(crate) fn new(nonce: Nonce) -> Self {
        Self { nonce, step: Step::Greeting, is_vouched_for: false }
    }

    /// Goes on with what has arrived; a session once the other side has proved itself.
    ///
    /// # Errors
    /// Why not; the answer is on the wire.
    pub(crate) fn advance(
        &mut self,
        secret: &Secret,
        seen: &mut SeenNonces,
        wire: &mut Wire,
    ) -> Result<Option<Session>, Stop> {
        loop {
            match &self.step {
                Step::Greeting => {
                    match greeting(wire) {
                        Ok(None) => return Ok(None),
                        Ok(Some(())) => {}
                        Err(stop) => {
                            self.answer_other_version(stop, wire);
                            return Err(stop);
                        }
                    }
                    self.step = Step::Nonce;
                }
                Step::Nonce => {
                    let Some(first) = wire.take::<64>() else { return Ok(None) };
                    let (member, mac) = first.split_at(32);
                    let member = Nonce::try_from(member).map_err(|_| Stop::Garbage)?;
                    send_greeting(wire);
                    if first_mac(secret, &member).verify_slice(mac).is_err() {
                        wire.outgoing.push(Status::WrongSecret as u8);
                        wire.outgoing.extend([0; 32]);
                        return Err(Stop::Secret);
                    }
                    wire.outgoing.push(Status::Good as u8);
                    wire.outgoing.extend(self.nonce);
                    self.is_vouched_for = seen.add(member);
                    self.step = Step::Proof(Transcript { member, hub: self.nonce });
                }
                Step::Proof(transcript) => {
                    let Some(proof) = wire.take() else { return Ok(None) };
                    if !transcript.proves(secret, Side::Member, &proof) {
                        wire.outgoing.push(Status::WrongSecret as u8);
                        wire.outgoing.extend([0; 32]);
                        return Err(Stop::Secret);
                    }
                    wire.outgoing.push(Status::Good as u8);
                    wire.outgoing.extend(transcript.proof(secret, Side::Hub));
                    return Ok(Some(transcript.session(secret, Side::Hub)));
                }
            }
        }
    }

    /// Whether the HMAC of the other side's first message is correct, and the message is not a
    /// copy of an earlier one.
    pub(crate) fn is_vouched_for(&self) -> bool {
        self.is_vouched_for
    }

    /// Garbage gets no answer at all.
    fn answer_other_version(&self, stop: Stop, wire: &mut Wire) {
        if let Stop::Version(_) = stop {
            send_greeting(wire);
            wire.outgoing.push(Status::OtherVersion as u8);
            wire.outgoing.extend(self.nonce);
        }
    }
}

/// The member's side of one handshake.
pub(crate) struct Applicant {
    nonce: Nonce,
    step: Step,
}

impl Applicant {
    /// Queues the first message for sending.
    pub(crate) fn new(nonce: Nonce, secret: &Secret, wire: &mut Wire) -> Self {
        send_greeting(wire);
        wire.outgoing.extend(nonce);
        wire.outgoing.extend_from_slice(first_mac(secret, &nonce).finalize().as_bytes());
        Self { nonce, step: Step::Greeting }
    }

    /// Goes on with what has arrived; a session once both sides have proved themselves.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn advance(
        &mut self,
        secret: &Secret,
        wire: &mut Wire,
    ) -> Result<Option<Session>, Stop> {
        loop {
            match &self.step {
                Step::Greeting => {
                    if greeting(wire)?.is_none() {
                        return Ok(None);
                    }
                    self.step = Step::Nonce;
                }
                Step::Nonce => {
                    let Some([status, hub @ ..]) = wire.take::<33>() else { return Ok(None) };
                    match Status::from_code(status) {
                        Some(Status::Good) => {}
                        Some(Status::WrongSecret) => return Err(Stop::Secret),
                        _ => return Err(Stop::Garbage),
                    }
                    let transcript = Transcript { member: self.nonce, hub };
                    wire.outgoing.extend(transcript.proof(secret, Side::Member));
                    self.step = Step::Proof(transcript);
                }
                Step::Proof(transcript) => {
                    let Some([status, proof @ ..]) = wire.take::<33>() else { return Ok(None) };
                    let good = status == Status::Good as u8;
                    if !(good && transcript.proves(secret, Side::Hub, &proof)) {
                        return Err(Stop::Secret);
                    }
                    return Ok(Some(transcript.session(secret, Side::Member)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_set_of_nonces_accepts_no_more() {
        let nonce = |index: usize| {
            let mut nonce = [0; 32];
            nonce[..8].copy_from_slice(&index.to_le_bytes());
            nonce
        };
        let mut seen = SeenNonces::default();
        assert!((0..SeenNonces::MAX).all(|index| seen.add(nonce(index))));
        assert!(!seen.add(nonce(SeenNonces::MAX)));
        assert!(!seen.add(nonce(0)));
        assert_eq!(seen.0.len(), SeenNonces::MAX);
    }
}

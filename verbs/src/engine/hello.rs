//! What every owner tells the others before data flows.

use alloc::vec;
use alloc::vec::Vec;

use transport::{Exchange, Owner};

use super::OpenError;
use crate::{Gid, GidKind, LinkLayer, Mtu, RemoteRegion};

/// Changes with the encoding, and with what owners do to each other's control words.
const VERSION: u32 = 1;
/// Bytes that do not depend on the number of owners.
const FIXED: usize = 4 + 8 + 4 + 4 + RemoteRegion::BYTES + 16 + 4 + 2 + 5;

/// One owner's side of all its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) window_words: u64,
    pub(super) slot_words: u32,
    pub(super) psn: u32,
    pub(super) region: RemoteRegion,
    pub(super) gid: Gid,
    pub(super) gid_kind: GidKind,
    pub(super) lid: u16,
    pub(super) link_layer: LinkLayer,
    /// Its packets need a global route header.
    pub(super) global: bool,
    pub(super) mtu: Mtu,
    pub(super) responder_rd_atomic: u8,
    pub(super) initiator_rd_atomic: u8,
    /// By owner: the number of the queue pair that is for it.
    pub(super) queue_pairs: Vec<u32>,
}

impl Hello {
    /// Gathers everybody's. An owner that has failed gives `None`, and ends the others' opening.
    pub(super) fn gather<E: Exchange + ?Sized>(
        mine: Option<&Self>,
        exchange: &mut E,
    ) -> Result<Vec<Self>, OpenError> {
        let owners = exchange.owners() as usize;
        let bytes = FIXED + 4 * owners;
        let mut all = vec![0; bytes * owners];
        let mine = mine.map_or_else(|| vec![0; bytes], Self::encode);
        exchange.all_gather(&mine, &mut all).map_err(OpenError::Exchange)?;
        let theirs = (0..).map(Owner).zip(all.chunks_exact(bytes));
        theirs.map(|(owner, bytes)| Self::decode(owner, bytes)).collect()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED + 4 * self.queue_pairs.len());
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.window_words.to_le_bytes());
        bytes.extend_from_slice(&self.slot_words.to_le_bytes());
        bytes.extend_from_slice(&self.psn.to_le_bytes());
        bytes.extend_from_slice(&self.region.to_bytes());
        bytes.extend_from_slice(&self.gid.0);
        bytes.extend_from_slice(&self.gid_kind.code().to_le_bytes());
        bytes.extend_from_slice(&self.lid.to_le_bytes());
        bytes.extend([u8::from(self.link_layer == LinkLayer::Ethernet), u8::from(self.global)]);
        bytes.extend([self.mtu.code(), self.responder_rd_atomic, self.initiator_rd_atomic]);
        bytes.extend(self.queue_pairs.iter().flat_map(|number| number.to_le_bytes()));
        bytes
    }

    fn decode(owner: Owner, bytes: &[u8]) -> Result<Self, OpenError> {
        let mut reader = Reader(bytes);
        match u32::from_le_bytes(reader.take()) {
            VERSION => {}
            0 => return Err(OpenError::PeerFailed(owner)),
            theirs => {
                let (mine, theirs) = (u64::from(VERSION), u64::from(theirs));
                return Err(OpenError::Differs { owner, what: "protocol version", mine, theirs });
            }
        }
        Ok(Self {
            window_words: u64::from_le_bytes(reader.take()),
            slot_words: u32::from_le_bytes(reader.take()),
            psn: u32::from_le_bytes(reader.take()),
            region: RemoteRegion::from_bytes(&reader.take()),
            gid: Gid(reader.take()),
            gid_kind: GidKind::of(u32::from_le_bytes(reader.take())),
            lid: u16::from_le_bytes(reader.take()),
            link_layer: match reader.take() {
                [0] => LinkLayer::Infiniband,
                [_] => LinkLayer::Ethernet,
            },
            global: reader.take() != [0],
            mtu: Mtu::of(u8::from_le_bytes(reader.take()).into()),
            responder_rd_atomic: u8::from_le_bytes(reader.take()),
            initiator_rd_atomic: u8::from_le_bytes(reader.take()),
            queue_pairs: reader.0.as_chunks().0.iter().map(|n| u32::from_le_bytes(*n)).collect(),
        })
    }

    /// Fails unless `theirs` was opened with the same sizes, over the same kind of link.
    pub(super) fn agree(&self, owner: Owner, theirs: &Self) -> Result<(), OpenError> {
        let differs = |what, mine, theirs| OpenError::Differs { owner, what, mine, theirs };
        if self.window_words != theirs.window_words {
            return Err(differs("words in a window", self.window_words, theirs.window_words));
        }
        if self.slot_words != theirs.slot_words {
            let (mine, theirs) = (self.slot_words.into(), theirs.slot_words.into());
            return Err(differs("words in a slot", mine, theirs));
        }
        if self.link_layer != theirs.link_layer {
            return Err(OpenError::LinkLayers { owner, mine: self.link_layer });
        }
        self.reaches(owner, theirs)
    }

    /// Fails unless packets find their way by these addresses.
    fn reaches(&self, owner: Owner, theirs: &Self) -> Result<(), OpenError> {
        let same = match self.link_layer {
            LinkLayer::Ethernet => {
                let family = |hello: &Self| (hello.gid_kind, hello.gid.ipv4().is_some());
                family(self) == family(theirs)
            }
            // The first half is the subnet's prefix.
            LinkLayer::Infiniband => self.gid.0.first_chunk::<8>() == theirs.gid.0.first_chunk(),
        };
        if same {
            return Ok(());
        }
        let address = |hello: &Self| (hello.gid_kind, hello.gid);
        Err(OpenError::Addresses { owner, mine: address(self), theirs: address(theirs) })
    }
}

/// The part of a message that was not read yet. A short one ends in zeroes: lengths are the
/// exchange's to check.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((taken, rest)) = self.0.split_first_chunk() else { return [0; N] };
        self.0 = rest;
        *taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            window_words: 1 << 40,
            slot_words: 24,
            psn: 0x00ab_cdef,
            region: RemoteRegion { address: u64::MAX - 4095, words: 77, key: 0x1234_5678 },
            gid: Gid([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
            gid_kind: GidKind::RoceV2,
            lid: 0xbeef,
            link_layer: LinkLayer::Ethernet,
            global: true,
            mtu: Mtu::Bytes2048,
            responder_rd_atomic: 16,
            initiator_rd_atomic: 128,
            queue_pairs: vec![7, u32::MAX, 9],
        }
    }

    #[test]
    fn a_hello_survives_its_encoding() {
        let bytes = hello().encode();
        assert_eq!(bytes.len(), FIXED + 12);
        assert_eq!(Hello::decode(Owner(1), &bytes).unwrap(), hello());
    }

    #[test]
    fn failed_owners_other_versions_and_other_sizes_are_named() {
        let failed = Hello::decode(Owner(3), &[0; 100]);
        assert!(matches!(failed, Err(OpenError::PeerFailed(Owner(3)))));
        let mut bytes = hello().encode();
        bytes[0] = 9;
        let error = Hello::decode(Owner(3), &bytes).unwrap_err();
        assert!(matches!(error, OpenError::Differs { owner: Owner(3), theirs: 9, .. }));

        let mine = hello();
        mine.agree(Owner(1), &mine).unwrap();
        let wrong = [
            Hello { window_words: 8, ..hello() },
            Hello { slot_words: 8, ..hello() },
            Hello { link_layer: LinkLayer::Infiniband, ..hello() },
            Hello { gid_kind: GidKind::RoceV1, ..hello() },
            Hello { gid: Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 1]), ..hello() },
        ];
        wrong.iter().for_each(|theirs| assert!(mine.agree(Owner(1), theirs).is_err()));
    }
}

//! The connection information that the owners exchange so that they can connect.

use alloc::vec;
use alloc::vec::Vec;

use probeline_transport::SetupError;
use probeline_transport::engine::setup::{agree, gather_records};
use probeline_transport::{Exchange, Fingerprint, Owner};

use super::OpenError;
use super::connection::{FIRST_LOST, SCRATCH, control_words, shutdown_word};
use crate::{Gid, GidKind, LinkLayer, Mtu, RemoteRegion};

/// The record, the collective calls of opening, and the control words.
const PROTOCOL: Fingerprint =
    Fingerprint::new(4).with_all(&[SCRATCH, FIRST_LOST, shutdown_word(Owner(1)), control_words(2)]);
/// Words of a record.
const WORDS: usize = 15;

/// One owner's side of its connection to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionInfo {
    pub(super) window_words: u64,
    pub(super) slot_words: u32,
    pub(super) psn: u32,
    /// The owner's control words and its window.
    pub(super) region: RemoteRegion,
    pub(super) gid: Gid,
    pub(super) gid_kind: GidKind,
    pub(super) lid: u16,
    pub(super) link_layer: LinkLayer,
    /// Packets to this owner need a global route header.
    pub(super) global: bool,
    pub(super) mtu: Mtu,
    pub(super) responder_rd_atomic: u8,
    pub(super) initiator_rd_atomic: u8,
    /// The number of the queue pair for the other owner.
    pub(super) queue_pair: u32,
}

impl ConnectionInfo {
    /// Gathers the other owners' sides of their connections to this owner. `mine` is this owner's
    /// side, with the numbers of its queue pairs by owner. An owner that failed passes `None`, and
    /// opening fails for all owners.
    pub(super) fn gather<E: Exchange + ?Sized>(
        exchange: &mut E,
        mine: Option<(&Self, &[u32])>,
    ) -> Result<Vec<Self>, SetupError> {
        let records = gather_records(exchange, PROTOCOL, mine.map(|(mine, _)| mine.to_words()))?;
        let numbers = mine.map(|(_, numbers)| numbers).unwrap_or_default();
        let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut theirs = vec![0; numbers.len()];
        exchange.all_to_all(&numbers, &mut theirs)?;
        let numbers = theirs.as_chunks().0.iter().map(|number| u32::from_le_bytes(*number));
        let info = |(words, queue_pair)| Self { queue_pair, ..Self::from_words(words) };
        Ok(records.into_iter().zip(numbers).map(info).collect())
    }

    fn to_words(self) -> [u64; WORDS] {
        let (halves, _) = self.gid.0.as_chunks();
        let [high, low] = [0, 1].map(|half| halves.get(half).copied().unwrap_or_default());
        let RemoteRegion { address, words, key } = self.region;
        [
            self.window_words,
            self.slot_words.into(),
            self.psn.into(),
            address,
            words,
            key.into(),
            u64::from_be_bytes(high),
            u64::from_be_bytes(low),
            self.gid_kind.code().into(),
            self.lid.into(),
            (self.link_layer == LinkLayer::Ethernet).into(),
            self.global.into(),
            self.mtu.code().into(),
            self.responder_rd_atomic.into(),
            self.initiator_rd_atomic.into(),
        ]
    }

    /// Reads a record, in which the number of the queue pair is missing. Values that no owner of
    /// this version sends become the largest of their type.
    fn from_words(words: [u64; WORDS]) -> Self {
        let [window_words, slot_words, psn, address, region_words, key, high, low, rest @ ..] =
            words;
        let [gid_kind, lid, ethernet, global, mtu, responder, initiator] = rest;
        let narrow = |word| u32::try_from(word).unwrap_or(u32::MAX);
        let byte = |word| u8::try_from(word).unwrap_or(u8::MAX);
        let gid = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        Self {
            window_words,
            slot_words: narrow(slot_words),
            psn: narrow(psn),
            region: RemoteRegion { address, words: region_words, key: narrow(key) },
            gid: Gid(gid),
            gid_kind: GidKind::from_code(narrow(gid_kind)),
            lid: u16::try_from(lid).unwrap_or(u16::MAX),
            link_layer: if ethernet == 0 { LinkLayer::Infiniband } else { LinkLayer::Ethernet },
            global: global != 0,
            mtu: Mtu::from_code(narrow(mtu)),
            responder_rd_atomic: byte(responder),
            initiator_rd_atomic: byte(initiator),
            queue_pair: 0,
        }
    }

    /// Fails unless `owner` has the same sizes and a port that this owner's packets can reach.
    pub(super) fn agree(&self, owner: Owner, theirs: &Self) -> Result<(), OpenError> {
        agree(owner, "words in a window", self.window_words, theirs.window_words)?;
        agree(owner, "words in a slot", self.slot_words, theirs.slot_words)?;
        if self.link_layer != theirs.link_layer {
            return Err(OpenError::LinkLayers { owner, mine: self.link_layer });
        }
        self.agree_on_addresses(owner, theirs)
    }

    fn agree_on_addresses(&self, owner: Owner, theirs: &Self) -> Result<(), OpenError> {
        let same = match self.link_layer {
            LinkLayer::Ethernet => {
                let family = |info: &Self| (info.gid_kind, info.gid.ipv4().is_some());
                family(self) == family(theirs)
            }
            // The first half of a GID is the prefix of its subnet.
            LinkLayer::Infiniband => self.gid.0.first_chunk::<8>() == theirs.gid.0.first_chunk(),
        };
        if same {
            return Ok(());
        }
        let address = |info: &Self| (info.gid_kind, info.gid);
        Err(OpenError::Addresses { owner, mine: address(self), theirs: address(theirs) })
    }
}

#[cfg(test)]
mod tests {
    use probeline_transport::MAX_OWNERS;
    use probeline_transport::conformance::on_threads;

    use super::*;

    fn info() -> ConnectionInfo {
        ConnectionInfo {
            window_words: 1 << 40,
            slot_words: 24,
            psn: 0x00ab_cdef,
            region: RemoteRegion { address: u64::MAX - 4095, words: 77, key: 0x1234_5678 },
            gid: Gid([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
            gid_kind: GidKind::RoceV2,
            lid: 0xbeef,
            link_layer: LinkLayer::Ethernet,
            global: true,
            mtu: Mtu::from_code(4),
            responder_rd_atomic: 16,
            initiator_rd_atomic: 128,
            queue_pair: 0,
        }
    }

    fn info_of(owner: u32) -> ConnectionInfo {
        ConnectionInfo { psn: owner, ..info() }
    }

    /// Returns the number of the queue pair of `from` that is connected to `to`.
    fn number(from: u32, to: u32) -> u32 {
        from << 12 | to
    }

    fn numbers(from: u32, owners: u32) -> Vec<u32> {
        (0..owners).map(|to| number(from, to)).collect()
    }

    #[test]
    fn owners_learn_their_queue_pairs() {
        let all = on_threads(probeline_exchange::threads(5), |mut member| {
            let me = member.me().0;
            ConnectionInfo::gather(&mut member, Some((&info_of(me), &numbers(me, 5))))
        });
        for (me, found) in (0..).zip(all) {
            let expected = (0..5)
                .map(|owner| ConnectionInfo { queue_pair: number(owner, me), ..info_of(owner) })
                .collect::<Vec<_>>();
            assert_eq!(found, Ok(expected));
        }
    }

    /// A test of `exchange` shows that calls of this length work with this number of ranks.
    #[test]
    fn largest_job_fits_calls() {
        let owners = MAX_OWNERS as usize;
        // A record follows the fingerprint of the build.
        assert!(owners * 8 * (1 + WORDS) <= probeline_exchange::MAX_RESULT_BYTES);
        assert!(owners * owners * 4 <= probeline_exchange::MAX_ALL_TO_ALL_BYTES);
    }

    /// Leaves sizes and link layers to the tests of opening.
    #[test]
    fn refuses_differing_addresses() {
        let mine = info();
        mine.agree(Owner(1), &mine).unwrap();
        let wrong = [
            ConnectionInfo { gid_kind: GidKind::RoceV1, ..mine },
            ConnectionInfo {
                gid: Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 1]),
                ..mine
            },
        ];
        wrong.iter().for_each(|theirs| assert!(mine.agree(Owner(1), theirs).is_err()));
    }
}

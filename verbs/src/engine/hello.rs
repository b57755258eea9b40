//! What every owner tells the others before data flows.

use alloc::vec;
use alloc::vec::Vec;

use probeline_transport::{Exchange, Owner};

use super::OpenError;
use crate::{Gid, GidKind, LinkLayer, Mtu, RemoteRegion};

/// Changes with the encoding, and with what owners do to each other's control words.
const VERSION: u32 = 2;
/// Bytes that each owner sends to all others.
const BYTES: usize = 4 + 8 + 4 + 4 + RemoteRegion::BYTES + 16 + 4 + 2 + 5;
/// Bytes that each owner sends to each single other owner: the number of a queue pair.
const BYTES_OF_PAIR: usize = 4;

/// One owner's side of its connection to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The number of the queue pair for the other owner.
    pub(super) queue_pair: u32,
}

impl Hello {
    /// Gathers the other owners' sides of their connections to this owner. `mine` is this owner's
    /// side, with the numbers of its queue pairs by owner. An owner that failed passes `None`, and
    /// opening fails for all owners.
    pub(super) fn gather<E: Exchange + ?Sized>(
        mine: Option<(&Self, &[u32])>,
        exchange: &mut E,
    ) -> Result<Vec<Self>, OpenError> {
        let owners = exchange.owners() as usize;
        let record = mine.map_or_else(|| vec![0; BYTES], |(mine, _)| mine.encode());
        let mut all = vec![0; BYTES * owners];
        exchange.all_gather(&record, &mut all).map_err(OpenError::Exchange)?;
        let theirs = (0..).map(Owner).zip(all.chunks_exact(BYTES));
        // The records are the same for all owners, so either all continue or none does.
        let mut hellos = theirs
            .map(|(owner, bytes)| Self::decode(owner, bytes))
            .collect::<Result<Vec<_>, _>>()?;

        let numbers = mine.map(|(_, queue_pairs)| queue_pairs).unwrap_or_default();
        let mut parts: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        parts.resize(BYTES_OF_PAIR * owners, 0);
        let mut theirs = vec![0; parts.len()];
        exchange.all_to_all(&parts, &mut theirs).map_err(OpenError::Exchange)?;
        for (hello, number) in hellos.iter_mut().zip(theirs.as_chunks().0) {
            hello.queue_pair = u32::from_le_bytes(*number);
        }
        Ok(hellos)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BYTES);
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
        bytes
    }

    /// Decodes a record; the queue pair is still unknown.
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
            queue_pair: 0,
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
    extern crate std;

    use probeline_transport::{ExchangeError, MAX_OWNERS};

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
            queue_pair: 0,
        }
    }

    /// The number of the queue pair of `from` that is connected to `to`.
    fn number(from: u32, to: u32) -> u32 {
        from << 12 | to
    }

    fn numbers(from: u32, owners: u32) -> Vec<u32> {
        (0..owners).map(|to| number(from, to)).collect()
    }

    fn hello_of(owner: u32) -> Hello {
        Hello { psn: owner, ..hello() }
    }

    /// A job with a single real member, `me`. The contributions of the others are generated here,
    /// and the bytes of the calls are counted.
    struct Alone {
        me: u32,
        owners: u32,
        gathered: usize,
        to_all: usize,
    }

    impl Exchange for Alone {
        fn me(&self) -> Owner {
            Owner(self.me)
        }

        fn owners(&self) -> u32 {
            self.owners
        }

        fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
            self.gathered += all.len();
            for (owner, place) in (0..).zip(all.chunks_exact_mut(mine.len())) {
                place.copy_from_slice(&hello_of(owner).encode());
            }
            Ok(())
        }

        fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
            assert_eq!(mine.len(), theirs.len());
            self.to_all += mine.len() * self.owners as usize;
            for (owner, place) in (0..).zip(theirs.as_chunks_mut().0) {
                *place = number(owner, self.me).to_le_bytes();
            }
            Ok(())
        }

        fn barrier(&mut self) -> Result<(), ExchangeError> {
            Ok(())
        }
    }

    #[test]
    fn each_owner_learns_the_queue_pairs_that_are_for_it() {
        let members: Vec<_> = probeline_exchange::threads(5)
            .into_iter()
            .map(|mut member| {
                std::thread::spawn(move || {
                    let me = member.me().0;
                    let mine = (&hello_of(me), &numbers(me, 5)[..]);
                    (me, Hello::gather(Some(mine), &mut member).unwrap())
                })
            })
            .collect();
        for member in members {
            let (me, found) = member.join().unwrap();
            let expected = (0..5)
                .map(|owner| Hello { queue_pair: number(owner, me), ..hello_of(owner) })
                .collect::<Vec<_>>();
            assert_eq!(found, expected);
        }
    }

    /// A test of `exchange` shows that calls of this length work with this number of ranks.
    #[test]
    fn the_exchange_fits_the_maximum_number_of_owners() {
        let (me, owners) = (4095, MAX_OWNERS);
        let mut job = Alone { me, owners, gathered: 0, to_all: 0 };
        let mine = (&hello_of(me), &numbers(me, owners)[..]);
        let found = Hello::gather(Some(mine), &mut job).unwrap();
        assert_eq!(found.len(), owners as usize);
        for (owner, hello) in (0..).zip(found) {
            assert_eq!(hello, Hello { queue_pair: number(owner, me), ..hello_of(owner) });
        }
        assert!(job.gathered <= probeline_exchange::MAX_RESULT_BYTES, "{} bytes", job.gathered);
        assert!(job.to_all <= probeline_exchange::MAX_ALL_TO_ALL_BYTES, "{} bytes", job.to_all);
    }

    #[test]
    fn an_owner_that_failed_ends_the_opening_of_all() {
        let ends: Vec<_> = probeline_exchange::threads(3)
            .into_iter()
            .map(|mut member| {
                std::thread::spawn(move || {
                    let (me, numbers) = (member.me().0, numbers(member.me().0, 3));
                    let hello = hello_of(me);
                    let mine = (me != 1).then_some((&hello, &numbers[..]));
                    Hello::gather(mine, &mut member)
                })
            })
            .collect();
        for end in ends {
            let end = end.join().unwrap();
            assert!(matches!(end, Err(OpenError::PeerFailed(Owner(1)))), "{end:?}");
        }
    }

    #[test]
    fn a_hello_survives_its_encoding() {
        let bytes = hello().encode();
        assert_eq!(bytes.len(), BYTES);
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

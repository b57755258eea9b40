//! What every owner tells the others before data flows.

use probeline_transport::{Exchange, Owner};

use super::settings::Atomics;
use super::{OpenError, Progress};

/// Changes with the encoding, with the calls of the exchange, and with what owners do to each
/// other's control words.
const VERSION: u32 = 2;
const BYTES: usize = 4 + 8 + 4 + 2 + 8 + 4 + 8 + 4 + 4;
/// The bytes of its address and key that an owner sends in one call. Their length grows with the
/// number of networks of its machine, and an exchange may limit the result of a call: for 4096
/// owners these slices are 2 MiB.
const SLICE_BYTES: usize = 512;

/// One owner's sizes, where it is, and how long its address and its key are, which follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) window_words: u64,
    pub(super) slot_words: u32,
    pub(super) atomics: Atomics,
    pub(super) progress: Progress,
    /// Told by the kernel's boot and the PID namespace: processes with one number are within
    /// reach of each other.
    pub(super) machine: u64,
    pub(super) pid: u32,
    /// Where its control words are.
    pub(super) address: u64,
    pub(super) worker_bytes: u32,
    pub(super) key_bytes: u32,
}

/// Everything that one owner tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) hello: Hello,
    pub(super) worker: Vec<u8>,
    pub(super) key: Vec<u8>,
}

impl Greeting {
    /// Gathers everybody's. An owner that has failed gives `None`, and ends the others' opening.
    pub(super) fn gather<E: Exchange + ?Sized>(
        mine: Option<&Self>,
        exchange: &mut E,
    ) -> Result<Vec<Self>, OpenError> {
        let encoded = mine.map_or([0; BYTES], |mine| mine.hello.encode());
        let all = gather(&encoded, exchange)?;
        let (records, _) = all.as_chunks::<BYTES>();
        // The same for all, so that all go on or none does.
        let hellos: Vec<Hello> = (0..)
            .map(Owner)
            .zip(records)
            .map(|(owner, bytes)| Hello::decode(owner, bytes))
            .collect::<Result<_, _>>()?;
        let longest = hellos.iter().map(|hello| hello.blob_bytes()).max().unwrap_or(0);
        let mut blob = Vec::with_capacity(longest);
        if let Some(mine) = mine {
            blob.extend_from_slice(&mine.worker);
            blob.extend_from_slice(&mine.key);
        }
        blob.resize(longest, 0);
        let mut blobs = vec![Vec::with_capacity(longest); hellos.len()];
        for slice in blob.chunks(SLICE_BYTES) {
            let all = gather(slice, exchange)?;
            for (blob, part) in blobs.iter_mut().zip(all.chunks_exact(slice.len())) {
                blob.extend_from_slice(part);
            }
        }
        Ok(hellos.into_iter().zip(blobs).map(|(hello, blob)| Self::of(hello, &blob)).collect())
    }

    fn of(hello: Hello, blob: &[u8]) -> Self {
        let (worker, rest) = blob.split_at(blob.len().min(hello.worker_bytes as usize));
        let key = rest.get(..hello.key_bytes as usize).unwrap_or_default();
        Self { hello, worker: worker.to_vec(), key: key.to_vec() }
    }
}

fn gather<E: Exchange + ?Sized>(mine: &[u8], exchange: &mut E) -> Result<Vec<u8>, OpenError> {
    let mut all = vec![0; mine.len() * exchange.owners() as usize];
    exchange.all_gather(mine, &mut all).map_err(OpenError::Exchange)?;
    Ok(all)
}

impl Hello {
    fn blob_bytes(&self) -> usize {
        (self.worker_bytes as usize).saturating_add(self.key_bytes as usize)
    }

    fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut rest = bytes.as_mut_slice();
        let modes = [self.atomics == Atomics::Device, self.progress == Progress::Thread];
        let modes = modes.map(u8::from);
        for field in [
            VERSION.to_le_bytes().as_slice(),
            &self.window_words.to_le_bytes(),
            &self.slot_words.to_le_bytes(),
            &modes,
            &self.machine.to_le_bytes(),
            &self.pid.to_le_bytes(),
            &self.address.to_le_bytes(),
            &self.worker_bytes.to_le_bytes(),
            &self.key_bytes.to_le_bytes(),
        ] {
            let Some((place, behind)) = rest.split_at_mut_checked(field.len()) else { break };
            place.copy_from_slice(field);
            rest = behind;
        }
        bytes
    }

    fn decode(owner: Owner, bytes: &[u8; BYTES]) -> Result<Self, OpenError> {
        let mut reader = Reader(bytes);
        match u32::from_le_bytes(reader.take()) {
            VERSION => {}
            0 => return Err(OpenError::PeerFailed(owner)),
            theirs => {
                let (mine, theirs) = (VERSION.to_string(), theirs.to_string());
                return Err(OpenError::Differs { owner, what: "protocol version", mine, theirs });
            }
        }
        let window_words = u64::from_le_bytes(reader.take());
        let slot_words = u32::from_le_bytes(reader.take());
        let [device, thread] = reader.take();
        Ok(Self {
            window_words,
            slot_words,
            atomics: if device == 0 { Atomics::Cpu } else { Atomics::Device },
            progress: if thread == 0 { Progress::Caller } else { Progress::Thread },
            machine: u64::from_le_bytes(reader.take()),
            pid: u32::from_le_bytes(reader.take()),
            address: u64::from_le_bytes(reader.take()),
            worker_bytes: u32::from_le_bytes(reader.take()),
            key_bytes: u32::from_le_bytes(reader.take()),
        })
    }

    /// Fails unless `theirs` was opened with the same sizes and modes.
    pub(super) fn agree(&self, owner: Owner, theirs: &Self) -> Result<(), OpenError> {
        let values = |hello: &Self| {
            let Self { window_words, slot_words, atomics, progress, .. } = *hello;
            [
                ("words in a window", window_words.to_string()),
                ("words in a slot", slot_words.to_string()),
                ("as atomic mode", atomics.to_string()),
                ("as who progresses", progress.to_string()),
            ]
        };
        let differing = values(self).into_iter().zip(values(theirs));
        for ((what, mine), (_, theirs)) in differing {
            if mine != theirs {
                return Err(OpenError::Differs { owner, what, mine, theirs });
            }
        }
        Ok(())
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
    use probeline_transport::{Alone, ExchangeError};

    use super::*;

    /// [`Alone`], which counts its gathers.
    struct Counting {
        calls: usize,
        most_bytes: usize,
    }

    impl Exchange for Counting {
        fn me(&self) -> Owner {
            Alone.me()
        }

        fn owners(&self) -> u32 {
            Alone.owners()
        }

        fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
            self.calls += 1;
            self.most_bytes = self.most_bytes.max(mine.len());
            Alone.all_gather(mine, all)
        }

        fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
            Alone.all_to_all(mine, theirs)
        }

        fn barrier(&mut self) -> Result<(), ExchangeError> {
            Alone.barrier()
        }
    }

    fn greeting() -> Greeting {
        let hello = Hello {
            window_words: 1 << 40,
            slot_words: 24,
            atomics: Atomics::Device,
            progress: Progress::Thread,
            machine: 0x0123_4567_89ab_cdef,
            pid: 4711,
            address: u64::MAX - 4095,
            worker_bytes: 3,
            key_bytes: 5,
        };
        Greeting { hello, worker: vec![1, 2, 3], key: vec![4, 5, 6, 7, 8] }
    }

    #[test]
    fn a_greeting_arrives_as_it_was_sent() {
        let sent = greeting();
        let all = Greeting::gather(Some(&sent), &mut Alone).unwrap();
        assert_eq!(all, core::slice::from_ref(&sent));
        let long = Greeting {
            hello: Hello { worker_bytes: 3000, key_bytes: 1200, ..sent.hello },
            worker: (0..3000_u32).map(|byte| byte.to_le_bytes()[0]).collect(),
            key: vec![7; 1200],
        };
        let mut exchange = Counting { calls: 0, most_bytes: 0 };
        let all = Greeting::gather(Some(&long), &mut exchange).unwrap();
        assert_eq!(all, [long]);
        assert_eq!((exchange.calls, exchange.most_bytes), (1 + 9, SLICE_BYTES));
        let failed = Greeting::gather(None, &mut Alone);
        assert!(matches!(failed, Err(OpenError::PeerFailed(Owner(0)))));
    }

    #[test]
    fn other_versions_sizes_and_modes_are_named() {
        let mine = greeting().hello;
        let mut bytes = mine.encode();
        // Version 1 gathered addresses and keys in one call.
        for version in [1, 9] {
            bytes[0] = version;
            let error = Hello::decode(Owner(3), &bytes).unwrap_err();
            assert!(matches!(error, OpenError::Differs { owner: Owner(3), .. }), "{error}");
        }
        mine.agree(Owner(1), &mine).unwrap();
        for theirs in [
            Hello { window_words: 8, ..mine },
            Hello { slot_words: 8, ..mine },
            Hello { atomics: Atomics::Cpu, ..mine },
            Hello { progress: Progress::Caller, ..mine },
        ] {
            assert!(mine.agree(Owner(1), &theirs).is_err());
        }
    }
}

//! The bytes of a saved map: a header, then one record for each entry. No file is opened here.

use core::fmt;

use crate::FileError;
use crate::hash::hash_of_bytes;
use crate::layout::{EntryBytes, Place, check, hash};
use probeline_pipeline::Plain;

/// The first bytes of a saved map.
const MAGIC: [u8; 8] = *b"probemap";
pub(crate) const VERSION: u64 = 3;
/// Its bytes show the byte order of the machine, in which numbers, keys and values are stored.
const BYTE_ORDER: u64 = 0x0102_0304_0506_0708;
/// Bytes of a number, and of the check of a record.
const NUMBER: usize = 8;

/// The header of a saved map. It begins with the magic bytes and ends with a check of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The size of a key in bytes.
    pub key_bytes: u64,
    /// The size of a value in bytes.
    pub value_bytes: u64,
    /// The user's number for what the bytes mean: [`Config::format`](crate::Config::format).
    pub format: u64,
    /// Number of records, which follow the header.
    pub entries: u64,
    /// Sum of the checks of all records, which tells files of equal sizes apart.
    pub digest: u64,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = 9 * NUMBER;

    /// Returns the bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let Self { key_bytes, value_bytes, format, entries, digest } = *self;
        let mut bytes = [0; Self::BYTES];
        let numbers = [BYTE_ORDER, VERSION, key_bytes, value_bytes, format, entries, digest];
        let (words, _) = bytes.as_chunks_mut::<NUMBER>();
        let parts = [MAGIC].into_iter().chain(numbers.map(u64::to_ne_bytes));
        words.iter_mut().zip(parts).for_each(|(word, part)| *word = part);
        let check = check_of(&bytes);
        if let Some(last) = bytes.last_chunk_mut() {
            *last = check;
        }
        bytes
    }

    /// Returns the header that has these bytes.
    ///
    /// # Errors
    /// [`FileError`]: the bytes are not a header, or one of another version or machine, or damaged.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, FileError> {
        let (words, _) = bytes.as_chunks::<NUMBER>();
        let [magic, numbers @ ..] = words else { return Err(FileError::NoMap) };
        let mut numbers = numbers.iter().map(|number| u64::from_ne_bytes(*number));
        let mut next = || numbers.next().unwrap_or_default();
        if *magic != MAGIC {
            return Err(FileError::NoMap);
        }
        if next() != BYTE_ORDER {
            return Err(FileError::ByteOrder);
        }
        let found = next();
        if found != VERSION {
            return Err(FileError::Version { found });
        }
        if bytes.last_chunk() != Some(&check_of(bytes)) {
            return Err(FileError::Damaged);
        }
        let (key_bytes, value_bytes, format, entries) = (next(), next(), next(), next());
        Ok(Self { key_bytes, value_bytes, format, entries, digest: next() })
    }

    /// Checks that the header fits `map`: equal sizes of keys and values, and an equal format.
    ///
    /// # Errors
    /// [`FileError::Size`] and [`FileError::Format`].
    pub fn must_fit(&self, map: &Self) -> Result<(), FileError> {
        for (what, found, expected) in
            [("keys", self.key_bytes, map.key_bytes), ("values", self.value_bytes, map.value_bytes)]
        {
            if found != expected {
                return Err(FileError::Size { what, found, expected });
            }
        }
        if self.format != map.format {
            return Err(FileError::Format { found: self.format, expected: map.format });
        }
        Ok(())
    }

    /// Returns the bytes of a record; `None` if there are too many to address.
    #[must_use]
    pub fn record_bytes(&self) -> Option<u64> {
        self.key_bytes.checked_add(self.value_bytes)?.checked_add(NUMBER as u64)
    }

    /// Returns the position of a record in a file; of record [`entries`](Self::entries), the length
    /// of the file. `None` if it is too large.
    #[must_use]
    pub fn position(&self, record: u64) -> Option<u64> {
        record.checked_mul(self.record_bytes()?)?.checked_add(Self::BYTES as u64)
    }
}

fn check_of(header: &[u8; Header::BYTES]) -> [u8; NUMBER] {
    let (rest, _) = header.split_at(Header::BYTES - NUMBER);
    hash_of_bytes(rest, 0).to_ne_bytes()
}

/// Writes the record of an entry: key, value, and a check of both and of the number of the record.
/// Returns the check, or `None` if `into` does not have [`Header::record_bytes`] bytes.
pub fn encode_record<K: Plain, V: Plain>(
    number: u64,
    key: &K,
    value: &V,
    into: &mut [u8],
) -> Option<u64> {
    let (to, rest) = into.split_at_mut_checked(key.bytes().len())?;
    to.copy_from_slice(key.bytes());
    let (to, last) = rest.split_at_mut_checked(value.bytes().len())?;
    to.copy_from_slice(value.bytes());
    let check = record_check(number, key, value);
    *<&mut [u8; NUMBER]>::try_from(last).ok()? = check.to_ne_bytes();
    Some(check)
}

/// Returns the entry of a record, or `None` if its check does not match, or if the header's keys or
/// values are larger than `K` or `V`.
pub fn decode_record<K: Plain, V: Plain>(
    number: u64,
    header: &Header,
    from: &[u8],
) -> Option<(K, V)> {
    let bytes = EntryBytes {
        key: usize::try_from(header.key_bytes).ok()?,
        value: usize::try_from(header.value_bytes).ok()?,
    };
    if bytes.key > K::CAPACITY || bytes.value > V::CAPACITY {
        return None;
    }
    let (mut key, mut value) = (K::zeroed(bytes.key), V::zeroed(bytes.value));
    let (of_key, rest) = from.split_at_checked(bytes.key)?;
    let (of_value, last) = rest.split_at_checked(bytes.value)?;
    copy(of_key, key.bytes_mut())?;
    copy(of_value, value.bytes_mut())?;
    let check = u64::from_ne_bytes(*<&[u8; NUMBER]>::try_from(last).ok()?);
    (check == record_check(number, &key, &value)).then_some((key, value))
}

fn copy(from: &[u8], to: &mut [u8]) -> Option<()> {
    if from.len() != to.len() {
        return None;
    }
    to.copy_from_slice(from);
    Some(())
}

fn record_check(number: u64, key: &impl Plain, value: &impl Plain) -> u64 {
    check(hash(key), value.bytes(), Place { owner: 0, index: number })
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key_bytes, value_bytes, format, entries, digest } = self;
        write!(
            f,
            "{entries} entries, keys of {key_bytes} and values of {value_bytes} bytes, format {format}, \
             digest {digest:016x}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probeline_pipeline::Bytes;

    const HEADER: Header =
        Header { key_bytes: 80, value_bytes: 104, format: 9, entries: 1 << 40, digest: 5 };

    #[test]
    fn encode_then_decode_header() {
        let bytes = HEADER.encode();
        assert_eq!(Header::decode(&bytes).unwrap(), HEADER);
        for at in 0..Header::BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert!(Header::decode(&damaged).is_err(), "byte {at}");
        }
        assert_eq!(HEADER.position(HEADER.entries), Some(72 + (192 << 40)));
        assert_eq!(Header { entries: u64::MAX, ..HEADER }.position(u64::MAX), None);
    }

    #[test]
    fn refuses_record_at_other_place() {
        let header = Header { key_bytes: 3, value_bytes: 8, format: 0, entries: 2, digest: 0 };
        let mut record = [0; 19];
        let check = encode_record(1, &[1_u8, 2, 3], &7_u64, &mut record);
        assert_eq!(check.map(u64::to_ne_bytes), record.last_chunk().copied());
        assert_eq!(encode_record(1, &[1_u8, 2, 3], &7_u64, &mut [0; 18]), None);
        let entry = |number, bytes: &[u8]| decode_record::<[u8; 3], u64>(number, &header, bytes);
        assert_eq!(entry(1, &record), Some(([1, 2, 3], 7)));
        assert_eq!(entry(0, &record), None);
        for at in 0..record.len() {
            let mut damaged = record;
            damaged[at] ^= 0x80;
            assert_eq!(entry(1, &damaged), None, "byte {at}");
        }
    }

    /// The sizes of a header are bytes of a file, and `Bytes` has room for some only.
    #[test]
    fn refuses_records_above_capacity() {
        type Key = Bytes<4>;
        let record = [0; 40];
        for (key_bytes, value_bytes) in [(5, 4), (4, 5), (u64::MAX, 4), (16, 16)] {
            let header = Header { key_bytes, value_bytes, format: 0, entries: 1, digest: 0 };
            let bytes = header.record_bytes().and_then(|bytes| usize::try_from(bytes).ok());
            let record = record.get(..bytes.unwrap_or(0)).unwrap_or(&record);
            assert_eq!(decode_record::<Key, Key>(0, &header, record), None, "{header}");
        }
    }
}

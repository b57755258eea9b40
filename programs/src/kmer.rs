//! K-mers as numbers: two bits a base, the first base in the highest bits.

/// The letters of the bases 0 to 3. The complement of a base is 3 less it.
pub(crate) const LETTERS: [u8; 4] = *b"ACGT";
/// Codes of letters that are no base: one that ends a run of bases, and line ends, which are skipped.
const BREAK: u8 = 4;
const SKIP: u8 = 5;
const CODES: [u8; 256] = codes();

const fn codes() -> [u8; 256] {
    let mut codes = [BREAK; 256];
    let mut base = 0_u8;
    while base < 4 {
        let letter = LETTERS[base as usize];
        codes[letter as usize] = base;
        codes[letter.to_ascii_lowercase() as usize] = base;
        base += 1;
    }
    codes[b'\n' as usize] = SKIP;
    codes[b'\r' as usize] = SKIP;
    codes
}

/// Scans the k-mers of a sequence: of each its number or, if they are canonical, the smaller one of its own
/// and of its reverse complement's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner {
    k: u32,
    canonical: bool,
    forward: u64,
    backward: u64,
    /// Bases since the last letter that is none.
    run: u32,
}

impl Scanner {
    pub(crate) fn new(k: u32, canonical: bool) -> Self {
        Self { k, canonical, forward: 0, backward: 0, run: 0 }
    }

    /// Begins another sequence.
    pub(crate) fn reset(&mut self) {
        self.run = 0;
    }

    /// Appends each k-mer that ends in the next piece of the sequence. Line ends are skipped; a letter other than
    /// ACGT, in any case, is in no k-mer.
    pub(crate) fn scan(&mut self, piece: &[u8], kmers: &mut Vec<u64>) {
        let Self { k, canonical, mut forward, mut backward, mut run } = *self;
        let (mask, top) = (u64::MAX >> (64 - 2 * k), 2 * (k - 1));
        for letter in piece {
            let base = CODES[usize::from(*letter)];
            if base >= BREAK {
                run = if base == SKIP { run } else { 0 };
                continue;
            }
            forward = (forward << 2 | u64::from(base)) & mask;
            backward = backward >> 2 | u64::from(3 - base) << top;
            run += 1;
            if run >= k {
                kmers.push(if canonical { forward.min(backward) } else { forward });
            }
        }
        (self.forward, self.backward, self.run) = (forward, backward, run.min(k));
    }
}

/// Writes the letters of a k-mer.
pub(crate) fn write_letters(kmer: u64, k: u32, to: &mut Vec<u8>) {
    let letter = |place: u32| LETTERS[(kmer >> (2 * place) & 3) as usize];
    to.extend((0..k).rev().map(letter));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kmers(k: u32, canonical: bool, sequence: &[u8]) -> Vec<String> {
        let (mut scanner, mut found) = (Scanner::new(k, canonical), Vec::new());
        sequence.chunks(3).for_each(|piece| scanner.scan(piece, &mut found));
        let letters = |kmer| {
            let mut letters = Vec::new();
            write_letters(kmer, k, &mut letters);
            String::from_utf8(letters).unwrap()
        };
        found.into_iter().map(letters).collect()
    }

    #[test]
    fn kmers_are_canonical() {
        assert_eq!(kmers(3, true, b"ttgca"), ["CAA", "GCA", "GCA"]);
        assert_eq!(kmers(3, false, b"ttgca"), ["TTG", "TGC", "GCA"]);
    }

    #[test]
    fn line_ends_are_skipped_and_other_letters_end_a_run() {
        assert_eq!(kmers(3, false, b"AC\r\nGT"), ["ACG", "CGT"]);
        assert_eq!(kmers(3, false, b"ACNGTAxC"), ["GTA"]);
        assert_eq!(kmers(3, false, b"AC"), [""; 0]);
        assert_eq!(kmers(1, true, b"T"), ["A"]);
    }
}

//! FASTA and FASTQ files, and files of k-mers as the assembly exercises of UC Berkeley's course CS267 have them, of
//! which each rank reads a part in blocks.
//!
//! Each rank reads a range of bytes of each plain file; one rank reads a compressed file or a stream as a
//! whole. Ranges and blocks are cut between records, or in the sequence of a long FASTA record: then the
//! following block begins a record without a name, with the last k - 1 letters once more, so that each k-mer is
//! in one block. Each block is a FASTA or FASTQ text by itself.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;
use needletail::FastxReader;
use needletail::errors::{ParseError, ParseErrorKind};
use needletail::parser::{FastaReader, FastqReader};

use crate::Error;
use crate::gather::STANDARD;

/// Bytes of a block, unless a record is longer: it stays in a CPU's cache.
const BLOCK: usize = if cfg!(test) { 200 } else { 1 << 20 };
const GZIP: [u8; 2] = [0x1f, 0x8b];
const LINE_ENDS: [u8; 2] = *b"\n\r";
/// The first bytes of other files, what these are, and a command that converts them.
const UNREADABLE: [(&[u8], &str, &str); 4] = [
    (b"BZh", "is compressed", "bzcat"),
    (b"\xfd7z", "is compressed", "xzcat"),
    (b"\x28\xb5\x2f\xfd", "is compressed", "zstdcat"),
    (b"\xef\xbb\xbf", "begins with a byte order mark", "tail -c +4"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Fasta,
    Fastq,
    /// A line for each k-mer: its bases, a space or tab, and more.
    Kmers,
}

/// The files of a job.
#[derive(Clone, Debug)]
pub struct Inputs {
    files: Vec<Input>,
}

#[derive(Clone, Debug)]
struct Input {
    path: PathBuf,
    bytes: u64,
    /// The format of a plain file, which ranks read in parts; `None` for what one rank reads.
    format: Option<Format>,
    /// Whether only rank 0 can read it.
    is_stream: bool,
}

impl Inputs {
    /// Examines files, of which `-` is standard input.
    ///
    /// # Errors
    /// [`Error::Read`], or [`Error::Format`]: a plain file has neither FASTA nor FASTQ nor k-mers.
    pub fn open(paths: &[PathBuf]) -> Result<Self, Error> {
        let files = paths.iter().map(|path| Input::open(path)).collect::<Result<_, _>>()?;
        Ok(Self { files })
    }

    /// Returns the bytes of all files, as stored; 0 for streams.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lengths().sum()
    }

    /// Returns the length of each file, as stored; 0 for streams.
    pub fn lengths(&self) -> impl Iterator<Item = u64> + '_ {
        self.files.iter().map(|file| file.bytes)
    }

    /// Returns whether all files can be read several times.
    #[must_use]
    pub fn are_files(&self) -> bool {
        self.files.iter().all(|file| !file.is_stream)
    }

    /// Opens the texts that a rank reads, each when it is taken.
    pub(crate) fn parts(&self, k: u32, me: u32, ranks: u32) -> impl Iterator<Item = Opened> {
        let files = (0..).zip(&self.files);
        files.filter_map(move |(nth, file)| file.part(nth, k, me, ranks).transpose())
    }
}

/// The blocks of a text that a rank reads.
pub(crate) type Opened = Result<Blocks, Error>;

impl Input {
    fn open(path: &Path) -> Result<Self, Error> {
        let path = path.to_owned();
        if path == Path::new(STANDARD) {
            return Ok(Self { path, bytes: 0, format: None, is_stream: true });
        }
        let read = |source| Error::Read { path: path.clone(), source };
        let metadata = fs::metadata(&path).map_err(read)?;
        if metadata.is_dir() {
            return Err(read(io::ErrorKind::IsADirectory.into()));
        }
        // A pipe is opened once, by the rank that reads it.
        if !metadata.is_file() {
            return Ok(Self { path, bytes: 0, format: None, is_stream: true });
        }
        let file = File::open(&path).map_err(read)?;
        let mut start = [0; 4];
        let format = match file.read_at(&mut start, 0).map_err(read)? {
            ..2 => None,
            _ if start.starts_with(&GZIP) => None,
            _ => Some(format(&path, &start)?),
        };
        Ok(Self { path, bytes: metadata.len(), format, is_stream: false })
    }

    /// Opens the part of the file with this number that a rank reads; `None` if other ranks read the file.
    fn part(&self, nth: u32, k: u32, me: u32, ranks: u32) -> Result<Option<Blocks>, Error> {
        let Self { path, bytes, format, is_stream } = self;
        let read = |source| Error::Read { path: path.clone(), source };
        let Some(format) = *format else {
            let reader = if *is_stream { 0 } else { nth % ranks };
            return (reader == me).then(|| open_stream(path, k)).transpose();
        };
        let file = File::open(path).map_err(read)?;
        let share = |rank: u32| {
            let at = u128::from(*bytes) * u128::from(rank) / u128::from(ranks);
            u64::try_from(at).unwrap_or(*bytes)
        };
        let (start, end) = (share(me), share(me + 1));
        let start = Cut::new(&file, start, *bytes, format, k).map_err(read)?;
        let end = Cut::new(&file, end, *bytes, format, k).map_err(read)?;
        let prefix: &[u8] = if start.is_inside { b">\n" } else { b"" };
        let range = Range { file, next: start.start, end: end.end };
        let text = Box::new(prefix.chain(range));
        Ok(Some(Blocks::new(path, text, format, k)))
    }
}

/// Opens a file that one rank reads as a whole.
fn open_stream(path: &Path, k: u32) -> Opened {
    let read = |source| Error::Read { path: path.to_owned(), source };
    let file: Box<dyn Read> = match path == Path::new(STANDARD) {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).map_err(read)?),
    };
    let mut file = BufReader::with_capacity(BLOCK, file);
    let is_gzip = file.fill_buf().map_err(read)?.starts_with(&GZIP);
    let mut text: Box<dyn BufRead> = match is_gzip {
        true => Box::new(BufReader::with_capacity(BLOCK, Members(GzDecoder::new(Box::new(file))))),
        false => Box::new(file),
    };
    let format = format(path, text.fill_buf().map_err(read)?)?;
    Ok(Blocks::new(path, text, format, k))
}

/// The text of all members of a gzip file. Zeros may follow a member, as on tapes.
struct Members(GzDecoder<Box<dyn BufRead>>);

impl Read for Members {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        // Each iteration reads from a member.
        loop {
            let read = self.0.read(to)?;
            if read > 0 || to.is_empty() {
                return Ok(read);
            }
            let file = self.0.get_mut();
            while file.fill_buf()?.starts_with(&[0]) {
                file.consume(1);
            }
            if file.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let file = self.0.reset(Box::new(io::empty()));
            self.0.reset(file);
        }
    }
}

/// Returns the format of a text that begins with these bytes.
fn format(path: &Path, start: &[u8]) -> Result<Format, Error> {
    let unreadable = UNREADABLE.iter().find(|(magic, ..)| start.starts_with(magic));
    let what = match (start.first(), unreadable) {
        (_, Some((_, what, convert))) => {
            format!("{what}: convert it with {convert} and read it from a pipe, as -")
        }
        (Some(b'>'), _) => return Ok(Format::Fasta),
        (Some(b'@'), _) => return Ok(Format::Fastq),
        (Some(base), _) if b"ACGTacgt".contains(base) => return Ok(Format::Kmers),
        (Some(_), _) => {
            "has neither FASTA nor FASTQ nor k-mers, which begin with >, @ or a base".to_owned()
        }
        (None, _) => "is empty".to_owned(),
    };
    Err(problem(path, what))
}

fn problem(path: &Path, problem: String) -> Error {
    Error::Format { path: path.to_owned(), problem }
}

/// A range of bytes of a file.
struct Range {
    file: File,
    next: u64,
    end: u64,
}

impl Read for Range {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.next)).unwrap_or(usize::MAX);
        let len = to.len().min(left);
        let read = self.file.read_at(&mut to[..len], self.next)?;
        if read == 0 && len > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.next += read as u64;
        Ok(read)
    }
}

/// A cut of a file near a byte: where the part behind it starts and the part before it ends.
struct Cut {
    start: u64,
    /// Beyond `start` if the cut is in a sequence.
    end: u64,
    /// Whether the cut is in the sequence of a record.
    is_inside: bool,
}

impl Cut {
    fn new(file: &File, at: u64, bytes: u64, format: Format, k: u32) -> io::Result<Self> {
        let at_record = |at| Ok(Self { start: at, end: at, is_inside: false });
        if at == 0 || at >= bytes {
            return at_record(at);
        }
        if format == Format::Fastq {
            return at_record(next_record(file, at, bytes)?);
        }
        let line = line_start(file, at)?;
        let mut first = [0];
        file.read_exact_at(&mut first, line)?;
        if format == Format::Kmers || first == *b">" {
            return at_record(line);
        }
        let text = BufReader::new(Range { file: file.try_clone()?, next: at, end: bytes });
        Ok(Self { start: at, end: at + letters(text, k - 1)?, is_inside: true })
    }
}

/// Returns the start of the line that a byte is in.
fn line_start(file: &File, at: u64) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 16];
    let mut end = at;
    // Each iteration reads a piece before the last one.
    while end > 0 {
        let start = end.saturating_sub(buffer.len() as u64);
        let piece = &mut buffer[..usize::try_from(end - start).unwrap_or(0)];
        file.read_exact_at(piece, start)?;
        if let Some(newline) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + newline as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Returns the bytes up to this number of letters of a sequence, or up to its end.
fn letters(text: impl BufRead, count: u32) -> io::Result<u64> {
    let (mut left, mut read, mut last) = (count, 0, 0);
    for byte in text.bytes() {
        let byte = byte?;
        if left == 0 || (last == b'\n' && byte == b'>') {
            break;
        }
        left -= u32::from(!LINE_ENDS.contains(&byte));
        read += 1;
        last = byte;
    }
    Ok(read)
}

/// Returns the start of the first FASTQ record that starts at a byte or behind it: a line that begins with `@`,
/// two lines before one that begins with `+`. A line of qualities that begins with `@` is two lines before a
/// sequence.
fn next_record(file: &File, at: u64, bytes: u64) -> io::Result<u64> {
    let mut start = at - 1;
    let text = BufReader::new(Range { file: file.try_clone()?, next: start, end: bytes });
    let mut lines: [(u64, u8); 3] = [(0, 0); 3];
    // The first line, which may be none, begins before the byte.
    for (nth, line) in text.split(b'\n').enumerate() {
        let line = line?;
        lines = [lines[1], lines[2], (start, line.first().copied().unwrap_or(0))];
        if nth > 2 && lines[0].1 == b'@' && lines[2].1 == b'+' {
            return Ok(lines[0].0);
        }
        start += line.len() as u64 + 1;
    }
    Ok(bytes)
}

/// The blocks of a text.
pub(crate) struct Blocks {
    path: PathBuf,
    text: Box<dyn Read>,
    format: Format,
    k: u32,
    /// The block that was returned, and what follows it.
    buffer: Vec<u8>,
    /// Offset of the next block in the buffer.
    next: usize,
    /// Letters that the next block begins with, behind `>` and a line end.
    overlap: Vec<u8>,
    is_end: bool,
}

impl Blocks {
    fn new(path: &Path, text: Box<dyn Read>, format: Format, k: u32) -> Self {
        let path = path.to_owned();
        let (buffer, overlap) = (Vec::with_capacity(2 * BLOCK), Vec::new());
        Self { path, text, format, k, buffer, next: 0, overlap, is_end: false }
    }

    /// Passes each sequence of the next block to `found`. Returns the bytes read, or `None` at the end.
    pub(crate) fn scan_next(
        &mut self,
        mut found: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<Option<u64>, Error> {
        let Some(read) = self.read_block()? else { return Ok(None) };
        let block = &self.buffer[..self.next];
        if self.format == Format::Kmers {
            for line in block.split(|byte| *byte == b'\n') {
                let kmer = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
                let (len, k) = (kmer.len(), self.k);
                if len == k as usize {
                    found(kmer)?;
                } else if !line.trim_ascii().is_empty() {
                    let what = format!("has a line of a k-mer with k = {len}, and k is {k}");
                    return Err(problem(&self.path, what));
                }
            }
            return Ok(Some(read));
        }
        let is_fasta = self.format == Format::Fasta;
        let mut records: Box<dyn FastxReader> = match is_fasta {
            true => Box::new(FastaReader::new(block)),
            false => Box::new(FastqReader::new(block)),
        };
        while let Some(record) = records.next() {
            match record {
                Ok(record) => found(record.raw_seq())?,
                // The last record of FASTA has no sequence.
                Err(error) if is_fasta && error.kind == ParseErrorKind::UnexpectedEnd => break,
                Err(error) => return Err(problem(&self.path, damaged(&error))),
            }
        }
        Ok(Some(read))
    }

    /// Reads the next block into the start of the buffer, up to `next`. Returns the bytes read.
    fn read_block(&mut self) -> Result<Option<u64>, Error> {
        self.buffer.drain(..self.next);
        self.buffer.splice(..0, self.overlap.drain(..));
        let (mut read, mut wanted) = (0, BLOCK);
        // Each iteration reads more, until a record ends.
        loop {
            let missing = wanted.saturating_sub(self.buffer.len()) as u64;
            if !self.is_end {
                let got = self.text.by_ref().take(missing).read_to_end(&mut self.buffer);
                let got = got.map_err(|source| Error::Read { path: self.path.clone(), source })?;
                self.is_end = (got as u64) < missing;
                read += got as u64;
            }
            if self.is_end {
                self.next = self.buffer.len();
                let is_text = self.buffer.iter().any(|byte| !LINE_ENDS.contains(byte));
                return Ok(is_text.then_some(read));
            }
            if let Some(next) = self.cut() {
                self.next = next;
                return Ok(Some(read));
            }
            wanted += BLOCK;
        }
    }

    /// Returns the end of the block, if one ends in the buffer.
    fn cut(&mut self) -> Option<usize> {
        let buffer = &self.buffer;
        if self.format == Format::Fastq {
            let lines = buffer.iter().filter(|byte| **byte == b'\n').count();
            let mut ends = (0..buffer.len()).rev().filter(|at| buffer[*at] == b'\n');
            return if lines < 4 { None } else { ends.nth(lines % 4).map(|end| end + 1) };
        }
        if self.format == Format::Kmers {
            return buffer.iter().rposition(|byte| *byte == b'\n').map(|end| end + 1);
        }
        if let Some(end) = buffer.windows(2).rposition(|pair| pair == b"\n>") {
            return Some(end + 1);
        }
        // In the only record.
        let header = buffer.iter().position(|byte| *byte == b'\n')? + 1;
        let letters = buffer[header..].iter().rev().filter(|byte| !LINE_ENDS.contains(byte));
        let last: Vec<u8> = letters.take(self.k as usize - 1).copied().collect();
        let line_end = buffer.last().filter(|byte| LINE_ENDS.contains(byte));
        self.overlap = b">\n".iter().chain(last.iter().rev()).chain(line_end).copied().collect();
        Some(buffer.len())
    }
}

/// Returns what is wrong with a record.
fn damaged(error: &ParseError) -> String {
    let id = error.position.id.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
    let what = if error.msg.is_empty() { "it ends too early" } else { &error.msg };
    format!(
        "record{id} is damaged: {what}; if sequences have several lines, join them by seqtk seq"
    )
}

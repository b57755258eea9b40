//! What the command and the first rank of a column say to each other, a line each.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use super::sample::Sample;

/// Before the lines of an answer, so that what libraries print is not taken for one.
const MARK: &str = "probeline-compare ";

/// To a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    /// The step of this number, in this round.
    Measure { step: usize, round: u64 },
    /// There are no more.
    End,
}

/// From a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// Its engines are open.
    Ready(Ability),
    /// What a step gave.
    Measured(Box<Sample>),
    /// How the transport was set up, in words: the last answer.
    Ended(Vec<String>),
    /// Why there will be no more.
    Failed(String),
}

/// What the engines say of themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ability {
    /// Steps that it knows of.
    pub(super) steps: usize,
    pub(super) ranks: u32,
    pub(super) buckets_per_rank: u64,
    pub(super) seed: u64,
    /// Operations in flight at most.
    pub(super) depth: u32,
    /// The transport's atomics are atomic with the CPU's own.
    pub(super) cpu_atomics: bool,
    pub(super) word_reads_whole: bool,
    /// Operations stall unless the owner of the words polls.
    pub(super) needs_owner_progress: bool,
    /// A poll may wait for the owner of the words.
    pub(super) poll_may_wait: bool,
}

impl Order {
    /// As a line.
    pub(super) fn line(self) -> String {
        // Nothing in it that JSON cannot hold.
        serde_json::to_string(&self).unwrap_or_default()
    }

    /// The next one that is there; [`Order::End`] when nobody is left to give any.
    pub(super) fn next(from: &mut impl BufRead) -> io::Result<Self> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(Self::End);
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Answer {
    /// Says it on standard output.
    pub(super) fn say(&self) -> io::Result<()> {
        let text = serde_json::to_string(self)?;
        let mut out = io::stdout().lock();
        writeln!(out, "{MARK}{text}")?;
        out.flush()
    }

    /// What a line says, if it is an answer.
    pub(super) fn from_line(line: &str) -> Option<Self> {
        serde_json::from_str(line.strip_prefix(MARK)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_answers_come_as_they_were_sent() {
        let order = Order::Measure { step: 7, round: 3 };
        let mut lines = io::Cursor::new(format!("{}\n{}\n", order.line(), Order::End.line()));
        assert_eq!(Order::next(&mut lines).unwrap(), order);
        assert_eq!(Order::next(&mut lines).unwrap(), Order::End);
        assert_eq!(Order::next(&mut lines).unwrap(), Order::End);
        assert!(Order::next(&mut io::Cursor::new("measure\n")).is_err());

        let sample = Sample { operations: 9, p50_ns: Some(46), mean_ns: 0.1, ..Sample::default() };
        let answer = Answer::Measured(Box::new(sample));
        let line = format!("{MARK}{}", serde_json::to_string(&answer).unwrap());
        assert_eq!(Answer::from_line(&line), Some(answer));
        assert_eq!(Answer::from_line("PMIX ERROR: UNREACHABLE"), None);
    }
}

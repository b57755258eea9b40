//! The paper's figures, from its authors' result files.
//!
//! W. Oortwijn, T. van Dijk and J. van de Pol, *A Distributed Hash Table for Shared Memory* (PPAM
//! 2015). The files in `data/` name their origin.

use core::str::FromStr;

/// The source of all figures.
pub const SOURCE: &str = "W. Oortwijn, T. van Dijk, J. van de Pol, A Distributed Hash Table \
     for Shared Memory (PPAM 2015), from the authors' result files: DAS-5, 48 Gbit/s InfiniBand";

/// Means over the inserts at load factors from `load_percent - 2` to `load_percent`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// C, the buckets of a chunk.
    pub chunk_buckets: u32,
    /// The load factor in percent.
    pub load_percent: u32,
    /// Latency of an insert on one machine, in nanoseconds.
    pub local_ns: f64,
    /// Latency of an insert on two machines, in nanoseconds.
    pub remote_ns: f64,
    /// Chunk READs posted.
    pub outgoing_roundtrips: f64,
    /// Chunk READs waited for.
    pub effective_roundtrips: f64,
}

impl Latency {
    /// Returns the load factor, 0 to 1.
    #[must_use]
    pub fn load_factor(&self) -> f64 {
        f64::from(self.load_percent) / 100.0
    }
}

/// A mix of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Half finds, half inserts.
    Mixed,
    /// 80 % finds.
    ReadIntensive,
    /// 80 % inserts.
    WriteIntensive,
}

/// All workloads, in the paper's order.
pub const WORKLOADS: [Workload; 3] =
    [Workload::Mixed, Workload::ReadIntensive, Workload::WriteIntensive];

impl Workload {
    /// Inserts in percent of the operations (section 4.2).
    #[must_use]
    pub const fn inserts_percent(self) -> u32 {
        match self {
            Self::Mixed => 50,
            Self::ReadIntensive => 20,
            Self::WriteIntensive => 80,
        }
    }

    /// Returns the name in the paper.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::ReadIntensive => "read-intensive",
            Self::WriteIntensive => "write-intensive",
        }
    }

    fn from_file(name: &str) -> Option<Self> {
        match name {
            "mixed" => Some(Self::Mixed),
            "read" => Some(Self::ReadIntensive),
            "write" => Some(Self::WriteIntensive),
            _ => None,
        }
    }
}

/// The throughput of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// The mix of operations.
    pub workload: Workload,
    /// Machines, at least 2.
    pub machines: u32,
    /// Ranks on each machine.
    pub ranks_per_machine: u32,
    /// Find-or-puts per second of all ranks together, as the paper's program sums them.
    pub ops_per_s: f64,
    /// The number of runs of which this is the mean.
    pub runs: u32,
}

const LATENCIES: &str = include_str!("../data/oortwijn2015-latency.csv");
const THROUGHPUTS: &str = include_str!("../data/oortwijn2015-throughput.csv");

/// Returns the latencies, by C and load factor.
#[must_use]
pub fn latencies() -> Vec<Latency> {
    rows(LATENCIES, latency)
}

/// Returns the throughputs of two machines and more.
#[must_use]
pub fn throughputs() -> Vec<Throughput> {
    rows(THROUGHPUTS, throughput)
}

fn rows<T>(text: &'static str, row: fn(&[&str]) -> Option<T>) -> Vec<T> {
    let lines = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.filter_map(|line| row(&line.split(',').collect::<Vec<_>>())).collect()
}

fn latency(cells: &[&str]) -> Option<Latency> {
    let load_factor: f64 = cell(cells, 1)?;
    // Percents from 2 to 92.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let load_percent = (load_factor * 100.0).round() as u32;
    Some(Latency {
        chunk_buckets: cell(cells, 0)?,
        load_percent,
        local_ns: cell(cells, 2)?,
        remote_ns: cell(cells, 3)?,
        outgoing_roundtrips: cell(cells, 4)?,
        effective_roundtrips: cell(cells, 5)?,
    })
}

fn throughput(cells: &[&str]) -> Option<Throughput> {
    Some(Throughput {
        workload: Workload::from_file(cells.first()?)?,
        machines: cell(cells, 1)?,
        ranks_per_machine: cell(cells, 2)?,
        ops_per_s: cell(cells, 3)?,
        runs: cell(cells, 4)?,
    })
}

fn cell<T: FromStr>(cells: &[&str], at: usize) -> Option<T> {
    cells.get(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every line is read, and the figures of the paper's Table 1 are among them.
    #[test]
    fn figures_match_paper() {
        let latencies = latencies();
        assert_eq!(latencies.len(), 5 * 46);
        let at = |c, percent| {
            let row = |row: &&Latency| (row.chunk_buckets, row.load_percent) == (c, percent);
            *latencies.iter().find(row).unwrap()
        };
        for (c, percent, us) in
            [(8, 50, 3.69), (8, 90, 7.70), (16, 60, 3.72), (64, 90, 4.54), (128, 90, 4.66)]
        {
            assert!((at(c, percent).remote_ns / 1e3 - us).abs() < 0.006, "C = {c}, {percent} %");
        }
        for (c, percent, roundtrips) in [(8, 50, 1.0), (8, 90, 5.7), (64, 90, 1.4), (128, 70, 1.0)]
        {
            let found = at(c, percent).effective_roundtrips;
            assert!((found - roundtrips).abs() <= 0.051, "C = {c}, {percent} %: {found}");
        }

        let throughputs = throughputs();
        assert_eq!(throughputs.iter().filter(|row| row.machines <= 48).count(), 3 * 13 * 6);
        let at = |machines, ranks| {
            let row = throughputs.iter().find(|row| {
                (row.workload, row.machines, row.ranks_per_machine)
                    == (Workload::Mixed, machines, ranks)
            });
            row.map_or(0.0, |row| (row.ops_per_s / 1e4).round() / 100.0)
        };
        assert_eq!([at(2, 1), at(32, 4), at(32, 8), at(48, 16)], [1.28, 28.76, 49.41, 114.85]);
    }
}

//! The paper's own figures, from the result files behind its Table 1 and Figs. 2 and 3.

/// Where they are from, in words.
pub(crate) const SOURCE: &str = "W. Oortwijn, T. van Dijk, J. van de Pol, A Distributed Hash Table \
     for Shared Memory (PPAM 2015), from the authors' result files: DAS-5, 48 Gbit/s InfiniBand";

const LATENCY: &str = include_str!("../../../transport/sim/profile/data/oortwijn2015-latency.csv");
const THROUGHPUT: &str =
    include_str!("../../../transport/sim/profile/data/oortwijn2015-throughput.csv");

/// An insert at one C and load factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LatencyFigure {
    pub(crate) chunk_buckets: u32,
    pub(crate) load_factor: f64,
    /// Both processes on one machine.
    pub(crate) local_ns: f64,
    /// On two machines.
    pub(crate) remote_ns: f64,
    pub(crate) outgoing_roundtrips: f64,
    pub(crate) effective_roundtrips: f64,
}

/// All processes of some machines together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ThroughputFigure {
    /// As `bench-throughput` calls it.
    pub(crate) workload: &'static str,
    pub(crate) machines: f64,
    pub(crate) ranks_per_machine: u64,
    pub(crate) ops_per_s: f64,
}

pub(crate) fn latency() -> Vec<LatencyFigure> {
    let lines = lines(LATENCY);
    let figure = |line: Line| {
        Some(LatencyFigure {
            chunk_buckets: line.text("chunk_buckets")?.parse().ok()?,
            load_factor: line.number("load_factor")?,
            local_ns: line.number("local_ns")?,
            remote_ns: line.number("remote_ns")?,
            outgoing_roundtrips: line.number("outgoing_roundtrips")?,
            effective_roundtrips: line.number("effective_roundtrips")?,
        })
    };
    lines.filter_map(figure).collect()
}

pub(crate) fn throughput() -> Vec<ThroughputFigure> {
    let lines = lines(THROUGHPUT);
    let figure = |line: Line| {
        Some(ThroughputFigure {
            workload: match line.text("workload")? {
                "read" | "read-intensive" => "read-intensive",
                "write" | "write-intensive" => "write-intensive",
                _ => "mixed",
            },
            machines: line.number("machines")?,
            ranks_per_machine: line.text("ranks_per_machine")?.parse().ok()?,
            ops_per_s: line.number("total_ops_per_s")?,
        })
    };
    lines.filter_map(figure).collect()
}

struct Line {
    head: &'static str,
    line: &'static str,
}

impl Line {
    fn text(&self, name: &str) -> Option<&'static str> {
        let column = self.head.split(',').position(|other| other == name)?;
        self.line.split(',').nth(column)
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok()
    }
}

fn lines(text: &'static str) -> impl Iterator<Item = Line> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let head = lines.next().unwrap_or_default();
    lines.map(move |line| Line { head, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 1 of the paper, rounded as it is there.
    #[test]
    fn the_figures_are_those_of_table_1() {
        let all = latency();
        assert_eq!(all.len(), 5 * 46);
        for (c, load, us, roundtrips) in
            [(8, 0.5, 3.69, 1.0), (8, 0.9, 7.70, 5.7), (64, 0.9, 4.54, 1.4), (128, 0.7, 4.51, 1.0)]
        {
            let same = |figure: &&LatencyFigure| {
                figure.chunk_buckets == c && (figure.load_factor - load).abs() < 1e-9
            };
            let figure = all.iter().find(same).unwrap();
            assert!((figure.remote_ns / 1e3 - us).abs() < 0.006, "{figure:?}");
            assert!((figure.effective_roundtrips - roundtrips).abs() <= 0.051, "{figure:?}");
        }
        let all = throughput();
        for (machines, ranks, millions) in [(2.0, 1, 1.28), (32.0, 8, 49.41), (48.0, 16, 114.85)] {
            let same = |figure: &&ThroughputFigure| {
                (figure.workload, figure.machines, figure.ranks_per_machine)
                    == ("mixed", machines, ranks)
            };
            let figure = all.iter().find(same).unwrap();
            assert!((figure.ops_per_s / 1e6 - millions).abs() < 0.006, "{figure:?}");
        }
        let workloads = ["mixed", "read-intensive", "write-intensive"];
        for workload in workloads {
            assert!(all.iter().any(|figure| figure.workload == workload), "{workload}");
        }
    }
}

//! The columns that can be compared, how their ranks are started, and what they have measured.

use clap::ValueEnum;
use serde_json::{Value, json};

use super::launch::{Benchmark, MPICH, Mpi, OPEN_MPI};
use super::row::{CompareRow, add_figure};
use crate::cli;

/// A transport with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ColumnName {
    /// Shared memory; the table's CPU loads and claims itself
    Shm,
    /// Shared memory; the table posts READs and claims, as over other transports
    ShmPosted,
    /// libibverbs
    Verbs,
    /// UCP over shared memory
    UcxShm,
    /// UCP over TCP
    UcxTcp,
    /// UCP over RC queue pairs
    UcxRc,
    /// Open MPI, window component sm
    OscSm,
    /// Open MPI, window component ucx
    OscUcx,
    /// Open MPI, window component ucx with acc_single_intrinsic
    OscUcxIntrinsic,
    /// Open MPI, window component rdma; Debian's 4.1.4 cannot use it on one machine
    OscRdma,
    /// Open MPI, window component pt2pt
    OscPt2pt,
    /// MPICH
    Mpich,
    /// The simulator, in virtual time
    Sim,
}

/// Names and values of options.
type Pairs = &'static [(&'static str, &'static str)];

/// Open MPI uses UCX without a fast network only if it may use any.
static OSC_UCX: [(&str, &str); 5] = [
    ("osc", "ucx"),
    ("pml", "ucx"),
    ("opal_common_ucx_tls", "any"),
    ("opal_common_ucx_devices", "any"),
    ("osc_ucx_acc_single_intrinsic", "1"),
];
/// Without the second parameter its compare-and-swap crashes on one machine.
const OSC_RDMA: Pairs = &[("osc", "rdma"), ("btl_vader_single_copy_mechanism", "none")];

impl ColumnName {
    pub(super) fn name(self) -> String {
        cli::name(self)
    }

    pub(super) fn options(self) -> Pairs {
        match self {
            Self::Shm => &[("transport", "shm")],
            Self::ShmPosted => &[("transport", "shm"), ("direct", "off")],
            Self::Verbs => &[("transport", "verbs")],
            Self::UcxShm => &[("transport", "ucx"), ("ucx-tls", "posix,sysv,cma,self")],
            Self::UcxTcp => &[("transport", "ucx"), ("ucx-tls", "tcp,self")],
            Self::UcxRc => &[("transport", "ucx"), ("ucx-tls", "rc,self")],
            _ if self.mpi().is_some() => &[("transport", "mpi")],
            _ => &[("transport", "sim")],
        }
    }

    pub(super) fn transport(self) -> &'static str {
        self.options()[0].1
    }

    /// Returns the MPI library whose launcher starts the ranks, and its MCA parameters.
    pub(super) fn mpi(self) -> Option<(&'static Mpi, Pairs)> {
        Some(match self {
            Self::OscSm => (&OPEN_MPI, &[("osc", "sm")]),
            Self::OscUcx => (&OPEN_MPI, OSC_UCX.split_at(4).0),
            Self::OscUcxIntrinsic => (&OPEN_MPI, &OSC_UCX),
            Self::OscRdma => (&OPEN_MPI, OSC_RDMA),
            Self::OscPt2pt => (&OPEN_MPI, &[("osc", "pt2pt")]),
            Self::Mpich => (&MPICH, &[]),
            _ => return None,
        })
    }

    /// Returns lists of alternatives: the lines about the transport must contain one of each list.
    /// Otherwise the library has chosen another transport.
    fn required(self) -> &'static [&'static [&'static str]] {
        match self {
            // Names with a slash are transports in use, not entries of UCX_TLS.
            Self::UcxShm => &[&["posix/", "sysv/"]],
            Self::UcxTcp => &[&["tcp/"]],
            Self::UcxRc => &[&["rc_verbs/", "rc_mlx5/"]],
            Self::OscSm => &[&["osc sm"]],
            Self::OscUcx => &[&["osc ucx"]],
            Self::OscUcxIntrinsic => &[&["osc ucx"], &["acc_single_intrinsic on"]],
            Self::OscRdma => &[&["osc rdma"]],
            Self::OscPt2pt => &[&["osc pt2pt"]],
            _ => &[],
        }
    }

    fn lacks(self, transport: &[String]) -> Option<String> {
        let contains = |name: &&str| transport.iter().any(|line| line.contains(name));
        let missing = self.required().iter().find(|any| !any.iter().any(contains))?;
        Some(missing.join(" or "))
    }
}

/// A column and whether it measures.
pub(super) struct Column {
    pub(super) name: ColumnName,
    /// Whether `--transports` names it; otherwise it is measured if the machine has it.
    pub(super) requested: bool,
    pub(super) transport: Vec<String>,
    /// The reason why it measures no more.
    pub(super) error: Option<String>,
    /// Whether it has rows.
    pub(super) has_measured: bool,
}

impl Column {
    pub(super) fn new(name: ColumnName, requested: bool) -> Self {
        Self { name, requested, transport: Vec::new(), error: None, has_measured: false }
    }

    /// Adds the figures of a report to the rows, or returns why they are not this column's.
    pub(super) fn take(
        &mut self,
        benchmark: &Benchmark,
        report: &Value,
        rows: &mut Vec<CompareRow>,
    ) -> Result<(), String> {
        let lines = report["transport"].as_array().into_iter().flatten();
        self.transport = lines.filter_map(|line| Some(line.as_str()?.to_owned())).collect();
        if let Some(missing) = self.name.lacks(&self.transport) {
            let lines = self.transport.join("; ");
            return Err(format!(
                "it ran without {missing}, which this library may not have: {lines}"
            ));
        }
        let all = || report["rows"].as_array().into_iter().flatten();
        let full: u64 = all().filter_map(|row| row["full"].as_u64()).sum();
        if full > 0 {
            return Err(format!(
                "{full} find-or-puts ended Full: give a larger --table-size, or fewer --ops"
            ));
        }
        for (measured, figure) in all().filter_map(|row| benchmark.figure(row)) {
            self.has_measured = true;
            add_figure(rows, &self.name.name(), measured, benchmark.unit, figure);
        }
        Ok(())
    }

    /// Returns the line of a column that was requested, or has measured something, and has failed.
    pub(super) fn failure(&self) -> Option<String> {
        (self.state() == "failed").then(|| self.line())
    }

    /// Returns the line of the report: the transport, or the error.
    pub(super) fn line(&self) -> String {
        let (name, transport) = (self.name.name(), self.transport.join("; "));
        match &self.error {
            Some(error) => format!("{name}: {}: {error}", self.state()),
            None => format!("{name}: {transport}"),
        }
    }

    pub(super) fn state(&self) -> &'static str {
        match self.error {
            None => "measured",
            Some(_) if self.requested || self.has_measured => "failed",
            Some(_) => "absent",
        }
    }

    pub(super) fn value(&self) -> Value {
        json!({
            "column": self.name.name(),
            "state": self.state(),
            "reason": self.error,
            "transport": self.transport,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(column: ColumnName, line: &str) -> Option<String> {
        column.lacks(&["ranks pinned to CPU/node 0/0".to_owned(), line.to_owned()])
    }

    #[test]
    fn column_requires_named_transport() {
        let alone = "ucx, 1 ranks, UCX 1.13.1, self/memory0 (amo#0 am), atomic mode cpu, with \
                     UCX_TLS=posix,sysv,tcp,rc_verbs";
        let missing = [
            (ColumnName::UcxShm, "posix/ or sysv/"),
            (ColumnName::UcxTcp, "tcp/"),
            (ColumnName::UcxRc, "rc_verbs/ or rc_mlx5/"),
        ];
        for (column, what) in missing {
            assert_eq!(lacks(column, alone).as_deref(), Some(what));
        }
        let lanes = [
            (ColumnName::UcxShm, "self/memory0, sysv/memory (am)"),
            (ColumnName::UcxTcp, "self/memory0, tcp/lo (am)"),
            (ColumnName::UcxRc, "rc_verbs/rxe0:1 (am), self/memory0"),
            (ColumnName::UcxRc, "rc_mlx5/mlx5_0:1 (am), self/memory0"),
            (ColumnName::Shm, "shm, 2 ranks"),
        ];
        for (column, line) in lanes {
            assert_eq!(lacks(column, line), None);
        }
        let plain = "mpi, 2 ranks, Open MPI 4.1.4, osc ucx, no acc_single_intrinsic";
        assert_eq!(lacks(ColumnName::OscUcx, plain), None);
        let missing = lacks(ColumnName::OscUcxIntrinsic, plain);
        assert_eq!(missing.as_deref(), Some("acc_single_intrinsic on"));
    }

    #[test]
    fn column_requires_chosen_component() {
        for column in ColumnName::value_variants() {
            let Some((_, [("osc", component), ..])) = column.mpi() else { continue };
            assert_eq!(lacks(*column, ""), Some(format!("osc {component}")));
        }
    }
}

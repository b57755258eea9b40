//! Conversion of a profile to the simulator's model.

use crate::error::ProfileError;
use probeline_sim::{
    Cost, LongReads, Model, Nic, Prefetched, Rates, Roundtrips, Slowdown, Sockets, Switches,
};

use crate::Profile;

/// The shape of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Machines, at least 1.
    pub machines: u32,
    /// Ranks on each, at least 1.
    pub ranks_per_machine: u32,
}

/// The quantities required for a cluster of one machine. One quantity of each group suffices.
const ONE_MACHINE: &[&[&str]] =
    &[&["local.read_base_ns"], &["local.read_word_ps"], &["local.atomic_ns"]];
/// The quantities required between machines: the cost of an operation, and one limit of each kind,
/// without which the rate would grow with the depth without bound.
const BETWEEN_MACHINES: &[&[&str]] = &[
    &["remote.read_base_ns"],
    &["remote.read_word_ps"],
    &["remote.atomic_ns"],
    &["nic.reads_per_s", "rank.reads_per_s"],
    &["nic.atomics_per_s", "rank.atomics_per_s"],
    &["nic.bytes_per_s"],
];
/// Each of these two quantities requires the other: one is where prefetching starts, the other
/// what a prefetched word costs.
const PREFETCHED: [&[&str]; 2] =
    [&["local.prefetched_beyond_words"], &["local.prefetched_word_ps"]];

impl Profile {
    /// Returns the model of a cluster of this shape.
    ///
    /// Without `local` quantities, an owner on the same machine is reached over the NIC. Other
    /// absent quantities have no effect, except the required ones. A WRITE takes as long as a READ,
    /// and as much of a rate unless the profile has one of WRITEs.
    ///
    /// # Errors
    /// A required quantity is absent.
    pub fn model(&self, shape: Shape) -> Result<Model, ProfileError> {
        let needed = if shape.machines > 1 { BETWEEN_MACHINES } else { ONE_MACHINE };
        let given = |group: &&&[&str]| group.iter().any(|name| self.get(name).is_some());
        let mut missing: Vec<_> = needed.iter().filter(|group| !given(group)).copied().collect();
        let local = self.trips("local");
        if (shape.machines <= 1 || local.is_some()) && PREFETCHED.iter().any(|group| given(&group))
        {
            missing.extend(PREFETCHED.iter().filter(|group| !given(group)));
        }
        if !missing.is_empty() {
            return Err(ProfileError::Missing { profile: self.name().to_owned(), missing });
        }
        let of = |name| self.value(name).unwrap_or(0);
        let remote = self.trips("remote").unwrap_or_default();
        Ok(Model {
            post_ns: of("cpu.post_ns"),
            completion_ns: of("cpu.completion_ns"),
            idle_poll_ns: IDLE_POLL_NS,
            barrier_ns: remote.atomic_ns,
            owners_per_node: shape.ranks_per_machine,
            local: local.unwrap_or(remote),
            local_by_cpu: local.is_some(),
            local_prefetched: Prefetched {
                beyond_words: self.count("local.prefetched_beyond_words"),
                word_ps: of("local.prefetched_word_ps"),
            },
            remote,
            remote_long: LongReads {
                beyond_words: self.count("remote.long_read_words"),
                more_ns: of("remote.long_read_ns"),
            },
            jitter_mean_ns: of("remote.jitter_mean_ns"),
            neighbour_ns: of("remote.neighbour_ns"),
            sockets: Sockets {
                ranks_each: self.count("machine.socket_cores"),
                neighbour_ns: of("remote.socket_neighbour_ns"),
            },
            switches: Switches {
                nodes_each: self.count("switch.nodes_each"),
                count: self.count("switch.count"),
                further_ns: of("switch.further_ns"),
            },
            idle_owner_ns: of("remote.idle_owner_ns"),
            initiator: Rates {
                reads_per_s: of("rank.reads_per_s"),
                atomics_per_s: of("rank.atomics_per_s"),
                ..Rates::default()
            },
            nic: self.nic(),
            atomic_word_ns: of("word.atomic_ns"),
        })
    }

    /// Returns the model of the paper's program on a cluster of this shape: if its runtime has the
    /// owners' CPUs perform atomics, the NIC's limit of atomics does not apply.
    ///
    /// # Errors
    /// As for [`model`](Self::model).
    pub fn paper_model(&self, shape: Shape) -> Result<Model, ProfileError> {
        let mut model = self.model(shape)?;
        if self.value("owner.serves_atomics") == Some(1) {
            model.nic.target.atomics_per_s = 0;
        }
        Ok(model)
    }

    fn nic(&self) -> Nic {
        let of = |name| self.value(name).unwrap_or(0);
        let reads_per_s = of("nic.reads_per_s");
        let sent_reads_per_s = self.value("nic.sent_reads_per_s").unwrap_or(reads_per_s);
        let fall = |of: &str| Slowdown {
            knee: self.count(&format!("nic.{of}_knee")),
            halved_by: self.count(&format!("nic.{of}_halved_by")),
        };
        Nic {
            initiator: Rates {
                reads_per_s: sent_reads_per_s,
                writes_per_s: of("nic.sent_writes_per_s"),
                ..Rates::default()
            },
            target: Rates {
                reads_per_s,
                atomics_per_s: of("nic.atomics_per_s"),
                ..Rates::default()
            },
            bytes_per_s: of("nic.bytes_per_s"),
            header_bytes: self.count("nic.header_bytes"),
            outstanding: fall("outstanding"),
            connections: fall("connections"),
        }
    }

    /// Returns the roundtrips of a table of the file, if it has all of them.
    fn trips(&self, section: &str) -> Option<Roundtrips> {
        let of = |key| self.value(&format!("{section}.{key}"));
        let read = Cost { base_ns: of("read_base_ns")?, word_ps: of("read_word_ps")? };
        Some(Roundtrips { read, atomic_ns: of("atomic_ns")? })
    }

    fn count(&self, name: &str) -> u32 {
        self.value(name).map_or(0, |value| u32::try_from(value).unwrap_or(u32::MAX))
    }
}

/// Short compared with any roundtrip, so that an idle rank polls often.
const IDLE_POLL_NS: u64 = 50;

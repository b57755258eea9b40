//! The options and inputs that must be the same on all ranks of a job. Ranks compare them when they
//! meet, before any rank opens an engine.
//!
//! The compared text is derived from the command line's definition: a new option is compared unless
//! [`MAY_DIFFER`] names it. A file that each rank reads is compared by a digest of its contents
//! ([`Input`]), which is the same on every machine and in every build. The text contains no secret,
//! because errors quote it.

use core::fmt;
use std::env;
use std::os::unix::ffi::OsStrExt;

use probeline::exchange::JoinError;
use sha2::{Digest as _, Sha256};

use crate::cli::{JobArgs, TransportName};
use crate::failure::Failure;
use crate::options::{Options, field};
use crate::run_report::COMMIT;

const MAY_DIFFER: &[&str] = &[
    // `Agreement::from_job` compares the resolved values instead of the options.
    "ranks",
    "transport",
    "table-size",
    // The options in the file are compared, not its name.
    "tuning",
    // Rendezvous with the other ranks.
    "rank",
    "rendezvous",
    "exchange",
    "two-nodes",
    "port",
    "allow-remote",
    "secret-file",
    // Time that a rank waits for the other ranks.
    "rendezvous-timeout",
    "collective-timeout",
    // Files that rank 0 writes, and the amount that it prints.
    "json",
    "csv",
    "out",
    "full",
    "quiet",
    // A device's name on its machine, and indices into the device's tables.
    "device",
    "ib-port",
    "gid-index",
    "pkey-index",
    "ucx-device",
    "ucx-gid-index",
];

/// An input that each rank reads or computes itself.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// One word that names the input.
    pub(crate) name: &'static str,
    /// The input, or its digest.
    pub(crate) value: String,
    /// Advice if the input differs; follows "Start all ranks with the same ones, ".
    pub(crate) advice: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    inputs: Vec<Input>,
    /// Fields `name=value`, separated by spaces: the format of
    /// [`Options::parameters`](probeline::exchange::Options::parameters).
    pub(crate) text: String,
}

impl Agreement {
    pub(crate) fn from_job(args: &JobArgs, mut inputs: Vec<Input>) -> Self {
        let compared = Options::given().text(|name| !MAY_DIFFER.contains(&name));
        // Ranks of different builds may count differently, or use different memory layouts.
        let commit = COMMIT.filter(|commit| !commit.is_empty()).unwrap_or("unknown");
        let value = format!("{}+{commit}", env!("CARGO_PKG_VERSION"));
        let mut fields = vec![field("build", value.as_bytes()), compared];
        fields.push(field("--transport", args.transport.name().as_bytes()));
        fields.push(field("--ranks", args.ranks.to_string().as_bytes()));
        fields.push(field("--table-size", args.table_size.to_string().as_bytes()));
        if args.transport == TransportName::Ucx && args.ucx.ucx_tls.is_none() {
            fields.extend(env::var_os("UCX_TLS").map(|tls| field("UCX_TLS", tls.as_bytes())));
        }
        fields.extend(inputs.iter().map(|input| format!("{}={}", input.name, input.value)));
        let advice = "and with one build: build each from the same commit in the same way";
        inputs.push(Input { name: "build", value, advice: advice.to_owned() });
        Self { inputs, text: fields.join(" ") }
    }

    /// Converts an error by `failure`, and adds the advice of the input that differs.
    pub(crate) fn explain(
        &self,
        error: JoinError,
        failure: impl FnOnce(JoinError) -> Failure,
    ) -> Failure {
        let differs = |input: &&Input| match &error {
            JoinError::ParametersDiffer { difference, .. } => difference.field == input.name,
            _ => false,
        };
        match self.inputs.iter().find(differs) {
            Some(input) => failure(error).or(&input.advice),
            None => failure(error),
        }
    }
}

#[cfg(any(test, feature = "mpi"))]
impl Agreement {
    /// Compares the texts of all ranks, for an exchange that does not compare them when ranks meet.
    /// All ranks call this; either all of them fail or none does.
    ///
    /// # Errors
    /// The first field that differs from rank 0's, with its advice.
    pub(crate) fn compare(
        &self,
        exchange: &mut dyn probeline::transport::Exchange,
    ) -> crate::failure::Result<()> {
        let texts = probeline_programs::gather_values(exchange, &self.text)?;
        let Some(rank_0) = texts.first() else { return Ok(()) };
        // The error of a rank that differs from rank 0 names rank 0; the errors of the others name
        // the first rank that differs.
        let peer = match *rank_0 == self.text {
            true => texts.iter().position(|text| text != rank_0).unwrap_or(0),
            false => 0,
        };
        let difference = probeline::exchange::Difference::between(&self.text, &texts[peer]);
        let Some(difference) = difference else { return Ok(()) };
        let error = JoinError::ParametersDiffer { peer: u32::try_from(peer)?, difference };
        Err(self.explain(error, Failure::from).everywhere())
    }
}

/// 128 bits are enough to detect inputs that differ by mistake.
const DIGEST_BYTES: usize = 16;

/// The first 128 bits of a SHA-256 hash; shown as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest([u8; DIGEST_BYTES]);

impl Digest {
    pub(crate) fn of(text: &str) -> Self {
        Self::from_list(text, [])
    }

    /// Returns the digest of a list of numbers. `what` separates lists of different kinds.
    pub(crate) fn from_list(what: &str, numbers: impl IntoIterator<Item = u64>) -> Self {
        let mut hash = Sha256::new();
        // The length comes first, so that different texts and lists give different input.
        hash.update((what.len() as u64).to_le_bytes());
        hash.update(what);
        numbers.into_iter().for_each(|number| hash.update(number.to_le_bytes()));
        let hash: [u8; 32] = hash.finalize().into();
        Self(core::array::from_fn(|at| hash[at]))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use probeline::exchange::Difference;
    use probeline::transport::Exchange;
    use probeline_exchange::testing::on_ranks;

    use super::*;
    use crate::options::tests::parsed;

    /// Returns the text that ranks with this command line compare.
    fn compared(line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        parsed(&words).unwrap().text(|name| !MAY_DIFFER.contains(&name))
    }

    /// Every form of an option is compared; [`MAY_DIFFER`] is not.
    #[test]
    fn compares_options_that_must_agree() {
        for (one, other, differs) in [
            ("explore fms:2", "explore fms:3", Some("model")),
            ("explore fms:2", "explore fms:2 --paper", Some("--paper")),
            ("explore fms:2 --batch 1", "explore fms:2", Some("--batch")),
            ("explore a --max-table-size 1MiB", "explore a", Some("--max-table-size")),
            (
                "explore a --invariant b",
                "explore a --invariant b --invariant c",
                Some("--invariant"),
            ),
            ("bench-latency -C 8,16", "bench-latency -C 8", Some("--chunk-buckets")),
            ("kmers a", "kmers a b", Some("files")),
            ("limits", "roundtrips", Some("command")),
            ("explore a --seed 1", "explore a --seed 2", Some("--seed")),
            ("limits --json a --device b", "limits --full --ranks 7", None),
            ("limits --transport verbs --gid-index 3", "limits --transport verbs", None),
        ] {
            let difference = Difference::between(&compared(one), &compared(other));
            let field = difference.map(|difference| difference.field);
            assert_eq!(field.as_deref(), differs, "{one}, {other}");
        }
    }

    /// An option that must agree would otherwise become one that may differ without notice.
    #[test]
    fn exempts_these_options_only() {
        let exempt = "ranks transport table-size tuning rank rendezvous exchange two-nodes port \
                      allow-remote secret-file rendezvous-timeout collective-timeout json csv out \
                      full quiet device ib-port gid-index pkey-index ucx-device ucx-gid-index";
        assert_eq!(MAY_DIFFER.join(" "), exempt);
    }

    #[test]
    fn compared_text_fits_parameters() {
        for command in ["bench-latency", "bench-throughput", "explore fms:2", "dsm lu"] {
            let text = compared(command);
            assert!(text.len() < probeline::exchange::MAX_PARAMETERS_BYTES / 2, "{text}");
        }
    }

    fn agreement(seed: u32, net: &str) -> Agreement {
        let advice = "and with the same net".to_owned();
        let inputs = vec![Input { name: "net", value: net.to_owned(), advice }];
        let text = format!("--seed={seed} {}", "x".repeat(400));
        Agreement { text: format!("{text} net={}", inputs[0].value), inputs }
    }

    /// Returns the error text of each rank, for an exchange that does not compare parameters
    /// itself.
    fn errors_of(ranks: Vec<Agreement>) -> Vec<String> {
        on_ranks(u32::try_from(ranks.len()).unwrap(), |mut exchange| {
            let compared = ranks[exchange.me().0 as usize].compare(&mut exchange);
            compared.err().map(|failure| failure.to_string()).unwrap_or_default()
        })
    }

    #[test]
    fn compares_parameters_over_mpi() {
        assert_eq!(errors_of(vec![agreement(1, "a"), agreement(1, "a")]), ["", ""]);
        let said = errors_of(vec![agreement(1, "a"), agreement(1, "a"), agreement(2, "a")]);
        let first = "rank 2 has other parameters: --seed is \"1\" here and \"2\" there. Start all \
                     ranks with the same ones";
        assert_eq!(said[..2], [first, first]);
        assert!(said[2].starts_with("rank 0 has other parameters: --seed is \"2\" here and \"1\""));
        for said in errors_of(vec![agreement(1, "a"), agreement(1, "b")]) {
            assert!(said.contains(" has other parameters: net is \""), "{said}");
            assert!(said.ends_with("with the same ones, and with the same net"), "{said}");
        }
    }

    /// Expected: `printf '\3\0\0\0\0\0\0\0net\7\0\0\0\0\0\0\0' | sha256sum`.
    #[test]
    fn matches_sha256() {
        assert_eq!(Digest::from_list("net", [7]).to_string(), "928146e514805714abecf91a7deadc43");
        assert_ne!(Digest::of("a"), Digest::of("b"));
    }
}

//! How the ranks of a trial meet, and the engines they open.

use clap::Args;
use probeline_exchange::{Job, Limits, Options, Rendezvous, Start};
use probeline_transport::{Completion, Exchange, Transport};
use probeline_verbs::{Builder, Retry};

use crate::failure::Result;
use crate::patience::{PATIENCE, Patience};

/// Which rank this is and where the others are.
#[derive(Args, Clone, Debug)]
pub(crate) struct JobArgs {
    /// Ranks of the job
    #[arg(long, default_value_t = 2)]
    pub(crate) ranks: u32,
    /// This one's number; without it this process is rank 0 and starts the others itself
    #[arg(long, requires = "rendezvous")]
    rank: Option<u32>,
    /// Where rank 0 listens
    #[arg(long)]
    rendezvous: Option<String>,
    /// Exponent of the wait for an acknowledgement
    #[arg(long, default_value_t = 16)]
    timeout: u8,
    /// How often to try again
    #[arg(long, default_value_t = 6)]
    retries: u8,
}

impl JobArgs {
    /// Joins the others; all of them have to have the same `parameters`.
    pub(crate) fn join(&self, parameters: String) -> Result<Job> {
        let start = match (self.rank, &self.rendezvous) {
            (Some(rank), Some(address)) => Start::Placed {
                rank,
                size: self.ranks,
                rendezvous: Rendezvous { address: address.clone(), allow_remote: true },
            },
            _ => Start::Spawn { ranks: self.ranks, arguments: None },
        };
        let limits = Limits { rendezvous: PATIENCE, collective: 2 * PATIENCE };
        Ok(probeline_exchange::join(Options { start, parameters, limits, ..Options::default() })?)
    }

    pub(crate) fn retry(&self) -> Result<Retry> {
        Ok(Retry::new(self.timeout, self.retries)?)
    }

    pub(crate) fn builder(&self, window_words: u64) -> Result<Builder> {
        Ok(Builder::new(window_words).retry(self.retry()?))
    }
}

/// Parts in peace: returns when everybody has, and every child has ended well.
pub(crate) fn part(mut job: Job, engine: impl Transport) -> Result<()> {
    job.barrier()?;
    drop(engine);
    Ok(job.finish(PATIENCE)?)
}

/// Polls until the one operation in flight has ended.
pub(crate) fn finish(engine: &mut impl Transport) -> Result<u64> {
    let (mut end, mut patience) = ([Completion::default()], Patience::new("completion"));
    while engine.poll(&mut end)? == 0 {
        patience.turn()?;
    }
    Ok(end[0].result?)
}

/// The value of each rank.
pub(crate) fn gather(job: &mut Job, mine: u64) -> Result<Vec<u64>> {
    let mut all = vec![0; 8 * job.owners() as usize];
    job.all_gather(&mine.to_le_bytes(), &mut all)?;
    Ok(all.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
}

//! Gathers values of all ranks over the exchange of a job.

use probeline_transport::{Exchange, ExchangeError};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The reason why values were not gathered.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// The job cannot continue.
    #[error("{0}")]
    Exchange(#[from] ExchangeError),
    /// A value cannot be converted to or from JSON, for example because a rank has another build.
    #[error("cannot gather a value of every rank: {0}")]
    Value(#[from] serde_json::Error),
}

/// Gathers `N` numbers of every rank, in the order of ranks, in one collective call.
///
/// # Errors
/// The errors of the exchange.
pub fn gather<const N: usize>(
    exchange: &mut dyn Exchange,
    mine: [u64; N],
) -> Result<Vec<[u64; N]>, ExchangeError> {
    let bytes: Vec<u8> = mine.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut all = vec![0; bytes.len() * exchange.owners() as usize];
    exchange.all_gather(&bytes, &mut all)?;
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    Ok(all
        .chunks_exact(8 * N)
        .map(|of_rank| core::array::from_fn(|i| number(&of_rank[8 * i..8 * i + 8])))
        .collect())
}

/// Gathers a value of every rank, in the order of ranks, as JSON of any length, in two collective
/// calls.
///
/// # Errors
/// The errors of the exchange and of `T`'s serialisation.
pub fn gather_values<T: Serialize + DeserializeOwned>(
    exchange: &mut dyn Exchange,
    mine: &T,
) -> Result<Vec<T>, GatherError> {
    let mut text = serde_json::to_vec(mine)?;
    let lengths = gather(exchange, [text.len() as u64])?;
    let longest = lengths.iter().map(|[length]| *length).max().unwrap_or(0);
    // JSON ignores white space around a value.
    text.resize(usize::try_from(longest).unwrap_or(usize::MAX), b' ');
    let mut all = vec![0; text.len() * exchange.owners() as usize];
    exchange.all_gather(&text, &mut all)?;
    let values = all.chunks_exact(text.len()).map(serde_json::from_slice);
    Ok(values.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn values_of_any_length_arrive_in_the_order_of_ranks() {
        let ranks = probeline_exchange::threads(3);
        let all = thread::scope(|scope| {
            let gathered = ranks.into_iter().map(|mut exchange| {
                scope.spawn(move || {
                    let mine = (exchange.me().0, "x".repeat(exchange.me().0 as usize * 100));
                    gather_values(&mut exchange, &mine).unwrap()
                })
            });
            let running: Vec<_> = gathered.collect();
            running.into_iter().map(|rank| rank.join().unwrap()).collect::<Vec<_>>()
        });
        let expected: Vec<(u32, String)> =
            (0..3).map(|rank| (rank, "x".repeat(rank as usize * 100))).collect();
        assert_eq!(all, vec![expected; 3]);
    }
}

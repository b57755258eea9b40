//! The members of a job, and their collective calls before and between phases of one-sided work.

use crate::{ExchangeError, Owner};

/// The members of a job and their collective calls, made by all of them in the same order.
///
/// A call may block, within a bound that the implementation states. If a member dies, all others'
/// calls fail with [`ExchangeError::OwnerLost`]. After an error the exchange is unusable.
pub trait Exchange {
    /// This process.
    fn me(&self) -> Owner;

    /// The number of processes that take part.
    fn owners(&self) -> u32;

    /// Gathers each owner's `mine` into `all`, in the order of owners.
    ///
    /// # Errors
    /// [`ExchangeError::LengthDiffers`] unless all contributions have one length and `all` is
    /// that times `owners`; otherwise the reason why the job cannot continue.
    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError>;

    /// Sends each owner its part of `mine`, and gathers into `theirs` the parts of all owners for
    /// this one. Both buffers hold one part per owner, in the order of owners, all of the same
    /// length.
    ///
    /// Use it for data that differs for each pair of owners, such as queue pair numbers: the volume
    /// per owner grows with the number of owners, while that of an all-gather would grow with its
    /// square.
    ///
    /// # Errors
    /// [`ExchangeError::LengthDiffers`] unless `mine` and `theirs` have the same length, on all
    /// owners, and it is a multiple of `owners`; otherwise the reason why the job cannot continue.
    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError>;

    /// Returns when all owners have called it. Each then sees what any of them stored before.
    ///
    /// # Errors
    /// The reason why the job cannot continue.
    fn barrier(&mut self) -> Result<(), ExchangeError>;
}

impl<E: Exchange + ?Sized> Exchange for &mut E {
    fn me(&self) -> Owner {
        (**self).me()
    }

    fn owners(&self) -> u32 {
        (**self).owners()
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        (**self).all_gather(mine, all)
    }

    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
        (**self).all_to_all(mine, theirs)
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        (**self).barrier()
    }
}

/// Gathers a number from each owner, in the order of owners. `buffer` has one element for each
/// owner.
///
/// ```
/// use probeline_transport::{Alone, all_gather_u64};
///
/// let mut buffer = [[0; 8]; 1];
/// let sum: u64 = all_gather_u64(&mut Alone, 7, &mut buffer)?.sum();
/// assert_eq!(sum, 7);
/// # Ok::<(), probeline_transport::ExchangeError>(())
/// ```
///
/// # Errors
/// As for [`Exchange::all_gather`].
pub fn all_gather_u64<'b, E: Exchange + ?Sized>(
    exchange: &mut E,
    mine: u64,
    buffer: &'b mut [[u8; 8]],
) -> Result<impl ExactSizeIterator<Item = u64> + use<'b, E>, ExchangeError> {
    exchange.all_gather(&mine.to_le_bytes(), buffer.as_flattened_mut())?;
    Ok(buffer.iter().map(|bytes| u64::from_le_bytes(*bytes)))
}

/// The exchange of a job with one member.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Exchange for Alone {
    fn me(&self) -> Owner {
        Owner(0)
    }

    fn owners(&self) -> u32 {
        1
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        if mine.len() != all.len() {
            let bytes = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
            return Err(ExchangeError::LengthDiffers {
                owner: Owner(0),
                expected: bytes(all.len()),
                found: bytes(mine.len()),
            });
        }
        all.copy_from_slice(mine);
        Ok(())
    }

    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
        self.all_gather(mine, theirs)
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        Ok(())
    }
}

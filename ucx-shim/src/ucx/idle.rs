//! Who acts: which operations end although the owner of the words does not progress.

use core::time::Duration;

use probeline_transport::{Exchange, ExchangeError, Owner};

use super::deadline::{CONNECTING, Deadline};
use super::own::Act;
use super::{Engine, Idle, OpenError};

/// An operation that has not ended by then needs the owner. Those that do not take microseconds on
/// any network, and milliseconds where the network is emulated.
const BY_ITSELF: Duration = Duration::from_millis(100);
/// But at least so many polls, should this process have stood still.
const POLLS: u32 = 1000;

impl Engine {
    /// Finds out who acts; all owners do. While owner 0 tries, the others stand still in the
    /// exchange, for 200 ms at most.
    pub(super) fn find_idle<E: Exchange + ?Sized>(
        &mut self,
        exchange: &mut E,
    ) -> Result<Option<Idle>, OpenError> {
        if self.geometry.owners == 1 {
            return Ok(None);
        }
        let tries = self.geometry.me == Owner(0);
        if let (Some(attendant), false) = (&self.parts.attendant, tries) {
            attendant.pause();
        }
        let found = self.stand_still(tries, exchange);
        if let Some(attendant) = &self.parts.attendant {
            attendant.resume();
        }
        let found = found.map_err(OpenError::Exchange)?;
        let settled = self.settle_own(Deadline::after(CONNECTING));
        let mine = [u8::from(found.read_by_device), u8::from(found.atomics_by_device)];
        let mut all = vec![0; 2 * self.geometry.owners as usize];
        self.attended(|| exchange.all_gather(&mine, &mut all)).map_err(OpenError::Exchange)?;
        if !settled {
            let after_s = CONNECTING.as_secs();
            return Err(OpenError::NotConnected { owner: Owner(1), after_s });
        }
        let [read, atomics] = all.first_chunk().copied().unwrap_or_default();
        Ok(Some(Idle { read_by_device: read != 0, atomics_by_device: atomics != 0 }))
    }

    fn stand_still<E: Exchange + ?Sized>(
        &mut self,
        tries: bool,
        exchange: &mut E,
    ) -> Result<Idle, ExchangeError> {
        exchange.barrier()?;
        let mut found = Idle { read_by_device: true, atomics_by_device: true };
        if tries {
            for owner in (1..self.geometry.owners).map(Owner) {
                found.read_by_device = found.read_by_device && self.ends(owner, Act::Read);
                found.atomics_by_device =
                    found.atomics_by_device && self.ends(owner, Act::CompareAndSwap);
            }
        }
        exchange.barrier()?;
        Ok(found)
    }

    /// Whether an operation ends by itself.
    fn ends(&mut self, owner: Owner, act: Act) -> bool {
        let deadline = Deadline::after(BY_ITSELF);
        let Some(which) = self.post_own(owner, act) else { return false };
        for _ in 0..POLLS {
            if self.await_own(which, Deadline::after(Duration::ZERO)).is_some() {
                return true;
            }
        }
        self.await_own(which, deadline).is_some()
    }
}

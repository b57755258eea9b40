//! Read-modify-write of one key.

use probeline_pipeline::{Error, Plain};
use probeline_transport::Transport;

use crate::map::{Map, Operation};
use crate::outcome::{Request, ValueHash, Written};

/// Values that one update computes at most, because other clients change the key meanwhile.
const MAX_ATTEMPTS: u32 = 64;

impl<T, S, K, V> Map<T, S, K, V>
where
    T: Transport,
    S: AsMut<[Operation<K, V>]>,
    K: Plain,
    V: Plain,
{
    /// Stores what `change` makes of the value of `key`, or of `None` if the key has no value.
    ///
    /// Atomic: between the read of the value that `change` has got last and the write no other write of
    /// the key takes effect ([`Mode::Unlocked`](crate::Mode::Unlocked) has no such guarantee). The
    /// bucket is claimed only if its control word is still the one that was read with the value. If
    /// another client has changed the value, `change` is called again with the new one, so it may be
    /// called several times for one write. No client waits while it runs.
    ///
    /// If `change` returns `None`, nothing is written, and the outcome is [`Written::Present`] or
    /// [`Written::Absent`]. Otherwise it is that of [`put`](Self::put). [`Written::Dropped`] also
    /// means that other clients changed the key 64 times meanwhile; repeating the call is safe.
    ///
    /// Blocks until the operation completes; the transport bounds the wait.
    ///
    /// # Errors
    /// As for [`put`](Self::put), but repeating the update after an error may apply it twice.
    pub fn update(
        &mut self,
        key: &K,
        mut change: impl FnMut(Option<&V>) -> Option<V>,
    ) -> Result<Written, Error> {
        for _ in 0..MAX_ATTEMPTS {
            let busy = self.stats().busy;
            let old = self.get(key)?;
            if old.is_none() && self.stats().busy > busy {
                // The key may have a value, which others are replacing.
                continue;
            }
            let request = match (change(old.as_ref()), &old) {
                (None, None) => return Ok(Written::Absent),
                (None, Some(_)) => return Ok(Written::Present),
                (Some(new), None) => Request::PutIfAbsent(new),
                (Some(new), Some(old)) => Request::Replace(new, ValueHash::from_value(old)),
            };
            match self.write(key, request)? {
                // Another client has changed, removed or evicted the value, or was the first to put one.
                Written::Present | Written::Absent => {}
                written => return Ok(written),
            }
        }
        Ok(Written::Dropped)
    }
}

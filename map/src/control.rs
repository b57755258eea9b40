//! The control word of a bucket: its state, the age of its content, and a check or a ticket.

/// Bits of the check, and of the ticket of a claim.
pub(crate) const CHECK_BITS: u32 = 56;
const CHECK: u64 = (1 << CHECK_BITS) - 1;
/// Ages wrap at this number.
pub(crate) const AGES: u8 = 64;
const AGE: u64 = AGES as u64 - 1;
const STATE_SHIFT: u32 = 62;
/// Bits of the part of a ticket that the client chooses: its rank and a number of the claim.
pub(crate) const CLIENT_BITS: u32 = 28;
/// Bits of a claim's number in a ticket; the rank has the others.
pub(crate) const NUMBER_BITS: u32 = 16;
const _: () = assert!(1 << (CLIENT_BITS - NUMBER_BITS) >= probeline_transport::MAX_OWNERS);

/// A control word. The highest byte has the state and the age, so a tear leaves both whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Control(pub(crate) u64);

/// The state of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// Never used since the map was opened or cleared. The word is 0.
    Empty,
    /// A client writes to the bucket; the word has its ticket.
    Claimed,
    /// The bucket has an entry; the word has its check.
    Full,
    /// The entry was removed, or a claim was given up.
    Dropped,
}

impl Control {
    pub(crate) const EMPTY: Self = Self(0);

    fn new(state: State, age: u8, rest: u64) -> Self {
        Self((state as u64) << STATE_SHIFT | (u64::from(age) & AGE) << CHECK_BITS | rest & CHECK)
    }

    /// Returns the word of an entry; the upper bits of `check` are ignored.
    #[inline]
    pub(crate) fn full(age: u8, check: u64) -> Self {
        Self::new(State::Full, age, check)
    }

    /// Returns the word of a claim for a key of this hash by a client.
    #[inline]
    pub(crate) fn claimed(age: u8, hash: u64, client: u32) -> Self {
        let client = u64::from(client) & ((1 << CLIENT_BITS) - 1);
        Self::new(State::Claimed, age, tag(hash) << CLIENT_BITS | client)
    }

    /// Returns the rank of the client that has this claim.
    pub(crate) fn rank(self) -> u32 {
        // A part of the client's bits.
        #[allow(clippy::cast_possible_truncation)]
        let client = self.0 as u32 & ((1 << CLIENT_BITS) - 1);
        client >> NUMBER_BITS
    }

    /// Returns this word with the state `Dropped`.
    #[inline]
    pub(crate) fn dropped(self) -> Self {
        Self(self.0 | (State::Dropped as u64) << STATE_SHIFT)
    }

    #[inline]
    pub(crate) fn state(self) -> State {
        match self.0 >> STATE_SHIFT {
            0 => State::Empty,
            1 => State::Claimed,
            2 => State::Full,
            _ => State::Dropped,
        }
    }

    #[inline]
    pub(crate) fn age(self) -> u8 {
        // Six bits.
        #[allow(clippy::cast_possible_truncation)]
        let age = (self.0 >> CHECK_BITS & AGE) as u8;
        age
    }

    /// Returns whether the check of a full bucket is this one.
    #[inline]
    pub(crate) fn has_check(self, check: u64) -> bool {
        (self.0 ^ check) & CHECK == 0
    }

    /// Returns whether a claim may be for a key of this hash. It is for another key with a
    /// probability of 2^-28.
    #[inline]
    pub(crate) fn is_claim_for(self, hash: u64) -> bool {
        self.state() == State::Claimed && (self.0 & CHECK) >> CLIENT_BITS == tag(hash)
    }
}

/// Returns the bits of a key's hash that a claim shows: the lowest ones, which choose neither the
/// owner nor a bucket by themselves.
fn tag(hash: u64) -> u64 {
    hash & (CHECK >> CLIENT_BITS)
}

/// The age that a client gives to what it writes. It advances with the client's writes, and follows
/// the ages of other clients that it sees ahead of its own.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Clock {
    age: u8,
    /// Writes since the age advanced last, and writes after which it advances.
    writes: u64,
    writes_per_tick: u64,
}

/// The largest lead of another client that is believed: with wrapping ages, very old entries look
/// as if they were ahead.
const MAX_LEAD: u8 = 8;

impl Clock {
    pub(crate) fn new(writes_per_tick: u64) -> Self {
        Self { age: 0, writes: 0, writes_per_tick }
    }

    #[inline]
    pub(crate) fn age(&self) -> u8 {
        self.age
    }

    /// Counts a write.
    #[inline]
    pub(crate) fn count(&mut self) {
        self.writes += 1;
        if self.writes >= self.writes_per_tick {
            self.advance();
        }
    }

    /// Lets everything written so far look older.
    pub(crate) fn advance(&mut self) {
        (self.age, self.writes) = ((self.age + 1) % AGES, 0);
    }

    /// Follows a client that is ahead.
    #[inline]
    pub(crate) fn see(&mut self, age: u8) {
        let lead = age.wrapping_sub(self.age) % AGES;
        if (1..=MAX_LEAD).contains(&lead) {
            (self.age, self.writes) = (age, 0);
        }
    }

    /// Returns how many ticks ago `age` was the age of this client; 0 if it is ahead.
    #[inline]
    pub(crate) fn ticks_since(&self, age: u8) -> u8 {
        let ticks = self.age.wrapping_sub(age) % AGES;
        if ticks > AGES - 1 - MAX_LEAD { 0 } else { ticks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_word_has_its_parts(age in 0..AGES, check: u64, client: u32) {
            let full = Control::full(age, check);
            prop_assert_eq!((full.state(), full.age()), (State::Full, age));
            prop_assert!(full.has_check(check) && !full.has_check(check ^ 1));
            prop_assert!(!full.is_claim_for(check));
            let claimed = Control::claimed(age, check, client);
            prop_assert_eq!((claimed.state(), claimed.age()), (State::Claimed, age));
            prop_assert!(claimed.is_claim_for(check) && !claimed.is_claim_for(check ^ 1));
            prop_assert_eq!(claimed.dropped().state(), State::Dropped);
            prop_assert_eq!(full.dropped().state(), State::Dropped);
        }
    }

    #[test]
    fn ages_wrap() {
        let mut clock = Clock::new(2);
        for ticks in 0..200_u8 {
            let age = clock.age();
            assert_eq!(clock.ticks_since(age), 0);
            assert_eq!(clock.ticks_since((age + AGES - 5) % AGES), 5, "{ticks}");
            clock.count();
            clock.count();
            assert_eq!(clock.ticks_since(age), 1);
        }
        let ahead = (clock.age() + 3) % AGES;
        assert_eq!(clock.ticks_since(ahead), 0);
        clock.see(ahead);
        assert_eq!(clock.age(), ahead);
        clock.see((ahead + AGES - 1) % AGES);
        assert_eq!(clock.age(), ahead, "a client behind is not followed");
    }
}

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

    /// Returns this word with the state `Dropped`, and with each of `bits` inverted that belongs to
    /// the check or the ticket. No byte of it is then one of the check that was dropped: a torn READ
    /// that takes the top byte of a later entry cannot make up the dropped one.
    #[inline]
    pub(crate) fn dropped(self, bits: u64) -> Self {
        Self(self.0 ^ CHECK & bits | (State::Dropped as u64) << STATE_SHIFT)
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
/// the clocks of other clients that are ahead.
///
/// Ages wrap, so one that is old enough looks as if it were ahead. The clock therefore follows only
/// ages that are certain to be recent: those of control words that were written while an operation of
/// this client ran, because its compare-and-swap found another word than the operation had seen in
/// the bucket. An entry may be of any age, and so may the claim of a dead client.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Clock {
    age: u8,
    /// Writes since the age advanced last, and writes after which it advances.
    writes: u64,
    writes_per_tick: u64,
}

/// Ages that are fewer ticks ahead than this are ahead, the others behind (as in RFC 1982).
const HALF: u8 = AGES / 2;
/// The largest `claim_ticks`. The claim of a dead client looks dead in the ticks from `claim_ticks`
/// to [`HALF`], and again 64 ticks later.
pub(crate) const MAX_CLAIM_TICKS: u8 = 24;
/// The largest lead of an entry that is believed. Old entries are more common than entries of clients
/// that are far ahead, so most ages count as behind: an entry up to 55 ticks old has its age, and an
/// older one looks younger than it is.
const MAX_ENTRY_LEAD: u8 = 8;

impl Clock {
    pub(crate) fn new(writes_per_tick: u64) -> Self {
        Self { age: 0, writes: 0, writes_per_tick }
    }

    #[inline]
    pub(crate) fn age(&self) -> u8 {
        self.age
    }

    /// Sets the age, for all clients to have the same.
    pub(crate) fn set(&mut self, age: u8) {
        (self.age, self.writes) = (age % AGES, 0);
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
        self.set(self.age + 1);
    }

    /// Follows a client that is ahead, by an age that is certain to be recent.
    pub(crate) fn follow(&mut self, recent: u8) {
        if (1..HALF).contains(&self.lead_of(recent)) {
            self.set(recent);
        }
    }

    /// Returns how many ticks ago an entry of this age was written; 0 if its client is ahead.
    #[inline]
    pub(crate) fn ticks_since_entry(&self, age: u8) -> u8 {
        let lead = self.lead_of(age);
        if lead <= MAX_ENTRY_LEAD { 0 } else { AGES - lead }
    }

    /// Returns whether a claim of this age was made at least `ticks` ticks ago. A claim that may be
    /// ahead was not: most claims that a client meets are of clients that live.
    #[inline]
    pub(crate) fn has_expired(&self, age: u8, ticks: u8) -> bool {
        (ticks..=HALF).contains(&((AGES - self.lead_of(age)) % AGES))
    }

    /// Returns how many ticks this age is ahead, below [`AGES`].
    fn lead_of(&self, age: u8) -> u8 {
        age.wrapping_sub(self.age) % AGES
    }
}

#[cfg(test)]
mod tests {
    use probeline_exchange::testing::on_ranks;
    use probeline_pipeline::Tag;
    use probeline_shm::Builder;
    use probeline_sim::{Cluster, DirectAccess};
    use probeline_transport::{Alone, Exchange, Owner};
    use proptest::prelude::*;

    use super::*;
    use crate::config::Config;
    use crate::map::{Finished, Map, Operation};
    use crate::outcome::Request;

    proptest! {
        #[test]
        fn word_keeps_its_fields(age in 0..AGES, check: u64, client: u32, readers: bool) {
            let full = Control::full(age, check);
            prop_assert_eq!((full.state(), full.age()), (State::Full, age));
            prop_assert!(full.has_check(check) && !full.has_check(check ^ 1));
            prop_assert!(!full.is_claim_for(check));
            let claimed = Control::claimed(age, check, client);
            prop_assert_eq!((claimed.state(), claimed.age()), (State::Claimed, age));
            prop_assert!(claimed.is_claim_for(check) && !claimed.is_claim_for(check ^ 1));
            let bits = if readers { u64::MAX << 16 } else { u64::MAX };
            for word in [claimed, full] {
                let dropped = word.dropped(bits);
                prop_assert_eq!((dropped.state(), dropped.age()), (State::Dropped, age));
                let counted = word.0.to_ne_bytes().into_iter().zip(bits.to_ne_bytes());
                let same = |((word, bits), dropped)| bits != 0 && word == dropped;
                prop_assert!(!counted.zip(dropped.0.to_ne_bytes()).any(same));
            }
        }
    }

    /// Returns the age that is this many ticks ahead; behind if negative.
    fn ahead(clock: &Clock, ticks: i8) -> u8 {
        clock.age().wrapping_add_signed(ticks) % AGES
    }

    #[test]
    fn ages_wrap() {
        let mut clock = Clock::new(2);
        for steps in 0..200_u8 {
            assert_eq!(clock.age(), steps % AGES);
            for ticks in 0..56 {
                assert_eq!(clock.ticks_since_entry(ahead(&clock, -ticks)), ticks.unsigned_abs());
            }
            for ticks in 0..=8 {
                assert_eq!(clock.ticks_since_entry(ahead(&clock, ticks)), 0, "{ticks} ahead");
            }
            clock.count();
            clock.count();
        }
    }

    #[test]
    fn follows_clients_ahead() {
        for lead in -32..32 {
            let mut clock = Clock::new(2);
            clock.set(40);
            let other = ahead(&clock, lead);
            clock.follow(other);
            assert_eq!(clock.age(), if lead > 0 { other } else { 40 }, "{lead} ahead");
        }
    }

    #[test]
    fn claims_ahead_are_alive() {
        for start in 0..AGES {
            let mut clock = Clock::new(2);
            clock.set(start);
            for claim_ticks in [1, 8, MAX_CLAIM_TICKS] {
                for lead in -32..32 {
                    let expired = -lead >= i8::try_from(claim_ticks).unwrap();
                    let found = clock.has_expired(ahead(&clock, lead), claim_ticks);
                    assert_eq!(found, expired, "{lead} ahead of {start}, {claim_ticks} ticks");
                }
            }
            assert!(!clock.has_expired(start, u8::MAX), "claims with locks do not expire");
        }
    }

    /// Reads entries of all ages in each step. A clock that followed those 56 to 63 ticks old, which
    /// look as if they were ahead, would run away.
    #[test]
    fn old_entries_leave_clock() {
        for direct in [true, false] {
            let config = Config { direct, ..Config::new(1_000) };
            let engine = Builder::new(config.sizes::<u64, u64>(1)).open(&mut Alone).unwrap();
            let mut map = Map::open(engine, config, [Operation::EMPTY], &mut Alone).unwrap();
            for step in 0..200_u64 {
                assert_eq!(u64::from(map.context().clock.age()), step % u64::from(AGES));
                map.put(&step, &step).unwrap();
                map.advance_age();
                for key in 0..=step {
                    assert_eq!(map.get(&key), Ok(Some(key)));
                }
            }
        }
    }

    /// Of two clients that write to the same bucket at the same time, the one behind sees the age of
    /// the other one.
    #[test]
    fn posted_writers_agree_on_age() {
        let config = Config { direct: false, ..Config::new(8) };
        let sizes = config.sizes::<u64, u64>(1);
        let cluster = Cluster::new(probeline_sim::Config {
            direct_access: DirectAccess::None,
            ..probeline_sim::Config::new(2, sizes)
        });
        let cluster = cluster.unwrap();
        let mut clients = [0, 1].map(|owner| {
            let engine = cluster.engine(Owner(owner)).unwrap();
            Map::<_, _, u64, u64>::new(engine, config, [Operation::EMPTY]).unwrap()
        });
        (0..20).for_each(|_| clients[0].advance_age());
        let met = (0..100_000).any(|_| {
            for map in &mut clients {
                if map.has_room() {
                    map.submit(Tag(0), &7, Request::Put(7)).unwrap();
                }
                map.poll_into(&mut [Finished::default()]).unwrap();
            }
            clients[1].context().clock.age() == 20
        });
        assert!(met && clients[0].context().clock.age() == 20);
        // By their own writes, the clocks have not advanced.
        assert!(clients.iter().all(|map| map.stats().writes() < 1_024));
    }

    #[test]
    fn open_and_clear_sync_clocks() {
        let config = Config::new(8);
        on_ranks(3, |mut member| {
            let engine = Builder::new(config.sizes::<u64, u64>(1)).open(&mut member);
            let operations = [Operation::EMPTY];
            let mut map = Map::<_, _, u64, u64>::new(engine.unwrap(), config, operations).unwrap();
            (0..member.me().0 * 5).for_each(|_| map.advance_age());
            map.agree(&mut member).unwrap();
            assert_eq!(map.context().clock.age(), 10);
            (0..member.me().0 * 30).for_each(|_| map.advance_age());
            map.clear(&mut member).unwrap();
            assert_eq!(map.context().clock.age(), 0);
        });
    }
}

//! The model check of objects: a pointer is to one object, and a get returns all of its bytes or none.

use probeline_pipeline::Bytes;
use probeline_pipeline::model::{Network, Scripts, Sequential, Stopped, check_linear};
use probeline_transport::{Owner, RemoteWord, Segment};

use super::access::Heap;
use super::{Action, Config, Outcome};
use crate::element::Each;
use crate::model::{Mutant, with};
use crate::pointer::Pointer;

type Objects = Each<Heap<16>>;

/// The counter's line, and words for two objects of two words.
const CONFIG: Config = Config { words: 4, first_word: 0 };
/// READs tear a word in its middle.
const TEARS: &[u64] = &[0xffff_ffff, !0xffff_ffff];
const HOST: Owner = Owner(0);

fn pointer(nth: u64) -> Pointer<[u8]> {
    let start = RemoteWord { owner: HOST, index: 8 + 2 * nth };
    Pointer::new(Segment { start, words: 2 }).unwrap()
}

/// The objects in the order in which they got their words.
#[derive(Clone, Default)]
struct OneByOne(Vec<Bytes<16>>);

impl Sequential<Objects> for OneByOne {
    fn run(&mut self, _: &Owner, action: Action<16>) -> Outcome<16> {
        match action {
            Action::Put(_) if self.0.len() == 2 => Outcome::Full,
            Action::Put(bytes) => {
                self.0.push(bytes);
                Outcome::Put(pointer(self.0.len() as u64 - 1))
            }
            Action::Get(wanted) => {
                let nth = (0..).position(|nth| pointer(nth) == wanted);
                nth.and_then(|nth| self.0.get(nth)).map_or(Outcome::Missing, |it| Outcome::Got(*it))
            }
        }
    }

    /// The pointer of a get may be of an object that is not yet written.
    fn explains(&mut self, host: &Owner, action: Action<16>, outcome: &Outcome<16>) -> bool {
        *outcome == Outcome::Missing || self.run(host, action) == *outcome
    }
}

/// Objects at the pointers that puts have returned, if no operation fails: a get finds every object whose put has
/// ended. A script gets no pointer twice, because of a put that has not ended one READ may show the words, and a
/// later one not.
#[derive(Clone, Default)]
struct Placed([Option<Bytes<16>>; 2]);

impl Sequential<Objects> for Placed {
    fn run(&mut self, _: &Owner, _: Action<16>) -> Outcome<16> {
        Outcome::Missing
    }

    fn explains(&mut self, _: &Owner, action: Action<16>, outcome: &Outcome<16>) -> bool {
        let at = |wanted| [0, 1].into_iter().find(|nth| pointer(*nth as u64) == wanted);
        match (action, *outcome) {
            (Action::Put(bytes), Outcome::Put(pointer)) => {
                let place = at(pointer).and_then(|nth| self.0.get_mut(nth));
                place.is_some_and(|place| place.replace(bytes).is_none())
            }
            (Action::Put(_), Outcome::Full) => !self.0.contains(&None),
            (Action::Get(pointer), outcome) => {
                let object = at(pointer).and_then(|nth| self.0[nth]);
                outcome == object.map_or(Outcome::Missing, Outcome::Got)
            }
            _ => false,
        }
    }
}

/// Pointers and bytes are no constants.
fn leak(scripts: Vec<Vec<(Owner, Action<16>)>>) -> Scripts<Objects> {
    scripts.into_iter().map(|script| &*script.leak()).collect::<Vec<_>>().leak()
}

fn scripts() -> [Scripts<Objects>; 4] {
    let put = |byte| (HOST, Action::Put(Bytes::new(&[byte; 8]).unwrap()));
    let get = |nth| (HOST, Action::Get(pointer(nth)));
    [
        leak(vec![vec![put(1), put(2)], vec![put(3), get(0)]]),
        leak(vec![vec![put(1)], vec![put(2), get(1)], vec![get(0)]]),
        leak(vec![vec![put(1), get(0)], vec![put(2), get(1), get(0)]]),
        leak(vec![vec![put(1)], vec![put(2)], vec![get(1), get(0)]]),
    ]
}

#[test]
fn puts_and_gets_are_linearizable() {
    for (scripts, failures) in scripts().into_iter().flat_map(|of| [(of, 0), (of, 1)]) {
        let network = Network { failures, ..Network::ONE };
        let checked = check_linear::<Objects, OneByOne, 12>(CONFIG, network, scripts);
        let (worlds, _) = checked.expect("every history has an order");
        assert!(worlds > 50, "{worlds}");
    }
}

#[test]
fn gets_find_earlier_puts() {
    for (scripts, tears) in scripts().into_iter().flat_map(|of| [(of, &[][..]), (of, TEARS)]) {
        let network = Network { tears, ..Network::ONE };
        let checked = check_linear::<Objects, Placed, 12>(CONFIG, network, scripts);
        checked.expect("every history has an order");
    }
}

#[test]
fn detects_unchecked_bytes() {
    let checked = with(Mutant::ReadyBeforeData, || {
        check_linear::<Objects, OneByOne, 12>(CONFIG, Network::ONE, scripts()[0])
    });
    assert!(matches!(checked, Err(Stopped::Violation(_))), "{checked:?}");
}

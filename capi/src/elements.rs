//! Elements of arrays whose size is known at run time only, and the operations on them.

use core::any::Any;
use core::ffi::c_int;

use probeline::containers::Plain;
use probeline::containers::array::{Action, Array, Operation, Order};
use probeline::pipeline::Tag;
use probeline::transport::Exchange;

use crate::array::{PROBELINE_MAX, PROBELINE_MIN, probeline_array};
use crate::operations::{Ended, Outcomes, Place, Run, Started, Submit, ToC, copy};
use crate::status::{Error, probeline_outcome};
use crate::structure::{Engine, Typed};

/// Access of an operation to its element.
#[derive(Clone, Copy)]
pub(crate) enum Access {
    Get,
    Put,
    /// PROBELINE_ADD, PROBELINE_MIN or PROBELINE_MAX, on words.
    Update(c_int),
    /// Store the operand if the word is this one.
    CompareAndSwap(u64),
}

impl Access {
    /// Returns the action with this operand.
    #[inline(always)]
    fn action<V: Plain>(self, operand: &[u8]) -> Action<V> {
        match self {
            Self::Get => Action::Get,
            Self::Put => Action::Put(V::from_bytes(operand)),
            Self::Update(PROBELINE_MIN) => Action::Min(word(operand), Order::Unsigned),
            Self::Update(PROBELINE_MAX) => Action::Max(word(operand), Order::Unsigned),
            Self::Update(_) => Action::Add(word(operand)),
            Self::CompareAndSwap(expected) => {
                Action::CompareAndSwap { expected, new: word(operand) }
            }
        }
    }
}

/// Returns the word of an element of 8 bytes.
fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// An array whose elements have a size that is known at run time only. Callers pass exactly this size.
pub(crate) trait Elements: Run<probeline_array> {
    fn fill(&mut self, value: &[u8], exchange: &mut dyn Exchange) -> Result<(), Error>;
    /// Reduces elements that are words.
    fn reduce(&mut self, operation: c_int, exchange: &mut dyn Exchange) -> Result<u64, Error>;
    fn for_each_local(&self, visit: &mut dyn FnMut(u64, &[u8]));
}

pub(crate) type Opened<V> = Array<Engine, Vec<Operation<V>>, V>;

impl<V: Plain + ToC> Submit<probeline_array> for Typed<Opened<V>> {
    fn submit(&mut self, tag: Tag, access: Access, index: &[u64], operand: &[u8]) -> Started {
        self.front.submit(tag, &index[0], access.action(operand))
    }
}

impl<V: Plain + ToC> Run<probeline_array> for Typed<Opened<V>> {
    fn run(&mut self, access: Access, index: &[u64], operand: &[u8], before: Place<'_>) -> Ended {
        let value = self.front.call(&index[0], access.action(operand))?;
        if !before.is_empty() {
            copy(value.bytes(), before);
        }
        Ok(probeline_outcome::PROBELINE_FOUND)
    }

    fn batch(
        &mut self,
        access: Access,
        indices: &[u64],
        operands: &[u8],
        before: Place<'_>,
        _: Outcomes<'_>,
    ) -> Result<(), Error> {
        let bytes = V::SIZE.unwrap_or(self.front.config().element_bytes);
        let range = |place: usize| place * bytes..(place + 1) * bytes;
        let operand = |place: usize| operands.get(range(place));
        let store = |place: usize, value: V| {
            if let Some(to) = before.get_mut(range(place)) {
                copy(value.bytes(), to);
            }
        };
        let action = |access: Access| move |place| Some(access.action(operand(place)?));
        Ok(match access {
            Access::Get => self.front.run_all(indices, |_| Some(Action::Get), store),
            Access::Put => self.front.run_all(indices, action(Access::Put), |_, _| ()),
            _ => self.front.run_all(indices, action(access), store),
        }?)
    }
}

impl<V: Plain + ToC> Elements for Typed<Opened<V>> {
    fn fill(&mut self, value: &[u8], exchange: &mut dyn Exchange) -> Result<(), Error> {
        Ok(self.front.fill(&V::from_bytes(value), exchange)?)
    }

    fn reduce(&mut self, operation: c_int, exchange: &mut dyn Exchange) -> Result<u64, Error> {
        let array: &mut dyn Any = &mut self.front;
        let not_words = || Error::invalid("the elements are not words");
        let array: &mut Opened<u64> = array.downcast_mut().ok_or_else(not_words)?;
        Ok(match operation {
            PROBELINE_MIN => array.min(exchange),
            PROBELINE_MAX => array.max(exchange),
            _ => array.sum(exchange),
        }?)
    }

    fn for_each_local(&self, visit: &mut dyn FnMut(u64, &[u8])) {
        self.front.local().for_each(|(index, value)| visit(index, value.bytes()));
    }
}

//! Find and find-or-put of a key as a state machine: a find-or-put of each node, one after the
//! other.

use probeline_pipeline::{Completed, Machine, Next, Port, Run, Step};
use probeline_transport::{PostError, Transport};

use super::cache::PairCacheLine;
use super::context::TreeContext;
use super::shape::{Node, References};
use crate::bucket::Bucket;
use crate::find_or_put::FindOrPut;
use crate::outcome::{Ended, Intent};

/// One find or find-or-put of a key of `W` words.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(Hash))]
pub struct TreeFindOrPut<const W: usize> {
    /// The find-or-put of the present node's pair.
    search: FindOrPut,
    pair: u64,
    key: [u64; W],
    references: References<W>,
    node: Node,
    intent: Intent,
    stage: Stage,
    #[cfg(test)]
    pub(crate) mutant: Mutant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Looks up the present node next.
    Node,
    /// The search of the node is in progress.
    Search,
    /// The search has ended with this reference. Posts of it are still in flight, whose slots and
    /// tokens the search of the next node uses.
    Drain(u32),
}

/// A defect that the model check must detect.
#[cfg_attr(not(test), allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    None,
    /// Refers to the bucket after the right one.
    Misplaces,
    /// Looks for a root among the inner nodes: the pair without the mark.
    Unmarked,
    /// Starts the search of the next node while posts of the last one are in flight.
    KeepsPosts,
}

impl<const W: usize> Machine for TreeFindOrPut<W> {
    type Outcome = Ended;
    const IDLE: Self = Self {
        search: FindOrPut::IDLE,
        pair: 0,
        key: [0; W],
        references: References::EMPTY,
        node: Node::ROOT,
        intent: Intent::Find,
        stage: Stage::Node,
        #[cfg(test)]
        mutant: Mutant::None,
    };
    const SLOTS: u32 = FindOrPut::<Bucket>::SLOTS;
}

impl<C: AsMut<[PairCacheLine]>, const W: usize> Run<TreeContext<C>> for TreeFindOrPut<W> {
    fn advance(
        &mut self,
        context: &mut TreeContext<C>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Ended> {
        // Each iteration looks up one node, or waits.
        loop {
            match self.stage {
                Stage::Node => self.start_node(context),
                Stage::Search => {
                    let step = self.search.advance(&mut context.table, port)?;
                    if let Some(step) = self.take(step, context, port)? {
                        return Ok(step);
                    }
                }
                Stage::Drain(reference) => {
                    if !self.is_drained() {
                        return Ok(Step::Wait);
                    }
                    self.end_node(reference);
                }
            }
        }
    }

    fn on_completion(
        &mut self,
        completed: Completed,
        context: &mut TreeContext<C>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Ended> {
        match self.stage {
            Stage::Search => {
                let step = self.search.on_completion(completed, &mut context.table, port)?;
                if let Some(step) = self.take(step, context, port)? {
                    return Ok(step);
                }
            }
            Stage::Drain(_) => self.search.on_drained(completed.post_id),
            Stage::Node => debug_assert!(false, "a node that was not looked up has posts"),
        }
        self.advance(context, port)
    }

    fn on_error(&mut self, context: &mut TreeContext<C>) {
        context.table.stats.failed += 1;
    }
}

impl<const W: usize> TreeFindOrPut<W> {
    /// Creates the operation of a key that fits the context's shape.
    #[inline]
    pub(crate) fn new<C>(key: &[u64; W], intent: Intent, context: &TreeContext<C>) -> Self {
        Self { key: *key, intent, node: context.shape.first(), ..Self::IDLE }
    }

    /// Looks up the present node in the cache, or starts the search for it.
    #[inline(always)]
    fn start_node<C: AsMut<[PairCacheLine]>>(&mut self, context: &mut TreeContext<C>) {
        self.pair = context.shape.pair(self.node, &self.key, &self.references);
        #[cfg(test)]
        if self.mutant == Mutant::Unmarked && self.node.is_root() && self.key[0] % 2 == 1 {
            self.pair &= u64::MAX >> 2;
        }
        match context.cached(self.node, self.pair) {
            Some(reference) => self.end_node(reference),
            None => {
                let bucket = Bucket::from_pair(self.pair);
                self.search = FindOrPut::new(bucket, self.intent, &context.table);
                self.stage = Stage::Search;
            }
        }
    }

    /// Takes the step of the search. Returns the operation's step, unless the node has ended and is
    /// not the last.
    #[inline(always)]
    fn take<C: AsMut<[PairCacheLine]>>(
        &mut self,
        step: Step<Ended>,
        context: &mut TreeContext<C>,
        port: &Port<'_, impl Transport>,
    ) -> Result<Option<Step<Ended>>, probeline_pipeline::Stop> {
        let Step::Done(outcome) = step else { return Ok(Some(step)) };
        let (layout, transport) = (&context.table.layout, port.transport());
        let at = match outcome.has_bucket() {
            false => None,
            true => Some(self.search.position(layout, transport).ok_or(PostError::OutOfRange)?),
        };
        #[cfg(test)]
        let at = at.map(|at| match self.mutant {
            Mutant::Misplaces => context.table.layout.advance(at, 1),
            _ => at,
        });
        Ok(match context.on_node(self.node, self.pair, outcome, || at.unwrap_or_default()) {
            Ok(reference) => {
                self.stage = Stage::Drain(reference);
                None
            }
            Err(ended) => Some(Step::Done(ended)),
        })
    }

    fn is_drained(&self) -> bool {
        #[cfg(test)]
        if self.mutant == Mutant::KeepsPosts {
            return true;
        }
        self.search.is_drained()
    }

    #[inline(always)]
    fn end_node(&mut self, reference: u32) {
        self.references.set(self.node, reference);
        self.node = self.node.next();
        self.stage = Stage::Node;
    }
}

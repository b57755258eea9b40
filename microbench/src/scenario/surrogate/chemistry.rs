//! The chemistry of a rank's cells: answers from the cache, or computed and put into it.

use core::time::Duration;
use std::collections::HashMap;

use probeline::map::{Field, Map, Operation, Rounding, Written};
use probeline_reactive::{Answer, QUESTION, Question, equilibrium};

use super::{PAPER_WORK_NS, SurrogateArgs};
use crate::failure::Result;
use crate::timed::Timed;

/// An answer as the map stores it.
pub(super) type Stored = [f64; 13];
/// The cache, compiled once for all transports.
pub(super) type Cache<'e> =
    Map<&'e mut dyn Timed, Vec<Operation<Question, Stored>>, Question, Stored>;

pub(super) struct Chemistry {
    /// How questions are rounded before they are looked up; without the cache they are not.
    rounding: Option<Rounding<Question, QUESTION>>,
    /// Further work for each result that is computed.
    work_ns: u64,
    found: Vec<Option<Stored>>,
    /// The places in `computed` of the questions of a package that the cache did not have, by the bits
    /// of their numbers.
    places: HashMap<[u64; QUESTION], usize>,
    computed: Vec<Stored>,
    written: Vec<Written>,
    pub(super) chemistry_ns: u64,
    /// The part of `chemistry_ns` in which results were computed.
    pub(super) solve_ns: u64,
    pub(super) solved: u64,
    pub(super) questions: u64,
    package: usize,
}

impl Chemistry {
    /// Creates the chemistry with a cache for inputs of this many significant digits, or without a
    /// cache.
    pub(super) fn new(digits: Option<u8>, args: &SurrogateArgs) -> Result<Self> {
        let rounding = digits.map(|digits| rounding(digits, args.zero_below)).transpose()?;
        let work = Duration::from_secs_f64(args.work_us() * 1e-6);
        Ok(Self {
            rounding,
            work_ns: u64::try_from(work.as_nanos())?,
            found: Vec::new(),
            places: HashMap::new(),
            computed: Vec::new(),
            written: Vec::new(),
            chemistry_ns: 0,
            solve_ns: 0,
            solved: 0,
            questions: 0,
            package: args.package as usize,
        })
    }

    /// Returns the time that the computed results would take longer if each took
    /// [`PAPER_WORK_NS`], in nanoseconds; `None` if it does.
    pub(super) fn missing_work_ns(&self) -> Option<u64> {
        let each_ns = PAPER_WORK_NS.checked_sub(self.work_ns).filter(|ns| *ns > 0)?;
        Some(each_ns * self.solved)
    }

    /// Answers the questions of all cells.
    pub(super) fn answer(
        &mut self,
        cache: &mut Cache<'_>,
        questions: &mut [Question],
        answers: &mut [Answer],
    ) -> Result<()> {
        let start_ns = cache.transport().now_ns();
        let packages = questions.chunks_mut(self.package).zip(answers.chunks_mut(self.package));
        for (questions, answers) in packages {
            self.questions += questions.len() as u64;
            match &self.rounding {
                Some(rounding) => {
                    for question in questions.iter_mut() {
                        *question = rounding.round(question);
                    }
                    self.answer_cached(cache, questions, answers)?;
                }
                None => {
                    self.compute(cache, questions)?;
                    for (answer, computed) in answers.iter_mut().zip(&self.computed) {
                        *answer = Answer::from_array(*computed);
                    }
                }
            }
        }
        self.chemistry_ns += cache.transport().now_ns() - start_ns;
        Ok(())
    }

    /// Looks up a package of rounded questions, computes what is missing, each question once, and
    /// stores it.
    fn answer_cached(
        &mut self,
        cache: &mut Cache<'_>,
        questions: &[Question],
        answers: &mut [Answer],
    ) -> Result<()> {
        self.found.resize(questions.len(), None);
        cache.get_batch(questions, &mut self.found)?;
        let mut missed: Vec<Question> = Vec::new();
        self.places.clear();
        for (question, _) in questions.iter().zip(&self.found).filter(|(_, found)| found.is_none())
        {
            self.places.entry(question.map(f64::to_bits)).or_insert_with(|| {
                missed.push(*question);
                missed.len() - 1
            });
        }
        self.compute(cache, &missed)?;
        self.written.resize(missed.len(), Written::Dropped);
        // A result that is dropped or evicted is computed again.
        cache.put_if_absent_batch(&missed, &self.computed, &mut self.written)?;
        for ((answer, question), found) in answers.iter_mut().zip(questions).zip(&self.found) {
            let place = || self.places.get(&question.map(f64::to_bits));
            let stored = found.as_ref().or_else(|| self.computed.get(*place()?));
            *answer = stored.map_or(*answer, |stored| Answer::from_array(*stored));
        }
        Ok(())
    }

    /// Computes the answers to these questions.
    fn compute(&mut self, cache: &mut Cache<'_>, questions: &[Question]) -> Result<()> {
        let start_ns = cache.transport().now_ns();
        self.computed.clear();
        for question in questions {
            self.computed.push(equilibrium(question)?.to_array());
        }
        // Once a package, for the simulator's sake.
        let work_ns = self.work_ns * questions.len() as u64;
        if work_ns > 0 {
            cache.transport_mut()?.spend(work_ns);
        }
        self.solved += questions.len() as u64;
        self.solve_ns += cache.transport().now_ns() - start_ns;
        Ok(())
    }
}

/// Rounds all inputs but the time step, which is always the same.
fn rounding(digits: u8, zero_below: f64) -> Result<Rounding<Question, QUESTION>> {
    let mut fields = [Field::F64(digits); QUESTION];
    if let Some(step) = fields.last_mut() {
        *step = Field::Exact(8);
    }
    Ok(Rounding::new(fields)?.with_zero_below(zero_below)?)
}

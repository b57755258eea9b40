//! Programs for shared memory, on a region of pages ([`probeline::dsm`]): integer sort, LU factorisation, a
//! multigrid solver and an n-body step.
//!
//! Each is written once over a trait that a region, plain memory and two older protocols implement. A run on plain
//! memory is the sequential program, whose result the parallel one must equal bit by bit; the sort is verified as
//! published instead.

mod barnes;
mod homes;
mod lu;
mod memory;
mod ocean;
mod sort;
#[cfg(test)]
mod tests;

use core::ops::Range;

use probeline::dsm::{Config, Operation, Region, Stats};
use probeline::transport::{Exchange, Sizes};

pub use self::homes::Buffers;
pub use self::lu::Blocks;
use self::memory::{Alone, Changed, Measured, Pages, Shared, disjoint};
pub use self::sort::Class;
use crate::{Error, Timed};

/// Operations in flight.
const OPERATIONS: u32 = 64;

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Integer sort of the NAS parallel benchmarks: 10 iterations, verified as they state.
    Sort(Class),
    /// LU factorisation without pivoting, of a square matrix in blocks of 16 x 16.
    Lu {
        /// Rows of the matrix, a multiple of 16.
        side: usize,
        /// How blocks lie in memory.
        blocks: Blocks,
    },
    /// Poisson's equation by red-black multigrid, the solver of SPLASH-2's ocean: cycles until the residual is 10^-7.
    Ocean {
        /// Rows of the grid with its border: a power of two, and 2.
        side: usize,
    },
    /// Bodies that attract each other, by the method of Barnes and Hut: 4 steps.
    Barnes {
        /// Their number.
        bodies: usize,
    },
}

/// How ranks share the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// A [`Region`], by one-sided operations.
    #[default]
    OneSided,
    /// ORIG or PIPE: every second rank is a home.
    Homes(Buffers),
}

/// The times of a CPU that is only simulated, all 0 where a CPU works.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Picoseconds of a floating-point operation, or of another one that the programs count as such.
    pub flop_ps: u64,
    /// Picoseconds of each byte that is copied or compared, for pages, twins and diffs.
    pub byte_ps: u64,
    /// Nanoseconds from a message's arrival until a home's thread looks at it.
    pub handler_ns: u64,
}

impl Costs {
    fn flops_ns(self, flops: u64) -> u64 {
        flops * self.flop_ps / 1000
    }

    fn bytes_ns(self, bytes: u64) -> u64 {
        bytes * self.byte_ps / 1000
    }
}

/// The parameters. All ranks give the same.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The program.
    pub program: Program,
    /// Words of a page.
    pub page_words: u32,
    /// How ranks share the memory.
    pub protocol: Protocol,
    /// Whether a rank edits the pages whose home it is in place ([`Config::in_windows`]). For processes over shared
    /// memory; without effect on elements smaller than words, and under [`Protocol::Homes`].
    pub in_windows: bool,
    /// The times of simulated CPUs.
    pub costs: Costs,
}

/// The time and the counters of a run on this rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// From the first barrier to the last one.
    pub ns: u64,
    /// The counters of the region in this time. Under [`Protocol::Homes`] the writes are messages of diffs.
    pub stats: Stats,
    /// Operations, or pairs of a WRITE and the atomic that announces it: those that tell other ranks, or homes,
    /// something, or ask them, in this time. A home counts all of its own.
    pub messages: u64,
    /// The time of the sequential program, on rank 0 while the others wait.
    pub sequential_ns: u64,
}

/// A program on elements `T`.
trait Kernel<T> {
    /// Elements of the region.
    fn elements(&self) -> usize;

    /// Fills the own part of the memory, before the clock starts.
    fn fill(&self, memory: &mut impl Shared<T>) -> Result<(), Error>;

    /// Runs the program.
    fn run(&self, memory: &mut impl Shared<T>) -> Result<(), Error>;

    /// Compares the result with that of the sequential program.
    fn verify(&self, memory: &mut impl Shared<T>, sequential: &[T]) -> Result<(), Error>;
}

impl Options {
    /// Returns the sizes of the engine of a job of this many processes.
    #[must_use]
    pub fn sizes(&self, owners: u32) -> Sizes {
        let parts = self.parts(owners);
        match self.program {
            Program::Sort(class) => self.sizes_of(owners, &sort::Sort::new(class, parts.ranks)),
            Program::Lu { side, blocks } => {
                self.sizes_of(owners, &lu::Lu::new(side, blocks, parts))
            }
            Program::Ocean { side } => self.sizes_of(owners, &ocean::Ocean::new(side, parts)),
            Program::Barnes { bodies } => self.sizes_of(owners, &barnes::Barnes::new(bodies)),
        }
    }

    /// Returns the ranks that compute in a job of this many processes, and the words of a page.
    fn parts(&self, owners: u32) -> Parts {
        let each = if self.protocol == Protocol::OneSided { 1 } else { 2 };
        Parts {
            ranks: (owners as usize / each).max(1),
            has_own_pages: self.in_windows && self.protocol == Protocol::OneSided,
            page_words: self.page_words as usize,
        }
    }

    fn sizes_of<T: bytemuck::Pod>(&self, owners: u32, kernel: &impl Kernel<T>) -> Sizes {
        let elements = kernel.elements();
        match self.protocol {
            Protocol::OneSided => self.config::<T>(elements).sizes::<T>(owners, OPERATIONS),
            Protocol::Homes(buffers) => buffers.sizes::<T>(owners, elements, self.page_words),
        }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn check(&self) -> Result<(), Error> {
        let (is_valid, what) = match self.program {
            Program::Sort(_) => (true, ""),
            Program::Lu { side, .. } => (
                (16..=1 << 14).contains(&side) && side.is_multiple_of(16),
                "give a --side of 16 to 16384, a multiple of 16",
            ),
            Program::Ocean { side } => (
                (18..=(1 << 13) + 2).contains(&side) && (side - 2).is_power_of_two(),
                "give a --side of 2 more than a power of two from 16 to 8192",
            ),
            Program::Barnes { bodies } => {
                ((1..=1 << 20).contains(&bodies), "give --bodies of 1 to 1048576")
            }
        };
        if !is_valid {
            return Err(Error::Parameter(what.to_owned()));
        }
        if !self.page_words.is_power_of_two() || !(8..=1 << 16).contains(&self.page_words) {
            return Err(Error::Parameter(
                "a page has 64 bytes to 512 KiB, a power of two".to_owned(),
            ));
        }
        Ok(())
    }

    /// Returns a configuration whose lists of notices are as long as a page, so that they need no longer slots, but at
    /// least as long as by default.
    fn config<T>(&self, elements: usize) -> Config {
        Config {
            page_words: self.page_words,
            in_windows: self.in_windows && size_of::<T>().is_multiple_of(size_of::<u64>()),
            notices: (self.page_words / 2).clamp(63, 255),
            ..Config::new(elements as u64)
        }
    }

    fn run<T: bytemuck::Pod, E: Timed>(
        &self,
        kernel: &impl Kernel<T>,
        engine: E,
        exchange: &mut dyn Exchange,
    ) -> Result<Run, Error> {
        let (costs, page_words) = (self.costs, self.page_words);
        if let Protocol::Homes(buffers) = self.protocol {
            return homes::run((buffers, page_words, costs), kernel, engine, exchange);
        }
        let config = self.config::<T>(kernel.elements());
        let operations = vec![Operation::EMPTY; OPERATIONS as usize];
        if config.in_windows {
            if engine.is_virtual() {
                return Err(Error::Parameter(
                    "ranks of a simulator share an allocation".to_owned(),
                ));
            }
            // SAFETY: the programs are properly synchronised, by barriers and locks around what several ranks edit, and
            // replace no engine. All engines but the simulator's reach windows by mappings of each process or by
            // devices, and none moves them.
            #[allow(unsafe_code)]
            let region = unsafe { Region::open_in_windows(engine, config, operations, exchange) }?;
            let pages = Pages { region, exchange, costs, page_words, copied: 0 };
            return run_kernel(costs, kernel, pages);
        }
        let memory = vec![0; config.memory_words::<T>(exchange.owners())];
        let region = Region::open(engine, config, operations, memory, exchange)?;
        run_kernel(costs, kernel, Pages { region, exchange, costs, page_words, copied: 0 })
    }
}

/// Runs a program together with all other ranks, then the sequential one, and verifies the result. `engine` has
/// [`Options::sizes`].
///
/// # Errors
/// [`Error::Wrong`] if the result is wrong; [`Error::Parameter`]; or a rank failed.
pub fn run(
    options: &Options,
    engine: impl Timed,
    exchange: &mut dyn Exchange,
) -> Result<Run, Error> {
    options.check()?;
    let parts = options.parts(exchange.owners());
    match options.program {
        Program::Sort(class) => options.run(&sort::Sort::new(class, parts.ranks), engine, exchange),
        Program::Lu { side, blocks } => {
            options.run(&lu::Lu::new(side, blocks, parts), engine, exchange)
        }
        Program::Ocean { side } => options.run(&ocean::Ocean::new(side, parts), engine, exchange),
        Program::Barnes { bodies } => options.run(&barnes::Barnes::new(bodies), engine, exchange),
    }
}

fn run_kernel<T: bytemuck::Pod>(
    costs: Costs,
    kernel: &impl Kernel<T>,
    mut memory: impl Shared<T> + Measured,
) -> Result<Run, Error> {
    kernel.fill(&mut memory)?;
    memory.barrier()?;
    let before = memory.counts();
    let begun_ns = memory.now_ns();
    kernel.run(&mut memory)?;
    memory.barrier()?;
    let ns = memory.now_ns() - begun_ns;
    let (stats, messages) = memory.counts();
    let (stats, messages) = (stats.since(&before.0), messages - before.1);
    let rank = memory.rank();
    let mut verify = || {
        let mut alone = Alone::new(vec![T::zeroed(); kernel.elements()]);
        kernel.fill(&mut alone)?;
        alone.flops = 0;
        let begun_ns = memory.now_ns();
        kernel.run(&mut alone)?;
        let sequential_ns = memory.now_ns() - begun_ns + costs.flops_ns(alone.flops);
        kernel.verify(&mut memory, &alone.memory)?;
        Ok::<_, Error>(sequential_ns)
    };
    let verified = if rank == 0 { verify() } else { Ok(0) };
    memory.leave()?;
    let sequential_ns = finish(memory.exchange(), verified)?;
    Ok(Run { ns, stats, messages, sequential_ns })
}

/// Waits for the others, of which rank 0 verifies the result.
fn finish<V>(exchange: &mut dyn Exchange, ended: Result<V, Error>) -> Result<V, Error> {
    let failed = exchange.max(ended.is_err().into());
    let ended = ended?;
    if failed? > 0 {
        return Err(Error::Wrong("rank 0 could not verify the result".to_owned()));
    }
    Ok(ended)
}

/// The ranks that compute, and whether what each of them edits has pages of its own, in blocks of one length.
#[derive(Clone, Copy, Debug)]
struct Parts {
    ranks: usize,
    has_own_pages: bool,
    page_words: usize,
}

impl Parts {
    /// Returns this many elements of a word, and those behind them in their last page.
    fn in_pages(self, elements: usize) -> usize {
        elements.next_multiple_of(self.page_words)
    }
}

/// Returns the part of `count` things that belongs to a rank, in consecutive parts.
fn part(count: usize, rank: usize, ranks: usize) -> Range<usize> {
    count * rank / ranks..count * (rank + 1) / ranks
}

/// Checks that ranges of the memory are those of the sequential program, bit by bit.
fn equal<T: bytemuck::Pod>(
    memory: &mut impl Shared<T>,
    sequential: &[T],
    ranges: impl Iterator<Item = Range<usize>>,
) -> Result<(), Error> {
    for range in ranges {
        let (mine, theirs) = (memory.view(range.clone())?, &sequential[range.clone()]);
        if bytemuck::cast_slice::<T, u8>(mine) != bytemuck::cast_slice::<T, u8>(theirs) {
            return Err(Error::Wrong(format!(
                "elements {range:?} differ from those of the sequential program"
            )));
        }
    }
    Ok(())
}

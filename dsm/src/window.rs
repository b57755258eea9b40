//! The private memory of a region in the rank's own window, where its pages are at home.

use core::ptr::NonNull;
use core::slice;

use bytemuck::Pod;
use probeline_pipeline::{CollectiveError, ConfigError};
#[cfg(doc)]
use probeline_transport::{AtomicScope, StableMemory};
use probeline_transport::{Exchange, Transport};

use crate::config::{Config, Layout, reach};
use crate::region::{Operation, Region};

/// Words of this rank's window that are the private memory of a region.
#[derive(Debug)]
pub struct Window {
    words: NonNull<u64>,
    len: usize,
}

// SAFETY: the words belong to no thread; what may be done with them is the promise of `open_in_windows`.
unsafe impl Send for Window {}

impl Window {
    fn new(engine: &impl Transport, layout: &Layout) -> Result<Self, ConfigError> {
        let geometry = engine.geometry();
        let at = layout.private(geometry.me)?;
        let end = at.start.index + u64::from(at.words);
        ConfigError::check_range("the words of the window", geometry.window_words, end, u64::MAX)?;
        let why = "a region in windows needs a transport whose window the CPU addresses, and shares its atomics with";
        let words = reach(engine, Some(at)).ok_or(ConfigError::Invalid(why))?;
        Ok(Self { words: NonNull::from(words).cast(), len: words.len() })
    }
}

impl AsMut<[u64]> for Window {
    fn as_mut(&mut self) -> &mut [u64] {
        // These words stay where they are while the engine lives (`StableMemory`), and the region has both: the
        // promise of `open_in_windows` excludes that another engine takes its place. Atomics have the size and alignment
        // of words, and may be changed by a shared reference. Other processes store to elements of pages at home while
        // this slice exists, through other mappings: no accesses of this program, so no race in it. The compiler may take
        // words of the slice as unchanged, and store to words that this rank stores to. The promise of `open_in_windows`
        // (proper synchronisation) upholds both for the elements that views and edits return. The region itself loads and
        // stores no word of a page at home: it neither sends nor reads nor compares such pages. All other words of the
        // slice are stored by this rank only. This process refers to them by this slice only: the
        // region reaches neither the pages whose home it is nor other private memory by its engine, and who borrows
        // the engine borrows the region.
        // SAFETY: the words are aligned and alive (`StableMemory`), no other reference of this process reaches them, and
        // the caller of `open_in_windows` promises proper synchronisation with other processes.
        unsafe { slice::from_raw_parts_mut(self.words.as_ptr(), self.len) }
    }
}

impl<T, E, S> Region<T, E, S, Window>
where
    T: Pod,
    E: Transport,
    S: AsMut<[Operation]>,
{
    /// Opens a region as [`open`](Region::open) does, with its private memory in the windows
    /// ([`Config::in_windows`] is set): views and edits of a page whose home this rank is are those of the home's words, so
    /// the page is neither read nor sent. Others may see its changes before the next release or barrier.
    ///
    /// # Errors
    /// As for [`open`](Region::open); [`ConfigError::Invalid`] unless [`Config::in_windows`] is set, for what it excludes, or
    /// unless the CPU addresses the own window and is coherent with the transport's atomics, as over shared memory
    /// ([`AtomicScope::Cpu`]): over others a rank may see what was written to its window as late as at the next barrier.
    ///
    /// # Safety
    /// - The program is properly synchronised: of two accesses to an element by different ranks, one of which is an
    ///   edit, one happens before the other.
    /// - The engine's memory is stable, as [`StableMemory`] says: that of all engines of this workspace is.
    /// - The engine stays in the region: while the region is in use, the caller does not replace it by another one, as by
    ///   [`engine_mut`](Region::engine_mut).
    /// - Other ranks reach this rank's window from other processes, by other mappings, or by a device: their accesses are
    ///   none of this program's. So the ranks are not threads over one allocation, as on a simulator.
    pub unsafe fn open_in_windows(
        engine: E,
        config: Config,
        operations: S,
        job: &mut (impl Exchange + ?Sized),
    ) -> Result<Self, CollectiveError> {
        let layout = config.layout::<T>(engine.geometry().owners);
        let window = match config.in_windows {
            true => config.check::<T>(&engine).and_then(|()| Window::new(&engine, &layout)),
            false => Err(ConfigError::Invalid("set in_windows, for the sizes of the engine too")),
        };
        Self::open_with(engine, config, operations, window.map_err(CollectiveError::from), job)
    }
}

#[cfg(test)]
mod tests {
    use probeline_exchange::testing::Watched;
    use probeline_shm::Builder;
    use probeline_transport::{Alone, AtomicScope, Sizes};

    use super::*;

    /// Returns why a region is not opened in windows, over shared memory with these sizes.
    fn refusal<T: Pod>(config: Config, sizes: Sizes, atomics: AtomicScope) -> String {
        let engine = Builder::new(sizes).open(&mut Alone).unwrap();
        let engine = Watched::declaring(engine, |caps| caps.atomics = atomics);
        let storage = vec![Operation::EMPTY; 4];
        // SAFETY: no region is opened.
        let opened =
            unsafe { Region::<T, _, _, _>::open_in_windows(engine, config, storage, &mut Alone) };
        opened.map(drop).unwrap_err().to_string()
    }

    #[test]
    fn refuses_windows() {
        let config = Config { in_windows: true, ..Config::new(1000) };
        let sizes = config.sizes::<u64>(1, 4);
        let without = Config { in_windows: false, ..config };
        for (config, expected) in [
            (without, "set in_windows"),
            (Config { compares: true, ..config }, "compares: false"),
            (Config { mirror_pages: 1, ..config }, "mirror_pages is 1"),
        ] {
            let error = refusal::<u64>(config, sizes, AtomicScope::Cpu);
            assert!(error.contains(expected), "{expected}: {error}");
        }
        assert!(refusal::<u32>(config, sizes, AtomicScope::Cpu).contains("whole words"));
        assert!(refusal::<u64>(config, sizes, AtomicScope::Device).contains("shares its atomics"));
        let small = without.sizes::<u64>(1, 4);
        assert!(refusal::<u64>(config, small, AtomicScope::Cpu).contains("words of the window"));
        let engine = Builder::new(sizes).open(&mut Alone).unwrap();
        let (storage, memory) = ([Operation::EMPTY; 4], vec![0; config.memory_words::<u64>(1)]);
        let opened = Region::<u64, _, _, _>::open(engine, config, storage, memory, &mut Alone);
        assert!(opened.map(drop).unwrap_err().to_string().contains("open_in_windows"));
    }
}

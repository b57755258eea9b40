//! The CPUs that this process may use, and pinning a thread to one of them.

use core::ffi::c_ulong;

use core_affinity::CoreId;

use crate::errno::Errno;
use crate::{CpuId, CpuSet, Error};

const WORD_BITS: u32 = c_ulong::BITS;

/// The CPUs that a process may use, as set by `taskset`, a job scheduler or a container.
///
/// Pinning narrows the affinity mask, so it is read once, before pinning. Threads and processes
/// started later inherit the narrow mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    allowed: CpuSet,
}

impl Affinity {
    /// Reads the calling thread's mask. Call it in `main`, before anything pins.
    ///
    /// # Errors
    /// [`Error::Affinity`] if the kernel refuses the query.
    pub fn take() -> Result<Self, Error> {
        let allowed = current_mask().map_err(|errno| Error::Affinity { errno })?;
        Ok(Self { allowed })
    }

    /// Returns the CPUs that were allowed when the mask was read.
    #[must_use]
    pub fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// Pins the calling thread to `cpu`, and checks its mask.
    ///
    /// # Errors
    /// [`Error`]; the thread may then run where it ran before.
    pub fn pin(&self, cpu: CpuId) -> Result<(), Error> {
        if !self.allowed.contains(cpu) {
            return Err(Error::NotAllowed { cpu });
        }
        set_cpu(cpu).map_err(|errno| Error::Pin { cpu, errno })?;
        let now = current_mask().map_err(|errno| Error::Affinity { errno })?;
        if now == CpuSet::from_iter([cpu]) {
            return Ok(());
        }
        Err(Error::Elsewhere { cpu, now })
    }
}

fn set_cpu(cpu: CpuId) -> Result<(), i32> {
    let id = cpu.0 as usize;
    if id >= MASK_BITS {
        // core_affinity panics for such a CPU.
        return set_mask(cpu);
    }
    if core_affinity::set_for_current(CoreId { id }) {
        return Ok(());
    }
    // core_affinity returns no reason, but its system call is the last one of this thread.
    Err(Errno::last())
}

/// Bits of the C library's `cpu_set_t`: the first length of a mask to try.
const MASK_BITS: usize = 8 * size_of::<libc::cpu_set_t>();

/// Returns the calling thread's mask. The kernel refuses a buffer shorter than its own masks, whose
/// length is unknown: sched_getaffinity(2) recommends to double the buffer until it fits.
fn current_mask() -> Result<CpuSet, i32> {
    let mut bits = MASK_BITS;
    loop {
        let mut mask: Vec<c_ulong> = vec![0; bits / WORD_BITS as usize];
        // SAFETY: the C library writes at most the stated bytes, which `mask` has, and `cpu_set_t`
        // is an array of `c_ulong`.
        let done =
            unsafe { libc::sched_getaffinity(0, size_of_val(&*mask), mask.as_mut_ptr().cast()) };
        if done == 0 {
            return Ok(cpus_of(&mask));
        }
        let errno = Errno::last();
        bits *= 2;
        if errno != libc::EINVAL || bits > CpuSet::MAX_CPUS as usize {
            return Err(errno);
        }
    }
}

/// Pins the calling thread to `cpu` by a mask of any length.
fn set_mask(cpu: CpuId) -> Result<(), i32> {
    let mask = mask_of(cpu);
    // SAFETY: the kernel reads the stated bytes, which `mask` has; `cpu_set_t` is an array of
    // `c_ulong`.
    let done = unsafe { libc::sched_setaffinity(0, size_of_val(&*mask), mask.as_ptr().cast()) };
    if done == 0 { Ok(()) } else { Err(Errno::last()) }
}

fn cpus_of(mask: &[c_ulong]) -> CpuSet {
    let bit = |cpu: &u32| mask[(cpu / WORD_BITS) as usize] >> (cpu % WORD_BITS) & 1 == 1;
    (0..CpuSet::MAX_CPUS).take(mask.len() * WORD_BITS as usize).filter(bit).map(CpuId).collect()
}

fn mask_of(CpuId(cpu): CpuId) -> Vec<c_ulong> {
    let mut mask = vec![0; (cpu / WORD_BITS) as usize];
    mask.push(1 << (cpu % WORD_BITS));
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{refusing, refusing_below};
    use proptest::prelude::*;

    /// Runs `test` in a new thread, so that its pinning does not outlive the test.
    fn in_thread<T: Send>(test: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(test).join().unwrap())
    }

    fn only(cpu: CpuId) -> CpuSet {
        CpuSet::from_iter([cpu])
    }

    #[test]
    fn pinned_thread_runs_on_cpu() {
        in_thread(|| {
            let affinity = Affinity::take().unwrap();
            assert!(!affinity.allowed().is_empty());
            for cpu in affinity.allowed().iter() {
                affinity.pin(cpu).unwrap();
                // SAFETY: sched_getcpu(3) takes no arguments.
                let here = unsafe { libc::sched_getcpu() };
                assert_eq!(u32::try_from(here), Ok(cpu.0));
                // A mask read after pinning has only this CPU.
                assert_eq!(Affinity::take().unwrap().allowed(), &only(cpu));
            }
        });
    }

    #[test]
    fn refuses_disallowed_cpu() {
        in_thread(|| {
            let affinity = Affinity::take().unwrap();
            for cpu in [CpuId(1023), CpuId(1024), CpuId(u32::MAX)] {
                assert_eq!(affinity.pin(cpu), Err(Error::NotAllowed { cpu }));
            }
            assert_eq!(current_mask(), Ok(affinity.allowed));
        });
    }

    #[test]
    fn reports_missing_cpu() {
        in_thread(|| {
            // The test machine has none of these CPUs.
            for cpu in [CpuId(1023), CpuId(1024), CpuId(65_535)] {
                let affinity = Affinity { allowed: only(cpu) };
                let refused = Error::Pin { cpu, errno: libc::EINVAL };
                assert_eq!(affinity.pin(cpu), Err(refused));
            }
        });
    }

    #[test]
    fn refusals_carry_errno() {
        let affinity = Affinity::take().unwrap();
        let cpu = affinity.allowed.first().unwrap();
        let errno = libc::EPERM;
        let refused = refusing(libc::SYS_sched_setaffinity, errno, || affinity.pin(cpu));
        assert_eq!(refused, Err(Error::Pin { cpu, errno }));
        let refused = refusing(libc::SYS_sched_getaffinity, errno, Affinity::take);
        assert_eq!(refused, Err(Error::Affinity { errno }));
        let refused = refusing(libc::SYS_sched_getaffinity, errno, || affinity.pin(cpu));
        assert_eq!(refused, Err(Error::Affinity { errno }));
    }

    #[test]
    fn reads_masks_beyond_1024_cpus() {
        let affinity = Affinity::take().unwrap();
        // A kernel for 4096 CPUs, whose masks have 512 bytes.
        let taken = refusing_below(libc::SYS_sched_getaffinity, 512, libc::EINVAL, Affinity::take);
        assert_eq!(taken, Ok(affinity));
    }

    #[test]
    fn bounds_mask_length() {
        let refused = refusing(libc::SYS_sched_getaffinity, libc::EINVAL, current_mask);
        assert_eq!(refused, Err(libc::EINVAL));
    }

    #[test]
    fn detects_ineffective_pinning() {
        let affinity = Affinity::take().unwrap();
        let cpu = affinity.allowed.first().unwrap();
        let result = refusing(libc::SYS_sched_setaffinity, 0, || affinity.pin(cpu));
        let now = affinity.allowed.clone();
        // With one CPU, the thread already runs on it.
        let noticed = Err(Error::Elsewhere { cpu, now });
        assert_eq!(result, if affinity.allowed.len() == 1 { Ok(()) } else { noticed });
    }

    proptest! {
        #[test]
        fn masks_keep_every_cpu(
            ids in prop::collection::btree_set(0..CpuSet::MAX_CPUS, 0..40),
            spare in 0..3_usize,
        ) {
            let cpus: CpuSet = ids.into_iter().map(CpuId).collect();
            let words = cpus.iter().last().map_or(0, |last| mask_of(last).len());
            let mut mask = vec![0; words + spare];
            for one in cpus.iter().map(mask_of) {
                mask.iter_mut().zip(one).for_each(|(word, bits)| *word |= bits);
            }
            prop_assert_eq!(cpus_of(&mask), cpus);
        }
    }
}

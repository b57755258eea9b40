//! Sets of CPUs, and the kernel's list format of them.

use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;
use std::collections::BTreeSet;

use crate::error::Error;

/// A logical CPU (hardware thread), by the kernel's number. Numbers may have gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu {}", self.0)
    }
}

/// A set of CPUs. Parses and prints the kernel's list format, `0-3,8,10-11`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet(BTreeSet<CpuId>);

impl CpuSet {
    /// The bound of CPU numbers in a list and of bits in a mask. Kernels support at most 8192 CPUs
    /// (x86, `MAXSMP`); the bound keeps `0-4294967295` from filling memory.
    pub const MAX_CPUS: u32 = 1 << 16;

    /// Adds `cpu`. Returns whether it is new.
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        self.0.insert(cpu)
    }

    /// Returns whether `cpu` is in the set.
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.0.contains(&cpu)
    }

    /// Returns the number of CPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the lowest CPU.
    #[must_use]
    pub fn first(&self) -> Option<CpuId> {
        self.0.first().copied()
    }

    /// Returns the CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.0.iter().copied()
    }

    /// Returns the CPUs that are also in `other`.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    /// Returns the CPUs that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl Extend<CpuId> for CpuSet {
    fn extend<I: IntoIterator<Item = CpuId>>(&mut self, cpus: I) {
        self.0.extend(cpus);
    }
}

impl FromStr for CpuSet {
    type Err = Error;

    /// Parses a cpulist of sysfs. Surrounding white space is ignored; an empty list is the empty
    /// set (a node without CPUs).
    fn from_str(list: &str) -> Result<Self, Error> {
        let list = list.trim();
        if list.is_empty() {
            return Ok(Self::default());
        }
        let ranges: Option<Vec<_>> = list.split(',').map(cpu_range).collect();
        let ranges = ranges.ok_or_else(|| Error::CpuList { list: list.into() })?;
        Ok(ranges.into_iter().flatten().map(CpuId).collect())
    }
}

fn cpu_range(range: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (cpu_number(first)?, cpu_number(last)?);
    (first <= last).then_some(first..=last)
}

fn cpu_number(digits: &str) -> Option<u32> {
    // `parse` alone would accept a plus sign.
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok());
    number.flatten().filter(|number| *number < CpuSet::MAX_CPUS)
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut comma = "";
        while let Some(CpuId(first)) = cpus.next() {
            let mut last = first;
            while let Some(CpuId(next)) = cpus.next_if(|next| next.0 - last == 1) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(cpus: impl IntoIterator<Item = u32>) -> CpuSet {
        cpus.into_iter().map(CpuId).collect()
    }

    #[test]
    fn parses_kernel_lists() {
        let cases: [(&str, CpuSet); 6] = [
            ("", set([])),
            ("\n", set([])),
            ("0\n", set([0])),
            ("0-3,8,10-11\n", set([0, 1, 2, 3, 8, 10, 11])),
            ("5-5", set([5])),
            ("1022-1025,1791\n", set([1022, 1023, 1024, 1025, 1791])),
        ];
        for (list, cpus) in cases {
            assert_eq!(list.parse(), Ok(cpus), "{list:?}");
        }
    }

    #[test]
    fn refuses_malformed_lists() {
        let number = "99999999999999999999";
        for list in ["0,", ",", "0-", "-1", "+1", "0-3-5", "0 1", "0-7:2/4", "3-1", "65536"]
            .into_iter()
            .chain(["0-4294967295", number])
        {
            let refused = Err(Error::CpuList { list: list.into() });
            assert_eq!(list.parse::<CpuSet>(), refused, "{list:?}");
        }
    }

    proptest! {
        /// Generates ranges, not single numbers, like the lists of real machines.
        #[test]
        fn prints_shortest_list(
            runs in prop::collection::vec((0..65_000_u32, 1..80_u32), 0..12)
        ) {
            let cpus = set(runs.into_iter().flat_map(|(start, len)| start..start + len));
            let list = cpus.to_string();
            prop_assert_eq!(list.parse(), Ok(cpus));
            // The list is the shortest: no two of its ranges are adjacent.
            let ends: Vec<u32> = list.split([',', '-']).filter_map(|n| n.parse().ok()).collect();
            prop_assert!(ends.windows(2).all(|pair| pair[0] < pair[1]));
        }

        #[test]
        fn no_text_panics(list in "[-0-9, \n:x]{0,40}") {
            if let Ok(cpus) = list.parse::<CpuSet>() {
                prop_assert_eq!(cpus.to_string().parse(), Ok(cpus));
            }
        }
    }
}

//! Which machines a boot is to have.

use crate::error::Error;

/// The machines of one boot, all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// 1, with Soft-RoCE over a dummy interface, or 2 on one wire.
    pub machines: u32,
    /// Which processor they have.
    pub cpu: Cpu,
    /// Whether time is what was executed, one instruction a nanosecond: latencies are then those
    /// of the code path, whatever else the host does. One machine with one CPU only.
    pub icount: bool,
    /// Whether there are two NUMA nodes, the network card being on the second. Needs two CPUs.
    pub numa: bool,
    /// Memory of each machine, in MiB.
    pub memory_mib: u32,
    /// CPUs of each machine.
    pub vcpus: u32,
}

/// The processor that a guest sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// Without ERMS, so that the guest's kernel copies by words and Soft-RoCE reads them whole.
    Whole,
    /// With ERMS: the kernel's copy is emulated byte by byte, and READs bring torn words.
    Tearing,
}

impl Plan {
    /// One machine that does what most cases want.
    pub const ONE: Self = Self {
        machines: 1,
        cpu: Cpu::Whole,
        icount: false,
        numa: false,
        memory_mib: 1024,
        vcpus: 1,
    };

    /// Two of them on one wire.
    pub const TWO: Self = Self { machines: 2, ..Self::ONE };

    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(1..=2).contains(&self.machines) {
            return Err(Error::Plan("there can be one or two machines"));
        }
        if self.icount && (self.machines != 1 || self.vcpus != 1) {
            return Err(Error::Plan("instructions are counted on one machine with one CPU only"));
        }
        if self.numa && (self.machines != 1 || self.vcpus != 2) {
            return Err(Error::Plan("NUMA nodes are for one machine with two CPUs"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_that_no_machine_can_follow_are_refused() {
        assert!(Plan::ONE.check().is_ok() && Plan::TWO.check().is_ok());
        assert!(Plan { machines: 0, ..Plan::ONE }.check().is_err());
        assert!(Plan { machines: 3, ..Plan::ONE }.check().is_err());
        assert!(Plan { icount: true, ..Plan::ONE }.check().is_ok());
        assert!(Plan { icount: true, ..Plan::TWO }.check().is_err());
        assert!(Plan { icount: true, vcpus: 2, ..Plan::ONE }.check().is_err());
        assert!(Plan { numa: true, vcpus: 2, ..Plan::ONE }.check().is_ok());
        assert!(Plan { numa: true, ..Plan::ONE }.check().is_err());
    }
}

//! What can happen to a machine.

use core::sync::atomic::Ordering;
use core::time::Duration;

use crate::error::Error;
use crate::machine::Machine;
use crate::tool::Tool;

const SIGNAL: Duration = Duration::from_secs(5);
const COMMAND: Duration = Duration::from_secs(20);

/// The state of the wire at one machine's network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Plugged in.
    On,
    /// Pulled out.
    Off,
}

impl Machine {
    /// Pulls out or plugs in the wire at this machine, which its kernel notices.
    ///
    /// # Errors
    /// [`Error::Refused`] if the machine has no network card.
    pub fn set_link(&self, link: Link) -> Result<(), Error> {
        let up = link == Link::On;
        let arguments = format!("{{\"name\":\"n0\",\"up\":{up}}}");
        self.execute(&format!("{{\"execute\":\"set_link\",\"arguments\":{arguments}}}"))
    }

    /// Stops the machine where it is: nothing of it runs, and the wire stays.
    ///
    /// # Errors
    /// The signal could not be sent.
    pub fn freeze(&self) -> Result<(), Error> {
        self.signal_qemu("STOP")
    }

    /// Lets a frozen machine go on.
    ///
    /// # Errors
    /// The signal could not be sent.
    pub fn thaw(&self) -> Result<(), Error> {
        self.signal_qemu("CONT")
    }

    /// Ends the machine as a loss of power does. How it ended then counts for nothing.
    ///
    /// # Errors
    /// QEMU did not die.
    pub fn kill(&self) -> Result<(), Error> {
        self.killed.store(true, Ordering::Relaxed);
        self.end_now()
    }

    /// Has the guest treat what it sends by `rules` of tc-netem(8), such as `loss 1% duplicate 1%`,
    /// in place of any before.
    ///
    /// # Errors
    /// What tc(8) said of the rules.
    pub fn netem(&self, rules: &str) -> Result<(), Error> {
        self.output(&format!("tc qdisc replace dev eth0 root netem {rules}"), COMMAND).map(|_| ())
    }

    /// Ends what [`netem`](Self::netem) began.
    ///
    /// # Errors
    /// What tc(8) said, such as that there is nothing to end.
    pub fn netem_off(&self) -> Result<(), Error> {
        self.output("tc qdisc del dev eth0 root", COMMAND).map(|_| ())
    }

    /// A counter of Soft-RoCE, such as `duplicate_request` or `completer_retry_err`: packets or
    /// events since the guest started.
    ///
    /// # Errors
    /// There is no such counter.
    pub fn counter(&self, name: &str) -> Result<u64, Error> {
        let file = format!("/sys/class/infiniband/rxe0/ports/1/hw_counters/{name}");
        let text = self.output(&format!("read value <{file} && echo $value"), COMMAND)?;
        text.trim().parse().map_err(|_| Error::Refused(format!("{file} says {text}")))
    }

    /// QEMU is our child and not waited for, so that its number is nobody else's.
    fn signal_qemu(&self, name: &str) -> Result<(), Error> {
        let pid = self.qemu().id().to_string();
        Tool::new("kill").args(["-s", name, &pid]).run(SIGNAL).map(|_| ())
    }
}

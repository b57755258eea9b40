//! What can happen to a machine.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::fs::{self, DirEntry};
use std::thread;
use std::time::Instant;

use crate::error::Error;
use crate::machine::Machine;
use crate::patience::PATIENCE;
use crate::tool::Tool;

/// How often the threads of QEMU are looked at that are to stop.
const GLANCE: Duration = Duration::from_millis(1);

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

    /// Stops the machine where it is: when this returns nothing of it runs, and the wire stays.
    ///
    /// # Errors
    /// The signal could not be sent; [`Error::Late`] if threads of QEMU run on.
    pub fn freeze(&self) -> Result<(), Error> {
        self.signal_qemu("STOP")?;
        let tasks = format!("/proc/{}/task", self.qemu().id());
        let stands = |task: DirEntry| {
            // One that has ended in the meantime stands still as well.
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            status.is_empty() || status.contains("State:\tT (stopped)")
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let threads = fs::read_dir(&tasks).map_err(Error::io(format!("reading {tasks}")))?;
            if threads.filter_map(Result::ok).all(stands) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let what = format!("the stop of machine {}", self.number);
                return Err(Error::Late { what, limit: PATIENCE });
            }
            thread::sleep(GLANCE);
        }
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
        self.output(&format!("tc qdisc replace dev eth0 root netem {rules}"), PATIENCE).map(|_| ())
    }

    /// Ends what [`netem`](Self::netem) began.
    ///
    /// # Errors
    /// What tc(8) said, such as that there is nothing to end.
    pub fn netem_off(&self) -> Result<(), Error> {
        self.output("tc qdisc del dev eth0 root", PATIENCE).map(|_| ())
    }

    /// A counter of Soft-RoCE, such as `duplicate_request` or `completer_retry_err`: packets or
    /// events since the guest started.
    ///
    /// # Errors
    /// There is no such counter.
    pub fn counter(&self, name: &str) -> Result<u64, Error> {
        let file = format!("/sys/class/infiniband/rxe0/ports/1/hw_counters/{name}");
        let text = self.output(&format!("read value <{file} && echo $value"), PATIENCE)?;
        text.trim().parse().map_err(|_| Error::Refused(format!("{file} says {text}")))
    }

    /// QEMU is our child and not waited for, so that its number is nobody else's.
    fn signal_qemu(&self, name: &str) -> Result<(), Error> {
        let pid = self.qemu().id().to_string();
        Tool::new("kill").args(["-s", name, &pid]).run(PATIENCE).map(|_| ())
    }
}

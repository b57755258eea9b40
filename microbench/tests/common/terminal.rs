//! A pseudo-terminal for the command.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{Running, probeline};

/// A pseudo-terminal, and the pieces of output written to it.
pub(crate) struct Terminal {
    pub(crate) its_end: OwnedFd,
    pub(crate) pieces: Receiver<Vec<u8>>,
}

impl Terminal {
    pub(crate) fn new() -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let path = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let its_end = File::options().read(true).write(true).open(path).unwrap().into();
        let (send, pieces) = channel();
        thread::spawn(move || {
            let mut ours = File::from(ours);
            let mut piece = [0; 4096];
            // Reading fails when the last process has closed the other end.
            while let Ok(length @ 1..) = ours.read(&mut piece) {
                if send.send(piece[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { its_end, pieces }
    }

    /// Starts the command on the terminal. Its end of the terminal closes when the command exits.
    pub(crate) fn start(self, arguments: &[&str]) -> (Running, Receiver<Vec<u8>>) {
        let mut command = probeline(arguments);
        command.stdout(self.its_end.try_clone().unwrap()).stderr(self.its_end);
        (Running::start_with(&mut command), self.pieces)
    }
}

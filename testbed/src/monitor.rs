//! QEMU's monitor (QMP), for what happens to a machine from outside.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::error::Error;
use crate::patience::PATIENCE;

/// Events that QEMU may send before its reply.
const EVENTS: usize = 64;

/// Has QEMU, whose socket is `name` in `folder`, execute one command.
pub(crate) fn execute(folder: &Path, name: &str, command: &str) -> Result<(), Error> {
    // By way of an open folder the name is short enough for any socket.
    let folder = File::open(folder).map_err(Error::io(format!("opening {}", folder.display())))?;
    let path = format!("/proc/self/fd/{}/{name}", folder.as_raw_fd());
    let talk = || -> std::io::Result<Result<(), String>> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut replies = BufReader::new(stream.try_clone()?).lines();
        stream.write_all(b"{\"execute\":\"qmp_capabilities\"}\n")?;
        let agreed = reply(&mut replies)?;
        if agreed.is_err() {
            return Ok(agreed);
        }
        stream.write_all(command.as_bytes())?;
        stream.write_all(b"\n")?;
        reply(&mut replies)
    };
    talk().map_err(Error::io(format!("talking to QEMU's {name}")))?.map_err(Error::Refused)
}

/// The next reply, whatever events come before it.
fn reply(
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
) -> std::io::Result<Result<(), String>> {
    for line in lines.take(EVENTS) {
        let line = line?;
        if line.starts_with("{\"return\"") {
            return Ok(Ok(()));
        }
        if line.starts_with("{\"error\"") {
            return Ok(Err(line));
        }
    }
    Ok(Err("no reply".to_owned()))
}

//! The transports, devices and options of an engine, which belong to every result measured with it.

use core::ffi::c_char;
use core::fmt;
use core::ptr;
use core::slice;

use probeline_ucx_sys::{Ucp, ucp_ep_h};

use super::{Atomics, Progress};

/// The operations on an owner's words that need that owner's CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeedsOwner {
    /// Whether READs and WRITEs need the owner's CPU.
    pub reads: bool,
    /// Whether atomics need the owner's CPU, as they do if READs do.
    pub atomics: bool,
}

/// The transports, devices and options of an engine, as UCX reports them and as opening has
/// measured them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// UCX's version.
    pub version: String,
    /// Transports and devices of the endpoints of all owners, as `transport/device`, with UCX's
    /// uses of them where it prints any; sorted.
    pub transports: Vec<String>,
    /// The atomics that the builder selected.
    pub atomics: Atomics,
    /// The thread that progresses peers' operations.
    pub progress: Progress,
    /// The operations that did not complete while the owner of the words did not progress. Owner 0
    /// tried them on all others when the engines were opened. `None` in a job of one owner.
    pub needs_owner: Option<NeedsOwner>,
    /// UCX's variables in the environment, as `NAME=VALUE`.
    pub environment: Vec<String>,
}

impl Info {
    /// Returns whether all transports are within this machine. If operations do not need the
    /// owner, the CPU that posts them then loads and stores the words.
    pub(super) fn is_shared_memory(&self) -> bool {
        const NEAR: [&str; 5] = ["self/", "posix/", "sysv/", "cma/", "xpmem/"];
        // Without a name, nothing is known.
        !self.transports.is_empty()
            && self.transports.iter().all(|name| NEAR.iter().any(|prefix| name.starts_with(prefix)))
    }

    /// Returns whether any of the transports is one of InfiniBand or RoCE.
    pub(super) fn has_gids(&self) -> bool {
        const VERBS: [&str; 3] = ["rc_", "dc_", "ud_"];
        self.transports.iter().any(|name| VERBS.iter().any(|prefix| name.starts_with(prefix)))
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UCX {}, {}", self.version, self.transports.join(", "))?;
        write!(f, ", atomic mode {}", self.atomics)?;
        if let Some(needs_owner) = self.needs_owner {
            let by = |owner| if owner { "by the owner's CPU" } else { "without the owner" };
            write!(f, ", READs are done {}", by(needs_owner.reads))?;
            write!(f, ", atomics {}", by(needs_owner.atomics))?;
            if needs_owner.atomics {
                f.write_str(match self.progress {
                    Progress::Thread => ", which a thread of the engine has to progress",
                    Progress::Caller => ", which the owner's own polling has to progress",
                })?;
            }
        }
        if !self.environment.is_empty() {
            write!(f, ", with {}", self.environment.join(" "))?;
        }
        Ok(())
    }
}

/// Returns the transports of an endpoint, for [`Info::transports`].
pub(super) fn transports(ucp: &Ucp, endpoint: ucp_ep_h) -> Vec<String> {
    printed(ucp, endpoint).lines().filter_map(transport).collect()
}

/// Returns the transport, the device and the uses in a line such as
/// `#  lane[0]:  1:posix/memory.0 md[1]  -> md[1]/posix/sysdev[255] amo#0 am`.
fn transport(line: &str) -> Option<String> {
    let (_, lane) = line.split_once("lane[")?;
    let (_, lane) = lane.split_once(':')?;
    let (_, lane) = lane.split_once(':')?;
    let (resource, rest) = lane.split_once(' ')?;
    // The number behind the point is that of the path, 0 unless the device has several.
    let resource = resource.strip_suffix(".0").unwrap_or(resource);
    let uses: Vec<&str> = rest
        .split_once("sysdev[")
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(_, uses)| uses.split_whitespace().collect())
        .unwrap_or_default();
    if uses.is_empty() {
        return Some(resource.to_owned());
    }
    Some(format!("{resource} ({})", uses.join(" ")))
}

/// Returns the text that UCX prints about an endpoint; empty if memory is lacking.
fn printed(ucp: &Ucp, endpoint: ucp_ep_h) -> String {
    let (mut text, mut bytes) = (ptr::null_mut::<c_char>(), 0_usize);
    // SAFETY: two live pointers, which are set when the stream is closed.
    let stream = unsafe { libc::open_memstream(&raw mut text, &raw mut bytes) };
    if stream.is_null() {
        return String::new();
    }
    // SAFETY: a live endpoint and an open stream, which is closed once.
    unsafe {
        (ucp.ucp_ep_print_info)(endpoint, stream);
        libc::fclose(stream);
    }
    if text.is_null() {
        return String::new();
    }
    // SAFETY: this number of bytes from malloc, which are freed once, below.
    let copy = unsafe { slice::from_raw_parts(text.cast::<u8>(), bytes) }.to_vec();
    // SAFETY: the text is from malloc, no reference to it is left, and it is freed here alone.
    unsafe { libc::free(text.cast()) };
    String::from_utf8_lossy(&copy).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_transports_from_lanes() {
        let posix = "#                 lane[1]:  2:posix/memory.0 md[2]           -> \
                     md[2]/posix/sysdev[255] amo#1";
        assert_eq!(transport(posix).unwrap(), "posix/memory (amo#1)");
        let rc = "#   lane[0]:  3:rc_verbs/rxe0:1.0 md[1]   -> md[1]/ib/sysdev[255] rma_bw#0 am";
        assert_eq!(transport(rc).unwrap(), "rc_verbs/rxe0:1 (rma_bw#0 am)");
        let plain = "#   lane[1]:  1:sysv/memory.0 md[1]      -> md[1]/sysv/sysdev[255]";
        assert_eq!(transport(plain).unwrap(), "sysv/memory");
        assert_eq!(transport("#                  put[0]: 0..<short>..(inf)"), None);
    }
}

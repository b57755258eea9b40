//! What an engine goes over, and who acts.

use core::ffi::c_char;
use core::fmt;
use core::ptr;
use core::slice;

use probeline_ucx_sys::{Ucp, ucp_ep_h};

use super::Progress;
use super::settings::Atomics;

/// What an engine goes over, as UCX tells it and as it was measured when the engine was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// UCX's version.
    pub version: String,
    /// Transports and devices of the endpoints, as `transport/device`, with what UCX uses them for
    /// where it says so; of all owners together, sorted.
    pub lanes: Vec<String>,
    /// Which atomics UCX was told to use.
    pub atomics: Atomics,
    /// Who progresses others' operations.
    pub progress: Progress,
    /// What was found with owners that did not progress; `None` for an owner alone.
    pub idle: Option<Idle>,
    /// The variables of UCX that the environment sets, as `NAME=VALUE`.
    pub environment: Vec<String>,
}

/// Which operations ended although the owner of the words did not progress: owner 0 tried them on
/// all others in turn when the engines were opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// READs do: by a device, or by the reader's own CPU where memory is shared. Otherwise the
    /// owner's CPU answers them.
    pub read_by_device: bool,
    /// So do atomics.
    pub atomics_by_device: bool,
}

impl Idle {
    /// Whether everything ends without the owner.
    #[must_use]
    pub fn needs_nobody(self) -> bool {
        self.read_by_device && self.atomics_by_device
    }
}

impl Description {
    /// Whether any of the transports is one of InfiniBand or RoCE.
    pub(super) fn is_verbs(&self) -> bool {
        const VERBS: [&str; 3] = ["rc_", "dc_", "ud_"];
        self.lanes.iter().any(|lane| VERBS.iter().any(|name| lane.starts_with(name)))
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UCX {}, {}", self.version, self.lanes.join(", "))?;
        write!(f, ", atomic mode {}", self.atomics)?;
        if let Some(idle) = self.idle {
            let by = |device| if device { "without the owner" } else { "by the owner's CPU" };
            write!(f, ", READs are done {}", by(idle.read_by_device))?;
            write!(f, ", atomics {}", by(idle.atomics_by_device))?;
            if !idle.needs_nobody() {
                write!(f, ", which {} has to progress", self.progress.whom())?;
            }
        }
        if !self.environment.is_empty() {
            write!(f, ", with {}", self.environment.join(" "))?;
        }
        Ok(())
    }
}

/// What an endpoint goes over, as [`Description::lanes`] has it.
pub(super) fn lanes(ucp: &Ucp, endpoint: ucp_ep_h) -> Vec<String> {
    printed(ucp, endpoint).lines().filter_map(lane).collect()
}

/// Of a line such as `#  lane[0]:  1:posix/memory.0 md[1]  -> md[1]/posix/sysdev[255] amo#0 am`
/// the transport, the device and the uses.
fn lane(line: &str) -> Option<String> {
    let (_, lane) = line.split_once("lane[")?;
    let (_, lane) = lane.split_once(':')?;
    let (_, lane) = lane.split_once(':')?;
    let (resource, rest) = lane.split_once(' ')?;
    // The path behind the point is always there, and 0 unless the device has several.
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

/// What UCX prints about an endpoint; empty where memory lacks.
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
    // SAFETY: so many bytes, of malloc, which are freed once, below.
    let copy = unsafe { slice::from_raw_parts(text.cast::<u8>(), bytes) }.to_vec();
    // SAFETY: see above.
    unsafe { libc::free(text.cast()) };
    String::from_utf8_lossy(&copy).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_read_from_what_is_printed() {
        let posix = "#                 lane[1]:  2:posix/memory.0 md[2]           -> \
                     md[2]/posix/sysdev[255] amo#1";
        assert_eq!(lane(posix).unwrap(), "posix/memory (amo#1)");
        let rc = "#   lane[0]:  3:rc_verbs/rxe0:1.0 md[1]   -> md[1]/ib/sysdev[255] rma_bw#0 am";
        assert_eq!(lane(rc).unwrap(), "rc_verbs/rxe0:1 (rma_bw#0 am)");
        let plain = "#   lane[1]:  1:sysv/memory.0 md[1]      -> md[1]/sysv/sysdev[255]";
        assert_eq!(lane(plain).unwrap(), "sysv/memory");
        assert_eq!(lane("#                  put[0]: 0..<short>..(inf)"), None);
    }
}

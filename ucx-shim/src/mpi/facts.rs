//! What an engine runs over, for every result that is made with it.

use core::ffi::c_int;
use core::fmt;

use ::mpi::ffi;

use super::window::Window;
use super::{Idle, MpiError, component, cvar};

/// Bytes of the longest version text: MPICH's `MPI_MAX_LIBRARY_VERSION_STRING`.
const VERSION_BYTES: usize = 8192;

/// The implementation, what of it is in use, and what that was found to need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Name and version, such as `Open MPI 4.1.4`.
    pub library: String,
    /// Version of the standard that it follows.
    pub standard: (i32, i32),
    /// What serves the window.
    pub component: Component,
    /// Whether atomics of one element are done by those of the device or CPU, without a lock of the
    /// whole window around them (Open MPI's "acc_single_intrinsic").
    pub single: Single,
    /// How ranks of one machine copy from each other (Open MPI's
    /// `btl_vader_single_copy_mechanism`), where there is such a choice.
    pub single_copy: Option<String>,
    /// Who needs an owner's CPU.
    pub idle: Idle,
}

/// What serves a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Component {
    /// The one-sided component of Open MPI whose functions the window calls.
    Osc(String),
    /// The device of MPICH, which has one, by its version text.
    Device(String),
    /// Not known.
    Unknown,
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Osc(name) => write!(f, "osc {name}"),
            Self::Device(name) => write!(f, "device {name}"),
            Self::Unknown => f.write_str("component unknown"),
        }
    }
}

/// Open MPI's "acc_single_intrinsic", and how it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Single {
    /// The window's own info says so.
    Window(bool),
    /// Given with the window, to a component that has the choice.
    Asked(bool),
    /// The component's parameter says so, and nothing else was given with the window.
    Parameter(bool),
    /// The component has no such choice.
    NoChoice,
}

impl fmt::Display for Single {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window(on) | Self::Asked(on) | Self::Parameter(on) => {
                write!(f, "acc_single_intrinsic {}", if *on { "on" } else { "off" })
            }
            Self::NoChoice => f.write_str("no acc_single_intrinsic"),
        }
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { library, component, single, single_copy, idle, .. } = self;
        write!(f, "{library}, {component}, {single}")?;
        if let (Component::Osc(name), Some(mechanism)) = (component, single_copy)
            && name == "rdma"
        {
            write!(f, ", single copy {mechanism}")?;
        }
        write!(f, "; {idle}")
    }
}

impl Facts {
    /// Of an open window; all but what has to be tried out.
    pub(super) fn of(window: &Window, asked: Option<bool>) -> Result<Self, MpiError> {
        let version = library_version();
        let component = component(&version, window);
        let (mut major, mut minor) = (0, 0);
        // SAFETY: two places of this frame.
        let code = unsafe { ffi::MPI_Get_version(&raw mut major, &raw mut minor) };
        MpiError::check("MPI_Get_version", code)?;
        Ok(Self {
            library: name(&version),
            standard: (major, minor),
            single: single(&component, window.single()?, asked),
            component,
            single_copy: cvar::read("btl_vader_single_copy_mechanism"),
            idle: Idle::default(),
        })
    }
}

fn component(version: &str, window: &Window) -> Component {
    if let Some(osc) = component::of_window(window.handle()) {
        return Component::Osc(osc);
    }
    line(version, "MPICH Device:").map_or(Component::Unknown, Component::Device)
}

fn single(component: &Component, told: Option<bool>, asked: Option<bool>) -> Single {
    let Component::Osc(osc) = component else { return Single::NoChoice };
    let parameter = cvar::read(&format!("osc_{osc}_acc_single_intrinsic"));
    match (told, asked, parameter.as_deref()) {
        (_, _, None) => Single::NoChoice,
        (Some(on), ..) => Single::Window(on),
        (None, Some(on), _) => Single::Asked(on),
        (None, None, Some(on)) => Single::Parameter(on == "true" || on == "1"),
    }
}

/// What the MPI library says of itself, in as many lines as it likes. May be called before MPI is
/// started, and after it has ended.
#[must_use]
pub fn library_version() -> String {
    let mut text = vec![0_u8; VERSION_BYTES + 1];
    let mut length: c_int = 0;
    // SAFETY: the one call of MPI that is allowed at any time (MPI 3.1, 8.1.1), with room for as
    // much as either family writes.
    let code = unsafe { ffi::MPI_Get_library_version(text.as_mut_ptr().cast(), &raw mut length) };
    let length = if code == 0 { usize::try_from(length).unwrap_or(0) } else { 0 };
    text.truncate(length);
    let text = String::from_utf8_lossy(&text);
    text.trim_matches(['\0', '\n', ' ']).to_owned()
}

/// Name and version out of a version text.
fn name(version: &str) -> String {
    if let Some(number) = line(version, "MPICH Version:") {
        return format!("MPICH {number}");
    }
    let first = version.split([',', '\n']).next().unwrap_or_default();
    first.replace("Open MPI v", "Open MPI ")
}

/// What follows `label` on its line.
fn line(version: &str, label: &str) -> Option<String> {
    let rest = version.lines().find_map(|line| line.strip_prefix(label))?;
    Some(rest.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_out_of_their_texts() {
        let open = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, May 26, 2022";
        assert_eq!(name(open), "Open MPI 4.1.4");
        let mpich = "MPICH Version:\t4.0.2\nMPICH Release date:\tThu\nMPICH Device:\tch4:ucx\n";
        assert_eq!(name(mpich), "MPICH 4.0.2");
        assert_eq!(line(mpich, "MPICH Device:").as_deref(), Some("ch4:ucx"));
        assert_eq!(
            name("Intel(R) MPI Library 2021.9 for Linux* OS\n"),
            "Intel(R) MPI Library 2021.9 for Linux* OS"
        );
    }

    #[test]
    fn the_library_names_itself_before_it_starts() {
        let version = library_version();
        assert!(version.contains("MPI"), "{version}");
    }
}

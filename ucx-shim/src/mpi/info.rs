//! The MPI library and its components that an engine uses. Measurements report them with their
//! results.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt;
use core::mem::MaybeUninit;
use std::env;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use ::mpi::ffi;

use super::window::{POINTER_HANDLES, Window};

/// The bytes of the longest version text: MPICH's `MPI_MAX_LIBRARY_VERSION_STRING`.
const VERSION_BYTES: usize = 8192;

/// The MPI library and the parts of it that are in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Name and version, such as `Open MPI 4.1.4`.
    pub library: String,
    /// The component that implements the window.
    pub component: Component,
    /// Open MPI's "acc_single_intrinsic": whether atomics on single words are those of the device
    /// or the CPU, and need no lock of the whole window. `None` if the component has no such choice, or
    /// decides itself.
    pub acc_single_intrinsic: Option<bool>,
}

/// The component that implements a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Component {
    /// The one-sided component of Open MPI whose functions the window calls.
    Osc(String),
    /// The device of MPICH, from its version text.
    Device(String),
    /// The component is unknown.
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

impl Component {
    /// Returns whether an operation may wait until the owner of the words enters MPI. The standard allows
    /// that; in Open MPI's osc sm, the CPU that posts an operation executes it.
    #[must_use]
    pub fn needs_owner(&self) -> bool {
        *self != Self::Osc("sm".to_owned())
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.library, self.component)?;
        if let Some(on) = self.acc_single_intrinsic {
            write!(f, ", acc_single_intrinsic {}", if on { "on" } else { "off" })?;
        }
        f.write_str(match self.component.needs_owner() {
            false => "; operations need no owner",
            true => "; operations may wait for their owner to enter MPI",
        })
    }
}

impl Info {
    /// Returns the info of an open window.
    pub(super) fn from_window(window: &Window) -> Self {
        let version = library_version();
        let found = component_of_window(window.handle());
        let has_choice = found.as_ref().is_some_and(|(_, file)| mentions_choice(file));
        let component = match found {
            Some((osc, _)) => Component::Osc(osc),
            None => line(&version, "MPICH Device:").map_or(Component::Unknown, Component::Device),
        };
        Self {
            library: name(&version),
            acc_single_intrinsic: acc_single_intrinsic(&component, has_choice),
            component,
        }
    }
}

/// Returns the value of the component's parameter, as the launcher passes it on. `has_choice` says whether
/// the code of the component names the choice.
fn acc_single_intrinsic(component: &Component, has_choice: bool) -> Option<bool> {
    let Component::Osc(osc) = component else { return None };
    if !has_choice || !["ucx", "rdma"].contains(&osc.as_str()) {
        return None;
    }
    let value = env::var(format!("OMPI_MCA_osc_{osc}_acc_single_intrinsic")).ok()?;
    Some(["1", "true"].contains(&value.as_str()))
}

/// Returns whether the file of a component names the choice, as one does that has it.
fn mentions_choice(file: &str) -> bool {
    let name = b"acc_single_intrinsic";
    fs::read(file).is_ok_and(|code| code.windows(name.len()).any(|at| at == name))
}

/// Returns the MPI library's description of itself, in several lines. May be called before MPI is
/// initialized, and after it is finalized.
#[must_use]
pub fn library_version() -> String {
    let mut text = vec![0_u8; VERSION_BYTES + 1];
    let mut length: c_int = 0;
    // SAFETY: a call that is allowed at any time (MPI 3.1, 8.1.1), with room for the longest text
    // of either library.
    let code = unsafe { ffi::MPI_Get_library_version(text.as_mut_ptr().cast(), &raw mut length) };
    let length = if code == 0 { usize::try_from(length).unwrap_or(0) } else { 0 };
    text.truncate(length);
    let text = String::from_utf8_lossy(&text);
    text.trim_matches(['\0', '\n', ' ']).to_owned()
}

/// Returns name and version in a version text.
fn name(version: &str) -> String {
    if let Some(number) = line(version, "MPICH Version:") {
        return format!("MPICH {number}");
    }
    let first = version.split([',', '\n']).next().unwrap_or_default();
    first.replace("Open MPI v", "Open MPI ")
}

/// Returns the text after `label` on its line.
fn line(version: &str, label: &str) -> Option<String> {
    let rest = version.lines().find_map(|line| line.strip_prefix(label))?;
    Some(rest.trim().to_owned())
}

/// Returns whether the code of a component of Open MPI, by its full name, is loaded into this
/// process.
pub(super) fn is_loaded(name: &str) -> bool {
    let file = format!("/mca_{name}.so");
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| line.ends_with(&file))
}

/// The words of a window object that are searched: in Open MPI 4 and 5 the pointer to the module is
/// among the first 64.
const OBJECT_WORDS: usize = 128;
/// The functions at the start of a module, from "attach" to "fetch and op". The function before
/// them is null where memory is not shared.
const FUNCTIONS: usize = 8;

/// Returns the name of the one-sided component of Open MPI that implements `window`, such as `sm`, and
/// the file of its code; `None` if it is not known.
///
/// The layout of a window object is not public. So each of its first words is taken as a pointer to
/// the component's module, which begins with functions of one file `mca_osc_NAME.so` or, if
/// components are linked into the library, of one prefix `ompi_osc_NAME_`. Everything is read
/// through `/proc/self/mem`, where a wrong pointer is an error code. Without `/proc` or symbols the
/// result is `None`.
fn component_of_window(window: ffi::MPI_Win) -> Option<(String, String)> {
    if !POINTER_HANDLES {
        return None;
    }
    let memory = File::open("/proc/self/mem").ok()?;
    #[allow(clippy::allow_attributes, clippy::unnecessary_cast, reason = "a number elsewhere")]
    let object: [usize; OBJECT_WORDS] = read(&memory, window.0 as usize)?;
    object.into_iter().find_map(|pointer| component_of_module(read(&memory, pointer)?))
}

/// Returns the component in whose file all functions of a module lie.
fn component_of_module([_, functions @ ..]: [usize; 1 + FUNCTIONS]) -> Option<(String, String)> {
    let [first, rest @ ..] = functions.map(component_of_function);
    let first = first?;
    rest.into_iter().all(|other| other.as_ref() == Some(&first)).then_some(first)
}

fn component_of_function(address: usize) -> Option<(String, String)> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr(3) searches the address ranges of loaded files and does not dereference the
    // address; the struct has pointers, for which null is valid.
    let found = unsafe {
        if libc::dladdr(address as *const c_void, found.as_mut_ptr()) == 0 {
            return None;
        }
        found.assume_init()
    };
    let file = text(found.dli_fname)?;
    let by_file =
        file.rsplit('/').next()?.strip_prefix("mca_osc_").and_then(|name| name.strip_suffix(".so"));
    let by_symbol = || text(found.dli_sname)?.strip_prefix("ompi_osc_")?.split('_').next();
    by_file.or_else(by_symbol).map(|name| (name.to_owned(), file.to_owned()))
}

/// Returns a name from dladdr.
fn text<'a>(name: *const c_char) -> Option<&'a str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: dladdr's names are strings of loaded files; Open MPI closes components only when it
    // ends.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

/// Returns the words at `address`; `None` if no memory is mapped there.
fn read<const WORDS: usize>(memory: &File, address: usize) -> Option<[usize; WORDS]> {
    let mut words = [[0; size_of::<usize>()]; WORDS];
    memory.read_exact_at(words.as_flattened_mut(), address as u64).ok()?;
    Some(words.map(usize::from_ne_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_parses_versions() {
        assert!(library_version().contains("MPI"), "before MPI is initialized");
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
    fn tolerates_unmapped_memory() {
        let memory = File::open("/proc/self/mem").unwrap();
        for address in [0, 8, usize::MAX - 7, 1 << 63] {
            assert_eq!(read::<1>(&memory, address), None);
            assert_eq!(component_of_function(address), None);
        }
        let word = 0x1234_usize;
        assert_eq!(read(&memory, (&raw const word).addr()), Some([word]));
        // getpid(2) is a function of no component.
        assert_eq!(component_of_function(libc::getpid as *const () as usize), None);
    }
}

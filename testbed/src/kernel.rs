//! The guest's kernel: Debian's own package, unpacked once for each version of it and kept in the
//! user's cache.

mod image;

use core::time::Duration;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use crate::error::Error;
use crate::initrd::archive;
use crate::patience::PATIENCE;
use crate::tool::Tool;

/// The package that always depends on the present kernel, whose own name changes with updates.
const META: &str = "linux-image-amd64";

/// Modules that the guests need; what they depend on is found by modprobe.
const MODULES: [&str; 9] = [
    "virtio_pci",
    "virtio_net",
    "9pnet_virtio",
    "9p",
    "overlay",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
    "sch_netem",
];

/// Modules that some kernels have built in or do without: the CRC that Soft-RoCE asks for by name,
/// and the dummy interface.
const MODULES_IF_THERE: [&str; 3] = ["crc32_generic", "crc32-pclmul", "dummy"];

/// Raised when a kept kernel has to look otherwise, such as by more modules.
const LAYOUT: u32 = 1;

const DOWNLOAD: Duration = Duration::from_secs(400);
const GLANCE: Duration = Duration::from_millis(100);

/// A kernel that is ready to boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// As uname(1) prints it.
    pub release: String,
    /// The package and its version.
    pub package: String,
    pub(crate) image: PathBuf,
    pub(crate) modules: PathBuf,
}

impl Kernel {
    /// The kernel of the distribution's present package, downloaded unless it is in the cache. If
    /// the package cannot be had, the newest kernel in the cache.
    ///
    /// # Errors
    /// [`Error::NoKernel`] if there is neither; otherwise what failed in unpacking it.
    pub fn obtain() -> Result<Self, Error> {
        let cache = cache()?;
        fs::create_dir_all(&cache).map_err(Error::io(format!("creating {}", cache.display())))?;
        let present = match Package::present() {
            Ok(package) => package,
            Err(error) => return Self::kept(&cache, &error),
        };
        let home = cache.join(present.folder());
        if home.is_dir() {
            return Self::load(&home);
        }
        // One download at a time, so that what an earlier one left half done is nobody's.
        let _lock = lock(&cache)?;
        if home.is_dir() {
            return Self::load(&home);
        }
        let work = cache.join("partial");
        remove(&work)?;
        let kernel = match present.download(&work) {
            Ok(package) => fill(&work, &package, &home).and_then(|()| Self::load(&home))?,
            Err(error) => Self::kept(&cache, &error)?,
        };
        remove(&work)?;
        Ok(kernel)
    }

    /// The kernel last put into the cache.
    fn kept(cache: &Path, why: &Error) -> Result<Self, Error> {
        let Some(newest) = newest(cache) else {
            return Err(Error::NoKernel { reason: why.to_string() });
        };
        eprintln!("vm-test: the present kernel cannot be had ({why}); one kept from before runs");
        Self::load(&newest)
    }

    fn load(home: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(home.join("release"));
        let release = text.map_err(Error::io(format!("reading {}/release", home.display())))?;
        let package = home.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            release: release.trim().to_owned(),
            package: package.rsplit_once('_').map_or("", |(package, _)| package).to_owned(),
            image: home.join("vmlinux"),
            modules: home.join("modules.cpio"),
        })
    }
}

fn cache() -> Result<PathBuf, Error> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let base = base.filter(|base| base.is_absolute());
    let base = base.ok_or(Error::NoCache)?;
    Ok(base.join("probeline/vm"))
}

/// Waits for its turn, for no longer than another's download may take.
fn lock(cache: &Path) -> Result<File, Error> {
    let path = cache.join("lock");
    let file = File::create(&path).map_err(Error::io(format!("creating {}", path.display())))?;
    let deadline = Instant::now() + DOWNLOAD;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(GLANCE),
            Err(TryLockError::WouldBlock) => return Err(Error::Busy(cache.to_owned())),
            Err(TryLockError::Error(error)) => return Err(Error::io("locking the cache")(error)),
        }
    }
}

fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::io(format!("removing {}", folder.display()))),
    }
}

fn newest(cache: &Path) -> Option<PathBuf> {
    let ending = format!("_{LAYOUT}");
    let of_this_layout = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(&ending))
    };
    let entries = fs::read_dir(cache).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    entries
        .filter(of_this_layout)
        .max_by_key(|path| fs::metadata(path).and_then(|m| m.modified()).ok())
}

/// A Debian package of a kernel.
struct Package {
    name: String,
    version: String,
}

impl Package {
    /// The one that the meta package depends on now.
    fn present() -> Result<Self, Error> {
        let not_known = |what: &str| Error::NoKernel { reason: format!("apt knows no {what}") };
        let depends =
            Tool::new("apt-cache").args(["depends", "--no-recommends", META]).run(PATIENCE)?;
        let name = depends
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .find(|name| name.starts_with("linux-image-"))
            .ok_or_else(|| not_known(META))?;
        let show =
            Tool::new("apt-cache").args(["show", "--no-all-versions", name]).run(PATIENCE)?;
        let version = show
            .lines()
            .find_map(|line| line.strip_prefix("Version: "))
            .ok_or_else(|| not_known(name))?;
        Ok(Self { name: name.to_owned(), version: version.to_owned() })
    }

    fn folder(&self) -> String {
        format!("{}_{}_{LAYOUT}", self.name, self.version.replace([':', '/'], "+"))
    }

    fn download(&self, work: &Path) -> Result<PathBuf, Error> {
        eprintln!("vm-test: downloading {} {}", self.name, self.version);
        fs::create_dir_all(work).map_err(Error::io(format!("creating {}", work.display())))?;
        let exact = format!("{}={}", self.name, self.version);
        Tool::new("apt-get").args(["download", &exact]).dir(work).run(DOWNLOAD)?;
        only(work, |name| name.ends_with(".deb"))
    }
}

/// Fills `home`, which appears only when all of it is there.
fn fill(work: &Path, package: &Path, home: &Path) -> Result<(), Error> {
    let (root, done) = (work.join("root"), work.join("done"));
    for folder in [&root, &done] {
        fs::create_dir_all(folder).map_err(Error::io(format!("creating {}", folder.display())))?;
    }
    Tool::new("dpkg").arg("-x").arg(package).arg(&root).run(PATIENCE)?;
    unpack(&root, &done)?;
    fs::rename(&done, home).map_err(Error::io(format!("creating {}", home.display())))
}

/// Makes what is kept from the unpacked package.
fn unpack(root: &Path, done: &Path) -> Result<(), Error> {
    let (lib, merged) = (root.join("lib"), root.join("usr/lib/modules"));
    if !lib.join("modules").is_dir() && merged.is_dir() {
        std::os::unix::fs::symlink("usr/lib", &lib).map_err(Error::io("linking lib to usr/lib"))?;
    }
    let tree = only(&lib.join("modules"), |_| true)?;
    let release = tree.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let vmlinuz = only(&root.join("boot"), |name| name.starts_with("vmlinuz"))?;
    image::extract(&vmlinuz, &done.join("vmlinux"))?;
    Tool::new("depmod").arg("-b").arg(root).arg(&release).run(PATIENCE)?;
    let mut all = Vec::new();
    for module in MODULES {
        insertions(root, &release, module, &mut all)?;
    }
    for module in MODULES_IF_THERE {
        // A kernel that has it built in or not at all; rxe's own complaint would show in a boot.
        let _ = insertions(root, &release, module, &mut all);
    }
    pack(&all, root, &done.join("modules.cpio"))?;
    fs::write(done.join("release"), &release).map_err(Error::io("writing the release"))
}

/// A module's file, and the options that it is inserted with.
#[derive(Debug, PartialEq, Eq)]
struct Insertion {
    file: PathBuf,
    options: String,
}

impl Insertion {
    /// Reads a line of `modprobe --show-depends`; `None` for what is built in.
    fn read(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("insmod ")?.trim();
        // The path may have spaces; the options have no file of a module among them.
        let name_end = rest.rfind(".ko")?;
        let end = rest[name_end..].find(' ').map_or(rest.len(), |end| name_end + end);
        let (file, options) = rest.split_at(end);
        Some(Self { file: file.into(), options: options.trim().to_owned() })
    }
}

/// Adds what to insert for `module`, in order, what is already there left out.
fn insertions(
    root: &Path,
    release: &str,
    module: &str,
    all: &mut Vec<Insertion>,
) -> Result<(), Error> {
    let modprobe = Tool::new("modprobe").arg("-d").arg(root);
    let found = modprobe.args(["-S", release, "--show-depends", module]).run(PATIENCE)?;
    for insertion in found.lines().filter_map(Insertion::read) {
        if !all.contains(&insertion) {
            all.push(insertion);
        }
    }
    Ok(())
}

/// An archive of the modules, uncompressed, for the guest unpacks slowly; and of their order.
fn pack(insertions: &[Insertion], root: &Path, into: &Path) -> Result<(), Error> {
    let stage = root.with_file_name("stage");
    let folder = stage.join("modules");
    fs::create_dir_all(&folder).map_err(Error::io("creating the folder of modules"))?;
    let mut order = String::new();
    for Insertion { file, options } in insertions {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("{}.ko", name.trim_end_matches(".ko"));
        let copy =
            File::create(folder.join(&name)).map_err(Error::io(format!("writing {name}")))?;
        let program = match file.extension().and_then(OsStr::to_str) {
            Some("xz") => "xzcat",
            Some("zst") => "zstdcat",
            Some("gz") => "zcat",
            _ => "cat",
        };
        Tool::new(program).arg(file).into_file(copy).run(PATIENCE)?;
        order.push_str(&format!("{name} {options}\n"));
    }
    fs::write(folder.join("order"), order).map_err(Error::io("writing the order of modules"))?;
    archive(&stage, into)
}

/// The one entry of a folder that has such a name.
fn only(folder: &Path, fits: impl Fn(&str) -> bool) -> Result<PathBuf, Error> {
    let entries = fs::read_dir(folder);
    let entries = entries.map_err(Error::io(format!("reading {}", folder.display())))?;
    let fitting = |entry: &fs::DirEntry| fits(&entry.file_name().to_string_lossy());
    let mut paths = entries.filter_map(Result::ok).filter(fitting).map(|entry| entry.path());
    match (paths.next(), paths.next()) {
        (Some(path), None) => Ok(path),
        (path, _) => {
            let count = if path.is_none() { "not one" } else { "more than one" };
            let reason = format!("{} has {count} of what was sought", folder.display());
            Err(Error::NoKernel { reason })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_modprobe_are_read() {
        let read = |line| Insertion::read(line).map(|found| (found.file, found.options));
        let both = |file: &str, options: &str| Some((PathBuf::from(file), options.to_owned()));
        assert_eq!(read("insmod /a b/9p.ko.xz "), both("/a b/9p.ko.xz", ""));
        assert_eq!(read("insmod /m/dummy.ko numdummies=0"), both("/m/dummy.ko", "numdummies=0"));
        assert_eq!(read("builtin virtio_pci"), None);
    }

    #[test]
    fn modules_are_packed_uncompressed() {
        let dir = std::env::temp_dir().join(format!("testbed-pack-{}", std::process::id()));
        let (root, out) = (dir.join("root"), dir.join("out"));
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(&out).unwrap();
        let mut all = Vec::new();
        for (program, ending) in [("cat", ""), ("xz", ".xz"), ("zstd", ".zst")] {
            fs::write(root.join("text"), program).unwrap();
            let file = root.join(format!("{program}.ko{ending}"));
            let input = File::open(root.join("text")).unwrap();
            let output = File::create(&file).unwrap();
            Tool::new(program).from_file(input).into_file(output).run(PATIENCE).unwrap();
            all.push(Insertion { file, options: "some=1".to_owned() });
        }
        let packed = dir.join("modules.cpio");
        pack(&all, &root, &packed).unwrap();
        let archive = File::open(&packed).unwrap();
        Tool::new("cpio")
            .args(["-id", "--quiet"])
            .dir(&out)
            .from_file(archive)
            .run(PATIENCE)
            .unwrap();
        let read = |name: &str| fs::read_to_string(out.join("modules").join(name)).unwrap();
        assert_eq!(read("order"), "cat.ko some=1\nxz.ko some=1\nzstd.ko some=1\n");
        assert_eq!((read("cat.ko"), read("xz.ko")), ("cat".to_owned(), "xz".to_owned()));
        assert_eq!(read("zstd.ko"), "zstd");
        fs::remove_dir_all(dir).unwrap();
    }
}

//! The guests' kernel: Debian's package, unpacked once for each version and kept in the user's cache.

mod image;

use core::time::Duration;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail};

use crate::HANG_TIMEOUT;
use crate::tool::Tool;

/// The package that depends on the current kernel, whose own name changes with updates.
const META_PACKAGE: &str = "linux-image-amd64";

/// Modules that the guests need; modprobe finds their dependencies.
const MODULES: [&str; 11] = [
    "virtio_pci",
    "virtio_net",
    "9pnet_virtio",
    "9p",
    "overlay",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
    "sch_netem",
    "sch_prio",
    "cls_u32",
];

/// Modules that some kernels have built in or do not need: the CRC that Soft-RoCE requests by name,
/// and the dummy interface.
const OPTIONAL_MODULES: [&str; 3] = ["crc32_generic", "crc32-pclmul", "dummy"];

/// The version of a cached kernel's content, to be increased when that changes.
const CACHE_VERSION: u32 = 2;

const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(400);

/// A kernel that is ready to boot.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// The release as uname(1) prints it.
    pub(crate) release: String,
    /// The package and its version.
    pub(crate) package: String,
    pub(crate) image: PathBuf,
    /// The archive of its modules.
    pub(crate) modules: PathBuf,
}

impl Kernel {
    /// Returns the kernel of the distribution's current package, from the cache or downloaded. If the
    /// package is not available, the newest kernel in the cache.
    pub(crate) fn obtain() -> Result<Self> {
        let cache = cache()?;
        fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
        let package = match Package::current() {
            Ok(package) => package,
            Err(error) => return Self::newest(&cache, &error),
        };
        let home = cache.join(package.folder());
        if home.is_dir() {
            return Self::load(&home);
        }
        // One download at a time: the holder of the lock may remove a partial one. Each of its steps has
        // a bound.
        let lock = File::create(cache.join("lock")).context("creating the lock of the cache")?;
        lock.lock().context("locking the cache")?;
        if home.is_dir() {
            return Self::load(&home);
        }
        let work = cache.join("partial");
        remove(&work)?;
        let kernel = match package.download(&work) {
            Ok(package) => fill(&work, &package, &home).and_then(|()| Self::load(&home))?,
            Err(error) => Self::newest(&cache, &error)?,
        };
        remove(&work)?;
        Ok(kernel)
    }

    /// Returns the kernel that was put into the cache last; `why` is the reason why the current one
    /// is not available.
    fn newest(cache: &Path, why: &Error) -> Result<Self> {
        let Some(newest) = newest(cache) else {
            bail!(
                "no kernel to boot, and none in the cache: {why:#}; the machines need Debian's \
                 {META_PACKAGE} once: run apt-get update with a network, then try again"
            );
        };
        eprintln!("vm-test: the current kernel is not available ({why:#}); using a cached one");
        Self::load(&newest)
    }

    fn load(home: &Path) -> Result<Self> {
        let text = fs::read_to_string(home.join("release"));
        let release = text.with_context(|| format!("reading {}/release", home.display()))?;
        let package = home.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            release: release.trim().to_owned(),
            package: package.rsplit_once('_').map_or("", |(package, _)| package).to_owned(),
            image: home.join("vmlinux"),
            modules: home.join("modules.cpio"),
        })
    }
}

fn cache() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let base = base.filter(|base| base.is_absolute()).context(
        "no folder to keep the kernel in: set HOME or XDG_CACHE_HOME to an absolute path",
    )?;
    Ok(base.join("probeline/vm"))
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| format!("removing {}", folder.display())),
    }
}

fn newest(cache: &Path) -> Option<PathBuf> {
    let suffix = format!("_{CACHE_VERSION}");
    let is_kernel = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(&suffix))
    };
    let entries = fs::read_dir(cache).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    entries.filter(is_kernel).max_by_key(|path| fs::metadata(path).and_then(|m| m.modified()).ok())
}

/// A Debian package of a kernel.
struct Package {
    name: String,
    version: String,
}

impl Package {
    /// Returns the package that the meta package depends on.
    fn current() -> Result<Self> {
        let unknown = |package: &str| anyhow!("apt does not know {package}");
        let depends = Tool::new("apt-cache").args(["depends", "--no-recommends", META_PACKAGE]);
        let depends = depends.run(HANG_TIMEOUT)?;
        let name = depends
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .find(|name| name.starts_with("linux-image-"))
            .ok_or_else(|| unknown(META_PACKAGE))?;
        let show = Tool::new("apt-cache").args(["show", "--no-all-versions", name]);
        let show = show.run(HANG_TIMEOUT)?;
        let version = show.lines().find_map(|line| line.strip_prefix("Version: "));
        let version = version.ok_or_else(|| unknown(name))?;
        Ok(Self { name: name.to_owned(), version: version.to_owned() })
    }

    fn folder(&self) -> String {
        format!("{}_{}_{CACHE_VERSION}", self.name, self.version.replace([':', '/'], "+"))
    }

    fn download(&self, work: &Path) -> Result<PathBuf> {
        eprintln!("vm-test: downloading {} {}", self.name, self.version);
        fs::create_dir_all(work).with_context(|| format!("creating {}", work.display()))?;
        let exact = format!("{}={}", self.name, self.version);
        Tool::new("apt-get").args(["download", &exact]).dir(work).run(DOWNLOAD_TIMEOUT)?;
        only(work, |name| name.ends_with(".deb"))
    }
}

/// Unpacks `package` to `home`, which appears once it is complete.
fn fill(work: &Path, package: &Path, home: &Path) -> Result<()> {
    let (root, done) = (work.join("root"), work.join("done"));
    for folder in [&root, &done] {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    Tool::new("dpkg").arg("-x").arg(package).arg(&root).run(HANG_TIMEOUT)?;
    convert(&root, &done)?;
    fs::rename(&done, home).with_context(|| format!("creating {}", home.display()))
}

/// Writes the files of a [`Kernel`] from the unpacked package.
fn convert(root: &Path, done: &Path) -> Result<()> {
    let (lib, merged) = (root.join("lib"), root.join("usr/lib/modules"));
    if !lib.join("modules").is_dir() && merged.is_dir() {
        std::os::unix::fs::symlink("usr/lib", &lib).context("linking lib to usr/lib")?;
    }
    let tree = only(&lib.join("modules"), |_| true)?;
    let release = tree.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let vmlinuz = only(&root.join("boot"), |name| name.starts_with("vmlinuz"))?;
    image::extract(&vmlinuz, &done.join("vmlinux"))?;
    Tool::new("depmod").arg("-b").arg(root).arg(&release).run(HANG_TIMEOUT)?;
    let mut all = Vec::new();
    for module in MODULES {
        add_insertions(root, &release, module, &mut all)?;
    }
    for module in OPTIONAL_MODULES {
        // If the kernel needs a module that is missing, the boot fails with rxe's own message.
        let _ = add_insertions(root, &release, module, &mut all);
    }
    pack(&all, root, &done.join("modules.cpio"))?;
    fs::write(done.join("release"), &release).context("writing the release")
}

/// A module's file, and the options to insert it with.
#[derive(Debug, PartialEq, Eq)]
struct Insertion {
    file: PathBuf,
    options: String,
}

impl Insertion {
    /// Parses a line of `modprobe --show-depends`; `None` for a module that is built in.
    fn parse(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("insmod ")?.trim();
        // The path may have spaces; no option contains `.ko`.
        let name_end = rest.rfind(".ko")?;
        let end = rest[name_end..].find(' ').map_or(rest.len(), |end| name_end + end);
        let (file, options) = rest.split_at(end);
        Some(Self { file: file.into(), options: options.trim().to_owned() })
    }
}

/// Adds the insertions for `module` and its dependencies, in order, without duplicates.
fn add_insertions(
    root: &Path,
    release: &str,
    module: &str,
    all: &mut Vec<Insertion>,
) -> Result<()> {
    let modprobe = Tool::new("modprobe").arg("-d").arg(root);
    let found = modprobe.args(["-S", release, "--show-depends", module]).run(HANG_TIMEOUT)?;
    for insertion in found.lines().filter_map(Insertion::parse) {
        if !all.contains(&insertion) {
            all.push(insertion);
        }
    }
    Ok(())
}

/// Archives the modules, uncompressed because the guest unpacks slowly, and the list `order`.
fn pack(insertions: &[Insertion], root: &Path, into: &Path) -> Result<()> {
    let stage = root.with_file_name("stage");
    let folder = stage.join("modules");
    fs::create_dir_all(&folder).context("creating the folder of modules")?;
    let mut order = String::new();
    for Insertion { file, options } in insertions {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("{}.ko", name.trim_end_matches(".ko"));
        let copy = File::create(folder.join(&name)).with_context(|| format!("writing {name}"))?;
        let program = match file.extension().and_then(OsStr::to_str) {
            Some("xz") => "xzcat",
            Some("zst") => "zstdcat",
            _ => "cat",
        };
        Tool::new(program).arg(file).stdout(copy).run(HANG_TIMEOUT)?;
        order.push_str(&format!("{name} {options}\n"));
    }
    fs::write(folder.join("order"), order).context("writing the order of modules")?;
    archive(&stage, into)
}

/// Finds the only entry of a folder whose name fits.
fn only(folder: &Path, fits: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let entries = fs::read_dir(folder);
    let entries = entries.with_context(|| format!("reading {}", folder.display()))?;
    let fitting = |entry: &fs::DirEntry| fits(&entry.file_name().to_string_lossy());
    let mut paths = entries.filter_map(Result::ok).filter(fitting).map(|entry| entry.path());
    match (paths.next(), paths.next()) {
        (Some(path), None) => Ok(path),
        (None, _) => bail!("{} has no such entry", folder.display()),
        (Some(_), Some(_)) => bail!("{} has more than one such entry", folder.display()),
    }
}

/// Writes an archive of all files in `folder`, owned by root.
pub(crate) fn archive(folder: &Path, into: &Path) -> Result<()> {
    let list = into.with_extension("list");
    let written = || format!("archiving {}", folder.display());
    let names = Tool::new("find").args([".", "-mindepth", "1"]).dir(folder).run(HANG_TIMEOUT)?;
    fs::write(&list, names).with_context(written)?;
    let names = File::open(&list).with_context(written)?;
    let output = File::create(into).with_context(written)?;
    let cpio = Tool::new("cpio").args(["--create", "--format=newc", "--owner=0:0", "--quiet"]);
    cpio.dir(folder).stdin(names).stdout(output).run(HANG_TIMEOUT)?;
    fs::remove_file(&list).with_context(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_modprobe_lines() {
        let read = |line| Insertion::parse(line).map(|found| (found.file, found.options));
        let both = |file: &str, options: &str| Some((PathBuf::from(file), options.to_owned()));
        assert_eq!(read("insmod /a b/9p.ko.xz "), both("/a b/9p.ko.xz", ""));
        assert_eq!(read("insmod /m/dummy.ko numdummies=0"), both("/m/dummy.ko", "numdummies=0"));
        assert_eq!(read("builtin virtio_pci"), None);
    }
}

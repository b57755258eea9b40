//! The state that all boots of a run share: the host's tools, the kernel, and the folder of logs.

use std::env;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::kernel::Kernel;
use crate::programs::target_dir;

/// Programs that the host or the guests run, and files that they load, each with its package.
const REQUIREMENTS: [(&str, &str); 22] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    (BUSYBOX, "busybox-static"),
    ("cpio", "cpio"),
    ("modprobe", "kmod"),
    ("depmod", "kmod"),
    ("xz", "xz-utils"),
    ("zstd", "zstd"),
    ("setpriv", "util-linux"),
    ("kill", "procps"),
    ("pgrep", "procps"),
    ("dpkg", "dpkg"),
    ("apt-get", "apt"),
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("rdma", "iproute2"),
    ("ibv_devinfo", "ibverbs-utils"),
    ("ib_read_lat", "perftest"),
    ("ucx_perftest", "ucx-utils"),
    ("numactl", "numactl"),
    ("mpirun.openmpi", "openmpi-bin"),
    // libibverbs finds the provider of Soft-RoCE by this file.
    ("/etc/libibverbs.d/rxe.driver", "ibverbs-providers"),
    // UCX loads this for InfiniBand and RoCE.
    ("/usr/lib/x86_64-linux-gnu/ucx/libuct_ib.so.0", "libucx0"),
];

/// The program that a guest's first process runs in.
pub(crate) const BUSYBOX: &str = "busybox";

/// The host of a run. Only one run at a time uses a folder of builds.
#[derive(Debug)]
pub(crate) struct Host {
    kernel: Kernel,
    dir: PathBuf,
    /// Locked until the run ends.
    _lock: File,
}

impl Host {
    /// Checks the requirements, obtains the kernel, and removes the logs of the run before.
    pub(crate) fn open() -> Result<Self> {
        ensure!(
            env::consts::ARCH == "x86_64",
            "the guests run the host's programs, which must be x86-64"
        );
        let missing: Vec<_> =
            REQUIREMENTS.into_iter().filter(|(name, _)| find(name).is_none()).collect();
        ensure!(missing.is_empty(), "{}", describe(&missing));
        let dir = target_dir()?.join("vm-test");
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let lock = lock(&dir)?;
        clear(&dir)?;
        Ok(Self { kernel: Kernel::obtain()?, dir, _lock: lock })
    }

    pub(crate) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns the folder that has the logs of each boot.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

fn describe(missing: &[(&str, &str)]) -> String {
    let names: Vec<_> = missing.iter().map(|(name, _)| *name).collect();
    let mut packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    let (names, packages) = (names.join(", "), packages.join(" "));
    format!("not installed: {names}; run ci/install, or apt-get install {packages}")
}

/// Finds a program by its name, or a file by its full path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // An ordinary user's `PATH` may lack the last two.
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("lock");
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("another vm-test uses {}; wait until it ends", dir.display())
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("locking {}", path.display()))
        }
    }
}

fn clear(dir: &Path) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|p| p.is_dir()) {
        fs::remove_dir_all(&path).with_context(|| format!("removing {}", path.display()))?;
    }
    Ok(())
}

//! Where beds are made: the tools, the kernel, the folder for logs.

use std::env;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::kernel::Kernel;
use crate::programs::target_dir;

/// What a guest's first process runs in.
pub(crate) const BUSYBOX: (&str, &str) = ("busybox", "busybox-static");

/// The programs that the host or the guests run, and the packages that have them.
const TOOLS: [(&str, &str); 20] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    BUSYBOX,
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
];

/// What libibverbs reads to find the provider of Soft-RoCE, and the package that has it.
const PROVIDER: (&str, &str) = ("/etc/libibverbs.d/rxe.driver", "ibverbs-providers");

/// What UCX loads to go over InfiniBand and RoCE, and the package that has it.
const UCX: (&str, &str) = ("/usr/lib/x86_64-linux-gnu/ucx/libuct_ib.so.0", "libucx0");

/// What all boots of a run have in common. One run at a time has a folder of builds to itself.
#[derive(Debug)]
pub struct Site {
    kernel: Kernel,
    dir: PathBuf,
    // Held for as long as this lives.
    _lock: File,
}

impl Site {
    /// Looks for the tools, fetches the kernel unless it is kept from before, and clears away the
    /// logs of the run before.
    ///
    /// # Errors
    /// [`Error::Architecture`], [`Error::Missing`], [`Error::NoKernel`], [`Error::Busy`].
    pub fn open() -> Result<Self, Error> {
        if env::consts::ARCH != "x86_64" {
            return Err(Error::Architecture);
        }
        let all = TOOLS.into_iter().chain([PROVIDER, UCX]);
        let programs: Vec<_> = all.filter(|(name, _)| find(name).is_none()).collect();
        if !programs.is_empty() {
            return Err(Error::Missing { programs });
        }
        let dir = target_dir()?.join("vm-test");
        fs::create_dir_all(&dir).map_err(Error::io(format!("creating {}", dir.display())))?;
        let lock = lock(&dir)?;
        clear(&dir)?;
        Ok(Self { kernel: Kernel::obtain()?, dir, _lock: lock })
    }

    /// The kernel that the guests run.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Where a program, or a file by its whole path, is.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // An ordinary user's `PATH` may lack the last two.
    let places = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    places.map(|place| place.join(name)).find(|path| path.is_file())
}

fn lock(dir: &Path) -> Result<File, Error> {
    let path = dir.join("lock");
    let file = File::create(&path).map_err(Error::io(format!("creating {}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Busy(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(Error::io("locking the folder of logs")(error)),
    }
}

fn clear(dir: &Path) -> Result<(), Error> {
    let entries = fs::read_dir(dir).map_err(Error::io(format!("reading {}", dir.display())))?;
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|p| p.is_dir()) {
        fs::remove_dir_all(&path).map_err(Error::io(format!("removing {}", path.display())))?;
    }
    Ok(())
}

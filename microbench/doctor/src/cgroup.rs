//! Reads the limits of control groups on this process, versions 1 and 2 (cgroups(7)).

use crate::root::Root;

/// The groups of this process, one hierarchy per line.
const OF_THIS_PROCESS: &str = "proc/self/cgroup";
const MOUNTED: &str = "sys/fs/cgroup";
/// The maximum numbers of hierarchies and levels that are read. Version 1 has a dozen controllers,
/// and launchers nest about five groups.
const MAX_HIERARCHIES: usize = 32;
const MAX_LEVELS: usize = 64;

/// Returns the CPU time that this process may use, in CPUs; `None` without a limit.
pub(crate) fn cpus(root: &Root) -> Option<f64> {
    let unified = |dir: &str| {
        let text = root.text(&format!("{dir}/cpu.max")).ok()?;
        let (quota, period) = text.split_once(' ')?;
        share(quota.parse().ok()?, period.parse().ok()?)
    };
    let old = |dir: &str| {
        let number = |name| root.number::<f64>(&format!("{dir}/{name}")).ok();
        share(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
    };
    min(&dirs(root, None), unified, &dirs(root, Some("cpu")), old)
}

/// Returns quota / period, in CPUs; a quota of -1 means no limit.
fn share(quota_us: f64, period_us: f64) -> Option<f64> {
    (quota_us > 0.0 && period_us > 0.0)
        .then(|| quota_us / period_us)
        .filter(|cpus| cpus.is_finite())
}

/// Returns the memory that this process may use, in bytes; `None` without a limit. Version 1
/// reports a number larger than any memory if there is no limit.
pub(crate) fn memory(root: &Root) -> Option<u64> {
    let limit =
        |name: &'static str| move |dir: &str| root.number::<u64>(&format!("{dir}/{name}")).ok();
    let (unified, old) = (dirs(root, None), dirs(root, Some("memory")));
    min(&unified, limit("memory.max"), &old, limit("memory.limit_in_bytes"))
}

/// Returns the smallest limit of all groups that contain this process.
fn min<T: PartialOrd>(
    unified: &[String],
    of_unified: impl Fn(&str) -> Option<T>,
    old: &[String],
    of_old: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let unified = unified.iter().filter_map(|dir| of_unified(dir));
    let all = unified.chain(old.iter().filter_map(|dir| of_old(dir)));
    all.reduce(|min, limit| if limit < min { limit } else { min })
}

/// Returns the folders of the groups of this process, from the root of each hierarchy down: the
/// hierarchy with this controller in version 1, or that of version 2. A container may see only its
/// own group, as the root of the mount; the path then names groups above it.
fn dirs(root: &Root, controller: Option<&str>) -> Vec<String> {
    let text = root.text(OF_THIS_PROCESS).unwrap_or_default();
    let mut lines = text.lines().take(MAX_HIERARCHIES).filter_map(|line| {
        let (_, after_number) = line.split_once(':')?;
        after_number.split_once(':')
    });
    let matches = |controllers: &str| match controller {
        Some(name) => controllers.split(',').any(|its| its == name),
        None => controllers.is_empty(),
    };
    let (controllers, path) = lines.find(|(its, _)| matches(its)).unwrap_or_default();
    let mounts: &[String] = &match controller {
        // `cpu` is a link to `cpu,cpuacct` where both controllers share a mount.
        Some(name) => vec![format!("{MOUNTED}/{name}"), format!("{MOUNTED}/{controllers}")],
        None => vec![MOUNTED.to_owned(), format!("{MOUNTED}/unified")],
    };
    mounts.iter().flat_map(|mount| below(mount, path)).collect()
}

/// Returns `mount` and every folder along `path` below it. A path with `..` names a group outside
/// the mount. A folder of that name below the mount would be another group.
fn below(mount: &str, path: &str) -> Vec<String> {
    let mut dirs = vec![mount.to_owned()];
    if path.split('/').any(|name| name == "..") {
        return dirs;
    }
    let names = path.split('/').filter(|name| !["", "."].contains(name));
    for name in names.take(MAX_LEVELS) {
        dirs.extend(dirs.last().map(|above| format!("{above}/{name}")));
    }
    dirs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_groups_from_root() {
        assert_eq!(below("cpu", "/"), ["cpu"]);
        assert_eq!(below("cpu", "/jobs/7"), ["cpu", "cpu/jobs", "cpu/jobs/7"]);
        // These paths are of groups outside the mount.
        for path in ["/..", "/../7", "/../../jobs/7", "/jobs/../7"] {
            assert_eq!(below("cpu", path), ["cpu"], "{path}");
        }
        assert_eq!(below("cpu", "/..7/a.."), ["cpu", "cpu/..7", "cpu/..7/a.."]);
        assert_eq!(below("cpu", &"/a".repeat(1000)).len(), 1 + MAX_LEVELS);
    }

    #[test]
    fn share_needs_valid_quota() {
        assert_eq!(share(150_000.0, 100_000.0), Some(1.5));
        for (quota, period) in [(-1.0, 1e5), (1e5, 0.0), (f64::NAN, 1e5), (f64::INFINITY, 1e5)] {
            assert_eq!(share(quota, period), None, "{quota} {period}");
        }
    }
}

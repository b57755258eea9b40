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
    min(root, |dir| {
        let text = root.text(&format!("{dir}/cpu.max")).unwrap_or_default();
        if let Some((quota, period)) = text.split_once(' ') {
            return share(quota.parse().ok()?, period.parse().ok()?);
        }
        let number = |name| root.number::<f64>(&format!("{dir}/{name}")).ok();
        share(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
    })
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
    min(root, |dir| {
        let limit = |name| root.number::<u64>(&format!("{dir}/{name}")).ok();
        limit("memory.max").or_else(|| limit("memory.limit_in_bytes"))
    })
}

/// Returns the smallest limit of all groups that contain this process. The files of a limit have
/// different names in versions 1 and 2, and only folders of its controller have them.
fn min<T: PartialOrd>(root: &Root, limit: impl Fn(&str) -> Option<T>) -> Option<T> {
    let limits = dirs(root).into_iter().filter_map(|dir| limit(&dir));
    limits.reduce(|min, limit| if limit < min { limit } else { min })
}

/// Returns the folders of the groups of this process, from the root of each hierarchy down. A
/// container may see only its own group, as the root of the mount; the path then names groups above
/// it.
fn dirs(root: &Root) -> Vec<String> {
    let text = root.text(OF_THIS_PROCESS).unwrap_or_else(|_| "0::/".to_owned());
    let lines = text.lines().take(MAX_HIERARCHIES).filter_map(|line| {
        let (_, after_number) = line.split_once(':')?;
        after_number.split_once(':')
    });
    let dirs = lines.flat_map(|(controllers, path)| {
        // `cpu` is a link to `cpu,cpuacct` where both controllers share a mount.
        let mounts = match controllers {
            "" => vec!["", "unified"],
            _ => controllers.split(',').chain([controllers]).collect(),
        };
        let below = |name| below(&format!("{MOUNTED}/{name}"), path);
        mounts.into_iter().flat_map(below).collect::<Vec<_>>()
    });
    dirs.collect()
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

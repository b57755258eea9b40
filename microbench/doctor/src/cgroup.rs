//! Reads the limits of control groups of version 2 on this process (cgroups(7)).

use crate::root::Root;

/// The groups of this process, one hierarchy per line; that of version 2 starts with `0::`.
const OF_THIS_PROCESS: &str = "proc/self/cgroup";
const MOUNTED: &str = "sys/fs/cgroup";
/// The maximum number of levels that are read. Launchers nest about five groups.
const MAX_LEVELS: usize = 64;

/// Returns the CPU time that this process may use, in CPUs; `None` without a limit.
pub(crate) fn cpus(root: &Root) -> Option<f64> {
    min(root, |dir| {
        let text = root.text(&format!("{dir}/cpu.max")).ok()?;
        // The quota is `max` without a limit.
        let (quota_us, period_us) = text.split_once(' ')?;
        let cpus = quota_us.parse::<f64>().ok()? / period_us.parse::<f64>().ok()?;
        (cpus.is_finite() && cpus > 0.0).then_some(cpus)
    })
}

/// Returns the memory that this process may use, in bytes; `None` without a limit.
pub(crate) fn memory(root: &Root) -> Option<u64> {
    min(root, |dir| root.number(&format!("{dir}/memory.max")).ok())
}

/// Returns the smallest limit of all groups that contain this process.
fn min<T: PartialOrd>(root: &Root, limit: impl Fn(&str) -> Option<T>) -> Option<T> {
    let text = root.text(OF_THIS_PROCESS).unwrap_or_default();
    let path = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let limits = groups(path).into_iter().filter_map(|dir| limit(&dir));
    limits.reduce(|min, limit| if limit < min { limit } else { min })
}

/// Returns the folders of the group `path` and of those that contain it. A container may see only its
/// own group, as the root of the mount; the path then names groups above it. A path with `..` names a
/// group outside the mount; a folder of that name below the mount would be another group.
fn groups(path: &str) -> Vec<String> {
    let mut dirs = vec![MOUNTED.to_owned()];
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
        let below = |path: &str| -> Vec<String> {
            let dirs = groups(path).into_iter();
            dirs.map(|dir| dir.strip_prefix(MOUNTED).unwrap().to_owned()).collect()
        };
        assert_eq!(below("/"), [""]);
        assert_eq!(below("/jobs/7"), ["", "/jobs", "/jobs/7"]);
        // These paths are of groups outside the mount.
        for path in ["/..", "/../7", "/../../jobs/7", "/jobs/../7"] {
            assert_eq!(below(path), [""], "{path}");
        }
        assert_eq!(below("/..7/a.."), ["", "/..7", "/..7/a.."]);
        assert_eq!(below(&"/a".repeat(1000)).len(), 1 + MAX_LEVELS);
    }
}

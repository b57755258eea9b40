//! Reads the topology of a machine and the node of a device from sysfs. Kernel documentation:
//! `ABI/stable/sysfs-devices-node`, `ABI/stable/sysfs-devices-system-cpu`,
//! `admin-guide/cputopology`.

use core::str::FromStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Core, CpuId, CpuSet, Error, HugePagePool, Node, NodeId, Topology};

/// The maximum number of caches of a CPU; x86 has four.
const CACHES_PER_CPU: u32 = 8;

impl Topology {
    /// Reads the sysfs tree at `root` (`/sys`).
    ///
    /// If the kernel reports no nodes, an assumed node 0 holds all CPUs,
    /// [`reports_numa`](Self::reports_numa) is false, and memory is bound to no node. Values that a
    /// kernel or a container hides are `None` or empty.
    ///
    /// # Errors
    /// [`Error`]: a file is unreadable or malformed.
    pub fn from_sysfs(root: &Path) -> Result<Self, Error> {
        // The CPUs are those of the nodes, not of `cpu/online`: container file systems (LXCFS)
        // renumber the latter, and affinity masks hold the kernel's own numbers.
        let system = root.join("devices/system");
        let ids = node_ids(&system.join("node"))?;
        let nodes = ids.iter().map(|id| read_node(&system, *id, &ids));
        let mut nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let reports_numa = !nodes.is_empty();
        if !reports_numa {
            nodes.push(assumed_node(root)?);
        }
        let mut cores = Vec::new();
        for node in &nodes {
            read_cores(&system, node, &mut cores)?;
        }
        let l3_groups = read_l3_groups(&system, &cores)?;
        Ok(Self { nodes, cores, l3_groups, reports_numa })
    }
}

/// Returns the numbers of the directories `nodeN`, ascending: one for each online node.
fn node_ids(dir: &Path) -> Result<Vec<NodeId>, Error> {
    let mut ids: Vec<NodeId> = file_names(dir)?
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok().map(NodeId))
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

fn read_node(system: &Path, id: NodeId, ids: &[NodeId]) -> Result<Node, Error> {
    let dir = system.join(format!("node/node{}", id.0));
    let cpulist = dir.join("cpulist");
    let cpus = cpus(&cpulist)?.ok_or_else(|| missing(&cpulist))?;
    Ok(Node {
        id,
        cpus: online(system, cpus)?,
        memory_bytes: memory_bytes(&dir.join("meminfo"))?,
        huge_pages: huge_pages(&dir.join("hugepages"))?,
        distances: distances(&dir.join("distance"), ids)?,
    })
}

/// Returns the node of all CPUs, for a kernel that reports none. No memory is bound to it, because
/// [`Topology::memory_near`] returns `None` then.
fn assumed_node(root: &Path) -> Result<Node, Error> {
    let list = root.join("devices/system/cpu/online");
    let cpus = cpus(&list)?.ok_or_else(|| missing(&list))?;
    Ok(Node {
        id: NodeId(0),
        cpus,
        memory_bytes: None,
        huge_pages: huge_pages(&root.join("kernel/mm/hugepages"))?,
        distances: Vec::new(),
    })
}

/// Removes offline CPUs, which kernels before 4.15 list with their node.
fn online(system: &Path, cpus: CpuSet) -> Result<CpuSet, Error> {
    let mut offline = CpuSet::default();
    for cpu in cpus.iter() {
        // The file is missing if the CPU cannot be taken offline.
        if number(&cpu_dir(system, cpu).join("online"))? == Some(0) {
            offline.insert(cpu);
        }
    }
    Ok(cpus.difference(&offline))
}

/// Reads a line such as `Node 0 MemTotal:  8386460 kB`.
fn memory_bytes(path: &Path) -> Result<Option<u64>, Error> {
    let Some(text) = text(path)? else { return Ok(None) };
    let total = text.lines().find_map(|line| line.split_once("MemTotal:"));
    let kib = total.and_then(|(_, size)| size.trim().strip_suffix("kB")?.trim().parse().ok());
    match kib.and_then(|kib: u64| kib.checked_mul(1024)) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(malformed(path, "a line such as Node 0 MemTotal: 1024 kB")),
    }
}

/// Reads one number for each online node, in ascending order of nodes.
fn distances(path: &Path, ids: &[NodeId]) -> Result<Vec<(NodeId, u32)>, Error> {
    let Some(text) = text(path)? else { return Ok(Vec::new()) };
    let distances: Result<Vec<u32>, _> = text.split_whitespace().map(str::parse).collect();
    match distances {
        Ok(distances) if distances.len() == ids.len() => {
            Ok(ids.iter().copied().zip(distances).collect())
        }
        _ => Err(malformed(path, "one number for each online node")),
    }
}

/// Returns the pools of a directory that holds `hugepages-2048kB/{nr,free}_hugepages`, by page
/// size.
fn huge_pages(dir: &Path) -> Result<Vec<HugePagePool>, Error> {
    let mut pools = Vec::new();
    for name in file_names(dir)? {
        let kib = name.strip_prefix("hugepages-").and_then(|size| size.strip_suffix("kB"));
        let Some(page_bytes) = kib.and_then(|kib| kib.parse::<u64>().ok()?.checked_mul(1024))
        else {
            continue;
        };
        let pool = dir.join(name);
        pools.push(HugePagePool {
            page_bytes,
            total: number(&pool.join("nr_hugepages"))?.unwrap_or(0),
            free: number(&pool.join("free_hugepages"))?.unwrap_or(0),
        });
    }
    pools.sort_unstable_by_key(|pool| pool.page_bytes);
    Ok(pools)
}

/// Adds the cores of `node`. Each CPU belongs to exactly one, although virtual machines list
/// siblings that overlap or are on another node.
fn read_cores(system: &Path, node: &Node, cores: &mut Vec<Core>) -> Result<(), Error> {
    let mut taken = CpuSet::default();
    for cpu in node.cpus.iter() {
        if taken.contains(cpu) {
            continue;
        }
        let dir = cpu_dir(system, cpu).join("topology");
        let siblings = match cpus(&dir.join("core_cpus_list"))? {
            Some(siblings) => siblings,
            // Before Linux 5.3 the file has this name.
            None => cpus(&dir.join("thread_siblings_list"))?.unwrap_or_default(),
        };
        let mut threads = siblings.intersection(&node.cpus).difference(&taken);
        threads.insert(cpu);
        taken.extend(threads.iter());
        let package: Option<i64> = number(&dir.join("physical_package_id"))?;
        // POWER guests have -1 here.
        let package = package.and_then(|id| u32::try_from(id).ok());
        cores.push(Core { cpus: threads, node: node.id, package });
    }
    Ok(())
}

/// Returns the CPUs of each level 3 cache.
fn read_l3_groups(system: &Path, cores: &[Core]) -> Result<Vec<CpuSet>, Error> {
    let mut groups: Vec<CpuSet> = Vec::new();
    for core in cores {
        let Some(cpu) = core.cpus.first() else { continue };
        if groups.iter().any(|group| group.contains(cpu)) {
            continue;
        }
        groups.extend(l3_group(&cpu_dir(system, cpu).join("cache"))?);
    }
    Ok(groups)
}

fn l3_group(caches: &Path) -> Result<Option<CpuSet>, Error> {
    for index in 0..CACHES_PER_CPU {
        let cache = caches.join(format!("index{index}"));
        match number(&cache.join("level"))? {
            Some(3) => return cpus(&cache.join("shared_cpu_list")),
            Some(_) => (),
            None => break,
        }
    }
    Ok(None)
}

fn cpu_dir(system: &Path, cpu: CpuId) -> PathBuf {
    system.join(format!("cpu/cpu{}", cpu.0))
}

/// Returns the CPU list in a file; `None` if it does not exist.
fn cpus(path: &Path) -> Result<Option<CpuSet>, Error> {
    parsed(path, "a cpu list such as 0-3,8")
}

/// Returns the number in a file; `None` if it does not exist.
fn number<T: FromStr>(path: &Path) -> Result<Option<T>, Error> {
    parsed(path, "a number")
}

fn parsed<T: FromStr>(path: &Path, expected: &'static str) -> Result<Option<T>, Error> {
    let Some(text) = text(path)? else { return Ok(None) };
    match text.trim().parse() {
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(malformed(path, expected)),
    }
}

/// Returns the text of a file; `None` if it does not exist.
fn text(path: &Path) -> Result<Option<String>, Error> {
    found(path, fs::read_to_string(path))
}

/// Returns the names in a directory; none if it does not exist.
fn file_names(dir: &Path) -> Result<Vec<String>, Error> {
    let Some(entries) = found(dir, fs::read_dir(dir))? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in entries {
        let name = found(dir, entry.map(|entry| entry.file_name()))?;
        names.extend(name.and_then(|name| name.into_string().ok()));
    }
    Ok(names)
}

fn found<T>(path: &Path, result: io::Result<T>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => Ok(None),
            Some(errno) => Err(Error::Read { path: path.into(), errno }),
            // The only error without errno is text that is not UTF-8.
            None => Err(malformed(path, "text")),
        },
    }
}

/// Returns the node of the RDMA device or network interface `name`, from the sysfs tree at `root`
/// (`/sys`). `None` if the kernel reports no node, as on one-node and virtual machines.
///
/// A device without a node has that of its parent device (virtio); a software RDMA device
/// (Soft-RoCE, siw) has that of its network interface.
///
/// # Errors
/// [`Error`]: the device does not exist, or a file is unreadable or malformed.
pub fn device_node(root: &Path, name: &str) -> Result<Option<NodeId>, Error> {
    let no_such_device = || Error::NoSuchDevice { name: name.into() };
    // A path with such a name would lie outside the directory of devices.
    if name.contains('/') || ["", ".", ".."].contains(&name) {
        return Err(no_such_device());
    }
    let rdma = root.join("class/infiniband").join(name);
    let interface = root.join("class/net").join(name);
    let node = if rdma.exists() {
        rdma_node(root, &rdma)?
    } else if interface.exists() {
        bus_node(&interface)?
    } else {
        return Err(no_such_device());
    };
    // -1 is the kernel's NUMA_NO_NODE.
    Ok(node.and_then(|node| u32::try_from(node).ok()).map(NodeId))
}

fn rdma_node(root: &Path, rdma: &Path) -> Result<Option<i64>, Error> {
    if let Some(node) = bus_node(rdma)? {
        return Ok(Some(node));
    }
    match text(&rdma.join("parent"))? {
        Some(interface) => bus_node(&root.join("class/net").join(interface.trim())),
        None => Ok(None),
    }
}

/// Returns the node of the device of a class entry, or of its parent device if it has none.
fn bus_node(class_entry: &Path) -> Result<Option<i64>, Error> {
    match number(&class_entry.join("device/numa_node"))? {
        Some(node) => Ok(Some(node)),
        // `device` is a link; the kernel resolves `..` after it.
        None => number(&class_entry.join("device/../numa_node")),
    }
}

fn missing(path: &Path) -> Error {
    Error::Read { path: path.into(), errno: libc::ENOENT }
}

fn malformed(path: &Path, expected: &'static str) -> Error {
    Error::Malformed { path: path.into(), expected }
}

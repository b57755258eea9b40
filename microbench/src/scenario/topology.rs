//! `topology`: shows the nodes and cores of this machine, and the core and node of each rank.

use clap::Args;
use probeline::pin::{Affinity, Sharing, Topology};
use probeline_report::results::format::text;
use probeline_report::results::row;

use crate::cli::OutputArgs;
use crate::failure::{Failure, Result};
use crate::pinning::known;
use crate::run_report::{Files, RunReport};

#[derive(Args, Clone, Debug)]
pub(crate) struct TopologyArgs {
    /// Ranks to place
    #[arg(long, default_value_t = 2, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,

    /// Fill the node of this network or RDMA device first, such as mlx5_0 or eth0
    #[arg(long, value_name = "DEVICE")]
    near: Option<String>,

    #[command(flatten)]
    output: OutputArgs,
}

const NOTHING_SHARED: &str = "no";

row! {
    pub(super) struct PlaceRow {
        rank: u32 => ("rank", text),
        cpu: u32 = "only CPUs that this process may use" => ("CPU", text, note()),
        node: u32 => ("node", text),
        memory_node: Option<u32> = "null where the kernel reports no nodes" => ("memory", text),
        sharing: String = "what another rank uses too; ranks get cores first, then their other CPUs"
            => ("shares", text, note()),
    }
}

pub(crate) fn run(args: &TopologyArgs) -> Result<()> {
    let files = Files::open(&args.output, true)?;
    let affinity = Affinity::take()?;
    let sysfs = "/sys".as_ref();
    let topology = Topology::from_sysfs(sysfs)
        .map_err(|error| Failure::new(format!("{error}: mount sysfs at /sys")))?;
    let near = match &args.near {
        Some(device) => probeline::pin::device_node(sysfs, device)?,
        None => None,
    };
    let places =
        probeline::pin::place(&topology, affinity.allowed(), args.ranks, known(near, &topology))?;

    let mut report = RunReport::new("topology");
    let allowed = format!("CPUs that this process may use: {}", affinity.allowed());
    report.transport = found(&topology, &allowed)?;
    if let Some(device) = &args.near {
        report.transport.push(match near {
            Some(node) => format!("{device} is on {node}"),
            None => format!("the node of {device} is not known: placed as without --near"),
        });
    }
    report.parameter("ranks", args.ranks);
    let rows: Vec<PlaceRow> = (0..)
        .zip(&places)
        .map(|(rank, place)| PlaceRow {
            rank,
            cpu: place.cpu.0,
            node: place.node.0,
            memory_node: place.memory.map(|node| node.0),
            sharing: match place.sharing {
                Sharing::Alone => NOTHING_SHARED,
                Sharing::Core => "its core",
                Sharing::Cpu => "its CPU",
            }
            .to_owned(),
        })
        .collect();
    let alone = rows.iter().filter(|row| row.sharing == NOTHING_SHARED).count();
    report.summary = vec![
        format!("topology: {} ranks, {alone} of them with a core of their own", args.ranks),
        format!("this machine: {}", report.transport[0]),
        allowed,
    ];
    report.publish(files, &rows)
}

fn found(topology: &Topology, allowed: &str) -> Result<Vec<String>> {
    let mut lines: Vec<String> = topology.to_string().lines().map(str::to_owned).collect();
    let groups: Vec<String> = topology.l3_groups().iter().map(ToString::to_string).collect();
    lines.push(format!("CPUs that share an L3 cache: {}", groups.join(" | ")));
    lines.push(allowed.to_owned());
    lines.extend(more()?);
    Ok(lines)
}

#[cfg(feature = "hwloc")]
fn more() -> Result<Vec<String>> {
    let survey = probeline::pin::hwloc::survey()?;
    let caches = survey.caches.iter().map(|cache| {
        let bytes = cache
            .bytes
            .map_or_else(String::new, |bytes| format!(" {},", crate::size::Size(bytes).rounded()));
        format!("L{} cache ({}):{bytes} CPUs {}", cache.level, cache.kind, cache.cpus)
    });
    let devices = survey.devices.iter().map(|device| {
        let node = device.node.map_or_else(|| "of no one node".to_owned(), |node| node.to_string());
        let pci = device.pci.as_deref().unwrap_or("not on PCI");
        format!("device {} ({}): {pci}, {node}", device.name, device.kind)
    });
    Ok(caches.chain(devices).collect())
}

#[cfg(not(feature = "hwloc"))]
fn more() -> Result<Vec<String>> {
    Ok(Vec::new())
}

//! Findings on RDMA devices and their ports.

use probeline_doctor::Verdict::{Broken, Fine, LookAtThis, NotSeen};
use probeline_doctor::{Facts, Finding, Survey, Verdict};
use probeline_verbs::{PciAtomics, PortState};
use probeline_verbs_sys::{
    IBV_ATOMIC_GLOB, IBV_ATOMIC_NONE, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2, IBV_MTU_1024,
    IBV_MTU_2048,
};

use crate::stand_in::Atomics;
use crate::ward::{CARD, Ward, expect};

#[track_caller]
fn device(ward: Ward, check: &str, verdict: Verdict, parts: &[&str]) {
    ward.says("mlx5_0", check, verdict, parts);
}

#[track_caller]
fn port(ward: Ward, check: &str, verdict: Verdict, parts: &[&str]) {
    ward.says("mlx5_0/1", check, verdict, parts);
}

/// Returns the findings after a change of the device's facts.
fn changed(ward: &Ward, change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    let Survey::Devices(mut devices) = ward.survey() else { panic!("no devices") };
    change(devices[0].facts.as_mut().unwrap());
    ward.doctor().examine(&Survey::Devices(devices))
}

fn card(name: &str) -> String {
    format!("{CARD}/{name}")
}

#[test]
fn a_healthy_device_has_fine_findings() {
    let ward = Ward::healthy();
    let findings = ward.findings();
    let says = |check, parts: &[&str]| expect(&findings, "mlx5_0", check, Fine, parts);
    says("driver", &["mlx5_core"]);
    says("firmware", &["20.31.1014, of ConnectX-6"]);
    says("atomics", &["atomic_cap HCA", "notes/device-atomics.md"]);
    says("atomics-tried", &["compare-and-swap and fetch-and-add", "host's byte order"]);
    says("outstanding-reads", &["16 as initiator, 16 as responder"]);
    says("numa-node", &["node 1, where this process may run"]);
    says("pcie-link", &["x16 at 16 GT/s"]);
    says("iommu", &["identity"]);
    let says = |check, parts: &[&str]| expect(&findings, "mlx5_0/1", check, Fine, parts);
    says("link", &["active, Ethernet"]);
    says("rate", &["200 Gbit/s over 4 lanes"]);
    says("mtu", &["4096 B"]);
    says("gid", &["RoCE v2, ::ffff:10.0.0.1, index 2"]);
    says("sent-again", &["none since"]);
    let parts =
        ["probeline does not read them", "sudo mlxconfig -d 0000:3b:00.0 query PCI_WR_ORDERING"];
    expect(&findings, "mlx5_0", "firmware-settings", NotSeen, &parts);
    expect(&findings, "mlx5_0/1", "lossless", NotSeen, &["mlnx_qos -i ens1"]);
}

#[test]
fn the_wrong_node_is_reported() {
    let status = |cpus| format!("CapEff:\t0\nCpus_allowed_list:\t{cpus}\n");
    let on = |cpus| Ward::healthy().file("proc/self/status", status(cpus));
    let fix = "numactl --cpunodebind=1 --membind=1";
    device(on("0-3"), "numa-node", LookAtThis, &["node 1", "CPUs 0-3 of other nodes", fix]);
    device(on("3-4"), "numa-node", Fine, &["node 1, where"]);
    let unreported = || Ward::healthy().file(&card("numa_node"), "-1\n");
    device(unreported(), "numa-node", NotSeen, &["does not report it"]);
    let one = unreported().without("sys/devices/system/node/node1");
    let one = one.file("sys/devices/system/node/node0/distance", "10\n");
    device(one, "numa-node", Fine, &["only one node"]);
    let gone = Ward::healthy().file(&card("numa_node"), "9\n");
    device(gone, "numa-node", NotSeen, &["node 9, which is not online"]);
    let odd = Ward::healthy().file(&card("numa_node"), "near\n");
    device(odd, "numa-node", NotSeen, &["numa_node does not contain a number"]);
}

#[test]
fn slow_slots_are_reported() {
    let narrow = Ward::healthy().file(&card("current_link_width"), "8\n");
    device(narrow, "pcie-link", LookAtThis, &["x8 at 16 GT/s, of x16", "126 Gbit/s at most"]);
    let slow = Ward::healthy().file(&card("current_link_speed"), "8.0 GT/s\n");
    device(slow, "pcie-link", LookAtThis, &["x16 at 8 GT/s, of x16 at 16"]);
    let old = ["current", "max"].iter().fold(Ward::healthy(), |ward, which| {
        let ward = ward.file(&card(&format!("{which}_link_speed")), "8.0 GT/s PCIe\n");
        ward.file(&card(&format!("{which}_link_width")), "8\n")
    });
    device(old, "pcie-link", LookAtThis, &["63 Gbit/s", "the port supports 200 Gbit/s"]);
    for (name, content) in [("current_link_width", "0\n"), ("max_link_speed", "Unknown\n")] {
        let virtual_function = Ward::healthy().file(&card(name), content);
        device(virtual_function, "pcie-link", NotSeen, &["lspci -vvs 0000:3b:00.0"]);
    }
}

/// Creates a configuration space that root may read, with this device control register.
fn config(control: u16) -> [u8; 256] {
    let mut config = [0; 256];
    (config[0x06], config[0x34], config[0x60]) = (0x10, 0x60, 0x10);
    config[0x68..0x6a].copy_from_slice(&control.to_le_bytes());
    config
}

#[test]
fn request_size_and_ordering_need_root() {
    device(Ward::healthy(), "read-request", NotSeen, &["only root", "sudo lspci -vvs 0000:3b:00"]);
    device(Ward::healthy(), "relaxed-ordering", NotSeen, &["only root"]);
    let with = |control| Ward::healthy().file(&card("config"), config(control));
    device(with(0x2910), "read-request", Fine, &["512 B"]);
    device(with(0x2910), "relaxed-ordering", Fine, &["allowed on the bus"]);
    device(with(0x5000), "read-request", Fine, &["4096 B"]);
    device(with(0x5000), "relaxed-ordering", Fine, &["not allowed"]);
    let fix = "sudo setpci -s 0000:3b:00.0 CAP_EXP+8.w=5000:7000";
    device(with(0x0000), "read-request", LookAtThis, &["128 B", fix]);
    device(with(0x7000), "read-request", NotSeen, &["reserved"]);
    let amd = |ward: Ward| ward.file("proc/cpuinfo", "vendor_id : AuthenticAMD\nflags : fpu\n");
    let fix = "sudo setpci -s 0000:3b:00.0 CAP_EXP+8.w=0010:0010";
    device(amd(with(0x5000)), "relaxed-ordering", LookAtThis, &["AMD's processors gain", fix]);
    device(amd(with(0x2910)), "relaxed-ordering", Fine, &["allowed", "PCI_WR_ORDERING=1"]);
    device(amd(Ward::healthy()), "relaxed-ordering", NotSeen, &["AMD's processors gain"]);
    let intel = |model| {
        let cpu = format!("vendor_id : GenuineIntel\ncpu family : 6\nmodel : {model}\n");
        with(0x5000).file("proc/cpuinfo", cpu)
    };
    device(intel(207), "relaxed-ordering", LookAtThis, &["Emerald Rapids gains", fix]);
    device(intel(143), "relaxed-ordering", Fine, &["not allowed"]);
    let other = Ward::healthy().file(&card("config"), [0; 256]);
    device(other, "read-request", NotSeen, &["no PCI Express capability"]);
}

#[test]
fn a_translating_iommu_is_reported() {
    let kind = |kind| Ward::healthy().file("sys/kernel/iommu_groups/7/type", kind);
    device(kind("DMA-FQ\n"), "iommu", LookAtThis, &["translates addresses (DMA-FQ)", "iommu=pt"]);
    device(kind("DMA\n"), "iommu", LookAtThis, &[]);
    device(kind("blocked\n"), "iommu", NotSeen, &["blocked"]);
    let unknown_type = || Ward::healthy().without("sys/kernel/iommu_groups/7/type");
    device(unknown_type(), "iommu", NotSeen, &["cat /proc/cmdline"]);
    device(unknown_type().file("proc/cmdline", "quiet iommu=pt\n"), "iommu", Fine, &["at boot"]);
    device(Ward::healthy().without(&card("iommu_group")), "iommu", Fine, &["no IOMMU"]);
}

#[test]
fn old_firmware_is_reported_by_generation() {
    let firmware = |version| Ward::healthy().device(|device| device.firmware = version);
    let fix = "older than 20.27.0090";
    device(firmware("20.24.1000"), "firmware", LookAtThis, &["of ConnectX-6", fix, "mlxup"]);
    device(firmware("12.18.2000"), "firmware", LookAtThis, &["of ConnectX-4"]);
    device(firmware("16.35.4030"), "firmware", Fine, &["of ConnectX-5"]);
    device(firmware("99.1.1"), "firmware", Fine, &["99.1.1"]);
    device(firmware("new"), "firmware", NotSeen, &["\"new\" is not a version"]);
    device(firmware(""), "firmware", NotSeen, &["reports no version", "ethtool -i"]);
    let other = firmware("1.2").driver("bnxt_en");
    device(other, "firmware", Fine, &["1.2"]);
}

#[test]
fn drivers_with_known_problems_are_reported() {
    let none =
        |module| Ward::healthy().driver(module).device(|device| device.atomics = IBV_ATOMIC_NONE);
    device(none("efa"), "driver", LookAtThis, &["no atomics", "notes/devices-without-atomics.md"]);
    device(none("irdma"), "driver", LookAtThis, &["newer kernel"]);
    device(none("bnxt_en"), "driver", LookAtThis, &["AtomicOps", "notes/pci-atomics.md"]);
    device(Ward::healthy().driver("bnxt_en"), "driver", Fine, &["bnxt_en"]);
    device(Ward::healthy().driver("mlx4_core"), "driver", LookAtThis, &["2.7 million"]);
    let connect_ib = Ward::healthy().device(|device| device.part = 4113);
    device(connect_ib, "driver", LookAtThis, &["Connect-IB", "notes/atomic-byte-order.md"]);
    let unknown = Ward::healthy().without(&card("driver"));
    device(unknown, "driver", NotSeen, &["rdma link show"]);
    device(none("erdma"), "driver", LookAtThis, &["no atomics", "--transport ucx"]);
    device(Ward::healthy().driver("erdma"), "driver", Fine, &["erdma"]);
    let pensando = Ward::healthy().driver("ionic");
    device(
        pensando,
        "driver",
        LookAtThis,
        &["changed nothing", "probeline doctor --device mlx5_0"],
    );
}

/// Software devices have no slot.
#[test]
fn software_devices_are_reported_and_have_no_slot() {
    let soft = |vendor| {
        let ward = Ward::healthy().without("sys/class/infiniband/mlx5_0/device");
        let ward = ward.file("sys/class/infiniband/mlx5_0/parent", "eth0\n");
        ward.device(|device| (device.vendor, device.firmware) = (vendor, ""))
    };
    // Kernels before 5.0 have no vendor number for it.
    for vendor in [0xff_ffff, 0] {
        let findings = soft(vendor).findings();
        expect(&findings, "mlx5_0", "driver", LookAtThis, &["Soft-RoCE", "notes/soft-roce.md"]);
        expect(&findings, "mlx5_0", "firmware", Fine, &["software"]);
        assert!(findings.iter().all(|finding| finding.check != "pcie-link"));
    }
    let torn = soft(0xff_ffff).file("proc/cpuinfo", "flags : erms hypervisor\n");
    device(torn, "driver", LookAtThis, &["torn words"]);
    device(soft(0x62_6d74), "driver", LookAtThis, &["Soft-iWARP", "no atomics"]);
}

#[test]
fn atomics_that_are_missing_or_wrong_are_broken() {
    let none = Ward::healthy().device(|device| device.atomics = IBV_ATOMIC_NONE);
    let findings = none.findings();
    let way = "notes/devices-without-atomics.md";
    expect(&findings, "mlx5_0", "atomics", Broken, &["atomic_cap NONE", way]);
    expect(&findings, "mlx5_0", "atomics-tried", NotSeen, &["reports none"]);

    let swapped = Ward::healthy().broken(|faults| faults.atomics = Atomics::Swapped);
    let parts = ["big-endian order", "notes/atomic-byte-order.md"];
    device(swapped, "atomics-tried", Broken, &parts);
    let ward = Ward::healthy();
    let findings = changed(&ward, |facts| {
        let failed = probeline_verbs::VerbFailed { verb: "ibv_query_gid_ex", errno: libc::EIO };
        facts.ports[0].gid = Err(probeline_verbs::GidError::Unreadable(failed));
    });
    let show = "grep . /sys/class/infiniband/mlx5_0/ports/1/gids/*";
    expect(&findings, "mlx5_0/1", "gid", Broken, &["EIO", show]);
    let idle = Ward::healthy().broken(|faults| faults.atomics = Atomics::Idle);
    device(idle, "atomics-tried", Broken, &["without changing the word", way]);
    let wrong = Ward::healthy().broken(|faults| faults.atomics = Atomics::Wrong);
    device(wrong, "atomics-tried", Broken, &["instead of", way]);
    for errno in [libc::ENOMEM, libc::EPERM] {
        let unlocked = Ward::healthy().broken(match errno {
            libc::ENOMEM => |faults| faults.call = Some(("ibv_reg_mr", 0, libc::ENOMEM)),
            _ => |faults| faults.call = Some(("ibv_reg_mr", 0, libc::EPERM)),
        });
        device(unlocked, "atomics-tried", Broken, &["ibv_reg_mr failed", "notes/locked-memory.md"]);
    }
    let refused =
        Ward::healthy().broken(|faults| faults.call = Some(("ibv_create_cq", 0, libc::EINVAL)));
    device(refused, "atomics-tried", Broken, &["ibv_create_cq failed with EINVAL"]);
}

#[test]
fn global_atomics_are_suspect_in_virtual_machines() {
    let global = || Ward::healthy().device(|device| device.atomics = IBV_ATOMIC_GLOB);
    device(global(), "atomics", Fine, &["atomic_cap GLOB"]);
    device(global(), "pci-atomics", Fine, &["none, or not reported"]);
    let guest = global().file("proc/cpuinfo", "flags : hypervisor\n");
    device(guest, "pci-atomics", LookAtThis, &["virtual machine", "notes/pci-atomics.md"]);
    let ward = Ward::healthy();
    let findings = changed(&ward, |facts| {
        facts.pci_atomics = Ok(PciAtomics { compare_and_swap: true, fetch_add: true });
    });
    expect(&findings, "mlx5_0", "pci-atomics", Fine, &["compare-and-swap and fetch-and-add of 8"]);
}

#[test]
fn few_outstanding_reads_are_reported() {
    let reads = |reads| Ward::healthy().device(|device| device.reads = reads);
    device(
        reads(4),
        "outstanding-reads",
        LookAtThis,
        &["4 as initiator", "at most 4 per roundtrip"],
    );
    device(reads(16), "outstanding-reads", Fine, &[]);
    device(reads(0), "outstanding-reads", Broken, &["never complete"]);
}

#[test]
fn a_link_that_is_down_is_broken_if_no_other_is_up() {
    let down = || Ward::healthy().device(|device| device.active = false);
    let findings = down().findings();
    expect(&findings, "mlx5_0/1", "link", Broken, &["down, Ethernet", "sudo ip link set ens1 up"]);
    expect(&findings, "mlx5_0", "atomics-tried", NotSeen, &["no port is active"]);
    assert!(findings.iter().all(|finding| finding.check != "mtu"));

    let another = down().second(|device| (device.name, device.active) = ("mlx5_1", true));
    let findings = another.findings();
    expect(&findings, "mlx5_0/1", "link", LookAtThis, &["another port is active"]);
    expect(&findings, "mlx5_1/1", "link", Fine, &[]);

    let infiniband = || down().device(|device| device.ethernet = false);
    port(infiniband(), "link", Broken, &["down, InfiniBand", "the cable is plugged in"]);
    let ward = infiniband();
    let findings = changed(&ward, |facts| facts.ports[0].port.state = PortState::Init);
    expect(&findings, "mlx5_0/1", "link", Broken, &["initialising", "systemctl start opensm"]);
}

#[test]
fn low_rates_and_small_mtus_are_reported() {
    let mtu = |mtu| Ward::healthy().device(|device| device.mtu = mtu);
    let parts = ["1024 B of 4096 B", "C is more than 128", "ip link set ens1 mtu 4200"];
    port(mtu(IBV_MTU_1024), "mtu", LookAtThis, &parts);
    let subnet = mtu(IBV_MTU_2048).device(|device| device.ethernet = false);
    port(subnet, "mtu", LookAtThis, &["2048 B of 4096 B", "partitions.conf"]);
    let lanes = |code| {
        let ward = Ward::healthy();
        ward.device(|device| (device.ethernet, device.link) = (false, (code, 32)))
    };
    port(lanes(1), "rate", LookAtThis, &["25 Gbit/s over 1 lane;", "have failed"]);
    port(lanes(2), "rate", NotSeen, &["100 Gbit/s over 4 lanes; the maximum", "mlxlink -d mlx5_0"]);
    port(lanes(77), "rate", NotSeen, &["cat /sys/class/infiniband/mlx5_0/ports/1/rate"]);
}

/// The maximum rate of a ConnectX-6 is 200 Gbit/s.
#[test]
fn a_rate_is_compared_with_that_of_its_generation() {
    let link = |link| Ward::healthy().device(|device| device.link = link);
    let parts = ["10 Gbit/s over 4 lanes; cards of ConnectX-6", "up to 200 Gbit/s", "ethtool ens1"];
    port(link((2, 1)), "rate", LookAtThis, &parts);
    port(link((2, 32)), "rate", NotSeen, &["100 Gbit/s over 4 lanes; the maximum", "ethtool ens1"]);
    port(link((2, 64)), "rate", Fine, &["200 Gbit/s over 4 lanes"]);
    let other = link((2, 64)).driver("bnxt_en");
    port(
        other,
        "rate",
        NotSeen,
        &["200 Gbit/s over 4 lanes; the maximum rate of the card is unknown"],
    );
    let newest = link((2, 64)).device(|device| device.firmware = "32.43.1014");
    port(newest, "rate", NotSeen, &["cards of BlueField-3 support up to 400"]);
}

#[test]
fn gids_that_peers_cannot_use_are_broken() {
    let local = "fe80::1";
    let with = |gids: &[crate::stand_in::Gid]| {
        let gids = gids.to_vec();
        Ward::healthy().device(|device| device.gids = gids)
    };
    let v1 = with(&[(local, IBV_GID_TYPE_ROCE_V1)]);
    port(v1, "gid", Broken, &["RoCE v1 is not routed", "--gid-index", "notes/gids.md"]);
    let v2 = with(&[(local, IBV_GID_TYPE_ROCE_V2)]);
    port(v2, "gid", Broken, &["ip address add ADDRESS/PREFIX dev ens1"]);
    port(with(&[]), "gid", Broken, &["no GID"]);
    // For the test of the device itself any address is sufficient.
    let v1 = with(&[(local, IBV_GID_TYPE_ROCE_V1)]);
    device(v1, "atomics-tried", Fine, &[]);
    let subnet = Ward::healthy().device(|device| {
        (device.ethernet, device.gids) =
            (false, vec![(local, probeline_verbs_sys::IBV_GID_TYPE_IB)]);
    });
    port(subnet, "gid", Fine, &["InfiniBand, fe80::1, index 0"]);
}

#[test]
fn retransmissions_are_reported() {
    let counters = "sys/class/infiniband/mlx5_0/ports/1/hw_counters";
    let some = Ward::healthy().file(&format!("{counters}/packet_seq_err"), "17\n");
    port(some, "sent-again", LookAtThis, &["packet_seq_err 17", "notes/lossy-ethernet.md"]);
    let none = Ward::healthy().without(counters);
    port(none, "sent-again", NotSeen, &["ls /sys/class/infiniband/mlx5_0/ports/1/hw_counters"]);
}

#[test]
fn a_device_that_may_not_be_opened_is_broken() {
    let closed =
        Ward::healthy().broken(|faults| faults.call = Some(("ibv_open_device", 0, libc::EACCES)));
    device(closed, "device", Broken, &["EACCES", "/dev/infiniband", "notes/no-device.md"]);
}

/// A device whose requests never complete, with enough time for the test to fail by itself.
#[test]
fn a_trial_that_hangs_times_out() {
    let silent = Ward::healthy().broken(|faults| faults.poll = Some(0));
    device(silent, "atomics-tried", Broken, &["never completed"]);
}

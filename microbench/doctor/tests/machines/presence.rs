//! Machines on which libibverbs lists no device, and the reasons.

use core::time::Duration;
use std::sync::mpsc::channel;

use probeline_doctor::Verdict::{Broken, Fine, LookAtThis, NotSeen};
use probeline_doctor::{Questions, Survey, survey};
use probeline_verbs::{LIBIBVERBS, LoadError, VerbFailed};

use crate::ward::{HEALTHY, Ward, expect};

/// Creates the healthy machine without RDMA.
fn bare(more: &str) -> Ward {
    let lines = HEALTHY.lines().filter(|line| !line.contains("infiniband"));
    let files: Vec<&str> = lines.collect();
    Ward::of(&(files.join("\n") + "\n" + more)).unlisted()
}

#[test]
fn without_a_card_shared_memory_is_recommended() {
    let bus = "sys/bus/pci/devices/0000:00:00.0/class: 0x060000";
    let findings = bare(bus).findings();
    let parts = ["no RDMA device, and no card", "--transport shm connects", "just vm-test"];
    expect(&findings, "machine", "device", LookAtThis, &parts);
    expect(&findings, "machine", "libibverbs", Fine, &["loaded"]);
    expect(&findings, "machine", "locked-memory", Fine, &["no device to register memory with"]);
    assert!(findings.iter().all(|finding| finding.verdict != Broken));
}

#[test]
fn soft_roce_is_recommended_if_the_kernel_has_it() {
    let module = "lib/modules/6.1.0-21-amd64/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz:";
    let soft = bare(&format!("{module}\nsys/class/net/lo/mtu: 1\nsys/class/net/ens5/mtu: 1"));
    let fix = "modprobe rdma_rxe; sudo rdma link add rxe0 type rxe netdev ens5";
    soft.says("machine", "device", LookAtThis, &[fix]);
    let built_in = "lib/modules/6.1.0-21-amd64/modules.builtin: \
                    kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko";
    bare(built_in).says("machine", "device", LookAtThis, &["for a trial with Soft-RoCE: sudo"]);
}

/// Something without files here may exist all the same.
#[test]
fn modules_that_are_not_visible_may_exist() {
    let modules = "lib/modules/6.1.0-21-amd64/modules.builtin: kernel/fs/ext4/ext4.ko";
    let parts = ["no PCI bus", "this kernel has no Soft-RoCE"];
    bare(modules).says("machine", "device", LookAtThis, &parts);
    let parts = ["Soft-RoCE, if the kernel has it", "/lib/modules/6.1.0-21-amd64 is missing"];
    bare("").says("machine", "device", LookAtThis, &parts);
    let no_sys = Ward::of("proc/sys/kernel/osrelease: 6.1.0-21-amd64").without("sys").unlisted();
    no_sys.says("machine", "device", NotSeen, &["/sys, which lists cards, is missing"]);
}

#[test]
fn a_card_without_its_module_is_reported() {
    let at = "sys/bus/pci/devices/0000:65:00.0";
    let card = |vendor: &str, device: &str, class: &str| {
        bare(&format!("{at}/vendor: {vendor}\n{at}/device: {device}\n{at}/class: {class}"))
    };
    let says = |ward: Ward, part: &str| ward.says("machine", "device", LookAtThis, &[part]);
    says(card("0x15b3", "0x101b", "0x020700"), "a card at 0000:65:00.0 (driver none)");
    says(card("0x15b3", "0x101b", "0x020000"), "sudo modprobe mlx5_ib ib_uverbs");
    says(card("0x15b3", "0x1007", "0x020000"), "sudo modprobe mlx4_ib ib_uverbs");
    says(card("0x1d0f", "0xefa1", "0x020000"), "sudo modprobe efa ib_uverbs");
    // Many network cards have no RDMA.
    says(card("0x8086", "0x1521", "0x020000"), "no card that is known to support RDMA");
    says(card("0x15b3", "what", "0x020000"), "no card that is known to support RDMA");
    let lines = format!(
        "{at}/driver -> ../../drivers/vfio-pci\n{at}/vendor: 0x15b3\n{at}/device: 0x101b\n\
         {at}/class: 0x020700"
    );
    says(bare(&lines), "assigned to a virtual machine");
}

/// Each reason applies only if the previous ones do not.
#[test]
fn a_device_that_libibverbs_does_not_list_is_broken() {
    let unlisted = || Ward::healthy().unlisted();
    let says = |ward: Ward, part: &str| ward.says("machine", "device", Broken, &["mlx5_0", part]);
    says(unlisted().without("sys/class/infiniband_verbs"), "sudo modprobe ib_uverbs");
    says(unlisted().without("dev/infiniband"), "docker run --device=/dev/infiniband");
    says(unlisted(), "ibverbs-providers");
}

#[test]
fn a_missing_library_is_broken_only_with_a_device() {
    let none = || {
        let questions = Questions::default();
        survey(|| Err(LoadError::Library(LIBIBVERBS)), &questions, Duration::from_secs(20))
    };
    let install = "apt-get install libibverbs1 ibverbs-providers";
    let findings = bare("").doctor().examine(&none());
    expect(&findings, "machine", "libibverbs", LookAtThis, &[install]);
    let findings = Ward::healthy().doctor().examine(&none());
    expect(&findings, "machine", "libibverbs", Broken, &[install, "the kernel has mlx5_0"]);
}

#[test]
fn a_library_that_fails_or_hangs_is_broken() {
    let ward = Ward::healthy();
    let failed = VerbFailed { verb: "ibv_get_device_list", errno: libc::EPERM };
    let findings = ward.doctor().examine(&Survey::NoList(failed));
    expect(&findings, "machine", "libibverbs", Broken, &["EPERM"]);

    // Lives until the end of this test.
    let (_end, ends) = channel::<()>();
    let hangs = move || {
        let _ = ends.recv();
        Err(LoadError::Library(LIBIBVERBS))
    };
    let survey = survey(hangs, &Questions::default(), Duration::from_millis(50));
    assert!(matches!(survey, Survey::Silent(_)));
    let findings = ward.doctor().examine(&survey);
    expect(&findings, "machine", "libibverbs", Broken, &["no answer", "dmesg"]);
}

#[test]
fn only_the_requested_device_is_examined() {
    let ward = Ward::healthy().second(|device| device.name = "mlx5_1");
    let Survey::Devices(all) = ward.survey() else { panic!("no devices") };
    assert_eq!(all.len(), 2);
    let findings = ward.doctor().device(&all[1], true);
    assert!(findings.iter().all(|finding| finding.subject.to_string().starts_with("mlx5_1")));
}

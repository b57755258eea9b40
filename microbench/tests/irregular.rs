//! `bench-queue`, `isx`, `bale` and `dsm`: reports over each transport, and refused options.

use crate::common::refuses;
use crate::common::reported::{command, rows_over};

#[test]
fn isx_sorts() {
    for options in [&["--keys", "3000"][..], &["--total-keys", "6000", "--carrier", "queues"]] {
        for row in command("isx", options, 1) {
            assert_eq!(row["keys"].as_u64(), Some(6000), "{row}");
        }
    }
}

#[test]
fn measures_rings_and_batches() {
    for row in command("bench-queue", &["--values", "500"], 4) {
        assert_eq!(row["values"].as_u64(), Some(1000), "{row}");
        for rate in ["pushes_per_s", "pops_per_s"] {
            assert!(row[rate].as_f64() > Some(0.0), "{row}");
        }
    }
}

#[test]
fn bale_runs_each_kernel() {
    let sizes = ["--size", "90", "--ops", "800", "--degree", "3"];
    for (kernel, sizes) in [
        ("histogram", &sizes[..4]),
        ("index-gather", &sizes[..4]),
        ("randperm", &sizes[..2]),
        ("toposort", &[sizes[0], sizes[1], sizes[4], sizes[5]]),
        ("triangles", &["--kron", "1:3x4x5"]),
    ] {
        for access in [&[][..], &["--aggregated"]] {
            for row in command("bale", &[&[kernel], sizes, access].concat(), 1) {
                assert!(row["operations"].as_u64() > Some(90), "{row}");
                let triangles = (kernel == "triangles").then_some(287);
                assert_eq!(row["triangles"].as_u64(), triangles, "{row}");
                assert_eq!(row["verified"], true, "{row}");
            }
        }
    }
}

#[test]
fn dsm_runs_each_program() {
    // Whether a rank edits only pages of its own, which it does not send over shm.
    for (options, barriers, is_apart) in [
        (&["is", "--class", "s"][..], 21.0, false),
        (&["lu", "--side", "64", "--page-size", "512"], 9.0, true),
        (&["lu", "--side", "64", "--in-rows"], 9.0, false),
        (&["ocean", "--side", "34"], 60.0, true),
        (&["barnes", "--bodies", "200"], 13.0, false),
        (&["lu", "--side", "64", "--in-rows", "--protocol", "orig", "--ranks", "4"], 9.0, false),
        (&["barnes", "--bodies", "200", "--protocol", "pipe", "--ranks", "4"], 13.0, false),
    ] {
        for (row, is_sent) in command("dsm", options, 1).iter().zip([!is_apart, true]) {
            let found = row["barriers"].as_f64().unwrap();
            assert!(found == barriers || options[0] == "ocean" && found > barriers, "{row}");
            let diffs = row["diffs"].as_f64().unwrap();
            // Only ocean has a common word then, under a lock.
            let locked = row["acquires"].as_f64().unwrap();
            assert!(if is_sent { diffs > 4.0 } else { diffs <= locked }, "{row}");
        }
    }
    let costs = ["is", "--class", "s", "--flop-ps", "2000", "--byte-ps", "1000"];
    rows_over("dsm", &costs, &["--transport", "sim"], 1);
}

#[test]
fn refuses_unused_options() {
    let lines = [
        ("bale randperm --degree 3", "--degree is not for randperm"),
        ("bale histogram --kron 1:3", "--kron is not for histogram"),
        ("bale triangles --kron 9:3", "such as 1:3x4x5"),
        ("bale histogram --size 0", "give a size of 1 to"),
        ("bale triangles --kron 1:65535x65535", "up to 2^26 edges"),
        ("isx --total-keys 3 --ranks 8", "a rank would make 0 keys"),
        ("isx --ranks 1025", "take queues"),
        ("bench-queue --ranks 4096 --values 16777216", "give fewer --ranks"),
        ("bale randperm --aggregated --ranks 1025", "take direct operations"),
        ("dsm is --side 64", "--side is not for is"),
        ("dsm lu --class s", "--class is not for lu"),
        ("dsm lu --side 100", "a multiple of 16"),
        ("dsm ocean --side 64", "a power of two"),
        ("dsm lu --page-size 100", "a page has 64 bytes"),
        ("dsm lu --page-size 96", "a page has 64 bytes"),
        ("dsm lu --side 0", "a multiple of 16"),
        ("dsm barnes --bodies 0", "give --bodies of 1 to"),
        ("dsm lu --diff-depth 2", "--diff-depth is for"),
        ("dsm lu --flop-ps 2", "--flop-ps is for --transport sim"),
        ("dsm lu --protocol pipe --diff-buffer 100", "a multiple of 64"),
        ("dsm lu --protocol pipe --ranks 3", "an even number of ranks"),
        ("isx --table-size 1MiB", "--table-size is not for this command"),
    ];
    refuses(2, &lines);
}

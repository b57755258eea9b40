//! `isx` and `bale`: reports over each transport, and refused options.

mod common;

use common::reported::command;
use common::run;

#[test]
fn isx_sorts() {
    for options in [&["--keys", "3000"][..], &["--total-keys", "6000", "--carrier", "queues"]] {
        for row in command("isx", options, 1) {
            assert_eq!(row["keys"].as_u64(), Some(6000), "{row}");
        }
    }
}

#[test]
fn bale_runs_each_kernel() {
    let sizes = ["--size", "90", "--operations", "800", "--degree", "3"];
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
fn refuses_what_a_kernel_does_not_use() {
    for (arguments, expected) in [
        (&["bale", "randperm", "--degree", "3"][..], "--degree is not for randperm"),
        (&["bale", "histogram", "--kron", "1:3"], "--kron is not for histogram"),
        (&["bale", "triangles", "--kron", "9:3"], "such as 1:3x4x5"),
        (&["bale", "histogram", "--size", "0"], "give a size of 1 to"),
        (&["bale", "triangles", "--kron", "1:65535x65535"], "up to 2^26 edges"),
        (&["isx", "--total-keys", "3", "--ranks", "8"], "a rank would make 0 keys"),
        (&["isx", "--ranks", "65"], "take queues"),
        (&["bale", "randperm", "--aggregated", "--ranks", "65"], "take direct operations"),
        (&["isx", "--table-size", "1MiB"], "--table-size is not for this command"),
    ] {
        let output = run(arguments);
        assert!(output.code == Some(2) && output.stderr.contains(expected), "{output:?}");
    }
}

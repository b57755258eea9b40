//! Tests of `report` with runs that the test makes. `report/tests` checks the page and its plots.

use std::fs;

use crate::common::{Scratch, run};

/// Writes short runs of the commands that have plots, and of the doctor, one file each.
fn runs(scratch: &Scratch) -> Vec<String> {
    let latency =
        "bench-latency --table-size 2MiB --rounds 2 --ops 2000 --seconds-per-measurement 0.005";
    let throughput = "bench-throughput --ops 4000 --table-size 2MiB --rounds 2 --ranks";
    let plans: [&str; 9] = [
        &format!("{latency} --load-factor 0.1,0.5,0.7,0.8,0.9"),
        &format!("{latency} --transport sim --paper"),
        &format!("{throughput} 1"),
        &format!("{throughput} 2"),
        &format!("{throughput} 4 --transport sim"),
        "roundtrips --table-size 256KiB",
        "compare --transports shm,shm-posted --table-size 1MiB --rounds 2 --ops 200",
        "simulate --machines 2,4 --ranks-per-machine 1,4 --ops 40 --experiment throughput --truncate-us",
        "doctor",
    ];
    let make = |(at, plan): (usize, &str)| {
        let plan: Vec<&str> = plan.split(' ').collect();
        let file = scratch.path(&format!("{:02}-{}.json", at + 1, plan[0]));
        let ended = run(&[&plan[..], &["--json", &file]].concat());
        // The doctor may find this machine broken, which is its status 3.
        let broken = plan[0] == "doctor" && ended.code == Some(3);
        assert!(ended.code == Some(0) || broken, "{plan:?}: {}", ended.stderr);
        file
    };
    plans.into_iter().enumerate().map(make).collect()
}

/// A page has a plot of each kind, and the findings of the doctor.
#[test]
fn plots_real_runs() {
    let scratch = Scratch::new();
    let files = runs(&scratch);
    let (page, svg) = (scratch.path("report.html"), scratch.path("svg"));
    let mut arguments: Vec<&str> = vec!["report"];
    arguments.extend(files.iter().map(String::as_str));
    arguments.extend(["--html", &page, "--svg", &svg]);
    let printed = run(&arguments).printed();
    assert!(printed.contains(&page) && printed.contains(&svg), "{printed}");
    let page = fs::read_to_string(page).unwrap();
    for id in [
        "latency-inserted",
        "latency-found",
        "roundtrips-effective",
        "distribution-one-sided",
        "distribution-inserted-50",
        "distribution-found-90",
        "throughput",
        "compare-latency",
        "paper-throughput-mixed",
    ] {
        assert!(page.contains(&format!("<figure id=\"{id}\"")), "{id}");
        assert!(fs::exists(format!("{svg}/{id}.svg")).unwrap(), "{id}");
    }
    assert_eq!(page.matches("<article ").count(), files.len());
    let lists = page.split("<ul class=\"findings\">").skip(1);
    let lists = lists.filter_map(|rest| rest.split("</ul>").next());
    assert!(lists.map(|list| list.matches("<li ").count()).sum::<usize>() > 3, "{page}");
}

#[test]
fn writes_page_to_stdout_or_fails() {
    let scratch = Scratch::new();
    let [good, svg, page] = ["good.json", "svg", "page.html"].map(|name| scratch.path(name));
    // Its status depends on this machine.
    run(&["doctor", "--json", &good]);
    let ended = run(&["report", &good, "--html", "-", "--svg", &svg]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("<!DOCTYPE html>"), "{}", ended.stdout);
    assert!(ended.stdout.ends_with("</html>\n"), "{}", ended.stdout);
    assert!(ended.stderr.contains("plots: 0 files"));
    assert!(!fs::exists("-").unwrap());

    let nowhere = scratch.path("no/such/folder/page.html");
    let said = run(&["report", &good, "--html", &nowhere]).failed_in_one_line();
    assert!(said.contains(&nowhere) && said.contains("cannot be written"), "{said}");
    let said = run(&["report", "--html", &page]).failed();
    assert!(said.contains("RUN.json"), "{said}");
}

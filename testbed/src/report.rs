//! What a run prints: the lines that cargo's own tests print.

use core::time::Duration;
use std::io::{self, Write};
use std::time::Instant;

/// Counts outcomes and prints each.
#[derive(Debug)]
pub(crate) struct Report {
    start: Instant,
    filtered: usize,
    passed: usize,
    skipped: usize,
    failed: Vec<String>,
}

impl Report {
    pub(crate) fn new(selected: usize, filtered: usize) -> Self {
        println!("\nrunning {selected} test{}", if selected == 1 { "" } else { "s" });
        Self { start: Instant::now(), filtered, passed: 0, skipped: 0, failed: Vec::new() }
    }

    pub(crate) fn begin(&self, name: &str) {
        print!("test {name} ... ");
        // Only shows the line early.
        let _ = io::stdout().flush();
    }

    pub(crate) fn passed(&mut self, time: Duration) {
        self.passed += 1;
        println!("ok ({:.1} s)", time.as_secs_f32());
    }

    /// Counted as cargo counts what it ignores.
    pub(crate) fn skipped(&mut self, time: Duration, why: &str) {
        self.skipped += 1;
        println!("ignored, {why} ({:.1} s)", time.as_secs_f32());
    }

    pub(crate) fn failed(&mut self, name: &str, time: Duration, why: &str) {
        self.failed.push(name.to_owned());
        println!("FAILED ({:.1} s)", time.as_secs_f32());
        for line in why.lines() {
            println!("    {line}");
        }
    }

    /// Prints the sum; whether all passed.
    pub(crate) fn close(self) -> bool {
        let good = self.failed.is_empty();
        if !good {
            println!("\nfailures:");
            self.failed.iter().for_each(|name| println!("    {name}"));
        }
        println!(
            "\ntest result: {}. {} passed; {} failed; {} ignored; 0 measured; {} filtered out; \
             finished in {:.2}s\n",
            if good { "ok" } else { "FAILED" },
            self.passed,
            self.failed.len(),
            self.skipped,
            self.filtered,
            self.start.elapsed().as_secs_f32()
        );
        good
    }
}

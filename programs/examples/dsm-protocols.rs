//! Runs the programs on shared pages under ORIG, PIPE and the one-sided protocol, on a model of the cluster of Noronha
//! and Panda ("Reducing Diff Overhead in Software DSM Systems using RDMA Operations in InfiniBand", 2004), and prints
//! the rows of their Table 2 beside times: `dsm-protocols lu handler=10000 depth=2`.

use core::error::Error;

use probeline::dsm::Distribution;
use probeline::sim::{Cluster, Config, Cost, Model, Nic, Rates, Roundtrips, stage};
use probeline::transport::Exchange;
use probeline_programs::dsm::{
    Blocks, Buffers, Class, Costs, Options, Program, Protocol, Run, run,
};

/// Section 1 of the paper has the latency, about 5 us one way, and the rate, 10 Gbit/s before 8b/10b coding; the rest is
/// assumed.
fn model(owners_per_node: u32) -> Model {
    let trips = |base_ns| Roundtrips { read: Cost { base_ns, word_ps: 8_000 }, atomic_ns: base_ns };
    Model {
        post_ns: 500,
        completion_ns: 200,
        idle_poll_ns: 50,
        barrier_ns: 10_000,
        owners_per_node,
        local: trips(200),
        local_by_cpu: true,
        remote: trips(10_000),
        initiator: Rates { reads_per_s: 2_000_000, ..Rates::default() },
        nic: Nic {
            target: Rates { atomics_per_s: 1_000_000, ..Rates::default() },
            bytes_per_s: 1_000_000_000,
            ..Nic::default()
        },
        ..Model::instant()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given =
        |name: &str| arguments.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let number = |name: &str, default: u32| given(name).map_or(Ok(default), str::parse);
    let name = arguments.first().map_or("", String::as_str);
    let program = match name {
        "lu" => Program::Lu { side: 1024, blocks: Blocks::Rows },
        "ocean" => Program::Ocean { side: 258 },
        "barnes" => Program::Barnes { bodies: 32_768 },
        "is" => Program::Sort(Class::P),
        _ => return Err("give lu, ocean, barnes or is".into()),
    };
    let buffers = |packs| -> Result<Protocol, core::num::ParseIntError> {
        let (depth, bytes) = (number("depth", 2)?, 32 << 10);
        let reads_pages = given("fetch") == Some("read");
        let distribution = match given("homes") {
            Some("cyclic") => Distribution::Cyclic,
            _ => Distribution::Block,
        };
        Ok(Protocol::Homes(Buffers { depth, bytes, packs, reads_pages, distribution }))
    };
    let costs =
        Costs { flop_ps: 2_000, byte_ps: 1_000, handler_ns: number("handler", 10_000)?.into() };
    println!(
        "program  protocol      s  speedup  barriers  diffs  bytes each  messages of diffs  pages read  messages"
    );
    for (protocol, how) in
        [("orig", buffers(false)?), ("pipe", buffers(true)?), ("one-sided", Protocol::OneSided)]
    {
        let runs = simulate(program, how, costs, 16)?;
        let mean = |count: fn(&Run) -> u64| runs.iter().map(count).sum::<u64>() as f64 / 16.0;
        let (seconds, diffs) = (runs[0].ns as f64 / 1e9, mean(|run| run.stats.diffs));
        println!(
            "{name:7}  {protocol:9}  {seconds:5.3}  {:7.2}  {:8.0}  {diffs:5.0}  {:10.0}  {:17.0}  {:10.0}  {:8.0}",
            runs[0].sequential_ns as f64 / 1e9 / seconds,
            mean(|run| run.stats.barriers),
            mean(|run| run.stats.written_words + run.stats.adds) * 8.0 / diffs,
            mean(|run| run.stats.writes + run.stats.adds),
            mean(|run| run.stats.fetches),
            mean(|run| run.messages),
        );
    }
    Ok(())
}

/// Runs a program on this many ranks, which have a home each under [`Protocol::Homes`].
fn simulate(
    program: Program,
    protocol: Protocol,
    costs: Costs,
    ranks: u32,
) -> Result<Vec<Run>, Box<dyn Error>> {
    let each = if protocol == Protocol::OneSided { 1 } else { 2 };
    let options = Options { program, page_words: 512, protocol, in_windows: false, costs };
    let owners = ranks * each;
    let config = Config::new(owners, options.sizes(owners));
    let cluster = Cluster::new(Config { model: model(each), write_then_atomic: true, ..config })?;
    let runs = stage::run(&cluster, |mut engine, mut exchange| {
        let ran = run(&options, &mut engine, &mut exchange);
        exchange.barrier()?;
        ran
    })?;
    Ok(runs.into_iter().collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PIPE is ahead of ORIG and two buffers suffice, as in the paper, here at small sizes. The one-sided protocol is
    /// ahead of both.
    #[test]
    fn one_sided_before_pipe_before_orig() {
        let costs = Costs { flop_ps: 2_000, byte_ps: 1_000, handler_ns: 10_000 };
        let homes = |packs, depth| {
            let distribution = Distribution::Block;
            let bytes = 32 << 10;
            Protocol::Homes(Buffers { depth, bytes, packs, reads_pages: false, distribution })
        };
        for program in [
            Program::Lu { side: 256, blocks: Blocks::Rows },
            Program::Ocean { side: 66 },
            Program::Barnes { bodies: 2048 },
        ] {
            let pipes = [homes(true, 2), homes(true, 4), homes(true, 8)];
            let protocols = [homes(false, 2), pipes[0], pipes[1], pipes[2], Protocol::OneSided];
            let times =
                protocols.map(|protocol| simulate(program, protocol, costs, 8).unwrap()[0].ns);
            let [orig, pipe, deeper, deepest, one_sided] = times;
            assert!(orig > pipe && pipe > one_sided, "{program:?}: {times:?}");
            assert!(deeper.min(deepest) * 100 > pipe * 99, "{program:?}: {times:?}");
        }
    }
}

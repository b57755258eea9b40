//! perftest, whose medians others are compared with.

use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::machine::Machine;
use crate::patience::PATIENCE;

/// How far apart two figures may be where time is what is executed: they agree to the third digit.
const REPEATS_WITHIN: f64 = 0.005;

/// Rounds of each measurement that is compared.
pub(super) const ROUNDS: usize = 5;

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Two, "ib_read_lat_gives_numbers", read_latency),
    Case::new(Layer::Two, "ib_atomic_lat_gives_numbers", atomic_latency),
    Case::new(Layer::Icount, "ib_read_lat_repeats", read_latency_repeats),
];

fn read_latency(bed: &Bed) -> Result<(), Failure> {
    positive(figure("ib_read_lat --size 64", bed.machine(2), bed.machine(1))?).map(drop)
}

fn atomic_latency(bed: &Bed) -> Result<(), Failure> {
    let program = "ib_atomic_lat --atomic_type CMP_AND_SWAP";
    positive(figure(program, bed.machine(2), bed.machine(1))?).map(drop)
}

fn read_latency_repeats(bed: &Bed) -> Result<(), Failure> {
    let node = bed.machine(1);
    repeats(|| figure("ib_read_lat --size 64", node, node))
}

/// Whether a figure is the same when it is measured again. Interrupts that depend on the host add
/// instructions to some runs and remove none, so the least figures of runs in turn are compared.
pub(super) fn repeats(measured: impl Fn() -> Result<f64, Failure>) -> Result<(), Failure> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        first.push(measured()?);
        second.push(measured()?);
    }
    println!("medians, by turns: {first:?} and {second:?}");
    let least = |medians: Vec<f64>| medians.into_iter().fold(f64::INFINITY, f64::min);
    let (first, second) = (least(first), least(second));
    positive(first)?;
    let apart = (first - second).abs() / first;
    ensure(apart <= REPEATS_WITHIN, || format!("at least {first}, then {second}"))
}

/// Fails where nothing was measured.
pub(super) fn positive(figure: f64) -> Result<f64, Failure> {
    ensure(figure.is_finite() && figure > 0.0, || format!("a figure of {figure}"))?;
    Ok(figure)
}

/// Runs a test of perftest, given without its server, and returns its figure: of latency tests the
/// median in µs, of rate tests million operations a second.
pub(super) fn figure(program: &str, server: &Machine, client: &Machine) -> Result<f64, Failure> {
    const PORT: u16 = 18515;
    let command =
        format!("{program} --ib-dev rxe0 --gid-index $GID_INDEX --CPU-freq --port {PORT}");
    let serving = server.start(&command, PATIENCE)?;
    if let Err(error) = server.listening(PORT) {
        return Err(Failure(format!("{error}\n{}", serving.output())));
    }
    let text = client.output(&format!("{command} {}", server.address()), PATIENCE)?;
    serving.wait()?.good()?;
    fifth(&text).ok_or_else(|| Failure(format!("no row of numbers:\n{text}")))
}

/// The fifth column, `t_typical` or `MsgRate`, of the only row.
fn fifth(text: &str) -> Option<f64> {
    let rows = text.lines().map(|line| line.split_whitespace().map(str::parse::<f64>));
    let mut rows = rows.filter_map(|row| row.collect::<Result<Vec<f64>, _>>().ok());
    rows.find(|row| row.len() >= 5).map(|row| row[4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_read() {
        let text = " remote address: QPN 0x11 PSN 0x8cbd2\n\
                    #bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec]\n \
                    64      1000       17.42       44.64       18.59      19.01  1.2  20.1  44.6\n";
        assert_eq!(fifth(text), Some(18.59));
        let text = " #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n \
                    64         3000             4.49               3.52           0.057751\n";
        assert_eq!(fifth(text), Some(0.057751));
        assert_eq!(fifth("Couldn't connect to 10.0.0.2:18515\n"), None);
    }
}

//! Who has a turn: every column at each step, one after the other, round by round.

use std::env;
use std::ffi::OsString;

use super::CompareArgs;
use super::group::Group;
use super::launch::command;
use super::plan::steps;
use super::sample::Sample;
use super::standing::Standing;
use crate::cli::command_at;
use crate::progress::{Progress, waiting};

/// Starts the ranks of all columns on this machine, has them measure, and lets them leave.
pub(super) fn compare_groups(args: &CompareArgs) -> Vec<Standing> {
    let mut columns = args.standings();
    let all: Vec<OsString> = env::args_os().collect();
    let given: Vec<OsString> = all.iter().skip(command_at(&all) + 1).cloned().collect();
    let mut groups: Vec<Option<Group>> = columns
        .iter_mut()
        .map(|column| {
            let started = command(column.name, args.job.ranks, &args.worker, &given, &args.more())
                .and_then(|command| {
                    waiting(&format!("starting {}", column.name.name()), true, || {
                        Group::start(command, args.meet_timeout(), args.step_timeout())
                    })
                });
            match started {
                Ok((group, ability)) => {
                    column.ability = Some(ability);
                    Some(group)
                }
                Err(reason) => {
                    column.reason = Some(reason);
                    None
                }
            }
        })
        .collect();
    take_turns(args, &mut columns, |at, step, round| {
        let group = groups[at].as_mut().ok_or_else(|| "it has ended".to_owned())?;
        let sample = group.measure(step, round);
        if sample.is_err() {
            // Ends its processes, so that they disturb nobody.
            groups[at] = None;
        }
        sample
    });
    for (column, group) in columns.iter_mut().zip(groups) {
        match group.map(Group::end) {
            Some(Ok(about)) => match another(column, &about) {
                Some(reason) => column.discard(reason),
                None => column.about = about,
            },
            Some(Err(reason)) => column.reason = Some(reason),
            None => {}
        }
    }
    columns
}

/// Why it was not what the column stands for that was measured.
fn another(column: &Standing, about: &[String]) -> Option<String> {
    let missing = column.name.lacks(about)?;
    Some(format!(
        "it was measured without {missing}, which this library may not have: {}",
        about.join("; ")
    ))
}

/// Has every column measure every step in each round; `measure` says what one of them gives, or
/// why it gives nothing any more. Each round begins with another column.
pub(super) fn take_turns(
    args: &CompareArgs,
    columns: &mut [Standing],
    mut measure: impl FnMut(usize, usize, u64) -> Result<Sample, String>,
) {
    let (steps, rounds) = (steps(), u64::from(args.rounds()));
    let mut progress = Progress::new(rounds * steps.len() as u64, true);
    for round in 0..rounds {
        for (at, step) in steps.iter().enumerate() {
            let done = round * steps.len() as u64 + at as u64;
            let first = usize::try_from(round).unwrap_or(0) % columns.len().max(1);
            for turn in 0..columns.len() {
                let whose = (first + turn) % columns.len();
                let column = &mut columns[whose];
                if !column.is_up() {
                    continue;
                }
                let doing = format!("{} over {}", step.name(), column.name.name());
                progress.expecting(done, &doing, args.time());
                match measure(whose, at, round) {
                    Ok(sample) => column.add(at, sample),
                    Err(reason) => {
                        let what = format!("{}, owner {}", step.name(), step.owner());
                        column.reason = Some(format!("in round {}, {what}: {reason}", round + 1));
                    }
                }
            }
        }
    }
}

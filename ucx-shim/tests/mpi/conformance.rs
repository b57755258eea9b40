//! The suite every transport passes.

use probeline_transport::Exchange;
use probeline_transport::conformance::{Case, Failure, Report, Rig, Verdict, cases};
use probeline_ucx_shim::mpi::{Builder, Members, World};

use crate::counting;
use crate::settings::Setting;

/// Two owners run the cases for two. Four run those for three, with one more; and as two pairs at
/// the same time those for two.
pub(crate) fn run(_: &World, members: &mut Members, setting: &Setting) {
    let me = members.me().0;
    let mut pair = members.split(u16::try_from(me / 2).unwrap()).unwrap();
    let mut report = Report::new();
    let mut skips = setting.skips.to_vec();
    for case in cases() {
        let mine = match (case.shape.owners, members.owners()) {
            (2, _) => suite(case, &mut pair, setting),
            (_, 4) => suite(case, members, setting),
            _ => {
                skips.retain(|name| *name != case.name);
                continue;
            }
        };
        let verdicts = everybodys(mine, members);
        if me == 0 {
            report.add(case, &verdicts);
        }
    }
    if me == 0 {
        skips.sort_by_key(|name| cases().position(|case| case.name == *name));
        report.judge(&skips).unwrap();
    }
}

fn suite(case: &Case, members: &mut Members, setting: &Setting) -> Result<Verdict, Failure> {
    let shape = case.shape;
    let mut engine = Builder::new(shape.window_words)
        .slots(shape.slots, shape.slot_words)
        .depth(shape.depth)
        .word_reads_whole(setting.whole)
        .acc_single_intrinsic(setting.single)
        .open(members)
        .map_err(|error| Failure(format!("{error} ({error:?})")))?;
    let mut rig = Rig::new(&mut engine, members);
    rig.allocations = Some(counting::allocations);
    case.run(&mut rig)
}

/// The verdicts of all owners; what went wrong elsewhere is on the other process's output.
fn everybodys(
    mine: Result<Verdict, Failure>,
    members: &mut Members,
) -> Vec<Result<Verdict, Failure>> {
    if let Err(failure) = &mine {
        eprintln!("{}: {failure}", members.me());
    }
    let mut passed = vec![0; members.owners() as usize];
    members.all_gather(&[u8::from(mine.is_ok())], &mut passed).unwrap();
    let verdict = |passed| match passed {
        0 => Err(Failure("see what it printed itself".into())),
        // A skip depends on the capabilities, which are the same for all.
        _ => mine.clone(),
    };
    passed.into_iter().map(verdict).collect()
}

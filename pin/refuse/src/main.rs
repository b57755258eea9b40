//! `refuse ERRNO CALL,... COMMAND...`: runs a command whose system calls fail, for example `refuse
//! EPERM mbind,sched_setaffinity probeline bench-latency`.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let Some((mut command, numbers, errno)) = parse(env::args().skip(1)) else {
        eprintln!(
            "usage: refuse EPERM|ENOSYS CALL,... COMMAND...\n\
             commonly refused calls: {}",
            probeline_refuse::COMMONLY_REFUSED.join(",")
        );
        return ExitCode::from(2);
    };
    // Returns only if the command cannot be started.
    let error = probeline_refuse::refuse_in(&mut command, &numbers, errno).exec();
    eprintln!("refuse: cannot run {}: {error}", command.get_program().display());
    ExitCode::FAILURE
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<(Command, Vec<i64>, i32)> {
    let errno = probeline_refuse::errno(&arguments.next()?)?;
    let calls = arguments.next()?;
    let numbers = calls.split(',').map(probeline_refuse::number).collect::<Option<_>>()?;
    let mut command = Command::new(arguments.next()?);
    command.args(arguments);
    Some((command, numbers, errno))
}

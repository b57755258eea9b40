//! Installs the library that cargo has built, and compiles and runs C programs with it.
// Each test binary uses only a part of this module.
#![allow(dead_code)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// All warnings are errors, in C as old as the header allows.
const C: [&str; 7] = ["-std=c99", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"];
const CPP: [&str; 8] =
    ["-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"];

/// An installation in a folder of the test.
pub(crate) struct Installed {
    prefix: PathBuf,
}

/// The language as which a program is compiled.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Language {
    C,
    Cpp,
}

/// Returns the root of the package.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command and returns its standard output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}; see ci/install"));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (said, errors) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{said}{errors}", output.status);
    said
}

impl Installed {
    /// Installs what cargo has built for this test.
    pub(crate) fn new(name: &str) -> Self {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let built = env::current_exe().unwrap();
        let mut install = Command::new(root().join("install"));
        run(install.arg(&prefix).arg("--libraries").arg(built.parent().unwrap()));
        Self { prefix }
    }

    pub(crate) fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Returns the flags that pkg-config prints.
    fn flags(&self, arguments: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", self.prefix.join("lib/pkgconfig"));
        let flags = run(command.args(arguments).arg("probeline"));
        flags.split_whitespace().map(str::to_owned).collect()
    }

    /// Compiles a program with `compiler` and links it with the shared library, or the static one.
    pub(crate) fn compile(
        &self,
        compiler: &str,
        language: Language,
        source: &str,
        is_static: bool,
    ) -> PathBuf {
        let name = Path::new(source).file_stem().unwrap().to_string_lossy();
        let kind = if language == Language::C { "c" } else { "cpp" };
        let linked = if is_static { "static" } else { "shared" };
        let program = self.prefix.join(format!("{name}-{kind}-{linked}"));
        let mut command = Command::new(compiler);
        match language {
            Language::C => command.args(C),
            Language::Cpp => command.args(CPP),
        };
        // The path of MPI-DHT's header, beside that of pkg-config.
        command.arg("-I").arg(self.prefix.join("include/probeline"));
        command.args(self.flags(&["--cflags"])).arg(root().join(source)).arg("-o").arg(&program);
        if is_static {
            // pkg-config --static names the private libraries; the archive has to be named itself.
            let flags = self.flags(&["--libs", "--static"]);
            command.arg(self.prefix.join("lib/libprobeline.a"));
            command.args(flags.into_iter().filter(|flag| flag != "-lprobeline"));
        } else {
            command.args(self.flags(&["--libs"]));
        }
        run(&mut command);
        program
    }

    /// Returns a command that ends after five minutes, finds the shared library, and writes its files where
    /// the library is.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=10", "300"])
            .arg(program)
            .env("LD_LIBRARY_PATH", self.prefix.join("lib"));
        command.current_dir(self.prefix());
        command
    }
}

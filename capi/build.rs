//! Gives the shared library the name by which programs load it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Versions 0.x of the same x are compatible.
    let part = |name: &str| std::env::var(name).unwrap_or_default();
    let (major, minor) = (part("CARGO_PKG_VERSION_MAJOR"), part("CARGO_PKG_VERSION_MINOR"));
    let version = if major == "0" { format!("0.{minor}") } else { major };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libprobeline.so.{version}");
}

//! A directory with the layout of `/sys`, created from a text and removed when dropped.
//!
//! Each line is a file (`path: content`), a link (`path -> target`) or a comment (`#`). A path with
//! a CPU list in braces, such as `cpu{0-3,8}/online`, creates one file for each CPU.

use core::sync::atomic::{AtomicU32, Ordering};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

pub(crate) struct Tree(PathBuf);

impl Tree {
    /// Creates the tree of the machine recorded in `tests/fixtures/NAME.txt`.
    pub(crate) fn recorded(name: &str) -> Self {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        Self::of(&fs::read_to_string(fixtures.join(format!("{name}.txt"))).unwrap())
    }

    pub(crate) fn of(text: &str) -> Self {
        static TREES: AtomicU32 = AtomicU32::new(0);
        let nth = TREES.fetch_add(1, Ordering::Relaxed);
        // In memory if possible: a machine has up to a thousand small files.
        let shm = Path::new("/dev/shm");
        let parent = if shm.is_dir() { shm.into() } else { std::env::temp_dir() };
        let root = parent.join(format!("pin-tree-{}-{nth}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let tree = Self(root);
        text.lines().for_each(|line| tree.add(line.trim()));
        tree
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    /// Creates what a line says, in place of what there is.
    pub(crate) fn add(&self, line: &str) {
        if line.is_empty() || line.starts_with('#') {
            return;
        }
        if let Some((path, target)) = line.split_once(" -> ") {
            let link = self.with_parents(path);
            let _ = fs::remove_file(&link);
            symlink(target, link).unwrap();
            return;
        }
        // A path may contain colons (PCI addresses), and content may be empty.
        let (path, content) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
        for path in expanded(path) {
            fs::write(self.with_parents(&path), format!("{content}\n")).unwrap();
        }
    }

    fn with_parents(&self, path: &str) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Expands the braces of a path. Parses the list itself, because the tests also cover the parser of
/// this crate.
pub(crate) fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.into()] };
    let (list, after) = rest.split_once('}').unwrap();
    let bounds = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<u32>().unwrap()..=last.parse().unwrap()
    };
    list.split(',').flat_map(bounds).map(|n| format!("{before}{n}{after}")).collect()
}

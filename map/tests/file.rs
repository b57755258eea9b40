//! Maps saved by all ranks and loaded by other numbers of ranks into other numbers of buckets, and
//! files that are not loaded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::{Key, Value, key, storage, try_open, value};
use probeline_exchange::Thread;
use probeline_exchange::testing::{Watched, in_time};
use probeline_map::saved::Header;
use probeline_map::{
    CollectiveError, Config, FileError, Loaded, Map, Mode, OperationError, Written,
};
use probeline_shm::Builder;
use probeline_transport::{Exchange, Owner, Transport};

type Rank<K, V> = common::AnyMap<K, V>;

/// Opens a map on each of `ranks` ranks, runs `body`, and returns the results.
fn on_ranks<K: bytemuck::Pod, V: bytemuck::Pod, R: Send>(
    ranks: u32,
    config: Config,
    body: impl Fn(&mut Rank<K, V>, &mut Thread) -> R + Sync,
) -> Vec<R> {
    common::on_ranks(ranks, |member| {
        let mut map = try_open(config, 4, member).unwrap();
        // The ranks drop their maps together.
        let result = body(&mut map, member);
        member.barrier().unwrap();
        result
    })
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("probeline-map-{}-{name}", std::process::id()))
}

/// Returns the name of a file until it is complete.
fn partial(path: &Path) -> PathBuf {
    format!("{}.partial", path.display()).into()
}

const ENTRIES: u64 = 1_000;
/// Room in which no order of the puts finds all candidates of a key full: a load factor of 1/32.
const MUCH_ROOM: u64 = 16 * ENTRIES;

/// Saves a map of some ranks, with every entry put by one of them.
fn save(ranks: u32, path: &Path, mode: Mode) {
    let config = Config { mode, ..Config::for_entries(MUCH_ROOM, ranks) };
    let saved = on_ranks(ranks, config, |map, member| {
        for number in (0..ENTRIES).filter(|n| n % u64::from(ranks) == u64::from(member.me().0)) {
            // A rank that does not run for a while loses its claim, or keeps others out.
            let mut put = || map.put(&key(number), &value(number, 1)).unwrap();
            assert!((0..1_000).any(|_| put() != Written::Dropped), "entry {number}");
        }
        map.save(path, member).unwrap()
    });
    assert_eq!(saved, vec![ENTRIES; ranks as usize]);
}

/// Returns what each entry of all ranks is.
fn entries(parts: &[Vec<(Key, Value)>]) -> BTreeMap<Key, Value> {
    parts.iter().flatten().copied().collect()
}

fn local(map: &Rank<Key, Value>) -> Vec<(Key, Value)> {
    let mut local = Vec::new();
    map.for_each_local(|key, value| local.push((*key, *value))).unwrap();
    local
}

fn all() -> BTreeMap<Key, Value> {
    (0..ENTRIES).map(|number| (key(number), value(number, 1))).collect()
}

/// The number of ranks, of buckets, and the mode may change between save and load.
#[test]
fn loads_into_other_configuration() {
    let path = path("other");
    for (from, to, mode) in
        [(1, 3, Mode::Claims), (3, 1, Mode::BucketLocks), (4, 2, Mode::PartLocks)]
    {
        save(from, &path, mode);
        let config = Config::for_entries(MUCH_ROOM + 77, to);
        let loaded = on_ranks(to, config, |map, member| {
            let loaded = map.load(&path, member).unwrap();
            let again = map.load(&path, member).unwrap();
            (loaded, again, local(map))
        });
        let nothing = Loaded { entries: ENTRIES, ..Loaded::default() };
        let parts: Vec<_> = loaded.iter().map(|rank| rank.2.clone()).collect();
        assert_eq!(entries(&parts), all());
        for (loaded, again, _) in loaded {
            assert_eq!(loaded, Loaded { inserted: ENTRIES, ..nothing });
            assert_eq!(again, Loaded { present: ENTRIES, ..nothing });
        }
        // A quarter of the buckets: the map loses as many entries as it counts.
        let small = Config::new(ENTRIES.div_ceil(4 * u64::from(to)));
        let loaded = on_ranks(to, small, |map, member| {
            let loaded = map.load(&path, member).unwrap();
            (loaded, local(map), map.stats().lost_entries)
        });
        let parts: Vec<_> = loaded.iter().map(|rank| rank.1.clone()).collect();
        let (counts, left) = (loaded[0].0, entries(&parts));
        assert_eq!(counts.inserted + counts.evicted + counts.dropped, ENTRIES);
        let lost: u64 = loaded.iter().map(|rank| rank.2).sum();
        assert_eq!(counts.inserted, left.len() as u64 + lost);
        assert!(counts.evicted >= ENTRIES * 7 / 10, "{counts:?}");
        assert!(left.iter().all(|(key, value)| all().get(key) == Some(value)));
    }
    fs::remove_file(&path).unwrap();
}

#[test]
fn refuses_mismatched_files() {
    let path = path("refused");
    save(2, &path, Mode::Claims);
    let good = fs::read(&path).unwrap();
    let load = |bytes: &[u8], config: Config| -> Vec<String> {
        fs::write(&path, bytes).unwrap();
        on_ranks(2, config, |map: &mut Rank<Key, Value>, member| {
            map.load(&path, member).unwrap_err().to_string()
        })
    };
    let config = Config::for_entries(ENTRIES, 2);
    let name = path.display();
    let changed = |at: usize, bit: u8| {
        let mut bytes = good.clone();
        bytes[at] ^= bit;
        bytes
    };
    let cut = format!(
        "cannot load {name}: it has 192071 bytes, and 192072 by its header; it was cut short or \
         changed: load another copy"
    );
    let entry = format!(
        "cannot load {name}: entry 700 is damaged; clear the map and load another copy, or go on \
         with the entries that were loaded"
    );
    let no_map = "it is not a saved map: give a file that a map was saved to";
    let other = "owner 1 could not do its part of a collective call: see its error";
    let damaged = changed(Header::BYTES + 192 * 700 + 100, 4);
    for (bytes, of, texts) in [
        (good[..good.len() - 1].to_vec(), config, [&*cut; 2]),
        ([&good[..], &[0]].concat(), config, ["192073 bytes, and 192072"; 2]),
        (good[..20].to_vec(), config, [no_map; 2]),
        (Vec::new(), config, [no_map; 2]),
        (damaged, config, [other, &entry]),
        (changed(50, 1), config, ["its header is damaged: load another copy"; 2]),
        (good.clone(), Config { format: 3, ..config }, ["have format 0, those of this map 3"; 2]),
    ] {
        for (said, text) in load(&bytes, of).iter().zip(texts) {
            assert!(said.contains(text), "{said}");
        }
    }
    fs::write(&path, &good).unwrap();
    let sizes = on_ranks(1, config, |map: &mut Rank<[u64; 9], Value>, member| {
        map.load(&path, member).unwrap_err().to_string()
    });
    assert!(sizes[0].contains("its keys have 80 bytes, those of this map 72"), "{sizes:?}");
    fs::remove_file(&path).unwrap();
    let missing = on_ranks(2, config, |map: &mut Rank<Key, Value>, member| {
        map.load(&path, member).unwrap_err()
    });
    assert!(matches!(missing[1], FileError::Io { what: "open", .. }), "{missing:?}");
}

#[test]
fn saves_and_loads_empty_map() {
    let path = path("empty");
    let empty = on_ranks(2, Config::new(10), |map: &mut Rank<u64, u64>, member| {
        let saved = map.save(&path, member).unwrap();
        (saved, map.load(&path, member).unwrap())
    });
    assert_eq!(empty[1], (0, Loaded::default()));
    let header = fs::read(&path).unwrap();
    let header = Header::decode(header.first_chunk().unwrap());
    let nothing = Header { key_bytes: 8, value_bytes: 8, format: 0, entries: 0, digest: 0 };
    assert_eq!(header.unwrap(), nothing);
    assert!(!partial(&path).exists());
    fs::remove_file(&path).unwrap();
}

/// Saves a map of one rank in which all keys have the value of this put.
fn save_values(path: &Path, put: u64) {
    on_ranks(1, Config::for_entries(100, 1), |map: &mut Rank<u64, u64>, member| {
        (0..10).for_each(|key| assert_eq!(map.put(&key, &put), Ok(Written::Inserted)));
        map.save(path, member).unwrap();
    });
}

/// Files of equal sizes, of which each rank is given another one; and copies of one file, which are
/// as good as the file.
#[test]
fn refuses_different_files_on_ranks() {
    let paths = [path("first"), path("second"), path("copy")];
    save_values(&paths[0], 1);
    save_values(&paths[1], 2);
    fs::copy(&paths[0], &paths[2]).unwrap();
    let config = Config::for_entries(100, 3);
    let load = |of: [usize; 3]| {
        on_ranks(3, config, |map: &mut Rank<u64, u64>, member| {
            let loaded = map.load(&paths[of[member.me().0 as usize]], member);
            (loaded.map_err(|error| error.to_string()), map.len(member).unwrap())
        })
    };
    for ((loaded, entries), other) in load([0, 2, 1]).into_iter().zip([2, 2, 0]) {
        let error = loaded.unwrap_err();
        let why = format!("rank {other} has opened another file; give all ranks the same file");
        assert!(error.ends_with(&why) && entries == 0, "{error}, {entries} entries");
    }
    assert!(load([0, 2, 0]).into_iter().all(|(loaded, entries)| loaded.is_ok() && entries == 10));
    paths.iter().for_each(|path| fs::remove_file(path).unwrap());
}

/// A rank in whose file system the path is another file writes nothing to what an earlier save has left
/// there.
#[test]
fn refuses_foreign_partial_file() {
    let folders = [path("mine"), path("theirs")];
    folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let left = folders[1].join("map.partial");
    let entry = [7; Header::BYTES + 100];
    fs::write(&left, entry).unwrap();
    let refused = on_ranks(2, Config::new(10), |map: &mut Rank<u64, u64>, member| {
        // SAFETY: unshare(2): this thread gets a working directory of its own.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_FS) }, 0);
        std::env::set_current_dir(&folders[member.me().0 as usize]).unwrap();
        map.put(&u64::from(member.me().0), &1).unwrap();
        member.barrier().unwrap();
        let checked = map.check_save("map", member).unwrap_err();
        (checked.to_string(), map.save("map", member).unwrap_err().to_string())
    });
    for of_rank_1 in [&refused[1].0, &refused[1].1] {
        assert!(of_rank_1.contains("not the file that rank 0 has created"), "{of_rank_1}");
    }
    assert!(refused[0].1.starts_with("owner 1 could not do its part"), "{refused:?}");
    assert!(!folders[0].join("map").exists() && fs::read(&left).unwrap() == entry);
    folders.iter().for_each(|folder| fs::remove_dir_all(folder).unwrap());
}

#[test]
fn refuses_different_names_on_ranks() {
    let paths = [path("one"), path("another")];
    let refused = on_ranks(2, Config::new(10), |map: &mut Rank<u64, u64>, member| {
        let path = &paths[member.me().0 as usize];
        let checked = map.check_save(path, member).unwrap_err();
        (checked.to_string(), map.save(path, member).unwrap_err().to_string())
    });
    for (rank, (checked, saved)) in refused.into_iter().enumerate() {
        let text = format!(
            "cannot save to {}: rank {} gives another name; give all ranks the same name",
            paths[rank].display(),
            1 - rank
        );
        assert_eq!((checked, saved), (text.clone(), text));
        assert!(!paths[rank].exists());
    }
}

/// A check knows a name that cannot be written before the work, and so does a save; neither waits for
/// a FIFO, or changes files that exist.
#[test]
fn refuses_names_of_other_files() {
    let folder = path("folder");
    let [good, fifo, fifo_beside, link_beside, folder_beside] =
        ["good", "fifo", "fifo-beside", "link-beside", "kept"].map(|name| folder.join(name));
    fs::create_dir_all(partial(&folder_beside)).unwrap();
    for fifo in [&fifo, &partial(&fifo_beside)] {
        let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
        // SAFETY: mkfifo(3): the name ends with NUL, as a CString does.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    }
    std::os::unix::fs::symlink(&fifo, partial(&link_beside)).unwrap();
    // Another program's file beside the folder, and older files beside what cannot be created.
    fs::write(partial(&folder), "another's").unwrap();
    fs::write(&good, "older").unwrap();
    fs::write(&folder_beside, "older").unwrap();
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.collect::<std::collections::BTreeSet<_>>()
    };
    let before = names(&folder);
    let (missing, empty) = (folder.join("missing").join("map"), PathBuf::new());
    let irregular = "it is not a regular file";
    for (path, what) in [
        (&good, None),
        (&fifo, Some(("replace", irregular))),
        (&folder, Some(("replace", ""))),
        (&fifo_beside, Some(("create", irregular))),
        (&link_beside, Some(("create", irregular))),
        (&folder_beside, Some(("create", ""))),
        (&missing, Some(("create", ""))),
        (&empty, Some(("create", ""))),
    ] {
        let path = path.clone();
        let said = in_time(move || {
            on_ranks(2, Config::new(10), |map: &mut Rank<u64, u64>, member| {
                let checked = map.check_save(&path, member);
                let saved = if what.is_some() { map.save(&path, member).map(drop) } else { Ok(()) };
                [checked, saved].map(|result| result.map_err(|error| error.to_string()))
            })
        });
        let Some((what, reason)) = what else {
            assert_eq!(said, [const { [Ok(()), Ok(())] }; 2]);
            continue;
        };
        let other = "owner 0 could not do its part of a collective call: see its error";
        for (first, second) in said[0].iter().zip(&said[1]) {
            let first = first.as_ref().unwrap_err();
            let begins = first.starts_with(&format!("cannot {what} "));
            assert!(begins && first.contains(reason), "{first}");
            assert_eq!(second.as_ref().unwrap_err(), other);
        }
    }
    let at = fifo.clone();
    let loaded = in_time(move || {
        on_ranks(1, Config::new(10), |map: &mut Rank<u64, u64>, member| {
            map.load(&at, member).unwrap_err().to_string()
        })
    });
    assert!(loaded[0].starts_with("cannot open ") && loaded[0].contains(irregular));
    assert_eq!(names(&folder), before);
    for (path, text) in
        [(&good, "older"), (&folder_beside, "older"), (&partial(&folder), "another's")]
    {
        assert_eq!(fs::read(path).unwrap(), text.as_bytes());
    }
    fs::remove_file(partial(&folder)).unwrap();
    fs::remove_dir_all(&folder).unwrap();
}

/// The ranks make the same collective calls until all of them know of the failure: one rank cannot
/// count its entries.
#[test]
fn failed_count_ends_all_saves() {
    let config = Config::new(10);
    let failed = common::on_ranks(3, |member| {
        let engine = Builder::new(config.sizes::<u64, u64>(4)).open(member).unwrap();
        let engine = Watched::new(engine);
        let mut map = Map::<_, _, u64, u64>::open(engine, config, storage(4), member).unwrap();
        if member.me() == Owner(1) {
            let engine = map.transport_mut().unwrap();
            engine.hidden_words = engine.window().len();
        }
        let failed = map.save(path("hidden"), member).unwrap_err();
        // All are still in step.
        member.barrier().unwrap();
        failed
    });
    let part_failed = CollectiveError::PartFailed { owner: Owner(1) };
    let other =
        |failed: &FileError| matches!(failed, FileError::Collective(of) if *of == part_failed);
    assert!(other(&failed[0]) && other(&failed[2]), "{failed:?}");
    let own = matches!(
        failed[1],
        FileError::Collective(CollectiveError::Operation(OperationError::Window))
    );
    assert!(own && !path("hidden").exists(), "{failed:?}");
}

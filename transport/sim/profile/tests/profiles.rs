//! Profiles: the built-in ones, invalid texts, and missing quantities.

use proptest::prelude::*;

use probeline_profile::{Given, Kind, Profile, ProfileError, QUANTITIES, Quantity, Shape};

const TWO: Shape = Shape { machines: 2, ranks_per_machine: 1 };

#[test]
fn built_in_profiles_round_trip() {
    let names: Vec<_> = Profile::built_in_names().collect();
    assert_eq!(names, ["das5-fdr", "connectx6-200g", "pik-ndr", "soft-roce", "shm"]);
    for name in names {
        let profile = Profile::built_in(name).unwrap();
        assert_eq!(profile.name(), name);
        assert!(profile.given().count() > 3);
        let here = ["soft-roce", "shm"].contains(&name);
        for (quantity, given) in profile.given() {
            assert!(given.source.len() > 10, "{}", quantity.name);
            assert!(given.kind != Kind::Assumed);
            assert_eq!(given.kind == Kind::Measured, here, "{}", quantity.name);
            // The command, the date and the machine.
            let named =
                ["probeline tune", " 202", "Linux "].map(|part| given.source.contains(part));
            assert_eq!(named, [here; 3], "{}", given.source);
        }
        assert_eq!(Profile::parse(&profile.to_toml()).unwrap(), profile);
    }
    assert_eq!(Profile::built_in("das6"), None);
}

#[test]
fn paper_model_omits_atomics_rate() {
    let das5 = Profile::built_in("das5-fdr").unwrap();
    let shape = Shape { machines: 48, ranks_per_machine: 16 };
    let (nic, paper) = (das5.model(shape).unwrap(), das5.paper_model(shape).unwrap());
    assert_eq!(nic.owners_per_node, 16);
    assert_eq!(nic.nic.target.atomics_per_s, 1_800_000);
    assert_eq!(paper.nic.target.atomics_per_s, 0);
    assert_eq!(probeline_sim::Model { nic: nic.nic, ..paper }, nic, "and nothing else differs");
}

/// A measured profile gives a model of the network it was measured on, and of no other.
#[test]
fn measured_profiles_convert_to_models() {
    let soft_roce = Profile::built_in("soft-roce").unwrap();
    let model = soft_roce.model(TWO).unwrap();
    assert_eq!(model.local, model.remote, "its own part is over the device, too");
    // One emulated CPU executes a few thousand operations a second, each within a millisecond.
    assert!((100_000..2_000_000).contains(&model.remote.read.base_ns), "{model:?}");
    assert!((500..100_000).contains(&model.nic.target.atomics_per_s), "{model:?}");

    let shm = Profile::built_in("shm").unwrap();
    let model = shm.model(Shape { machines: 1, ranks_per_machine: 2 }).unwrap();
    assert!(model.local_by_cpu && (20..2_000).contains(&model.local.read.base_ns), "{model:?}");
    let missing = shm.model(TWO).unwrap_err().to_string();
    for part in ["profile shm", "remote.read_base_ns", "nic.bytes_per_s", "Measure them"] {
        assert!(missing.contains(part), "{missing}");
    }
}

/// No source states these quantities of that NIC; a profile with assumed values gives a model.
#[test]
fn names_missing_quantity() {
    let mut connectx6 = Profile::built_in("connectx6-200g").unwrap();
    let missing = connectx6.model(TWO).unwrap_err();
    let groups: [&[&str]; 2] =
        [&["remote.atomic_ns"], &["nic.atomics_per_s", "rank.atomics_per_s"]];
    assert_eq!(
        missing,
        ProfileError::Missing { profile: "connectx6-200g".into(), missing: groups.into() }
    );
    let message = missing.to_string();
    for part in
        ["connectx6-200g", "remote.atomic_ns (a compare-and-swap's roundtrip)", "Measure them"]
    {
        assert!(message.contains(part), "{message}");
    }
    let one = connectx6.model(Shape { machines: 1, ranks_per_machine: 2 }).unwrap_err();
    assert!(one.to_string().contains("local.read_base_ns"), "{one}");

    for (name, value) in [("remote.atomic_ns", 2_400), ("nic.atomics_per_s", 50_000_000)] {
        connectx6.set(name, given(value, "this test")).unwrap();
    }
    let model = connectx6.model(TWO).unwrap();
    assert_eq!((model.remote.atomic_ns, model.local_by_cpu), (2_400, false));
    assert_eq!(model.local, model.remote, "without `local`, the own machine is over the NIC");
}

#[test]
fn prefetch_quantities_require_each_other() {
    let one = Shape { machines: 1, ranks_per_machine: 2 };
    let pair = ["local.prefetched_beyond_words", "local.prefetched_word_ps"];
    let lacks = |profile: &Profile, shape| match profile.model(shape) {
        Ok(_) => Vec::new(),
        Err(ProfileError::Missing { missing, .. }) => missing.concat(),
        Err(error) => panic!("{error}"),
    };
    for (there, absent) in [(pair[0], pair[1]), (pair[1], pair[0])] {
        let mut shm = Profile::built_in("shm").unwrap();
        assert_eq!(lacks(&shm, one), [""; 0]);
        shm.set(there, given(8, "this test")).unwrap();
        assert_eq!(lacks(&shm, one), [absent]);
        assert_eq!(lacks(&shm, TWO).last(), Some(&absent));
        shm.set(absent, given(8, "this test")).unwrap();
        assert_eq!(lacks(&shm, one), [""; 0]);

        // Without local quantities the CPU's prefetcher has no effect.
        let mut soft_roce = Profile::built_in("soft-roce").unwrap();
        soft_roce.set(there, given(8, "this test")).unwrap();
        assert_eq!(lacks(&soft_roce, TWO), [""; 0]);
    }
}

#[test]
fn names_line_of_invalid_text() {
    let head = "name = \"a\"\nabout = \"b\"\n";
    let value = |text: &str| format!("{head}[remote]\natomic_ns = {text}\n");
    for (text, line, what) in [
        (format!("{head}[remot]\n"), 3, "unknown field `remot`"),
        (
            format!(
                "{head}[remote]\n\natomic_us = {{ value = 1, kind = \"fitted\", source = \"x\" }}\n"
            ),
            5,
            "\"remote.atomic_us\"",
        ),
        (format!("{head}nic = 3\n"), 3, "expected a map"),
        (value("12"), 4, "invalid type: integer `12`"),
        (value("{ value = 12, kind = \"fitted\" }"), 4, "missing field `source`"),
        (value("{ value = 12, kind = \"fitted\", source = \"\" }"), 4, "empty source"),
        (value("{ kind = \"fitted\", source = \"x\" }"), 4, "missing field `value`"),
        (value("{ value = -1, kind = \"fitted\", source = \"x\" }"), 4, "invalid value"),
        (
            value("{ value = 999999999999999999, kind = \"fitted\", source = \"x\" }"),
            4,
            "an integer",
        ),
        (value("{ value = 0, kind = \"fitted\", source = \"x\" }"), 4, "integer from 1 to"),
        (
            value("{ value = 1, kind = \"guessed\", source = \"x\" }"),
            4,
            "unknown variant `guessed`",
        ),
        (value("{ value = 1, kind = \"fitted\", source = \"x\", unit = \"ns\" }"), 4, "unit"),
        (format!("{head}atomic = [\n"), 3, ""),
        (String::new(), 1, "missing field `name`"),
    ] {
        let error = Profile::parse(&text).unwrap_err();
        assert!(error.to_string().contains(what), "{text}: {error}");
        assert!(line_of(&error).abs_diff(line) <= 1, "{text}: {error}, not line {line}");
    }
}

/// A limit or a roundtrip of 0 makes no sense; a file leaves the quantity out instead.
#[test]
fn refuses_values_out_of_range() {
    let check = |name, value| Quantity::checked(name, value).map(drop);
    assert!(check("nic.colour", 1).is_err());
    for name in ["nic.reads_per_s", "rank.atomics_per_s", "nic.bytes_per_s"] {
        let message = check(name, 0).unwrap_err().to_string();
        assert!(
            message.starts_with(name) && message.ends_with("if there is no such limit"),
            "{message}"
        );
    }
    for name in ["remote.atomic_ns", "local.read_base_ns"] {
        let message = check(name, 0).unwrap_err().to_string();
        assert!(message.contains("0: give an integer from 1 to"), "{message}");
    }
    for name in ["remote.read_word_ps", "cpu.post_ns", "word.atomic_ns"] {
        assert_eq!(check(name, 0), Ok(()));
        assert_eq!(check(name, 1 << 48), Ok(()));
        assert!(check(name, (1 << 48) + 1).is_err());
    }
}

fn given(value: u64, source: &str) -> Given {
    Given { value, kind: Kind::Measured, source: source.to_owned() }
}

/// Returns the line that an error names.
fn line_of(error: &std::io::Error) -> usize {
    let said = error.to_string();
    let line = said.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
    line.and_then(|(line, _)| line.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

proptest! {
    #[test]
    fn any_profile_round_trips(
        name in "\\PC{1,20}",
        about in "[^\u{0}]{1,40}",
        values in prop::collection::vec((0..QUANTITIES.len(), 0_u64..=1 << 48, "[^\u{0}]{1,30}"), 0..20),
    ) {
        let mut profile = Profile::new(&name, &about);
        for (at, value, source) in values {
            prop_assume!(profile.set(QUANTITIES[at].name, given(value, &source)).is_ok());
        }
        prop_assert_eq!(Profile::parse(&profile.to_toml()).unwrap(), profile);
    }

    /// Parsing never panics, and an error's line is a line of the text.
    #[test]
    fn any_text_never_panics(text in "(name|about|nic|remote|[\\[\\]={}\"\\n. 0-9a-z_]){0,60}") {
        if let Err(error) = Profile::parse(&text) {
            prop_assert!((1..=1 + text.matches('\n').count()).contains(&line_of(&error)));
        }
    }
}

//! Names of plots that are safe as file names and as `id`s of the page.

use std::collections::HashMap;

/// The maximum length of a slug, without the number that is appended to a duplicate.
const MAX_LENGTH: usize = 64;

/// The slug of a name without letters and digits.
const UNNAMED: &str = "plot";

/// Gives each name a slug that no earlier name has.
#[derive(Default)]
pub(crate) struct Slugs {
    /// The slugs in use, each with the number of its last duplicate.
    taken: HashMap<String, u64>,
}

impl Slugs {
    /// Returns the slug of `name`: ASCII letters in lower case and digits; other characters become
    /// single dashes. A duplicate gets a number, starting with 2.
    pub(crate) fn take(&mut self, name: &str) -> String {
        let slug = slug(name);
        if !self.taken.contains_key(&slug) {
            self.taken.insert(slug.clone(), 1);
            return slug;
        }
        loop {
            let number = self.taken.entry(slug.clone()).or_insert(1);
            *number += 1;
            let numbered = format!("{slug}-{number}");
            if !self.taken.contains_key(&numbered) {
                self.taken.insert(numbered.clone(), 1);
                return numbered;
            }
        }
    }
}

fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars() {
        if slug.len() == MAX_LENGTH {
            break;
        }
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => slug.push(c),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { UNNAMED.to_owned() } else { slug.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_become_lower_case_letters_digits_and_dashes() {
        for (name, expected) in [
            ("simulated-mixed", "simulated-mixed"),
            ("simulated-x/../../escaped", "simulated-x-escaped"),
            ("..", "plot"),
            ("", "plot"),
            ("--a  B\u{0}c--", "a-b-c"),
            ("größe", "gr-e"),
            ("CON", "con"),
        ] {
            assert_eq!(slug(name), expected);
        }
    }

    #[test]
    fn duplicates_are_numbered() {
        let mut slugs = Slugs::default();
        let given = ["a", "A", "a/2", "a!", "a-2", "", "."].map(|name| slugs.take(name));
        assert_eq!(given, ["a", "a-2", "a-2-2", "a-3", "a-2-3", "plot", "plot-2"]);
    }

    proptest! {
        #[test]
        fn slugs_are_short_harmless_and_distinct(names in prop::collection::vec(".{0,80}", 1..40)) {
            let mut slugs = Slugs::default();
            let mut seen = HashSet::new();
            for name in names {
                let slug = slugs.take(&name);
                prop_assert!((1..=MAX_LENGTH + 3).contains(&slug.len()));
                let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                prop_assert!(slug.chars().all(allowed), "{slug}");
                prop_assert!(seen.insert(slug));
            }
        }
    }
}

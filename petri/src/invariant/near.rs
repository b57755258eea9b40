//! Names that resemble an unknown one.

use crate::Place;

/// Maximum number of names that are suggested.
pub(super) const MAX_SUGGESTED: usize = 3;

/// Returns the identifiers of the places that resemble `unknown` most, quoted where an inequality
/// needs it.
pub(super) fn near(unknown: &str, places: &[Place]) -> Vec<String> {
    let limit = (unknown.chars().count() / 3).max(1);
    let distance = |place: &Place| {
        let texts = [&place.id, &place.name].map(|text| distance(unknown, text, limit));
        // An identifier that goes on where the text ends is near, however long it is.
        let begins = !unknown.is_empty() && place.id.starts_with(unknown);
        texts.into_iter().flatten().min().or(begins.then_some(limit))
    };
    let mut near: Vec<_> =
        places.iter().filter_map(|place| Some((distance(place)?, &place.id))).collect();
    near.sort();
    near.into_iter().take(MAX_SUGGESTED).map(|(_, id)| quoted(id)).collect()
}

/// Returns the identifier as an inequality writes it.
pub(super) fn quoted(id: &str) -> String {
    let plain = id.chars().all(in_identifier) && !id.starts_with(|c: char| c.is_ascii_digit());
    if plain { id.to_owned() } else { format!("\"{id}\"") }
}

/// Returns whether an identifier with this character needs no quotes.
pub(super) fn in_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

/// Returns the least number of characters to insert, delete or replace that turns `a` into `b`,
/// regardless of case; `None` beyond `limit`. (Wagner and Fischer, "The string-to-string correction
/// problem", 1974.)
fn distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    let [a, b]: [Vec<char>; 2] = [a, b].map(|text| text.to_lowercase().chars().collect());
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().filter(|&distance| distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits() {
        for (a, b, edits) in
            [("", "", 0), ("abc", "abd", 1), ("abc", "ABC", 0), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(a, b, 3), Some(edits), "{a} {b}");
            assert_eq!(distance(b, a, 3), Some(edits), "{b} {a}");
        }
        assert_eq!(distance("kitten", "sitting", 2), None);
        assert_eq!(distance("", "abcd", 3), None);
    }
}

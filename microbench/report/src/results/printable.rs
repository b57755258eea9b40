//! Makes text from files, devices and arguments safe to show.
//!
//! A terminal executes control characters, and directional formatting characters reorder the
//! visible text. Each such character is replaced by a visible escape, such as `\u{9b}`. The escapes
//! are not reversible, because backslashes stay unchanged; those of [`json`] are.
//!
//! ```
//! use probeline_report::results::printable::line;
//! assert_eq!(line("two\nlines, \u{1b}[2J"), r"two\u{a}lines, \u{1b}[2J");
//! ```

use std::borrow::Cow;

/// Escapes all unsafe characters, including newlines and tabs: the result is a single line.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, &[], |c| c.escape_unicode().to_string())
}

/// Escapes as [`line()`] does, but keeps newlines and tabs, for text that the program has laid out.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, &['\n', '\t'], |c| c.escape_unicode().to_string())
}

/// Escapes unsafe characters that serialised JSON contains in strings, so that parsing restores the
/// original.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    // Newlines and tabs occur only between values: JSON escapes them within strings. All unsafe
    // characters are in the Basic Multilingual Plane: four digits are enough.
    escaped(text, &['\n', '\t'], |c| format!("\\u{:04x}", u32::from(c)))
}

/// Returns whether `c` is a control character (C0, DEL, C1), a line or paragraph separator, or a
/// mark, embedding, override or isolate of the Unicode Bidirectional Algorithm (UAX #9, 2).
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}')
}

fn escaped<'t>(text: &'t str, kept: &[char], escape: fn(char) -> String) -> Cow<'t, str> {
    let escapes = |c: char| is_unsafe(c) && !kept.contains(&c);
    if !text.contains(escapes) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|c| if escapes(c) { escape(c) } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns every character that may move the cursor, start a sequence or reorder text.
    fn dangerous() -> impl Iterator<Item = char> {
        let controls = ('\0'..='\x1f').chain('\x7f'..='\u{9f}');
        let separators = '\u{2028}'..='\u{2029}';
        let bidi = ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}');
        controls.chain(separators).chain(bidi).chain(['\u{61c}', '\u{200e}', '\u{200f}'])
    }

    #[test]
    fn escapes_dangerous_characters() {
        for c in dangerous() {
            let shown = format!("a\\u{{{:x}}}b", u32::from(c));
            assert_eq!(line(&format!("a{c}b")), shown);
            let kept = matches!(c, '\n' | '\t');
            assert_eq!(lines(&format!("a{c}b")) == shown, !kept, "{c:?}");
        }
    }

    #[test]
    fn keeps_ordinary_text() {
        for text in
            ["", "C = 8", r"a\b", "größe", "数", "नमस्ते", "שלום", "1\u{202f}000", "👩\u{200d}💻"]
        {
            assert!(matches!(line(text), Cow::Borrowed(_)), "{text}");
            assert!(matches!(json(text), Cow::Borrowed(_)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn leaves_no_dangerous_character(text in "[\\PC\\x00-\\x1f\\x7f-\\u{9f}\\u{2028}-\\u{202e}]{0,40}") {
            let danger: Vec<char> = dangerous().collect();
            prop_assert!(!line(&text).contains(&danger[..]));
            prop_assert!(!lines(&text).replace(['\n', '\t'], "").contains(&danger[..]));
            let once = lines(&text);
            prop_assert_eq!(lines(&once), once.as_ref());
        }
    }
}

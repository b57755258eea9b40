//! Escapes text for a line or a table cell of Markdown.

/// Returns the text as one line that cannot start HTML, a link, a picture or another cell.
/// Backquotes still quote code.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in probeline_results::printable::line(text).chars() {
        if matches!(c, '\\' | '|' | '<' | '&' | '[') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_text_stays_in_its_cell() {
        for (name, expected) in [
            ("fms:2", "fms:2"),
            ("a | b", r"a \| b"),
            ("a\nb", r"a\\u{a}b"),
            ("<img src=x>", r"\<img src=x>"),
            ("![x](http://e)", r"!\[x](http://e)"),
            ("&lt;", r"\&lt;"),
            ("`--csv`", "`--csv`"),
        ] {
            assert_eq!(escaped(name), expected);
        }
    }
}

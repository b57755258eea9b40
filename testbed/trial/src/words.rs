//! Sizes on the command line: bytes, of which a transport moves whole words.

/// Bytes of a word.
const WORD: u32 = 8;

/// The words of so many bytes.
pub(crate) fn words(bytes: &str) -> Result<u32, String> {
    match bytes.parse::<u32>() {
        Ok(bytes) if bytes > 0 && bytes.is_multiple_of(WORD) => Ok(bytes / WORD),
        Ok(_) => Err(format!("words of {WORD} bytes are moved: give a multiple of {WORD}, not 0")),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_words_are_refused() {
        assert_eq!(words("8"), Ok(1));
        assert_eq!(words("4096"), Ok(512));
        for bytes in ["0", "12", "-8", "8B", ""] {
            assert!(words(bytes).is_err(), "{bytes}");
        }
    }
}

//! Sizes on the command line: bytes, of which a transport moves whole words.

use probeline_transport::WORD_BYTES;

/// The words of so many bytes.
pub(crate) fn words(bytes: &str) -> Result<u32, String> {
    match bytes.parse::<usize>() {
        Ok(bytes) if bytes > 0 && bytes.is_multiple_of(WORD_BYTES) => {
            u32::try_from(bytes / WORD_BYTES).map_err(|error| error.to_string())
        }
        Ok(_) => Err(format!("give a positive multiple of a word, {WORD_BYTES} bytes")),
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

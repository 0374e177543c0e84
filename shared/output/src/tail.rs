//! The cap of a run's output: `docs/contract/agents.md` section 3, "Reading the pod".

/// The last `max` bytes of `output` as text, the cut moved forward to a UTF-8 boundary, behind a marker that says how
/// many bytes are gone. What fits is returned as it is. Bytes that are no UTF-8 become U+FFFD.
pub fn cap(output: &[u8], max: usize) -> String {
    let mut tail = Tail::new(max);
    tail.push(output);
    tail.finish()
}

/// The end of an output that comes in pieces; memory stays below twice the limit and one piece.
#[derive(Debug)]
pub struct Tail {
    max: usize,
    kept: Vec<u8>,
    /// Bytes before `kept`.
    gone: usize,
}

impl Tail {
    /// Keeps the last `max` bytes.
    pub const fn new(max: usize) -> Self {
        Self { max, kept: Vec::new(), gone: 0 }
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.kept.extend_from_slice(piece);
        // Moved only now and then: moving at each piece would copy the whole tail each time.
        if self.kept.len() > self.max.saturating_mul(2) {
            let surplus = self.kept.len() - self.max;
            self.kept.drain(..surplus);
            self.gone += surplus;
        }
    }

    /// The tail as [`cap`] gives it, and shorter where it would take more than `encoded` bytes as a JSON string: the API
    /// server writes a control character, and `<`, `>` and `&`, as six.
    pub fn finish_within(mut self, encoded: usize) -> String {
        let mut left = encoded;
        let fits = self.kept.iter().rev().take_while(|byte| {
            let rest = left.checked_sub(encoded_length(**byte));
            left = rest.unwrap_or(0);
            rest.is_some()
        });
        self.max = self.max.min(fits.count());
        self.finish()
    }

    /// The tail as [`cap`] gives it.
    pub fn finish(self) -> String {
        let mut cut = self.kept.len().saturating_sub(self.max);
        if cut == 0 && self.gone == 0 {
            return String::from_utf8_lossy(&self.kept).into_owned();
        }
        // A character has at most three continuation bytes; more of them in a row is no UTF-8 and nothing to wait for.
        cut += self.kept[cut..].iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
        format!("...[truncated {} bytes]...\n{}", self.gone + cut, String::from_utf8_lossy(&self.kept[cut..]))
    }
}

/// The most that a byte takes in a JSON string of the API server's. One that is no UTF-8 becomes U+FFFD, of three bytes.
const fn encoded_length(byte: u8) -> usize {
    match byte {
        b'\n' | b'\r' | b'\t' | b'"' | b'\\' => 2,
        0..0x20 | b'<' | b'>' | b'&' | 0x7f => 6,
        0x80.. => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", 0, "")]
    #[case("abc", 3, "abc")]
    #[case("abc", 2, "...[truncated 1 bytes]...\nbc")]
    #[case("abc", 0, "...[truncated 3 bytes]...\n")]
    #[case("aé", 1, "...[truncated 3 bytes]...\n")]
    #[case("aéb", 3, "...[truncated 1 bytes]...\néb")]
    fn the_tail_is_kept_behind_a_marker(#[case] output: &str, #[case] max: usize, #[case] expected: &str) {
        assert_eq!(cap(output.as_bytes(), max), expected);
    }

    #[test]
    fn case_41_five_mebibytes_of_multi_byte_text_give_a_valid_tail_with_a_marker() {
        let output = "日".repeat(5 * 1024 * 1024 / 3);
        let capped = cap(output.as_bytes(), 262_144);
        let (marker, tail) = capped.split_once('\n').unwrap();
        assert!(tail.len() <= 262_144 && tail.len() > 262_140 && tail.chars().all(|c| c == '日'));
        assert_eq!(marker, format!("...[truncated {} bytes]...", output.len() - tail.len()));
    }

    proptest! {
        #[test]
        fn valid_text_is_cut_at_a_character_and_nowhere_else(output in "\\PC{0,64}", max in 0usize..80) {
            let capped = cap(output.as_bytes(), max);
            if output.len() <= max {
                prop_assert_eq!(capped, output);
            } else {
                let (marker, tail) = capped.split_once('\n').unwrap();
                prop_assert!(output.ends_with(tail) && tail.len() <= max && tail.len() + 3 >= max);
                prop_assert_eq!(marker, format!("...[truncated {} bytes]...", output.len() - tail.len()));
            }
        }

        #[test]
        fn pieces_give_what_the_whole_gives(pieces in proptest::collection::vec("\\PC{0,9}", 0..12), max in 0usize..40) {
            let mut tail = Tail::new(max);
            pieces.iter().for_each(|piece| tail.push(piece.as_bytes()));
            prop_assert_eq!(tail.finish(), cap(pieces.concat().as_bytes(), max));
        }

        #[test]
        fn arbitrary_bytes_never_fail(output in proptest::collection::vec(any::<u8>(), 0..64), max in 0usize..80) {
            cap(&output, max);
        }
    }

    #[test]
    fn what_grows_when_it_is_written_is_cut_shorter() {
        let mut tail = Tail::new(1000);
        tail.push("<".repeat(1000).as_bytes());
        let text = tail.finish_within(600);
        assert_eq!(text, format!("...[truncated 900 bytes]...\n{}", "<".repeat(100)));
        let mut tail = Tail::new(1000);
        tail.push(b"plain");
        assert_eq!(tail.finish_within(600), "plain");
    }

    proptest! {
        #[test]
        fn the_encoded_text_fits(bytes in prop::collection::vec(any::<u8>(), 0..400), limit in 0usize..600) {
            let mut tail = Tail::new(10_000);
            tail.push(&bytes);
            let text = tail.finish_within(limit);
            let kept = text.split_once("]...\n").filter(|_| text.starts_with("...[truncated ")).map_or(&*text, |(_, kept)| kept);
            let escaped: usize = kept.chars().map(|char| match char {
                '\n' | '\r' | '\t' | '"' | '\\' => 2,
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => 6,
                char if char < ' ' => 6,
                char => char.len_utf8(),
            }).sum();
            prop_assert!(escaped <= limit, "{escaped}");
        }
    }
}

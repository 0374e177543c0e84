//! Text for a terminal: colours, tables in kubectl's shape, ages, and the cleaning of what others wrote.

use std::io::IsTerminal;

use jiff::Timestamp;

/// What a piece of text says beside its words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Paint {
    #[default]
    Plain,
    Good,
    Bad,
    Busy,
    Dim,
    Strong,
}

/// Whether colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette(bool);

impl Palette {
    /// No colours, for tests.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self(false);

    /// Colours where `stream` is a terminal that can show them, and nobody has asked for none
    /// (<https://no-color.org>).
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let asked_for_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self(stream.is_terminal() && !asked_for_none && !dumb)
    }

    /// `text` in its colour.
    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Plain => return text.to_owned(),
            Paint::Good => "32",
            Paint::Bad => "31",
            Paint::Busy => "33",
            Paint::Dim => "2",
            Paint::Strong => "1",
        };
        if self.0 && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self::painted(text, Paint::Plain)
    }

    pub(crate) fn painted(text: impl AsRef<str>, paint: Paint) -> Self {
        Self { text: clean(text.as_ref()), paint }
    }
}

/// A table as kubectl prints it, two spaces between the columns; a line for each row, and one for the header.
pub(crate) fn table(palette: Palette, header: &[&str], rows: &[Vec<Cell>]) -> String {
    let heads: Vec<Cell> = header.iter().map(|head| Cell::painted(head, Paint::Strong)).collect();
    let all: Vec<&Vec<Cell>> = std::iter::once(&heads).chain(rows).collect();
    let width = |column: usize| all.iter().filter_map(|row| row.get(column)).map(|cell| chars(&cell.text)).max();
    let widths: Vec<usize> = (0..header.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &&Vec<Cell>| {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            line.push_str(&palette.paint(cell.paint, &cell.text));
            if at + 1 < row.len() {
                line.push_str(&" ".repeat(width - chars(&cell.text) + 2));
            }
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    };
    all.iter().map(line).collect()
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// One line without control characters. What a run, an image or another user wrote must not move the cursor, change
/// the title of the window or hide what stands before it.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_reordering(c) { ' ' } else { c }).collect()
}

/// [`clean`] that keeps the ends of lines.
pub(crate) fn clean_block(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// Characters that change the direction of the text around them.
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text`, cut to `most` characters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
        None => text.to_owned(),
    }
}

/// Seconds as kubectl shows ages.
pub(crate) fn duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let with = |whole: i64, unit: &str, rest: i64, rest_unit: &str| match rest {
        0 => format!("{whole}{unit}"),
        rest => format!("{whole}{unit}{rest}{rest_unit}"),
    };
    match seconds {
        ..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => with(minutes, "m", seconds % 60, "s"),
        _ if hours < 3 => format!("{minutes}m"),
        _ if hours < 8 => with(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => with(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}

/// How long ago that was.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    duration(now.duration_since(then).as_secs())
}

/// A count with its thousands apart.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let grouped = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect::<Vec<_>>();
    grouped.join(",")
}

/// US dollars: cents where there are any, else as much as is not zero.
pub(crate) fn dollars(amount: f64) -> String {
    if amount == 0.0 || amount >= 0.1 { format!("${amount:.2}") } else { format!("${amount:.4}") }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(-5, "0s")]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(125, "2m5s")]
    #[case(660, "11m")]
    #[case(3 * 3600, "3h")]
    #[case(3 * 3600 + 60, "3h1m")]
    #[case(9 * 3600 + 60, "9h")]
    #[case(49 * 3600, "2d1h")]
    #[case(9 * 86400, "9d")]
    fn an_age_is_shown_as_kubectl_does(#[case] seconds: i64, #[case] shown: &str) {
        assert_eq!(duration(seconds), shown);
    }

    #[rstest]
    #[case(0, "0")]
    #[case(999, "999")]
    #[case(1000, "1,000")]
    #[case(12_345_678, "12,345,678")]
    fn a_count_has_its_thousands_apart(#[case] number: u64, #[case] shown: &str) {
        assert_eq!(count(number), shown);
    }

    #[rstest]
    #[case(0.0, "$0.00")]
    #[case(0.0042, "$0.0042")]
    #[case(1.005, "$1.00")]
    fn a_cost_keeps_what_is_not_zero(#[case] amount: f64, #[case] shown: &str) {
        assert_eq!(dollars(amount), shown);
    }

    #[test]
    fn a_table_has_two_spaces_between_its_columns_and_none_at_the_end() {
        let rows =
            [vec![Cell::new("a"), Cell::painted("Running", Paint::Busy)], vec![Cell::new("longer"), Cell::new("")]];
        let shown = table(Palette::PLAIN, &["NAME", "PHASE"], &rows);
        assert_eq!(shown, "NAME    PHASE\na       Running\nlonger\n");
        assert!(table(Palette(true), &["NAME", "PHASE"], &rows).contains("\x1b[33mRunning\x1b[0m\n"));
    }

    #[test]
    fn what_others_wrote_cannot_reach_the_terminal() {
        assert_eq!(clean("\x1b]0;title\x07a\rb\u{202e}c\td"), " ]0;title a b c d");
        assert_eq!(clean_block("a\x1b[2J\nb\r\n"), "a [2J\nb");
    }
}

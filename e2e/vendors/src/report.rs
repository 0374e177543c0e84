//! The table.

/// What became of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has the shape that it had.
    Same,
    /// It has not.
    Differs(Vec<String>),
    /// It could not be made.
    Broken(String),
    /// It was not made, and why.
    LeftOut(String),
}

/// A row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// `vendor/name`
    pub(crate) name: String,
    /// What became of it.
    pub(crate) outcome: Outcome,
    /// How long it took.
    pub(crate) seconds: f64,
}

impl Row {
    /// Whether somebody has to look at it.
    pub(crate) const fn is_bad(&self) -> bool {
        matches!(self.outcome, Outcome::Differs(_) | Outcome::Broken(_))
    }

    fn word(&self) -> &'static str {
        match self.outcome {
            Outcome::Same => "same",
            Outcome::Differs(_) => "DIFFERS",
            Outcome::Broken(_) => "BROKEN",
            Outcome::LeftOut(_) => "left out",
        }
    }

    fn line(&self) -> String {
        let Self { name, outcome, seconds } = self;
        match outcome {
            Outcome::LeftOut(why) => format!("{name:36} {:9} {why}", self.word()),
            _ => format!("{name:36} {:9} {seconds:.1} s", self.word()),
        }
    }

    fn details(&self) -> Vec<&str> {
        match &self.outcome {
            Outcome::Differs(differences) => differences.iter().map(String::as_str).collect(),
            Outcome::Broken(why) => vec![why],
            Outcome::Same | Outcome::LeftOut(_) => Vec::new(),
        }
    }
}

/// Says that a row is done, to whoever waits.
pub(crate) fn progress(row: &Row) {
    if !matches!(row.outcome, Outcome::LeftOut(_)) {
        eprintln!("{}", row.line());
    }
}

/// Prints the table, and what is different below it.
pub(crate) fn print(rows: &[Row]) {
    print!("{}", text(rows));
}

fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        text.push_str(&format!("{}\n", row.line()));
    }
    for row in rows.iter().filter(|row| row.is_bad()) {
        text.push_str(&format!("\n{} {}\n", row.name, row.word()));
        row.details().iter().for_each(|detail| text.push_str(&format!("  {}\n", detail.replace('\n', "\n  "))));
    }
    let count = |word: &str| rows.iter().filter(|row| row.word() == word).count();
    let [same, differs, broken, left_out] = ["same", "DIFFERS", "BROKEN", "left out"].map(count);
    text.push_str(&format!("\n{same} same, {differs} differ, {broken} broken, {left_out} left out\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_all_rows_and_tells_what_is_different_below() {
        let row = |name: &str, outcome| Row { name: name.into(), outcome, seconds: 1.0 };
        let rows = [
            row("claude/text", Outcome::Same),
            row("claude/tool", Outcome::Differs(vec!["result: x (string) is new".into()])),
            row("codex/text", Outcome::LeftOut("needs a policy".into())),
        ];
        let text = text(&rows);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines[0], format!("{:36} same      1.0 s", "claude/text"));
        assert_eq!(lines[2], format!("{:36} left out  needs a policy", "codex/text"));
        assert_eq!(
            lines[4..],
            ["claude/tool DIFFERS", "  result: x (string) is new", "", "1 same, 1 differ, 0 broken, 1 left out"]
        );
        assert_eq!(rows.iter().map(Row::is_bad).collect::<Vec<_>>(), [false, true, false]);
    }
}

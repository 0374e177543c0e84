use std::io;

use crate::out::Stream;

/// Shows a text that changes: on a terminal in place, else below the one before, if it has changed.
///
/// On a terminal it has the alternate screen for as long as it lives; the last text stays behind.
pub(super) struct Screen {
    on_terminal: bool,
    last: String,
}

impl Screen {
    pub(super) fn open(on_terminal: bool) -> io::Result<Self> {
        if on_terminal {
            Stream::Stdout.write("\x1b[?1049h\x1b[?25l")?;
        }
        Ok(Self { on_terminal, last: String::new() })
    }

    pub(super) fn draw(&mut self, text: &str) -> io::Result<()> {
        if text == self.last {
            return Ok(());
        }
        if self.on_terminal {
            Stream::Stdout.write(&frame(text, rows()))?;
        } else {
            let apart = if self.last.is_empty() { "" } else { "\n" };
            Stream::Stdout.write(&format!("{apart}{text}"))?;
        }
        text.clone_into(&mut self.last);
        Ok(())
    }

    /// Gives the terminal back, with the last text on it.
    pub(super) fn close(mut self) -> io::Result<()> {
        self.leave()?;
        if self.on_terminal {
            Stream::Stdout.write(&std::mem::take(&mut self.last))?;
        }
        self.on_terminal = false;
        Ok(())
    }

    fn leave(&self) -> io::Result<()> {
        if self.on_terminal { Stream::Stdout.write("\x1b[?25h\x1b[?1049l") } else { Ok(()) }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.leave();
    }
}

/// The whole screen: from its corner, each line cleared to its end, and all below it. Lines beyond the last row would
/// scroll the first ones away, so they are counted instead.
fn frame(text: &str, rows: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut frame = "\x1b[H".to_owned();
    let shown = if lines.len() <= rows { lines.len() } else { rows.saturating_sub(1) };
    let left = (shown < lines.len()).then(|| format!("… {} more", lines.len() - shown));
    let all: Vec<String> = lines[..shown]
        .iter()
        .map(|line| format!("{line}\x1b[K"))
        .chain(left.map(|left| format!("{left}\x1b[K")))
        .collect();
    frame.push_str(&all.join("\r\n"));
    frame.push_str("\x1b[J");
    frame
}

fn rows() -> usize {
    rustix::termios::tcgetwinsize(io::stdout()).map_or(24, |size| usize::from(size.ws_row).max(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        assert_eq!(frame("a\nb\n", 2), "\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J");
        assert_eq!(frame("a\nb\nc\nd\n", 3), "\x1b[Ha\x1b[K\r\nb\x1b[K\r\n… 2 more\x1b[K\x1b[J");
    }
}

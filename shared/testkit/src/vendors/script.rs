//! What a prompt asks the server for.

use super::answer::{Act, Reply};

/// What the tool of [`Step::Tool`] prints.
pub const TOOL_OUTPUT: &str = "hello-from-tool";
/// The file that [`Step::Read`] reads, below the working directory of the CLI.
pub const READ_FILE: &str = "note.txt";
/// The file that [`Step::Touch`] makes, below the working directory of the CLI.
pub const TOUCHED_FILE: &str = "made.txt";
/// The file that says that the tool of [`Step::Sleep`] is at work, below the working directory of the CLI.
pub const SLEEP_MARKER: &str = "asleep.txt";
/// What marks the word in a prompt. No character in it means anything to a CLI, as `@` and `/` do.
const MARK: &str = "fake:";

/// What a prompt asks for, as one word of it: `fake:tool`, or `fake:401` for a status. The last such word of a
/// conversation counts; without one the answer is text. An answer in text names all words so far, so a session that was
/// resumed shows its past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `text`: a text.
    Text,
    /// `tool`: the CLI's shell is called once, then comes a text.
    Tool,
    /// `read`: a file is read by the CLI's own tool, then comes a text.
    Read,
    /// `touch`: the shell makes a file, then comes a text.
    Touch,
    /// `loop`: the shell is called again and again.
    Loop,
    /// `sleep`: the shell is called with a command that takes longer than any test waits.
    Sleep,
    /// `background`: a command is left running, and its end is a turn of its own. Claude Code only.
    Background,
    /// `mcp`: the tool of the MCP server is called, then comes a text.
    Mcp,
    /// `slow`: a text begins and never ends.
    Slow,
    /// A number from 400 on: the answer is that HTTP status.
    Status(u16),
}

impl Step {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "text" => Self::Text,
            "tool" => Self::Tool,
            "read" => Self::Read,
            "touch" => Self::Touch,
            "loop" => Self::Loop,
            "sleep" => Self::Sleep,
            "background" => Self::Background,
            "mcp" => Self::Mcp,
            "slow" => Self::Slow,
            number => Self::Status(number.parse().ok().filter(|status| (400..600).contains(status))?),
        })
    }
}

/// A request for the next message of a conversation, whatever the API.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// The model.
    pub(super) model: String,
    /// All texts of the user, oldest first. CLIs put reminders of their own among them.
    pub(super) texts: Vec<String>,
    /// The last message is what a tool has given.
    pub(super) answers_a_tool: bool,
    /// The names of the tools that may be called.
    pub(super) tools: Vec<String>,
    /// The answer is to come in pieces.
    pub(super) streams: bool,
}

impl Asked {
    /// What is answered.
    pub(super) fn reply(&self) -> Reply {
        let words = self.words();
        let step = words.last().map_or(Step::Text, |(_, _, step)| *step);
        let names: Vec<&str> = words.iter().map(|(_, word, _)| *word).collect();
        let text =
            format!("The prompts asked for: {}.", if names.is_empty() { "nothing".into() } else { names.join(", ") });
        match step {
            Step::Status(status) => Reply::Error(status),
            Step::Slow => Reply::Unfinished("It will take a while. ".to_owned()),
            Step::Text => Reply::Text(text),
            _ if self.tools.is_empty() => Reply::Text(text),
            Step::Loop => Reply::Act(Act::Run("echo once more")),
            _ if self.answers_a_tool || self.is_told_of_the_background() => Reply::Text(text),
            Step::Tool => Reply::Act(Act::Run("echo hello-from-tool")),
            Step::Read => Reply::Act(Act::Read),
            Step::Touch => Reply::Act(Act::Run("touch made.txt")),
            Step::Sleep => Reply::Act(Act::Run("touch asleep.txt; sleep 300; echo awake")),
            Step::Background => Reply::Act(Act::Leave("sleep 4; echo done")),
            Step::Mcp => Reply::Act(Act::Ping),
        }
    }

    /// Each word for us: in which text, the word, and what it asks for.
    fn words(&self) -> Vec<(usize, &str, Step)> {
        let mut words = Vec::new();
        for (index, text) in self.texts.iter().enumerate() {
            for rest in text.split(MARK).skip(1) {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
                words.extend(Step::of(&rest[..end]).map(|step| (index, &rest[..end], step)));
            }
        }
        words
    }

    /// The CLI says, after the prompt, that a command which was left running has ended.
    fn is_told_of_the_background(&self) -> bool {
        let asked = self.words().last().map_or(0, |(index, ..)| index + 1);
        self.texts[asked..].iter().any(|text| text.contains("task-notification"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(texts: &[&str]) -> Asked {
        Asked {
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            tools: vec!["shell".to_owned()],
            ..Asked::default()
        }
    }

    fn text(reply: Reply) -> String {
        match reply {
            Reply::Text(text) => text,
            other => panic!("{other:?} is no text"),
        }
    }

    #[test]
    fn the_last_word_counts_and_a_text_names_all_of_them() {
        let asked = asked(&["first fake:tool, please", "<reminder>", "then fake:text."]);
        assert_eq!(text(asked.reply()), "The prompts asked for: tool, text.");
    }

    #[test]
    fn a_prompt_without_a_word_for_the_server_is_answered_in_text() {
        for prompt in ["hello", "fake:", "fake:nothing", "fake:200", "fake:4010", "fakes:tool"] {
            assert_eq!(text(asked(&[prompt]).reply()), "The prompts asked for: nothing.", "{prompt}");
        }
    }

    #[test]
    fn a_tool_is_called_once_and_only_where_there_are_tools() {
        let call = asked(&["fake:tool"]);
        assert!(matches!(call.reply(), Reply::Act(Act::Run(command)) if command.ends_with(TOOL_OUTPUT)));
        assert_eq!(text(Asked { answers_a_tool: true, ..call.clone() }.reply()), "The prompts asked for: tool.");
        assert_eq!(text(Asked { tools: Vec::new(), ..call }.reply()), "The prompts asked for: tool.");
    }

    #[test]
    fn a_loop_goes_on_after_each_result() {
        let asked = Asked { answers_a_tool: true, ..asked(&["fake:loop"]) };
        assert!(matches!(asked.reply(), Reply::Act(_)));
    }

    #[test]
    fn a_status_is_answered_whatever_else_there_is() {
        let asked = Asked { answers_a_tool: true, tools: Vec::new(), ..asked(&["fake:text", "fake:529"]) };
        assert!(matches!(asked.reply(), Reply::Error(529)));
    }

    #[test]
    fn a_command_in_the_background_is_not_started_again_by_the_news_of_its_end() {
        assert!(matches!(asked(&["fake:background"]).reply(), Reply::Act(Act::Leave(_))));
        let told = asked(&["fake:background", "<task-notification>done</task-notification>"]);
        assert_eq!(text(told.reply()), "The prompts asked for: background.");
        let again = asked(&["fake:background", "<task-notification>", "fake:background"]);
        assert!(matches!(again.reply(), Reply::Act(Act::Leave(_))));
    }

    #[test]
    fn the_files_of_the_commands_are_those_that_tests_look_for() {
        let command = |word: &str| match asked(&[word]).reply() {
            Reply::Act(Act::Run(command)) => command,
            other => panic!("{other:?} is no command"),
        };
        assert!(command("fake:touch").ends_with(TOUCHED_FILE));
        assert!(command("fake:sleep").contains(SLEEP_MARKER));
    }
}

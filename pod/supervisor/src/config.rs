use std::{ffi::OsString, path::PathBuf, time::Duration};

use signalbox_types::{Watch, names};
use signalbox_vendors::{Vendor, state_paths, without_resume};

/// What is printed where there is nothing to start.
pub(crate) const USAGE: &str = "usage: ai-agent-supervisor -- <agent> [args...]";

/// The time between the steps of an end that has to be forced.
const GRACE: Duration = Duration::from_secs(5);
/// The longest such time, a year: more could not be added to a point in time.
const MAX_GRACE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Args {
    /// The volume that carries the supervisor, with the start of the run in it.
    pub(crate) agent_dir: PathBuf,
    /// What to start.
    pub(crate) program: OsString,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
}

impl Args {
    /// All after the first `--` is the agent's; before it only `--agent-dir DIR` may stand.
    pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut words = words.into_iter();
        let mut agent_dir = PathBuf::from(names::AGENT_HOME);
        loop {
            match words.next()? {
                word if word == "--" => break,
                word if word == "--agent-dir" => agent_dir = words.next()?.into(),
                _ => return None,
            }
        }
        Some(Self { agent_dir, program: words.next()?, arguments: words.collect() })
    }

    /// Where the initializer has left the start of the run.
    pub(crate) fn stamp(&self) -> PathBuf {
        names::beneath(&self.agent_dir, names::STARTED_STAMP_PATH)
    }

    /// Whether the session that the run was to go on with is not there.
    pub(crate) fn is_fresh(&self) -> bool {
        names::beneath(&self.agent_dir, names::FRESH_MARK_PATH).exists()
    }

    /// Starts the CLI of `vendor` with a new session.
    pub(crate) fn forget_session(&mut self, vendor: Vendor) {
        let mut argv = std::mem::take(&mut self.arguments);
        argv.insert(0, std::mem::take(&mut self.program));
        without_resume(vendor, &mut argv);
        self.program = argv.remove(0);
        self.arguments = argv;
    }
}

/// Reads a variable of this process; None where it is no text.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What the environment says of the run.
#[derive(Debug, PartialEq)]
pub(crate) struct Config {
    /// Whose CLI runs.
    pub(crate) vendor: Vendor,
    /// The session that it goes on with; empty for a new one.
    pub(crate) resumes: String,
    /// The time a CLI has to exit after its result, and after each signal that forces it.
    pub(crate) grace: Duration,
    /// How long it may go without printing a line; None means for ever.
    pub(crate) stall: Option<Duration>,
    /// The Agent.
    pub(crate) agent: String,
    /// Where watched files are.
    pub(crate) workspace: PathBuf,
    /// The files that are reported at the end.
    pub(crate) watches: Vec<Watch>,
    /// Where the conversation goes at the end, where it is asked for and the CLI has one.
    pub(crate) conversation: Option<Conversation>,
}

/// A conversation that is saved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conversation {
    /// The store.
    pub(crate) source: String,
    /// The id in the store.
    pub(crate) pin: String,
    /// The variable that holds the headers of the request, or empty.
    pub(crate) headers: String,
    /// The home of the CLI.
    pub(crate) home: PathBuf,
    /// What is saved, below the home.
    pub(crate) paths: &'static [&'static str],
}

impl Config {
    /// Reads the environment.
    pub(crate) fn from_env(env: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| env(name).unwrap_or_default();
        let milliseconds = |name: &str| text(name).trim().parse().ok().map(Duration::from_millis);
        let vendor = Vendor::route(&text("AGENT_MODEL"));
        Self {
            vendor,
            resumes: text("AGENT_CONVERSATION_ID"),
            grace: milliseconds("AGENT_EXIT_GRACE_MS").unwrap_or(GRACE).min(MAX_GRACE),
            stall: milliseconds("AGENT_STALL_MS").filter(|stall| !stall.is_zero()),
            agent: text("AGENT_NAME"),
            workspace: env("WORKSPACE_DIR").unwrap_or_else(|| names::WORKSPACE.to_owned()).into(),
            watches: signalbox_output::list("AGENT_WATCH", &text("AGENT_WATCH")),
            conversation: Conversation::from_env(&text, state_paths(vendor)),
        }
    }

    /// Whether the end of the run posts anything but events.
    pub(crate) fn uploads(&self) -> bool {
        self.conversation.is_some() || self.watches.iter().any(|watch| watch.upload.is_some())
    }
}

impl Conversation {
    fn from_env(text: &impl Fn(&str) -> String, paths: &'static [&'static str]) -> Option<Self> {
        let set = |name: &str| Some(text(name)).filter(|value| !value.is_empty());
        let (source, pin) = (set("AGENT_CONVERSATION_SOURCE")?, set("AGENT_CONVERSATION_PIN")?);
        let (headers, home) = (text("AGENT_CONVERSATION_AUTH"), set("HOME")?.into());
        (!paths.is_empty()).then_some(Self { source, pin, headers, home, paths })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn args(words: &[&str]) -> Option<Args> {
        Args::parse(words.iter().map(OsString::from))
    }

    #[rstest]
    #[case(&[])]
    #[case(&["--"])]
    #[case(&["claude"])]
    #[case(&["--unknown", "--", "claude"])]
    #[case(&["--agent-dir", "/x"])]
    fn without_an_agent_there_is_nothing_to_start(#[case] words: &[&str]) {
        assert_eq!(args(words), None);
    }

    #[test]
    fn all_after_the_first_dashes_is_the_agent_s() {
        let args = args(&["--agent-dir", "/a", "--", "sh", "-c", "--", "--agent-dir"]).unwrap();
        assert_eq!((args.program.to_str(), args.arguments.len()), (Some("sh"), 3));
        assert_eq!(args.stamp(), PathBuf::from("/a/.started-boottime-ms"));
    }

    #[rstest]
    #[case("", 5000)]
    #[case("250", 250)]
    #[case("0", 0)]
    #[case("-1", 5000)]
    #[case("18446744073709551615", 31_536_000_000)]
    #[case("soon", 5000)]
    fn the_grace_is_five_seconds_unless_the_recipe_says_otherwise(#[case] value: &str, #[case] milliseconds: u64) {
        let config = Config::from_env(|name| (name == "AGENT_EXIT_GRACE_MS").then(|| value.to_owned()));
        assert_eq!(config.grace, Duration::from_millis(milliseconds));
    }

    #[rstest]
    #[case("", None)]
    #[case("0", None)]
    #[case("-1", None)]
    #[case("1.5", None)]
    #[case("soon", None)]
    #[case(" 60000 ", Some(60_000))]
    fn silence_has_a_limit_only_where_the_station_sets_one(#[case] value: &str, #[case] milliseconds: Option<u64>) {
        let config = Config::from_env(|name| (name == "AGENT_STALL_MS").then(|| value.to_owned()));
        assert_eq!(config.stall, milliseconds.map(Duration::from_millis));
    }

    #[rstest]
    #[case::claude("claude-x", "", Some(&[".claude/projects"] as &[_]))]
    #[case::codex("gpt-5.5", "", Some(&[".codex/sessions"] as &[_]))]
    #[case::gemini_without_its_policies("gemini-x", "", Some(&[".gemini/tmp", ".gemini/projects.json"] as &[_]))]
    #[case::opencode("opencode/x", "", Some(&[".local/share/opencode"] as &[_]))]
    #[case::exec_has_none("exec", "", None)]
    #[case::no_store("claude-x", "AGENT_CONVERSATION_SOURCE", None)]
    #[case::no_pin("claude-x", "AGENT_CONVERSATION_PIN", None)]
    #[case::no_home("claude-x", "HOME", None)]
    fn a_conversation_is_saved_where_store_pin_and_state_are_known(
        #[case] model: &str,
        #[case] unset: &str,
        #[case] paths: Option<&[&str]>,
    ) {
        let config = Config::from_env(|name| match name {
            "AGENT_MODEL" => Some(model.to_owned()),
            "AGENT_CONVERSATION_SOURCE" | "AGENT_CONVERSATION_PIN" | "HOME" if name != unset => Some("x".to_owned()),
            _ => None,
        });
        assert_eq!(config.conversation.map(|conversation| conversation.paths), paths);
    }

    #[test]
    fn a_watched_file_that_does_not_decode_is_left_out() {
        let watches = r#"[{"event":"a","path":"p"}, 7, {"event":"b","path":"q","upload":{"url":"http://h/"}}]"#;
        let config = Config::from_env(|name| (name == "AGENT_WATCH").then(|| watches.to_owned()));
        assert_eq!(config.watches.iter().map(|watch| watch.event.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(config.uploads());
    }
}

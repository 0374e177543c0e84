use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use signalbox_types::names;
use signalbox_vendors::Vendor;

/// What is printed where there is nothing to start.
pub(crate) const USAGE: &str = "usage: ai-agent-supervisor -- <agent> [args...]";

/// The time between the steps of an end that has to be forced.
const GRACE: Duration = Duration::from_secs(5);

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
        let stamp = Path::new(names::STARTED_STAMP_PATH);
        self.agent_dir.join(stamp.strip_prefix(names::AGENT_HOME).unwrap_or(stamp))
    }
}

/// What the environment says of the run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// Whose CLI runs.
    pub(crate) vendor: Vendor,
    /// The time a CLI has to exit after its result, and after each signal that forces it.
    pub(crate) grace: Duration,
    /// What the recipe asks for that this version cannot do and that the run must not go on without.
    pub(crate) refused: Option<&'static str>,
    /// What it asks for that this version cannot do and that the run goes on without.
    pub(crate) ignored: Option<&'static str>,
}

impl Config {
    /// Reads the environment.
    pub(crate) fn from_env(env: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| env(name).unwrap_or_default();
        let asks = |name: &str| !matches!(text(name).trim(), "" | "[]" | "null");
        let vendor = Vendor::route(&text("AGENT_MODEL"));
        let saves = vendor != Vendor::Exec && asks("AGENT_CONVERSATION_SOURCE") && asks("AGENT_CONVERSATION_PIN");
        Self {
            vendor,
            grace: text("AGENT_EXIT_GRACE_MS").trim().parse().map_or(GRACE, Duration::from_millis),
            refused: saves.then_some("saving a conversation (AGENT_CONVERSATION_SOURCE)"),
            ignored: asks("AGENT_WATCH").then_some("watched files (AGENT_WATCH)"),
        }
    }

    /// The grace at the run's deadline: a recipe may ask for more, but then the Job's own deadline would come first.
    pub(crate) fn grace_at_deadline(&self) -> Duration {
        self.grace.min(GRACE)
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
    #[case("soon", 5000)]
    fn the_grace_is_five_seconds_unless_the_recipe_says_otherwise(#[case] value: &str, #[case] milliseconds: u64) {
        let config = Config::from_env(|name| (name == "AGENT_EXIT_GRACE_MS").then(|| value.to_owned()));
        assert_eq!(config.grace, Duration::from_millis(milliseconds));
        assert!(config.grace_at_deadline() <= Duration::from_secs(5));
    }

    #[rstest]
    #[case::save("claude", true)]
    #[case::exec_has_nothing_to_save("exec", false)]
    fn a_conversation_that_cannot_be_saved_is_refused(#[case] model: &str, #[case] refused: bool) {
        let config = Config::from_env(|name| match name {
            "AGENT_MODEL" => Some(model.to_owned()),
            "AGENT_CONVERSATION_SOURCE" | "AGENT_CONVERSATION_PIN" => Some("x".to_owned()),
            _ => None,
        });
        assert_eq!(config.refused.is_some(), refused);
    }
}

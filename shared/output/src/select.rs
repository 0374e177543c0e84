//! Which lines of the agent reach the sinks: `docs/contract/agents.md` section 12.3.

use signalbox_types::{SELECT_EVENTS, Select};

/// What a line of the agent is, as its vendor's rules say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class<'a> {
    /// One of the events that `select` knows.
    pub event: &'a str,
    /// The tool, or empty.
    pub tool: &'a str,
    /// The text, or empty.
    pub text: &'a str,
}

/// The rules of a run; none lets everything pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selectors(Vec<Select>);

impl Selectors {
    /// The rules whose event is known. A misspelt one is dropped with a log line: it must not become another class, and
    /// a recipe whose rules are all misspelt must not lose its events.
    pub fn new(rules: Vec<Select>) -> Self {
        let (known, unknown): (Vec<_>, Vec<_>) =
            rules.into_iter().partition(|rule| SELECT_EVENTS.contains(&rule.event.as_str()));
        for rule in &unknown {
            tracing::warn!("output.select: no event is called {:?}; this rule is dropped", rule.event);
        }
        if known.is_empty() && !unknown.is_empty() {
            tracing::warn!("output.select: no rule is left, so every line is sent");
        }
        Self(known)
    }

    /// Whether the class of a line matters at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a line of that class is sent; `None` is a line without class.
    pub fn passes(&self, class: Option<Class<'_>>) -> bool {
        self.0.is_empty() || class.is_some_and(|class| self.0.iter().any(|rule| matches(rule, class)))
    }
}

fn matches(rule: &Select, class: Class<'_>) -> bool {
    rule.event == class.event
        && (rule.tool.is_empty() || rule.tool == class.tool)
        && (rule.contains.is_empty() || class.text.contains(&rule.contains))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn rule(event: &str, tool: &str, contains: &str) -> Select {
        Select { event: event.into(), tool: tool.into(), contains: contains.into(), role: "user".into() }
    }

    const BASH: Class<'_> = Class { event: "tool_call", tool: "Bash", text: "ls -l" };

    #[rstest]
    #[case::event(rule("tool_call", "", ""), true)]
    #[case::other_event(rule("message", "", ""), false)]
    #[case::tool(rule("tool_call", "Bash", ""), true)]
    #[case::other_tool(rule("tool_call", "Read", ""), false)]
    #[case::text(rule("tool_call", "", "ls"), true)]
    #[case::other_text(rule("tool_call", "Bash", "rm"), false)]
    fn a_line_passes_when_all_of_a_rule_fits(#[case] rule: Select, #[case] passes: bool) {
        assert_eq!(Selectors::new(vec![rule]).passes(Some(BASH)), passes);
    }

    #[test]
    fn one_fitting_rule_is_enough() {
        assert!(Selectors::new(vec![rule("usage", "", ""), rule("tool_call", "", "")]).passes(Some(BASH)));
    }

    #[test]
    fn without_rules_everything_passes_and_with_one_a_line_without_class_does_not() {
        assert!(Selectors::new(vec![]).passes(None));
        assert!(!Selectors::new(vec![rule("message", "", "")]).passes(None));
    }

    #[test]
    fn fix_114_a_misspelt_rule_is_dropped_and_becomes_no_other() {
        let selectors = Selectors::new(vec![rule("tool-call", "", ""), rule("message", "", "")]);
        assert!(!selectors.passes(Some(BASH)));
        assert!(Selectors::new(vec![rule("tool-call", "", "")]).passes(None));
    }
}

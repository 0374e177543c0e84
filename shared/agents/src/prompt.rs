//! Prompt templates: `docs/contract/agents.md` section 2.4.

use std::collections::BTreeMap;

/// Replaces each `{name}` whose name is a parameter by the parameter's value. A value is not scanned again, so that it
/// cannot reach another parameter. All other braces stay as they are.
pub fn render(template: &str, parameters: &BTreeMap<String, String>) -> String {
    let mut rendered = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        rendered.push_str(before);
        match value(after, parameters) {
            Some((value, left)) => {
                rendered.push_str(value);
                rest = left;
            }
            None => {
                rendered.push('{');
                rest = after;
            }
        }
    }
    rendered.push_str(rest);
    rendered
}

/// The value of the token that `text` continues, and what follows the token. It looks no further than the name, so that
/// a prompt full of braces takes no longer than any other.
fn value<'a>(text: &'a str, parameters: &'a BTreeMap<String, String>) -> Option<(&'a str, &'a str)> {
    let end = text.bytes().position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-')))?;
    let (name, left) = text.split_at(end);
    let value = parameters.get(name).filter(|_| !name.is_empty())?;
    Some((value, left.strip_prefix('}')?))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", "")]
    #[case("no token", "no token")]
    #[case("{a}", "1")]
    #[case("{a}{a} {b.c-d_E9}", "11 2")]
    #[case("{unknown} {A}", "{unknown} {A}")]
    #[case("{} {a", "{} {a")]
    #[case("a} {", "a} {")]
    #[case("{{a}}", "{1}")]
    #[case("{a {a}", "{a 1")]
    #[case("{ a}", "{ a}")]
    #[case("{nested}", "{a}")]
    #[case("{é}", "{é}")]
    #[case("ü{a}ü", "ü1ü")]
    #[case(r#"{"json": "{a}"}"#, r#"{"json": "1"}"#)]
    fn a_known_token_is_replaced_once_and_all_else_stays(#[case] template: &str, #[case] rendered: &str) {
        let parameters = [("a", "1"), ("b.c-d_E9", "2"), ("nested", "{a}"), ("", "empty"), ("é", "no token")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(render(template, &parameters), rendered);
    }
}

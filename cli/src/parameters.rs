//! Parameters of a run, from the arguments and against the recipe's prompt.

use std::collections::BTreeMap;

/// Reads `NAME=VALUE`; the value may be empty and hold further equals signs.
pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("NAME=VALUE is wanted".to_owned()),
    }
}

/// Reads what follows `--`: `--name value` and `--name=value`, in any number.
pub(crate) fn flags(words: &[String]) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--").filter(|flag| !flag.is_empty() && !flag.starts_with('=')) else {
            return Err(format!("\"{word}\" after `--`: parameters are given as --name value there"));
        };
        found.push(match flag.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => match words.next() {
                Some(value) => (flag.to_owned(), value.clone()),
                None => return Err(format!("--{flag}: a value is missing")),
            },
        });
    }
    Ok(found)
}

/// The parameters of the run; `Err` names one that is given twice.
pub(crate) fn merge(pairs: impl IntoIterator<Item = (String, String)>) -> Result<BTreeMap<String, String>, String> {
    let mut merged = BTreeMap::new();
    for (name, value) in pairs {
        if merged.insert(name.clone(), value).is_some() {
            return Err(format!("parameter {name} is given more than once"));
        }
    }
    Ok(merged)
}

/// The names of the tokens in a prompt, each once, in their order: what `signalbox_agents::prompt::render` would replace
/// if it had a parameter of that name.
pub(crate) fn tokens(template: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for after in template.split('{').skip(1) {
        let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')));
        if let Some(end) = end.filter(|end| *end > 0 && after[*end..].starts_with('}')) {
            let name = &after[..end];
            if !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found
}

/// Why a flag after `--` is refused, `None` if its name is a token of the prompt.
pub(crate) fn refusal(name: &str, recipe: &str, tokens: &[&str]) -> Option<String> {
    if tokens.contains(&name) {
        return None;
    }
    let has = if tokens.is_empty() { "none".to_owned() } else { tokens.join(", ") };
    Some(format!(
        "--{name}: the prompt of agentdefinition \"{recipe}\" has no such parameter, it has: {has}; for one that the \
         prompt does not have, use --set {name}=VALUE"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use signalbox_agents::prompt::render;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn parameters_are_given_as_flags_with_a_value_behind_or_in_them() {
        let found = flags(&words("--name Ada --text=a=b --n -1")).unwrap();
        let expected = [("name", "Ada"), ("text", "a=b"), ("n", "-1")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[rstest]
    #[case("name=Ada", "\"name=Ada\" after `--`: parameters are given as --name value there")]
    #[case("-- x", "\"--\" after `--`: parameters are given as --name value there")]
    #[case("--=x", "\"--=x\" after `--`: parameters are given as --name value there")]
    #[case("--name", "--name: a value is missing")]
    fn what_is_no_flag_is_refused(#[case] text: &str, #[case] message: &str) {
        assert_eq!(flags(&words(text)).unwrap_err(), message);
    }

    #[test]
    fn a_parameter_that_is_given_twice_is_refused() {
        let pairs = [("a", "1"), ("b", "2"), ("a", "3")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(merge(pairs).unwrap_err(), "parameter a is given more than once");
    }

    #[rstest]
    #[case("", &[])]
    #[case("Greet {name}: {text} {name}", &["name", "text"])]
    #[case("{a {b} {} {c", &["b"])]
    #[case(r#"{"json": "{x.y-z_9}"}"#, &["x.y-z_9"])]
    #[case("{é} {{d}}", &["d"])]
    fn the_tokens_of_a_prompt_are_found(#[case] prompt: &str, #[case] expected: &[&str]) {
        assert_eq!(tokens(prompt), expected);
    }

    proptest! {
        #[test]
        fn exactly_the_tokens_are_what_a_parameter_can_replace(prompt in "[{}a-c. é]{0,24}") {
            let known: BTreeMap<_, _> = tokens(&prompt).into_iter().map(|name| (name.to_owned(), "!".to_owned())).collect();
            // Every name that could stand between two braces of the prompt.
            let all: BTreeMap<_, _> = prompt.split(['{', '}']).map(|name| (name.to_owned(), "!".to_owned())).collect();
            prop_assert_eq!(render(&prompt, &known), render(&prompt, &all));
            for name in known.keys() {
                let alone = BTreeMap::from([(name.clone(), "!".to_owned())]);
                prop_assert_ne!(render(&prompt, &alone), prompt.clone());
            }
        }
    }
}

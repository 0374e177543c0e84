//! What may be secret in an address stays out of the log: the user with the password, and the query.

/// `text` with each address in it stripped of what may be secret.
pub(crate) fn addresses(text: &str) -> String {
    text.split_inclusive(char::is_whitespace).map(word).collect()
}

fn word(word: &str) -> String {
    let Some((before, rest)) = word.split_once("://") else { return without_user(word) };
    let end = rest.find(['/', '?', '#', '"', '\'']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("<redacted>@{host}"),
        None => authority.to_owned(),
    };
    let path = match path.split_once('?') {
        Some((path, query)) => format!("{path}?<redacted>{}", tail(query)),
        None => path.to_owned(),
    };
    format!("{before}://{authority}{path}")
}

/// What follows a query in a sentence.
fn tail(query: &str) -> &str {
    let end = query.trim_end_matches(|c: char| c.is_whitespace() || "\"'),:.".contains(c)).len();
    &query[end..]
}

/// `user:secret@host:path`, which is no address with a scheme, without its user.
fn without_user(word: &str) -> String {
    match word.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => format!("<redacted>@{host}"),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("no address: at all", "no address: at all")]
    #[case("https://h/o/r.git", "https://h/o/r.git")]
    #[case("https://u:p@x@h:8/r failed", "https://<redacted>@h:8/r failed")]
    #[case("(ssh://git@h/r)", "(ssh://<redacted>@h/r)")]
    #[case("for url \"https://h/r?token=s#f\": gone", "for url \"https://h/r?<redacted>\": gone")]
    #[case("git@h:o/r", "git@h:o/r")]
    #[case("u:p@h:o/r", "<redacted>@h:o/r")]
    fn case_80_an_address_is_logged_without_its_secrets(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(addresses(text), expected);
    }
}

//! The header block of a request, `Name: value` a line, held in the variable that `headers_secret` names.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// The headers in the variable that `name` names, none for an empty name; `whose` tells the log whom they are for. What is
/// missing or malformed costs a log line.
pub fn from_env(env: impl Fn(&str) -> Option<String>, name: &str, whose: &str) -> HeaderMap {
    if name.is_empty() {
        return HeaderMap::new();
    }
    let Some(block) = env(name) else {
        tracing::warn!("{whose}: the variable {name} with its headers is not set");
        return HeaderMap::new();
    };
    let (headers, malformed) = parse(&block);
    if !malformed.is_empty() {
        tracing::warn!("{name}: lines {malformed:?} are no headers and are ignored");
    }
    headers
}

/// The headers of `block`, marked as secret, and the numbers (from 1) of the lines that are none. What a line says is
/// never told: it is a secret even when it is malformed.
fn parse(block: &str) -> (HeaderMap, Vec<usize>) {
    let mut headers = HeaderMap::new();
    let mut malformed = Vec::new();
    for (number, line) in block.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match header(line) {
            Some((name, value)) => drop(headers.append(name, value)),
            None => malformed.push(number + 1),
        }
    }
    (headers, malformed)
}

fn header(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name.trim().parse().ok()?, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_header_and_no_value_is_ever_printed() {
        let (headers, malformed) = parse("Authorization: Bearer s3cret:x\r\nX-Two:2\n\n  \nX-Two: 3\n");
        assert_eq!(headers.get("authorization").unwrap(), "Bearer s3cret:x");
        assert_eq!(headers.get_all("x-two").iter().collect::<Vec<_>>(), ["2", "3"]);
        assert!(malformed.is_empty() && !format!("{headers:?}").contains("s3cret"));
    }

    #[test]
    fn a_line_that_is_no_header_is_told_by_its_number_alone() {
        let (headers, malformed) = parse("s3cret\nA: 1\nB\u{7f}: 2\nC: \u{1}");
        assert_eq!((headers.len(), malformed), (1, vec![1, 3, 4]));
    }
}

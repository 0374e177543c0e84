//! The token of a private repository: how it reaches the server, now and when the agent pushes later. It is never in an
//! argument, an address, a log line or a file that others can read.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use gix::{
    bstr::BString,
    config::{File, Source},
    credentials::{helper::Action, protocol::Outcome},
    sec::identity::Account,
};

use super::broker::Lease;

/// The user that git servers take a token from.
pub(super) const USER: &str = "x-access-token";
/// The token itself, for a CLI that hides its environment from what it starts.
pub(super) const TOKEN_FILE: &str = "agent-token";
/// The request header with the token, for a CLI that turns credential helpers off.
const HEADER_FILE: &str = "agent-auth.gitconfig";

/// A token, the variable it is in, and the server it is for.
#[derive(Clone)]
pub(crate) struct Token {
    variable: String,
    value: String,
    /// Scheme, host and port; a redirect to another server is not given the token.
    server: String,
}

/// How a private repository is reached.
#[derive(Clone)]
pub(crate) enum Access {
    /// With a token of the recipe's.
    Token(Token),
    /// With tokens of a broker, one for each question.
    Broker(Lease),
}

impl Access {
    fn server(&self) -> &str {
        match self {
            Self::Token(token) => &token.server,
            Self::Broker(lease) => &lease.server,
        }
    }

    /// Lets git in the agent's container push with the same access.
    ///
    /// # Errors
    /// The clone's configuration cannot be read or written.
    pub(crate) fn persist(&self, git_dir: &Path) -> Result<(), gix::Error> {
        match self {
            Self::Token(token) => token.persist(git_dir),
            Self::Broker(lease) => lease.persist(git_dir),
        }
    }
}

/// The token that `token_secret` names, for the server of `url`. None where it is no name of a variable (that would be
/// a way into the helper's shell), where the variable is not set, and for an address that takes no token.
pub(crate) fn of(token_secret: &str, url: &str, env: impl Fn(&str) -> Option<String>) -> Option<Token> {
    if token_secret.is_empty() {
        return None;
    }
    if !is_variable(token_secret) {
        tracing::warn!("token_secret {token_secret:?} is no name of a variable: cloning without a token");
        return None;
    }
    let value = env(token_secret).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    if value.is_none() {
        tracing::warn!("the variable {token_secret} is empty or not set: cloning without a token");
    }
    Some(Token { variable: token_secret.to_owned(), value: value?, server: server(url)? })
}

fn is_variable(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Scheme, host and port of an http address, as git's configuration has them.
fn server(url: &str) -> Option<String> {
    let url: reqwest::Url = url.parse().ok()?;
    if url.scheme() == "http" {
        tracing::warn!("the token goes to {} without TLS", url.host_str().unwrap_or_default());
    }
    let origin = url.origin();
    (matches!(url.scheme(), "http" | "https") && origin.is_tuple()).then(|| origin.ascii_serialization())
}

/// Answers a server's question for credentials.
///
/// # Errors
/// There is no token for that server, or the broker gives none.
pub(crate) fn answer(access: Option<&Access>, question: Action) -> Result<Option<Outcome>, gix::Error> {
    let Action::Get(context) = question else { return Ok(None) };
    let asked = context.url.as_ref().and_then(|url| reqwest::Url::parse(&url.to_string()).ok());
    let asked = asked.map(|url| url.origin().ascii_serialization());
    let Some(access) = access else {
        return Err(refusal("the server asks for credentials and the recipe has no token for it"));
    };
    if asked.as_deref() != Some(access.server()) {
        return Err(refusal("another server than the repository's asks for the token"));
    }
    let password = match access {
        Access::Token(token) => token.value.clone(),
        Access::Broker(lease) => lease.ask_and_wait().map_err(gix::Error::from_error)?,
    };
    let identity = Account { username: USER.into(), password, oauth_refresh_token: None };
    Ok(Some(Outcome { identity, next: context.into() }))
}

fn refusal(text: &'static str) -> gix::Error {
    gix::Error::from_error(std::io::Error::new(std::io::ErrorKind::PermissionDenied, text))
}

impl Token {
    /// Lets git in the agent's container push with the same token: a helper for this server alone that reads the
    /// variable when it is asked, and two files for the agent's user alone.
    ///
    /// # Errors
    /// The clone's configuration cannot be read or written.
    pub(crate) fn persist(&self, git_dir: &Path) -> Result<(), gix::Error> {
        let header = STANDARD.encode(format!("{USER}:{}", self.value));
        let mut headers = File::default();
        let server = Some(BString::from(format!("{}/", self.server)));
        headers.new_section("http", server)?.push("extraHeader", format!("Authorization: Basic {header}").as_str())?;
        private(&git_dir.join(TOKEN_FILE), self.value.as_bytes())?;
        private(&git_dir.join(HEADER_FILE), &headers.to_bstring())?;

        helped(git_dir, &self.server, &self.helper(git_dir), |config| {
            config.new_section("include", None::<BString>)?.push("path", HEADER_FILE)?;
            Ok(())
        })
    }

    /// A helper in git's own notation: a shell function that is called with what is wanted.
    fn helper(&self, git_dir: &Path) -> String {
        let file = quoted(&git_dir.join(TOKEN_FILE).display().to_string());
        let (variable, user) = (&self.variable, USER);
        format!(
            "!f() {{ test \"$1\" = get || return 0; token=\"${variable}\"; \
             test -n \"$token\" || token=\"$(cat {file})\"; \
             printf 'username={user}\\npassword=%s\\n' \"$token\"; }}; f"
        )
    }
}

/// Gives a clone a credential helper for `server` alone, and what else `more` puts into its configuration.
pub(super) fn helped(
    git_dir: &Path,
    server: &str,
    helper: &str,
    more: impl FnOnce(&mut File) -> Result<(), gix::Error>,
) -> Result<(), gix::Error> {
    let path = git_dir.join("config");
    let mut config = File::from_path_no_includes(path.clone(), Source::Local)?;
    // The empty entry drops the helpers of other files: they would be asked first.
    let mut section = config.new_section("credential", Some(BString::from(server)))?;
    section.push("helper", "")?.push("helper", helper)?;
    more(&mut config)?;
    fs::write(path, &*config.to_bstring()).map_err(gix::Error::from_error)
}

/// `text` as one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Writes a file that only its owner can read, from its first byte on.
pub(super) fn private(path: &Path, content: &[u8]) -> Result<(), gix::Error> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(content)
    };
    write().map_err(gix::Error::from_error)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn env(name: &str) -> Option<String> {
        (name == "GH_TOKEN").then(|| " s3cret\n".to_owned())
    }

    #[rstest]
    #[case::injected("GH;rm")]
    #[case::expanded("$(id)")]
    #[case::dashed("gh-token")]
    #[case::digit("1GH")]
    #[case::unset("OTHER")]
    #[case::empty("")]
    fn case_81_a_token_secret_that_is_no_variable_gives_no_token(#[case] name: &str) {
        assert!(of(name, "https://h/r", env).is_none());
    }

    #[rstest]
    #[case("https://h/r", Some("https://h"))]
    #[case("http://h:3000/r", Some("http://h:3000"))]
    #[case("https://h:443/r", Some("https://h"))]
    #[case("ssh://git@h/r", None)]
    #[case("git@h:r", None)]
    fn a_token_is_for_one_server(#[case] url: &str, #[case] server: Option<&str>) {
        assert_eq!(of("GH_TOKEN", url, env).map(|token| token.server).as_deref(), server);
    }

    #[rstest]
    #[case::same("https://h/other", true)]
    #[case::other_host("https://evil/r", false)]
    #[case::other_port("https://h:8443/r", false)]
    #[case::without_tls("http://h/r", false)]
    #[case::no_address("h", false)]
    fn a_server_that_a_redirect_leads_to_is_not_given_the_token(#[case] asked: &str, #[case] given: bool) {
        let token = Access::Token(of("GH_TOKEN", "https://h/r", env).unwrap());
        let answer = answer(Some(&token), Action::get_for_url(asked));
        assert_eq!(answer.ok().flatten().map(|outcome| outcome.identity.password), given.then(|| "s3cret".to_owned()));
    }
}

//! A broker of git credentials: it gives a token of short life for one repository to whoever has the credential of the
//! run, `AGENT_GIT_CREDENTIAL`. It is asked for each token anew. Contract: `docs/contract/agents.md` section 10, "git".

use std::{
    fs,
    io::{self, BufRead},
    path::{Path, PathBuf},
};

use gix::bstr::BString;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::json;
use tokio::runtime::Handle;

use super::token::{TOKEN_FILE, USER, helped, private, quoted};
use crate::{
    config::CredentialArgs,
    fetch::{self, Fetcher, Source},
};

/// The broker of a run.
#[derive(Clone, Debug)]
pub(crate) struct Broker {
    /// Where it is asked.
    pub(crate) url: String,
    /// The credential of the run.
    pub(crate) credential: Secret,
    /// This program, where the agent's container finds it.
    pub(crate) helper: PathBuf,
    pub(crate) fetcher: Fetcher,
    /// What waits for the broker while a clone does.
    pub(crate) runtime: Handle,
}

/// Text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<redacted>")
    }
}

/// The access to one repository through a broker.
#[derive(Clone)]
pub(crate) struct Lease {
    broker: Broker,
    /// `owner/name`
    repo: String,
    /// Scheme, host and port of the repository.
    pub(super) server: String,
}

/// Why a broker gives no token. No text has a secret in it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the credential of the run has characters that no header may have")]
    Credential,
    #[error("the broker gives no token: {0}")]
    Broker(#[from] fetch::Error),
    #[error("the broker's answer has no token")]
    NoToken,
    #[error("{0}")]
    File(#[from] io::Error),
}

impl Broker {
    pub(super) fn lease(&self, repo: String, server: &str) -> Lease {
        Lease { broker: self.clone(), repo, server: server.to_owned() }
    }
}

impl Lease {
    /// A token; the thread waits for it.
    pub(super) fn ask_and_wait(&self) -> Result<String, Error> {
        let Broker { url, credential, fetcher, runtime, .. } = &self.broker;
        runtime.block_on(ask(fetcher, url, &credential.0, &self.repo))
    }

    /// Lets git in the agent's container ask the broker too: through this program, which the agent's volume carries, so
    /// that its image need not have one that can. The credential is in a file for its user alone, for a CLI that hides
    /// its environment from what it starts.
    pub(super) fn persist(&self, git_dir: &Path) -> Result<(), gix::Error> {
        let file = git_dir.join(TOKEN_FILE);
        private(&file, self.broker.credential.0.as_bytes())?;
        let words = [
            self.broker.helper.display().to_string(),
            "git-credential".to_owned(),
            "--broker".to_owned(),
            self.broker.url.clone(),
            "--repository".to_owned(),
            self.repo.clone(),
            "--credential-file".to_owned(),
            file.display().to_string(),
        ];
        let helper = format!("!{}", words.map(|word| quoted(&word)).join(" "));
        helped(git_dir, &self.server, &helper, |config| {
            // So that git says which repository it is about: the token is for one.
            let server = Some(BString::from(self.server.as_str()));
            config.new_section("credential", server)?.push("useHttpPath", "true")?;
            Ok(())
        })
    }
}

/// Asks a broker for a token.
async fn ask(fetcher: &Fetcher, url: &str, credential: &str, repo: &str) -> Result<String, Error> {
    let mut bearer = HeaderValue::from_str(&format!("Bearer {credential}")).map_err(|_| Error::Credential)?;
    bearer.set_sensitive(true);
    let source = Source::new(url, HeaderMap::from_iter([(AUTHORIZATION, bearer)]))?;
    let answer = fetcher.ask(&source, &json!({ "repo": repo })).await?;
    let token = answer["token"].as_str().filter(|token| !token.is_empty() && !token.contains(['\n', '\0']));
    token.map(str::to_owned).ok_or(Error::NoToken)
}

/// The credential helper that [`Lease::persist`] names: git writes what it wants to standard input and reads the answer
/// from standard output, <https://git-scm.com/docs/gitcredentials#_custom_helpers>. The exit code.
pub(crate) async fn helper(args: &CredentialArgs) -> i32 {
    if args.operation != "get" || !is_about(&args.repository, io::stdin().lock()) {
        return 0;
    }
    let token = async {
        let credential = fs::read_to_string(&args.credential_file)?;
        ask(&Fetcher::new()?, &args.broker, credential.trim(), &args.repository).await
    };
    match token.await {
        Ok(token) => {
            println!("username={USER}\npassword={token}");
            0
        }
        Err(error) => {
            eprintln!("git-credential: {error}");
            1
        }
    }
}

/// Whether git asks for that repository, or does not say for which.
fn is_about(repository: &str, question: impl BufRead) -> bool {
    let path = question.lines().map_while(Result::ok).find_map(|line| line.strip_prefix("path=").map(str::to_owned));
    path.is_none_or(|path| path.strip_suffix(".git").unwrap_or(&path) == repository)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("protocol=https\nhost=github.com\npath=o/r.git\n", true)]
    #[case("protocol=https\nhost=github.com\npath=o/r\n", true)]
    #[case("protocol=https\nhost=github.com\n", true)]
    #[case("protocol=https\nhost=github.com\npath=o/other.git\n", false)]
    fn a_token_is_asked_for_one_repository_alone(#[case] question: &str, #[case] about: bool) {
        assert_eq!(is_about("o/r", question.as_bytes()), about);
    }

    #[test]
    fn a_secret_is_never_printed() {
        assert_eq!(format!("{:?}", Secret("s3cret".into())), "<redacted>");
    }
}

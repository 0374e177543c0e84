//! Arguments that every service has, and the parsers that its own use. Each can be given as an environment variable,
//! which is how a Deployment does it; a bad value stops the start with exit code 2 and one line that says which
//! variable, what it holds and what is accepted.

use std::{ffi::OsString, fmt, path::Path, path::PathBuf, process::exit};

use clap::{Args, Parser, error::ErrorKind};
use tracing_subscriber::EnvFilter;

use crate::scope::Scope;

/// Where Kubernetes tells a pod its namespace.
pub const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// The own namespace of a process that was told none.
const DEFAULT_NAMESPACE: &str = "ai-agents";
/// The identity of a process that was told neither `POD_NAME` nor `HOSTNAME`.
const DEFAULT_IDENTITY: &str = "agent-controller";

/// A value that is never shown: not by `Debug`, not by `--help`, and no flag takes it, since every process of a machine
/// can read the arguments of the others.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes `value` in; an empty one counts as none.
    pub fn new(value: impl Into<String>) -> Option<Self> {
        Some(value.into()).filter(|value| !value.is_empty()).map(Self)
    }

    /// Reads the environment variable `name`; unset, empty and not UTF-8 count as none.
    pub fn from_env(name: &str) -> Option<Self> {
        std::env::var(name).ok().and_then(Self::new)
    }

    /// The value itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// What every service can be told; `docs/contract/agents.md` section 7.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Common options")]
pub struct CommonArgs {
    /// Namespaces to serve: one, several separated by commas, or * for all [default: that of the service account in a
    /// pod, else ai-agents]
    #[arg(long = "namespace", env = "NAMESPACE", value_name = "NAMES", value_parser = scope)]
    configured_scope: Option<Scope>,

    /// Name of this pod, the base of its Lease identity [falls back to HOSTNAME, then to agent-controller]
    #[arg(long, env = "POD_NAME", default_value = "", value_name = "NAME", hide_default_value = true)]
    pod_name: String,

    #[arg(long, env = "HOSTNAME", default_value = "", hide = true)]
    hostname: String,

    /// Port of /healthz, /readyz and /metrics
    #[arg(long, env = "HEALTH_PORT", default_value = "8081", value_name = "PORT", value_parser = port("HEALTH_PORT"))]
    pub health_port: u16,

    /// API server to use from outside a cluster; its bearer token is read from KUBE_API_TOKEN. Without it a pod uses its
    /// service account, and a developer the current context of KUBECONFIG
    #[arg(long, env = "KUBE_API_URL", default_value = "", value_name = "URL", hide_default_value = true,
          value_parser = optional_url("KUBE_API_URL", &["http", "https"]))]
    kube_api_url: String,

    /// Bearer token for `kube_api_url`; environment only.
    #[arg(skip = Secret::from_env("KUBE_API_TOKEN"))]
    pub kube_api_token: Option<Secret>,

    /// NATS servers, separated by commas; credentials do not belong here but in NATS_USER and NATS_PASSWORD
    #[arg(long, env = "NATS_URL", default_value = "nats://nats:4222", value_name = "URL", value_parser = nats_urls)]
    pub nats_url: String,

    /// User of this service at NATS; without it no credentials are sent
    #[arg(long, env = "NATS_USER", default_value = "", value_name = "NAME", hide_default_value = true)]
    nats_user: String,

    /// File that holds the password of NATS_USER, read at start; the variable NATS_PASSWORD wins over it
    #[arg(long, env = "NATS_PASSWORD_FILE", value_name = "PATH")]
    nats_password_file: Option<PathBuf>,

    /// Password of `nats_user`; environment only.
    #[arg(skip = Secret::from_env("NATS_PASSWORD"))]
    nats_password: Option<Secret>,

    /// Log filter, such as `info` or `info,signalbox_runtime=debug`; PUT /log-filter changes it while the service runs
    #[arg(long, env = "LOG", default_value = "info", value_name = "FILTER", value_parser = log_filter)]
    pub log: String,

    /// OTLP endpoint for traces over HTTP, such as http://collector:4318; without it no traces are sent
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", default_value = "", value_name = "URL", hide_default_value = true,
          value_parser = optional_url("OTEL_EXPORTER_OTLP_ENDPOINT", &["http", "https"]))]
    otlp_endpoint: String,
}

/// Why arguments that were well formed are of no use.
#[derive(Debug, thiserror::Error)]
pub enum ArgsError {
    /// The file of `NATS_PASSWORD_FILE` cannot be read.
    #[error("NATS_PASSWORD_FILE must be a readable file, got: \"{}\": {source}", path.display())]
    NatsPasswordFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A user without a password.
    #[error("NATS_USER needs NATS_PASSWORD or NATS_PASSWORD_FILE")]
    NatsPasswordMissing,
}

impl CommonArgs {
    /// The own namespace, which has the Lease: that of the service account in a pod, else the first of `NAMESPACE`, else
    /// `ai-agents`.
    pub fn namespace(&self) -> String {
        self.namespace_beside(Path::new(NAMESPACE_FILE))
    }

    /// The namespaces to serve: `NAMESPACE`, else the own one.
    pub fn scope(&self) -> Scope {
        self.configured_scope.clone().unwrap_or_else(|| Scope::one(&self.namespace()))
    }

    fn namespace_beside(&self, file: &Path) -> String {
        let mounted = std::fs::read_to_string(file).map(|text| text.trim().to_owned());
        let first = || self.configured_scope.as_ref().and_then(|scope| scope.names().first().cloned());
        let named = mounted.ok().filter(|name| !name.is_empty()).or_else(first);
        named.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
    }

    /// What the Lease identity of this process starts with: `POD_NAME`, else `HOSTNAME`, else `agent-controller`.
    pub fn identity_base(&self) -> &str {
        [self.pod_name.as_str(), &self.hostname].into_iter().find(|name| !name.is_empty()).unwrap_or(DEFAULT_IDENTITY)
    }

    /// The API server that overrides the others.
    pub fn kube_api_url(&self) -> Option<&str> {
        Some(self.kube_api_url.as_str()).filter(|url| !url.is_empty())
    }

    /// The base of the OTLP endpoint; `/v1/traces` is added to it.
    pub fn otlp_endpoint(&self) -> Option<&str> {
        Some(self.otlp_endpoint.as_str()).filter(|url| !url.is_empty())
    }

    /// User and password for NATS; `None` for a server without users.
    ///
    /// # Errors
    /// A user without a password, or with a password file that cannot be read.
    pub fn nats_credentials(&self) -> Result<Option<(String, Secret)>, ArgsError> {
        if self.nats_user.is_empty() {
            return Ok(None);
        }
        let password = match (&self.nats_password, &self.nats_password_file) {
            (Some(password), _) => Some(password.clone()),
            (None, None) => None,
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|source| ArgsError::NatsPasswordFile { path: path.clone(), source })?;
                Secret::new(text.trim_end_matches(['\r', '\n']))
            }
        };
        let password = password.ok_or(ArgsError::NatsPasswordMissing)?;
        Ok(Some((self.nats_user.clone(), password)))
    }
}

/// Parses the arguments of this process, or ends it: with code 0 after `--help` and `--version`, with code 2 after a bad
/// value. A message from one of the parsers below is printed alone, on one line of standard error.
pub fn parse_or_exit<A: Parser>() -> A {
    match parse_from(std::env::args_os()) {
        Ok(args) => args,
        Err(Refused::Message(message)) => {
            eprintln!("{message}");
            exit(2)
        }
        Err(Refused::Clap(error)) => error.exit(),
    }
}

/// Why arguments were refused.
#[derive(Debug)]
pub enum Refused {
    /// A parser's own message.
    Message(String),
    /// All else, `--help` and `--version` included.
    Clap(clap::Error),
}

/// Parses `args`, the program's name first.
///
/// # Errors
/// See [`Refused`].
pub fn parse_from<A: Parser, I: IntoIterator<Item = OsString>>(args: I) -> Result<A, Refused> {
    A::try_parse_from(args).map_err(|error| match std::error::Error::source(&error) {
        Some(source) if error.kind() == ErrorKind::ValueValidation => Refused::Message(source.to_string()),
        _ => Refused::Clap(error),
    })
}

/// Parser of a non-negative integer for the variable `name`.
pub fn non_negative_integer(name: &'static str) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |raw| {
        let digits = !raw.is_empty() && raw.bytes().all(|byte| byte.is_ascii_digit());
        let value = raw.parse().ok().filter(|_| digits);
        value.ok_or_else(|| format!("{name} must be a non-negative integer, got: \"{raw}\""))
    }
}

/// Parser of a TCP port for the variable `name`.
pub fn port(name: &'static str) -> impl Fn(&str) -> Result<u16, String> + Clone {
    move |raw| {
        let value = raw.parse().ok().filter(|port| *port != 0);
        value.ok_or_else(|| format!("{name} must be a port from 1 to 65535, got: \"{raw}\""))
    }
}

/// Parser of an absolute URL of one of `schemes` for the variable `name`; empty means none.
pub fn optional_url(
    name: &'static str,
    schemes: &'static [&'static str],
) -> impl Fn(&str) -> Result<String, String> + Clone {
    move |raw| {
        if raw.is_empty() {
            return Ok(String::new());
        }
        let wanted = || format!("{name} must be a URL starting with {}://", schemes.join(":// or "));
        let url = url::Url::parse(raw).map_err(|error| format!("{}, got: \"{raw}\": {error}", wanted()))?;
        // The value is not repeated here: what stands before the @ may be a password.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!("{}, without user and password in it", wanted()));
        }
        let known = schemes.contains(&url.scheme()) && url.has_host();
        known.then(|| raw.to_owned()).ok_or_else(|| format!("{}, got: \"{raw}\"", wanted()))
    }
}

fn scope(raw: &str) -> Result<Scope, String> {
    Scope::parse(raw).ok_or_else(|| {
        format!("NAMESPACE must be the name of a namespace, several separated by commas, or * for all, got: \"{raw}\"")
    })
}

fn nats_urls(raw: &str) -> Result<String, String> {
    let parse = optional_url("NATS_URL", &["nats", "tls"]);
    let urls: Vec<_> = raw.split(',').map(|part| parse(part.trim())).collect::<Result<_, _>>()?;
    if urls.iter().any(String::is_empty) {
        return Err(format!("NATS_URL must name at least one server and no empty one, got: \"{raw}\""));
    }
    Ok(urls.join(","))
}

fn log_filter(raw: &str) -> Result<String, String> {
    let parsed = EnvFilter::try_new(raw);
    parsed.map(|_| raw.to_owned()).map_err(|error| {
        format!("LOG must be a log filter such as info or info,signalbox_runtime=debug, got: \"{raw}\": {error}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser, Debug)]
    struct Service {
        #[command(flatten)]
        common: CommonArgs,
    }

    fn common(args: &[&str]) -> CommonArgs {
        let args = ["service"].iter().chain(args).map(OsString::from);
        parse_from::<Service, _>(args).expect("arguments").common
    }

    #[test]
    fn the_own_namespace_is_that_of_the_service_account_then_the_first_that_is_served_then_a_word() {
        let (file, nowhere) = (tempfile::NamedTempFile::new().expect("file"), Path::new("/nowhere/namespace"));
        std::fs::write(file.path(), "team-a\n").expect("write");
        let args = common(&["--namespace", "team-b,team-c"]);
        assert_eq!(args.namespace_beside(file.path()), "team-a");
        assert_eq!(args.namespace_beside(nowhere), "team-b");
        assert_eq!(common(&["--namespace", "*"]).namespace_beside(nowhere), "ai-agents");
        assert_eq!(common(&[]).namespace_beside(nowhere), "ai-agents");
        std::fs::write(file.path(), "").expect("write");
        assert_eq!(args.namespace_beside(file.path()), "team-b");
    }

    #[test]
    fn the_namespaces_to_serve_are_those_that_are_named_else_the_own_one() {
        let served = |args: &[&str]| common(args).scope().to_string();
        assert_eq!(served(&["--namespace", "team-b,team-c"]), "team-b,team-c");
        assert_eq!(served(&["--namespace", "*"]), "*");
        assert_eq!(served(&[]), common(&[]).namespace());
    }

    #[test]
    fn the_identity_is_the_pod_then_the_host_then_a_word() {
        assert_eq!(common(&["--pod-name", "p", "--hostname", "h"]).identity_base(), "p");
        assert_eq!(common(&["--pod-name", "", "--hostname", "h"]).identity_base(), "h");
        assert_eq!(common(&["--pod-name", "", "--hostname", ""]).identity_base(), "agent-controller");
    }

    #[test]
    fn debug_shows_no_secret() {
        let mut args = common(&[]);
        args.nats_password = Secret::new("hunter2");
        args.kube_api_token = Secret::new("hunter2");
        assert!(!format!("{args:?}").contains("hunter2"));
    }

    #[test]
    fn a_password_file_loses_its_last_newline_only() {
        let file = tempfile::NamedTempFile::new().expect("file");
        std::fs::write(file.path(), " pass word \n").expect("write");
        let path = file.path().to_str().expect("path");
        let args = common(&["--nats-user", "watcher", "--nats-password-file", path]);
        let (user, password) = args.nats_credentials().expect("credentials").expect("some");
        assert_eq!((user.as_str(), password.expose()), ("watcher", " pass word "));
    }

    #[test]
    fn a_user_without_a_password_is_refused_by_name() {
        let refusal = |args: &[&str]| common(args).nats_credentials().expect_err("refused").to_string();
        assert_eq!(refusal(&["--nats-user", "u"]), "NATS_USER needs NATS_PASSWORD or NATS_PASSWORD_FILE");
        let unreadable = refusal(&["--nats-user", "u", "--nats-password-file", "/nowhere/password"]);
        assert!(unreadable.starts_with("NATS_PASSWORD_FILE must be a readable file, got: \"/nowhere/password\""));
        assert!(common(&[]).nats_credentials().expect("none needed").is_none());
    }
}

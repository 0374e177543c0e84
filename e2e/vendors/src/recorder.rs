//! Runs one case.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use signalbox_testkit::{
    FakeVendors,
    vendors::{Api, SLEEP_MARKER},
};
use signalbox_vendors::{Ending, Invocation, Vendor, argv, env_copies, env_extras};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    time::{sleep, timeout},
};

use crate::{
    cases::{Case, Input, Known, Sent},
    home::{AGENT, Home, is_root},
    tidy::Tidy,
};

/// What a case may take that is not slow.
const LIMIT: Duration = Duration::from_secs(150);
/// How often is looked whether something has come.
const PAUSE: Duration = Duration::from_millis(50);
/// A CLI that has printed nothing for so long has printed what there is to print. claude tells after some four seconds that
/// a tool is still at work.
const QUIET: Duration = Duration::from_secs(6);
/// How long a CLI may take to end by a signal before it is sent again.
const AGAIN: Duration = Duration::from_secs(5);
/// What is kept of standard error, in bytes.
const MAX_STDERR: usize = 2000;

/// Where the CLIs are.
pub(crate) struct Clis(PathBuf);

/// What a CLI has printed, and its exit code, a death by signal n as 128+n.
pub(crate) struct Recorded {
    pub(crate) lines: Vec<String>,
    pub(crate) exit: i32,
    /// The end of what it has complained of.
    pub(crate) stderr: String,
}

impl Clis {
    /// Below that folder, in `bin`.
    ///
    /// # Errors
    /// It is not there.
    pub(crate) fn new(folder: &Path) -> anyhow::Result<Self> {
        let bin = folder.join("bin").canonicalize().with_context(|| folder.display().to_string())?;
        Ok(Self(bin))
    }
}

/// What the lines say of the end.
pub(crate) fn verdict(vendor: Vendor, known: &Known, lines: &[&str]) -> Option<bool> {
    let mut ending = Ending::new(vendor).resuming(&known.asked_for);
    // The id of a session that was made for this is another one each time.
    if vendor == Vendor::Codex && known.verdict == Some(true) {
        ending = Ending::new(vendor);
    }
    for line in lines {
        ending.observe(line);
    }
    ending.verdict()
}

/// The API of a vendor's CLI, and the variable in which it finds its key.
fn api(vendor: Vendor) -> anyhow::Result<(Api, &'static str)> {
    Ok(match vendor {
        Vendor::Claude => (Api::Anthropic, "ANTHROPIC_API_KEY"),
        Vendor::Codex => (Api::Responses, "OPENAI_API_KEY"),
        Vendor::Gemini => (Api::Gemini, "GEMINI_API_KEY"),
        Vendor::Opencode => (Api::Chat, "FAKE_API_KEY"),
        Vendor::Exec => bail!("exec has no vendor"),
    })
}

/// Runs a case from its first prompt to its end.
///
/// # Errors
/// It cannot be run, does not end in time, or a run that it stands on has failed.
pub(crate) async fn record(clis: &Clis, case: &Case) -> anyhow::Result<Recorded> {
    let server = FakeVendors::start().await;
    let (api, _) = api(case.vendor)?;
    let mut case = case.clone();
    for tools in &mut case.recipe.resources.mcp_servers {
        tools.url = tools.url.replace("URL", &server.url(Api::Mcp));
    }
    let url = server.url(api);
    let home = Home::new(&case, &url)?;
    let tidy = Tidy::new(&server, &home);
    let before = std::mem::take(&mut case.before);
    for prompt in before {
        let mut earlier = case.clone();
        earlier.prompt = prompt;
        earlier.stdin.clear();
        earlier.signal = None;
        let run = Run { clis, case: &earlier, server: &server, home: &home };
        let recorded = run.go().await.context("a run before")?;
        let session =
            recorded.lines.iter().find_map(|line| session(line)).with_context(|| {
                format!("a run before has named no session: {:?} {}", recorded.lines, recorded.stderr)
            })?;
        case.recipe.resources.conversation.id = session;
    }
    if case.fresh_home {
        home.afresh(&case, &url)?;
    }
    let mut recorded = Run { clis, case: &case, server: &server, home: &home }.go().await?;
    recorded.lines.iter_mut().for_each(|line| *line = tidy.line(line));
    Ok(recorded)
}

/// The session that a line names.
fn session(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    ["session_id", "thread_id", "sessionID"].into_iter().find_map(|key| line[key].as_str().map(str::to_owned))
}

/// One process.
struct Run<'a> {
    clis: &'a Clis,
    case: &'a Case,
    server: &'a FakeVendors,
    home: &'a Home,
}

/// The lines so far, and when the last one came.
type Lines = Arc<Mutex<(Vec<String>, Instant)>>;

fn locked(lines: &Lines) -> MutexGuard<'_, (Vec<String>, Instant)> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run<'_> {
    async fn go(&self) -> anyhow::Result<Recorded> {
        let mut child = self.start()?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).context("a process has an id")?;
        let lines: Lines = Arc::new(Mutex::new((Vec::new(), Instant::now())));
        let stdout = tokio::spawn(read_lines(child.stdout.take().context("piped")?, Arc::clone(&lines)));
        let stderr = tokio::spawn(read_tail(child.stderr.take().context("piped")?));
        let limit = if self.case.minutes > 0 { Duration::from_secs(self.case.minutes * 90) } else { LIMIT };
        let ended = timeout(limit, async {
            let stdin = child.stdin.take();
            let driven = async {
                let stdin = self.converse(stdin, &lines).await?;
                self.signal(group, &lines).await?;
                drop(stdin);
                anyhow::Ok(())
            };
            // A process that ends early needs no signal any more.
            let status = tokio::select! {
                status = child.wait() => status,
                driven = driven => { driven?; child.wait().await }
            };
            anyhow::Ok(status?)
        })
        .await;
        // What it has started, tools above all.
        let _ = kill_process_group(group, Signal::KILL);
        let stderr = stderr.await?;
        let status = ended.with_context(|| {
            format!("no end within {limit:?}; so far {:?}\nstandard error: {stderr}", locked(&lines).0)
        })??;
        timeout(QUIET, stdout).await.context("its output does not end")??;
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        let exit = status.code().or(signal.map(|signal| 128 + signal)).context("an exit code")?;
        Ok(Recorded { lines: std::mem::take(&mut locked(&lines).0), exit, stderr })
    }

    fn start(&self) -> anyhow::Result<Child> {
        let argv = self.argv()?;
        let [program, arguments @ ..] = &argv[..] else { bail!("an empty argv") };
        let mut command = Command::new(self.clis.0.join(program));
        command.args(arguments).current_dir(&self.home.workspace).env_clear().envs(self.env()?);
        command.stdin(if self.case.stdin.is_empty() { Stdio::null() } else { Stdio::piped() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
        if is_root() {
            command.uid(AGENT).gid(AGENT);
        }
        command.spawn().with_context(|| program.clone())
    }

    fn argv(&self) -> anyhow::Result<Vec<String>> {
        let Case { vendor, prompt, recipe, .. } = self.case;
        let invocation = Invocation { vendor: *vendor, model: self.case.model(), prompt, definition: recipe };
        let mut argv = argv(&invocation)?;
        if !self.case.stdin.is_empty() {
            // The prompts come on standard input.
            argv.truncate(argv.len().saturating_sub(2));
            argv.extend(["--input-format", "stream-json"].map(str::to_owned));
        }
        Ok(argv.iter().map(|argument| self.home.here(argument)).collect())
    }

    fn env(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let vendor = self.case.vendor;
        let (api, key) = api(vendor)?;
        let bin = self.clis.0.display();
        let owned = |(name, value): (&str, String)| (name.to_owned(), value);
        let mut env: BTreeMap<String, String> = [
            ("HOME", self.home.agent.display().to_string()),
            ("PATH", format!("{bin}:/usr/local/bin:/usr/bin:/bin")),
            ("TMPDIR", self.home.tmp.display().to_string()),
            (key, "recorder-key".to_owned()),
        ]
        .map(owned)
        .into();
        env.extend(env_extras(vendor).iter().map(|(name, value)| owned((name, self.home.here(value)))));
        env.extend(self.server.environment(api, key));
        for (name, value) in &self.case.env {
            match value {
                Some(value) => env.insert(name.clone(), value.clone()),
                None => env.remove(name),
            };
        }
        for (copy, original) in env_copies(vendor) {
            if let Some(value) = env.get(*original).cloned() {
                env.entry((*copy).to_owned()).or_insert(value);
            }
        }
        Ok(env)
    }

    /// Writes what the case writes; the pipe, if it is to stay open.
    async fn converse(&self, stdin: Option<ChildStdin>, lines: &Lines) -> anyhow::Result<Option<ChildStdin>> {
        let Some(mut stdin) = stdin else { return Ok(None) };
        for step in &self.case.stdin {
            match step {
                Input::User(prompt) => {
                    let content = json!([{ "type": "text", "text": prompt }]);
                    let line = json!({ "type": "user", "message": { "role": "user", "content": content } });
                    stdin.write_all(format!("{line}\n").as_bytes()).await?;
                }
                Input::Line(line) => stdin.write_all(format!("{line}\n").as_bytes()).await?,
                Input::Until(kind, count) => {
                    let is_kind = |line: &&String| {
                        serde_json::from_str(line).is_ok_and(|line: Value| line["type"] == kind.as_str())
                    };
                    until(|| locked(lines).0.iter().filter(is_kind).count() >= *count).await;
                }
                Input::UntilAnswering => self.until_quiet(lines, || self.is_answering()).await,
            }
        }
        Ok(self.case.signal.map(|_| stdin))
    }

    async fn signal(&self, group: Pid, lines: &Lines) -> anyhow::Result<()> {
        let Some(sent) = self.case.signal else { return Ok(()) };
        let signal = match sent {
            Sent::TermWhileAnswering | Sent::IntWhileAnswering => {
                self.until_quiet(lines, || self.is_answering()).await;
                if sent == Sent::IntWhileAnswering { Signal::INT } else { Signal::TERM }
            }
            Sent::TermWhileATool => {
                self.until_quiet(lines, || self.home.workspace.join(SLEEP_MARKER).exists()).await;
                Signal::TERM
            }
            Sent::TermAfterInput => {
                self.until_quiet(lines, || true).await;
                Signal::TERM
            }
        };
        kill_process_group(group, signal).context("the process group is there")?;
        // Until its end, which ends this too. opencode swallows the first SIGTERM from its seventh second or so on.
        loop {
            sleep(AGAIN).await;
            let _ = kill_process_group(group, signal);
        }
    }

    fn is_answering(&self) -> bool {
        let requests = self.server.requests();
        requests.iter().any(|request| request.asks_for_a_message() && request.body.contains("fake:slow"))
    }

    async fn until_quiet(&self, lines: &Lines, mut holds: impl FnMut() -> bool) {
        until(&mut holds).await;
        let held = Instant::now();
        until(|| held.max(locked(lines).1).elapsed() >= QUIET).await;
    }
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        sleep(PAUSE).await;
    }
}

async fn read_lines(stdout: impl AsyncRead + Unpin, lines: Lines) {
    let mut reader = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        let mut lines = locked(&lines);
        lines.0.push(line);
        lines.1 = Instant::now();
    }
}

async fn read_tail(mut stderr: impl AsyncRead + Unpin) -> String {
    let mut bytes = Vec::new();
    // What came until then is told in any case.
    let _ = stderr.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    text[text.floor_char_boundary(text.len().saturating_sub(MAX_STDERR))..].to_owned()
}

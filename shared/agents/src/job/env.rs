//! The variables of a run's two containers, in the contract's order, each name once.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use signalbox_types::{
    AgentDefinitionSpec, InputFile, Repo, SinkType,
    names::{AGENT_HOME, AGENT_SECRETS, RUN_PATH, WORKSPACE},
};
use signalbox_vendors::{env_copies, env_extras, mcp_env_name};

use crate::Run;

/// Milliseconds of a minute.
const MINUTE_MS: i64 = 60_000;
/// The supervisor gives up this long before Kubernetes does, so that the run ends with its own words.
const DEADLINE_MARGIN_MS: i64 = 10_000;

/// The variables that the platform sets. A recipe's entry of such a name is dropped; `AGENT_NOTIFY_URL`,
/// `AGENT_EXIT_GRACE_MS` and `AGENT_SINK_RETRY_*` are not among them: a recipe may tune those.
const RESERVED: &[&str] = &[
    "AGENT_CONVERSATION_AUTH",
    "AGENT_CONVERSATION_ID",
    "AGENT_CONVERSATION_PIN",
    "AGENT_CONVERSATION_SOURCE",
    "AGENT_DEADLINE_MS",
    "AGENT_EXECUTION",
    "AGENT_FILES",
    "AGENT_GIT_CREDENTIAL",
    "AGENT_GIT_CREDENTIAL_URL",
    "AGENT_MCP_SERVERS",
    "AGENT_MODEL",
    "AGENT_NAME",
    "AGENT_PARAMETERS",
    "AGENT_PERMISSION_MODE",
    "AGENT_REALTIME_IDLE_MS",
    "AGENT_REALTIME_MAX_PROMPTS",
    "AGENT_REALTIME_PLAN",
    "AGENT_REALTIME_TOKEN_SHA256",
    "AGENT_REPOS",
    "AGENT_SELECT",
    "AGENT_SINKS",
    "AGENT_SKILLS",
    "AGENT_SKILLS_SOURCE",
    "AGENT_STALL_MS",
    "AGENT_WATCH",
    "BRANCH_NAME",
    "HOME",
    "PATH",
    "POD_NAME",
    "POD_NAMESPACE",
    "STATION_NAME",
    "TARGET_REPO",
    "TASK_ID",
    "WORKSPACE_DIR",
];

fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// The recipe without references to secrets whose variables would take a platform's name: left in the JSON that the
/// pod gets, they would send the platform's value as a credential.
pub(super) fn without_reserved(recipe: &AgentDefinitionSpec) -> AgentDefinitionSpec {
    let mut recipe = recipe.clone();
    recipe.output.sinks.iter_mut().for_each(|sink| blank(&mut sink.headers_secret));
    recipe.output.watch.iter_mut().filter_map(|watch| watch.upload.as_mut()).for_each(|upload| {
        blank(&mut upload.headers_secret);
    });
    blank(&mut recipe.resources.conversation.headers_secret);
    recipe.resources.repos.iter_mut().for_each(|repo| blank(&mut repo.token_secret));
    for server in &mut recipe.resources.mcp_servers {
        if is_reserved(&mcp_env_name(&server.headers_secret)) {
            server.headers_secret.clear();
        }
    }
    recipe
}

fn blank(secret: &mut String) {
    if is_reserved(secret) {
        secret.clear();
    }
}

/// The variables of a run.
pub(super) struct Environment {
    pub(super) agent: Vec<Value>,
    pub(super) init: Vec<Value>,
}

/// The variables of `run`; `recipe` is its recipe after [`without_reserved`].
pub(super) fn environment(run: &Run<'_>, recipe: &AgentDefinitionSpec, traceparent: Option<&str>) -> Environment {
    let mut env = Env::default();
    env.output_and_tools(recipe);
    env.conversation(recipe);
    env.limits(run);
    env.tokens(&recipe.resources.repos);
    env.select_and_watch(recipe);
    env.of_the_run(run);
    env.of_the_vendor(run, recipe);
    if let Some(traceparent) = traceparent {
        env.set("TRACEPARENT", traceparent);
    }
    env.of_the_recipe(recipe);
    env.copies_for_the_vendor(run, recipe);
    env.set("HOME", AGENT_HOME);
    env.set("PATH", RUN_PATH);

    let agent = env.entries.clone();
    env.for_the_initializer(run, recipe);
    Environment { agent, init: env.entries }
}

#[derive(Default)]
struct Env {
    entries: Vec<Value>,
    names: BTreeSet<String>,
}

impl Env {
    fn output_and_tools(&mut self, recipe: &AgentDefinitionSpec) {
        self.set_json("AGENT_SINKS", &json!(recipe.output.sinks));
        for sink in recipe.output.sinks.iter().filter(|sink| sink.kind == SinkType::Http) {
            self.secret(&sink.headers_secret, &sink.headers_secret);
        }
        for server in &recipe.resources.mcp_servers {
            self.secret(&mcp_env_name(&server.headers_secret), &server.headers_secret);
        }
        self.set_json("AGENT_REPOS", &json!(recipe.resources.repos));
        self.set_json("AGENT_SKILLS", &json!(recipe.resources.skills));
        self.set("AGENT_SKILLS_SOURCE", &recipe.resources.skills_source);
    }

    fn conversation(&mut self, recipe: &AgentDefinitionSpec) {
        let conversation = &recipe.resources.conversation;
        self.secret(&conversation.headers_secret, &conversation.headers_secret);
        self.set("AGENT_CONVERSATION_AUTH", &conversation.headers_secret);
        self.set("AGENT_CONVERSATION_SOURCE", &conversation.source);
        self.set("AGENT_CONVERSATION_ID", &conversation.id);
        self.set("AGENT_CONVERSATION_PIN", &conversation.pin);
    }

    fn limits(&mut self, run: &Run<'_>) {
        let station = &run.station.spec;
        let deadline = station.deadline_minutes().saturating_mul(MINUTE_MS).saturating_sub(DEADLINE_MARGIN_MS);
        self.set("AGENT_DEADLINE_MS", &deadline.to_string());
        if let Some(minutes) = station.stall_timeout_minutes() {
            self.set("AGENT_STALL_MS", &minutes.saturating_mul(MINUTE_MS).to_string());
        }
    }

    fn tokens(&mut self, repos: &[Repo]) {
        // Kubernetes would refuse the whole Job for a name that cannot be a key; such a repository is cloned without.
        let mut tokens =
            repos.iter().map(|repo| repo.token_secret.as_str()).filter(|token| is_secret_key(token)).peekable();
        let first = tokens.peek().copied();
        tokens.for_each(|token| self.secret(token, token));
        if let Some(first) = first {
            self.secret("GH_TOKEN", first);
        }
    }

    fn select_and_watch(&mut self, recipe: &AgentDefinitionSpec) {
        if !recipe.output.select.is_empty() {
            self.set_json("AGENT_SELECT", &json!(recipe.output.select));
        }
        if !recipe.output.watch.is_empty() {
            self.set_json("AGENT_WATCH", &json!(recipe.output.watch));
        }
        for upload in recipe.output.watch.iter().filter_map(|watch| watch.upload.as_ref()) {
            self.secret(&upload.headers_secret, &upload.headers_secret);
        }
    }

    fn of_the_run(&mut self, run: &Run<'_>) {
        let spec = &run.agent.spec;
        self.set("WORKSPACE_DIR", WORKSPACE);
        if !spec.parameters.is_empty() {
            self.set_json("AGENT_PARAMETERS", &json!(spec.parameters));
        }
        self.set_if_any("TARGET_REPO", &spec.target_repo);
        self.set_if_any("BRANCH_NAME", &spec.branch);
        self.set("AGENT_MODEL", run.model());
        self.set("AGENT_NAME", run.agent.metadata.name.as_deref().unwrap_or_default());
        self.set("STATION_NAME", &spec.station_ref);
        self.set("TASK_ID", &spec.task_id);
        self.field("POD_NAME", "metadata.name");
        self.field("POD_NAMESPACE", "metadata.namespace");
        let parameter = |name: &str| spec.parameters.get(name).map_or("", String::as_str);
        self.set_if_any("AGENT_GIT_CREDENTIAL", parameter("git_credential"));
        self.set_if_any("AGENT_GIT_CREDENTIAL_URL", parameter("git_credential_url"));
    }

    fn of_the_vendor(&mut self, run: &Run<'_>, recipe: &AgentDefinitionSpec) {
        for (name, value) in env_extras(run.vendor()) {
            if !sets(recipe, name) {
                self.set(name, value);
            }
        }
    }

    /// After the recipe's own, so that a value that refers to a variable of the recipe is expanded here too.
    fn copies_for_the_vendor(&mut self, run: &Run<'_>, recipe: &AgentDefinitionSpec) {
        let resources = &recipe.resources;
        for (copy, original) in env_copies(run.vendor()).iter().filter(|(copy, _)| !sets(recipe, copy)) {
            // In this order: of two entries of one name, the literal one is the one that the pod gets.
            if let Some(entry) = resources.env.iter().find(|entry| entry.name == *original) {
                self.push(copy, json!({ "name": copy, "value": entry.value }));
            } else if let Some(entry) = resources.secrets.iter().find(|entry| entry.name == *original) {
                self.secret(copy, &entry.key);
            }
        }
    }

    fn of_the_recipe(&mut self, recipe: &AgentDefinitionSpec) {
        for entry in recipe.resources.env.iter().filter(|entry| !is_reserved(&entry.name)) {
            // As written: a recipe may refer to the variables before it.
            self.push(&entry.name, json!({ "name": entry.name, "value": entry.value }));
        }
        for entry in recipe.resources.secrets.iter().filter(|entry| !is_reserved(&entry.name)) {
            self.secret(&entry.name, &entry.key);
        }
    }

    fn for_the_initializer(&mut self, run: &Run<'_>, recipe: &AgentDefinitionSpec) {
        let blanked = |file: &InputFile| {
            let mut file = file.clone();
            blank(&mut file.headers_secret);
            file
        };
        let files: Vec<InputFile> = run.agent.spec.files.iter().map(blanked).collect();
        self.set_json("AGENT_FILES", &json!(files));
        files.iter().for_each(|file| self.secret(&file.headers_secret, &file.headers_secret));
        self.set_json("AGENT_MCP_SERVERS", &json!(recipe.resources.mcp_servers));
        // What it leaves behind under bypass it must take away before an auto run.
        self.set("AGENT_PERMISSION_MODE", recipe.permission_mode.as_str());
    }

    /// Sets a variable of the platform's, safe from the kubelet's expansion.
    fn set(&mut self, name: &str, value: &str) {
        self.push(name, json!({ "name": name, "value": escaped(value) }));
    }

    fn set_if_any(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.set(name, value);
        }
    }

    fn set_json(&mut self, name: &str, value: &Value) {
        self.set(name, &value.to_string());
    }

    /// Takes a variable from a key of `agent-secrets`. Not optional: a run without its credential must not start.
    fn secret(&mut self, name: &str, key: &str) {
        if !key.is_empty() {
            let reference = json!({ "name": AGENT_SECRETS, "key": key, "optional": false });
            self.push(name, json!({ "name": name, "valueFrom": { "secretKeyRef": reference } }));
        }
    }

    fn field(&mut self, name: &str, path: &str) {
        self.push(name, json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } }));
    }

    fn push(&mut self, name: &str, entry: Value) {
        if self.names.insert(name.to_owned()) {
            self.entries.push(entry);
        }
    }
}

/// True for a variable that the recipe sets itself.
fn sets(recipe: &AgentDefinitionSpec, name: &str) -> bool {
    let resources = &recipe.resources;
    resources.env.iter().any(|entry| entry.name == name) || resources.secrets.iter().any(|entry| entry.name == name)
}

/// True for what Kubernetes takes as a key of a Secret.
fn is_secret_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// `text` with each `$` doubled. The kubelet expands `$(NAME)` and reads `$$` as `$`, in commands and in values: without
/// this, a parameter could read any secret of the pod into the prompt.
pub(super) fn escaped(text: &str) -> String {
    text.replace('$', "$$")
}

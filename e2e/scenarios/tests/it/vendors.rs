//! The vendors' real CLIs in run pods, against fake vendors on the node's own machine: `make e2e-vendors`. Their image is over
//! a gigabyte, so `make e2e` leaves these out.

use std::{net::IpAddr, sync::OnceLock};

use k8s_openapi::api::core::v1::Node;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};
use signalbox_testkit::{
    FakeVendors,
    vendors::{Api as VendorApi, CACHED_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS, TOOL_OUTPUT},
};
use signalbox_types::{Agent, Phase, Usage, names};
use tokio::sync::Semaphore;

use crate::harness::{Scene, ending, lifecycle, output, secret_token};

/// How many CLIs run at a time: each takes a core of its own for seconds before it says a word.
static TURNS: Semaphore = Semaphore::const_new(3);

/// A CLI, and how a recipe leads it to a vendor.
struct Cli {
    name: &'static str,
    model: &'static str,
    api: VendorApi,
    key_variable: &'static str,
    /// More variables of the recipe.
    env: &'static [(&'static str, &'static str)],
    permission_mode: &'static str,
    /// The exit code after the vendor has answered 401.
    refused: i32,
}

const CLAUDE: Cli = Cli {
    name: "claude",
    model: "claude-opus-5-5",
    api: VendorApi::Anthropic,
    key_variable: "ANTHROPIC_API_KEY",
    // It would try again for three minutes.
    env: &[("CLAUDE_CODE_MAX_RETRIES", "0")],
    permission_mode: "bypass",
    refused: 1,
};
const CODEX: Cli = Cli {
    name: "codex",
    model: "gpt-5.5",
    api: VendorApi::Responses,
    key_variable: "OPENAI_API_KEY",
    env: &[],
    permission_mode: "auto",
    refused: 1,
};
const GEMINI: Cli = Cli {
    name: "gemini",
    model: "gemini",
    api: VendorApi::Gemini,
    key_variable: "GEMINI_API_KEY",
    env: &[],
    // In `auto` it has no shell.
    permission_mode: "bypass",
    // 401 modulo 256.
    refused: 145,
};
const OPENCODE: Cli = Cli {
    name: "opencode",
    model: "opencode/fake/m1",
    api: VendorApi::Chat,
    key_variable: "FAKE_API_KEY",
    env: &[],
    permission_mode: "auto",
    refused: 1,
};

impl Cli {
    /// The key that its vendor takes. It has a part that is nowhere else, so whatever shows it has leaked it.
    fn key(&self) -> String {
        format!("{}-{}", self.name, secret_token())
    }

    /// A recipe and a Station of the scene's name whose agent has the key, or another one.
    fn recipe(&self, server: &FakeVendors, has_the_key: bool) -> String {
        let env = server.environment(self.api, self.key_variable).into_iter();
        let more = self.env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let env: Vec<Value> = env.chain(more).map(|(name, value)| json!({ "name": name, "value": value })).collect();
        let key = if has_the_key { secret_key(self.name) } else { secret_key("wrong") };
        let recipe = json!({
            "apiVersion": "agents.re-cinq.com/v1alpha1",
            "kind": "AgentDefinition",
            "metadata": { "name": "NAME" },
            "spec": {
                "model": self.model,
                "prompt": "{script}",
                "permission_mode": self.permission_mode,
                "max_turns": 10,
                "resources": { "env": env, "secrets": [{ "name": self.key_variable, "ref": key }] },
            },
        });
        let container = json!({
            "name": "agent",
            "image": "localhost/signalbox-station-vendors:dev",
            "workingDir": names::WORKSPACE,
            "resources": { "requests": { "cpu": "100m", "memory": "256Mi" }, "limits": { "memory": "2Gi" } },
        });
        let station = json!({
            "apiVersion": "agents.re-cinq.com/v1alpha1",
            "kind": "Station",
            "metadata": { "name": "NAME" },
            "spec": { "agentDefRef": "NAME", "template": { "spec": { "containers": [container] } } },
        });
        format!("{recipe}\n---\n{station}\n")
    }
}

/// The key of `agent-secrets` that holds the key of a vendor.
fn secret_key(name: &str) -> String {
    format!("VENDOR_{}", name.to_uppercase())
}

/// Puts all keys into `agent-secrets`, once.
fn put_keys(scene: &Scene) {
    static PUT: OnceLock<()> = OnceLock::new();
    PUT.get_or_init(|| {
        let mut keys: serde_json::Map<String, Value> =
            [CLAUDE, CODEX, GEMINI, OPENCODE].iter().map(|cli| (secret_key(cli.name), json!(cli.key()))).collect();
        keys.insert(secret_key("wrong"), json!(format!("wrong-{}", secret_token())));
        let patch = json!({ "stringData": keys }).to_string();
        scene.kubectl(&["patch", "secret", "agent-secrets", "--type=merge", "-p", &patch]);
    });
}

/// The address by which pods know this machine: a bare node is one with it.
async fn address_of_the_node(scene: &Scene) -> IpAddr {
    let nodes = Api::<Node>::all(scene.client.clone()).list(&ListParams::default()).await.unwrap();
    let addresses = nodes.items.into_iter().filter_map(|node| node.status?.addresses).flatten();
    let mut internal = addresses.filter(|address| address.type_ == "InternalIP");
    internal.next().expect("a node with an address").address.parse().unwrap()
}

/// A run of the CLI, to its end, and the vendor that it had.
async fn run(cli: &Cli, title: &str, has_the_key: bool) -> (Scene, Agent, FakeVendors) {
    let scene = Scene::calm(&format!("{}-{title}", cli.name)).await;
    put_keys(&scene);
    let server = FakeVendors::start_on(address_of_the_node(&scene).await).await;
    server.take_only(cli.api, &cli.key());
    let _turn = TURNS.acquire().await.unwrap();
    scene.apply(&cli.recipe(&server, has_the_key));
    let agent = scene.run(&scene.name, "fake:tool").await;
    let ended = scene.ended(&agent).await;
    (scene, ended, server)
}

/// Whether a line of the CLI's output has the output of the tool in it: the prompt and the command are other lines.
fn shows_the_tool_s_output(output: &str) -> bool {
    let lines = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let places = ["/message/content/0/content", "/item/aggregated_output", "/output", "/part/state/output"];
    let found = lines.into_iter().flat_map(|line| places.map(|place| line.pointer(place).cloned()));
    found.flatten().any(|text| text.as_str().is_some_and(|text| text.trim() == TOOL_OUTPUT))
}

/// The key went to the vendor, in the header for it, and is in nothing that anybody can read.
fn the_key_went_nowhere_else(scene: &Scene, agent: &Agent, server: &FakeVendors, api: VendorApi) {
    let places: Vec<String> = server.places_of(secret_token()).into_iter().collect();
    assert_eq!(places, [format!("{api:?} header {}", api.key_header())]);
    assert!(!output(agent).contains(secret_token()));
    let kinds = "agents,stations,agentdefinitions,jobs,pods,events,configmaps,leases";
    assert!(!scene.kubectl(&["get", kinds, "-o", "yaml"]).contains(secret_token()));
}

/// A run that calls a tool and is done; what it has used, where its CLI tells.
async fn calls_a_tool(cli: &Cli) -> Usage {
    let (scene, agent, server) = run(cli, "tool", true).await;
    let text = output(&agent);
    assert_eq!(ending(&agent), (Phase::Succeeded, Some(0), String::new()), "{text}");
    assert!(shows_the_tool_s_output(text), "{text}");
    assert_eq!(lifecycle(text).last().unwrap(), "agent succeeded exit=0");
    the_key_went_nowhere_else(&scene, &agent, &server, cli.api);
    let asked: Vec<_> = server.requests().into_iter().filter(|request| request.asks_for_a_message()).collect();
    assert!(asked.iter().all(|request| request.key() == Some(cli.key().as_str()) && request.status == 200));
    assert!(asked.last().unwrap().body.contains(TOOL_OUTPUT), "the tool's output went back");
    agent.status.unwrap().usage.unwrap_or_default()
}

/// A run whose key its vendor does not take.
async fn is_refused(cli: &Cli) {
    let (scene, agent, server) = run(cli, "401", false).await;
    let text = output(&agent);
    let (phase, code, reason) = ending(&agent);
    assert_eq!((phase, code), (Phase::Failed, Some(cli.refused)), "{reason}\n{text}");
    assert!(reason.starts_with("BackoffLimitExceeded: "), "{reason}");
    assert_eq!(lifecycle(text).last().unwrap(), &format!("agent failed exit={}", cli.refused));
    the_key_went_nowhere_else(&scene, &agent, &server, cli.api);
    let asked: Vec<_> = server.requests().into_iter().filter(|request| request.asks_for_a_message()).collect();
    assert!(!asked.is_empty() && asked.iter().all(|request| request.status == 401));
    assert!(!text.contains(TOOL_OUTPUT));
}

#[tokio::test]
#[ignore = "needs the image signalbox-station-vendors: make e2e-vendors"]
async fn claude_calls_a_tool_and_succeeds() {
    let usage = calls_a_tool(&CLAUDE).await;
    let input = 2 * (INPUT_TOKENS + CACHED_TOKENS);
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(input), Some(2 * OUTPUT_TOKENS)));
    assert_eq!((usage.turns, usage.model.as_deref()), (Some(2), Some("claude-opus-5-5")));
    assert!(usage.cost_usd.unwrap() > 0.0);
}

#[tokio::test]
#[ignore = "needs the image signalbox-station-vendors: make e2e-vendors"]
async fn claude_whose_key_is_refused_fails() {
    is_refused(&CLAUDE).await;
}

#[tokio::test]
#[ignore = "needs the image signalbox-station-vendors: make e2e-vendors"]
async fn codex_calls_a_tool_and_succeeds() {
    let usage = calls_a_tool(&CODEX).await;
    let input = 2 * (INPUT_TOKENS + CACHED_TOKENS);
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(input), Some(2 * OUTPUT_TOKENS)));
    assert_eq!((usage.cached_input_tokens, usage.cost_usd), (Some(2 * CACHED_TOKENS), None));
}

#[tokio::test]
#[ignore = "needs the image signalbox-station-vendors: make e2e-vendors"]
async fn codex_whose_key_is_refused_fails() {
    is_refused(&CODEX).await;
}

#[tokio::test]
#[ignore = "needs the image signalbox-station-vendors: make e2e-vendors"]
async fn gemini_calls_a_tool_and_succeeds() {
    let usage = calls_a_tool(&GEMINI).await;
    let input = 2 * (INPUT_TOKENS + CACHED_TOKENS);
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(input), Some(2 * OUTPUT_TOKENS)));
    assert!(usage.model.unwrap().starts_with("gemini-"));
}

#[tokio::test]
#[ignore = "needs the image signalbox-station-vendors: make e2e-vendors"]
async fn gemini_whose_key_is_refused_fails() {
    is_refused(&GEMINI).await;
}

#[tokio::test]
#[ignore = "needs the image signalbox-station-vendors: make e2e-vendors"]
async fn opencode_calls_a_tool_and_succeeds() {
    let usage = calls_a_tool(&OPENCODE).await;
    let input = 2 * (INPUT_TOKENS + CACHED_TOKENS);
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(input), Some(2 * OUTPUT_TOKENS)));
    assert!(usage.cost_usd.unwrap() > 0.0);
}

#[tokio::test]
#[ignore = "needs the image signalbox-station-vendors: make e2e-vendors"]
async fn opencode_whose_key_is_refused_fails() {
    is_refused(&OPENCODE).await;
}

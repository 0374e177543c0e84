//! Tells what happens to a run, each thing once.

use std::{
    collections::BTreeSet,
    io::{self, stderr, stdout},
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use signalbox_agents::start::{Start, start};
use signalbox_types::{Agent, Phase, Usage};
use signalbox_vendors::Vendor;

use super::{Lines, log::Line};
use crate::{
    line::{self, Shown},
    out::{self, Stream},
    text::{Paint, Palette, count, dollars, duration},
};

/// The width of the age of the run before each line.
const AGE_WIDTH: usize = 6;
/// The width of the word for what a line is.
const LABEL_WIDTH: usize = 9;

/// What was told so far.
pub(super) struct Teller {
    lines: Lines,
    stream: Stream,
    palette: Palette,
    vendor: Vendor,
    created: Option<Timestamp>,
    phase: Option<Phase>,
    /// Reasons that were told: the Agent's condition repeats what its pod said.
    told: BTreeSet<String>,
    printed: usize,
}

impl Teller {
    pub(crate) fn new(agent: &Agent, lines: Lines, stream: Stream, vendor: Vendor) -> Self {
        let palette = match stream {
            Stream::Stdout => Palette::of(&stdout()),
            Stream::Stderr => Palette::of(&stderr()),
        };
        let created = agent.metadata.creation_timestamp.as_ref().map(|created| created.0);
        Self { lines, stream, palette, vendor, created, phase: None, told: BTreeSet::new(), printed: 0 }
    }

    /// A new state of the Agent.
    pub(crate) fn agent(&mut self, agent: &Agent) -> io::Result<()> {
        for shown in self.news_of(agent) {
            self.show(&shown, None)?;
        }
        Ok(())
    }

    fn news_of(&mut self, agent: &Agent) -> Vec<Shown> {
        let mut news = Vec::new();
        let phase = agent.phase();
        if self.phase.replace(phase) != Some(phase) {
            match phase {
                Phase::Pending => news.push(Shown::new("Pending", on_station(agent), Paint::Busy)),
                Phase::Running => {
                    let job = agent.recorded_job().map_or_else(String::new, |job| format!("job/{job}"));
                    news.push(Shown::new("Running", job, Paint::Busy));
                }
                Phase::Succeeded | Phase::Failed => {}
            }
        }
        if phase.is_terminal() {
            return news;
        }
        let conditions = agent.status.iter().flat_map(|status| &status.conditions);
        for condition in conditions.filter(|condition| condition.status == "False") {
            if self.told.insert(condition.reason.clone()) {
                let text = reason(&condition.reason, &condition.message);
                news.push(Shown::new("waiting", text, Paint::Busy));
            }
        }
        if agent.is_cancel_requested() && self.told.insert("cancel".to_owned()) {
            news.push(Shown::new("cancel", "requested", Paint::Busy));
        }
        if agent.is_terminating() && self.told.insert("delete".to_owned()) {
            news.push(Shown::new("delete", "requested", Paint::Busy));
        }
        news
    }

    /// A new state of its pod.
    pub(crate) fn pod(&mut self, pod: &Pod) -> io::Result<()> {
        match start(pod) {
            Start::Blocked { by, .. } if self.told.insert(by.reason.clone()) => {
                self.show(&Shown::new("waiting", reason(&by.reason, &by.message), Paint::Busy), None)
            }
            _ => Ok(()),
        }
    }

    /// A line of the log.
    pub(crate) fn line(&mut self, line: &Line) -> io::Result<()> {
        self.printed += 1;
        if self.lines == Lines::Raw {
            return self.stream.say(&line.text);
        }
        match line::view(self.vendor, &line.text) {
            Some(shown) => self.show(&shown, line.at),
            None => Ok(()),
        }
    }

    /// Why nothing of the log is shown.
    pub(crate) fn unseen(&self, why: &str) -> io::Result<()> {
        out::note(&format!("note: {why}"))
    }

    /// The end of the run, and its output where its log was never to be had.
    pub(crate) fn end(&mut self, agent: &Agent) -> io::Result<()> {
        let output = agent.status.as_ref().and_then(|status| status.output.as_deref()).unwrap_or_default();
        if self.printed == 0 && self.lines != Lines::None {
            for text in output.lines() {
                self.line(&Line { at: None, text: text.to_owned() })?;
            }
        }
        let completed = agent.status.as_ref().and_then(|status| status.completed_at);
        match self.lines {
            Lines::Raw => Ok(()),
            Lines::Pretty => self.show(&end(agent), completed.map(signalbox_types::Timestamp::get)),
            Lines::None => {
                let Shown { label, text, paint } = end(agent);
                let label = self.palette.paint(paint, &label.to_lowercase());
                self.stream.say(&format!("agent.agents.re-cinq.com/{} {label}: {text}", agent.name_any()))
            }
        }
    }

    fn show(&self, shown: &Shown, at: Option<Timestamp>) -> io::Result<()> {
        if self.lines != Lines::Pretty {
            return Ok(());
        }
        let at = at.unwrap_or_else(Timestamp::now);
        let age = self.created.map_or_else(String::new, |created| duration(at.duration_since(created).as_secs()));
        self.stream.write(&line::entry(self.palette, &format!("{age:>AGE_WIDTH$}  "), LABEL_WIDTH, shown))
    }
}

fn on_station(agent: &Agent) -> String {
    format!("on station {}", agent.spec.station_ref)
}

/// A reason with its message, where that says more.
fn reason(reason: &str, message: &str) -> String {
    if message.is_empty() || message == reason { reason.to_owned() } else { format!("{reason}: {message}") }
}

/// How a run has ended.
fn end(agent: &Agent) -> Shown {
    let status = agent.status.clone().unwrap_or_default();
    let mut text = status.exit_code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"));
    if let Some(reason) = &status.failure_reason {
        text.push_str(&format!(", {reason}"));
    }
    if let (Some(started), Some(completed)) = (status.started_at, status.completed_at) {
        text.push_str(&format!("; ran {}", duration(completed.get().duration_since(started.get()).as_secs())));
    }
    if let Some(usage) = status.usage.as_ref().map(usage_words).filter(|words| !words.is_empty()) {
        text.push_str(&format!("; {usage}"));
    }
    let paint = if agent.phase() == Phase::Succeeded { Paint::Good } else { Paint::Bad };
    Shown::new(agent.phase().as_str(), text, paint)
}

/// Tokens, cost and turns, as far as the CLI told them.
pub(crate) fn usage_words(usage: &Usage) -> String {
    let cached = usage.cached_input_tokens.map_or_else(String::new, |cached| format!(" ({} cached)", count(cached)));
    let words = [
        usage.input_tokens.map(|tokens| format!("{} tokens in{cached}", count(tokens))),
        usage.output_tokens.map(|tokens| format!("{} out", count(tokens))),
        usage.cost_usd.map(dollars),
        usage.turns.map(|turns| format!("{turns} turns")),
        usage.model.clone(),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The exit code of a process that ends as the run did: never 0 where the run failed, whatever it says.
pub(super) fn exit_code(agent: &Agent) -> u8 {
    let code = agent.status.as_ref().and_then(|status| status.exit_code).unwrap_or(0);
    match (agent.phase(), u8::try_from(code)) {
        (Phase::Succeeded, _) => 0,
        (_, Ok(0)) | (_, Err(_)) => 1,
        (_, Ok(code)) => code,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn agent(status: serde_json::Value) -> Agent {
        let agent = json!({
            "apiVersion": "agents.re-cinq.com/v1alpha1", "kind": "Agent",
            "metadata": {"name": "a", "creationTimestamp": "2026-06-22T12:00:00Z"},
            "spec": {"stationRef": "hello"}, "status": status,
        });
        serde_json::from_value(agent).unwrap()
    }

    fn condition(kind: &str, status: &str, reason: &str, message: &str) -> serde_json::Value {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
               "lastTransitionTime": "2026-06-22T12:00:00Z"})
    }

    fn told(teller: &mut Teller, status: serde_json::Value) -> Vec<String> {
        teller.news_of(&agent(status)).iter().map(|shown| format!("{} {}", shown.label, shown.text)).collect()
    }

    #[test]
    fn each_phase_and_each_reason_is_told_once() {
        let mut teller = Teller::new(&agent(json!({})), Lines::Pretty, Stream::Stdout, Vendor::Claude);
        assert_eq!(told(&mut teller, json!({})), ["Pending on station hello"]);
        let full = json!({"conditions": [condition("Admitted", "False", "StationFull", "2 of 2 run")]});
        assert_eq!(told(&mut teller, full.clone()), ["waiting StationFull: 2 of 2 run"]);
        assert_eq!(told(&mut teller, full), [""; 0]);
        let running = |reason: &str| {
            let admitted = condition("Admitted", "True", "Admitted", "");
            let started = condition("Started", "False", reason, "no such image");
            json!({"phase": "Running", "jobName": "agent-job-a", "conditions": [admitted, started]})
        };
        let first = ["Running job/agent-job-a", "waiting ImagePullBackOff: no such image"];
        assert_eq!(told(&mut teller, running("ImagePullBackOff")), first);
        assert_eq!(told(&mut teller, running("FailedMount")), ["waiting FailedMount: no such image"]);
        assert_eq!(told(&mut teller, running("ImagePullBackOff")), [""; 0]);
    }

    #[test]
    fn the_end_has_code_reason_time_tokens_and_cost() {
        let ended = agent(json!({
            "phase": "Failed", "exitCode": 124, "failureReason": "BackoffLimitExceeded: no",
            "startedAt": "2026-06-22T12:00:00Z", "completedAt": "2026-06-22T12:03:05Z",
            "usage": {"inputTokens": 12345, "cachedInputTokens": 1000, "outputTokens": 67, "costUSD": 0.25, "turns": 3},
        }));
        let text = "exit code 124, BackoffLimitExceeded: no; ran 3m5s; 12,345 tokens in (1,000 cached), 67 out, $0.25, 3 turns";
        assert_eq!(end(&ended), Shown::new("Failed", text, Paint::Bad));
        assert_eq!(
            end(&agent(json!({"phase": "Succeeded", "exitCode": 0}))),
            Shown::new("Succeeded", "exit code 0", Paint::Good)
        );
    }

    #[rstest]
    #[case(json!({"phase": "Succeeded", "exitCode": 0}), 0)]
    #[case(json!({"phase": "Failed", "exitCode": 3}), 3)]
    #[case(json!({"phase": "Failed", "exitCode": 124}), 124)]
    #[case(json!({"phase": "Failed", "exitCode": 0}), 1)]
    #[case(json!({"phase": "Failed"}), 1)]
    #[case(json!({"phase": "Failed", "exitCode": 256}), 1)]
    #[case(json!({"phase": "Failed", "exitCode": -1}), 1)]
    fn a_failed_run_never_gives_exit_code_0(#[case] status: serde_json::Value, #[case] code: u8) {
        assert_eq!(exit_code(&agent(status)), code);
    }
}

//! The last line of the page: what to do.

use jiff::{SignedDuration, Timestamp};
use signalbox_agents::outcome::finish;
use signalbox_types::{Phase, names};

use super::view::{Explanation, There};

/// How long a run may be admissible before it is strange that it is not admitted: a listing and a bit.
const PATIENCE: SignedDuration = SignedDuration::from_secs(45);

/// A class of failure: the reason of the condition `Finished`, or a part of `failureReason` where there is none, and the
/// way out. The first that matches.
const FAILURES: &[(&str, &str, &str)] = &[
    (
        finish::MISSING_REFERENCE,
        names::REASON_MISSING_REF,
        "create the Station, or its AgentDefinition, and run again.",
    ),
    (
        finish::CANCELED,
        names::REASON_CANCELED,
        "nothing: somebody asked for its end. Run it again if that was not meant.",
    ),
    ("", names::REASON_BATCH_DISABLED, "set execution: interactive in the recipe, or install the batch component."),
    (
        "",
        names::REASON_REALTIME_DISABLED,
        "set execution: interactive in the recipe, or install the realtime component.",
    ),
    (
        "",
        names::REASON_RESUME_NEEDS_REALTIME,
        "leave spec.resumeSession out, or use a recipe with execution: realtime.",
    ),
    (
        finish::JOB_LOST,
        names::REASON_JOB_LOST,
        "run it again; its Job was deleted by hand, or no job-launcher ran for an hour.",
    ),
    (
        finish::OUT_OF_MEMORY,
        finish::OUT_OF_MEMORY,
        "raise the memory limit of container agent in the template of station {station}, then run again.",
    ),
    (
        finish::START_TIMEOUT,
        "not started within",
        "raise startTimeoutMinutes of station {station}, or find what its pod waited for, then run again.",
    ),
    (
        finish::DEADLINE_EXCEEDED,
        finish::DEADLINE_EXCEEDED,
        "raise deadlineMinutes of station {station}, or find what took so long: `kubectl signalbox logs {agent}`.",
    ),
    (
        finish::STALLED,
        names::REASON_STALLED,
        "its CLI fell silent: `kubectl signalbox logs {agent}` has its last words; stallTimeoutMinutes decides.",
    ),
    (
        finish::INVALID_RUN,
        names::INVALID_RUN_PREFIX,
        "correct what the reason names, in station {station} or in its recipe, then run again.",
    ),
];

/// What a waiting pod's reason asks for.
const WAITS: &[(&str, &str)] = &[
    (
        "Unschedulable",
        "no node takes the pod: give the cluster room, or lower requests or selectors in the template of station {station}.",
    ),
    ("InvalidImageName", "correct the image in the template of station {station}."),
    ("ImagePull", "correct the image in the template of station {station}, or give the namespace a pull Secret."),
    ("ErrImage", "correct the image in the template of station {station}, or give the namespace a pull Secret."),
    (
        "CreateContainerConfigError",
        "put the key that the message names into the Secret agent-secrets (or the ConfigMap it names): the pod then starts by itself.",
    ),
    ("FailedMount", "make the volume that the message names: the pod then starts by itself."),
    ("QuotaExceeded", "raise the ResourceQuota, or wait until other pods end."),
    (
        "PodCreateFailed",
        "look at the message: an admission policy or a quota refuses the pod; correct the template of station {station}.",
    ),
    ("JobNameTaken", "delete the Job of that name, or wait until its TTL has passed."),
    ("CrashLoopBackOff", "look at the pod: `kubectl describe pod` and `kubectl signalbox logs {agent}`."),
];

pub(super) fn advice(about: &Explanation, now: Timestamp) -> String {
    let text = raw(about, now);
    text.replace("{agent}", &about.agent).replace("{station}", &about.station.name)
}

fn raw(about: &Explanation, now: Timestamp) -> String {
    if about.terminating {
        return "nothing: it is being deleted; it goes once its Job and pod are gone.".to_owned();
    }
    match about.phase {
        Phase::Succeeded => "nothing: it has succeeded. `kubectl signalbox logs {agent}` shows its result.".to_owned(),
        Phase::Failed => failed(about),
        Phase::Running if about.cancel_requested => "wait: it is being ended.".to_owned(),
        Phase::Running => running(about),
        Phase::Pending => pending(about, now),
    }
}

fn failed(about: &Explanation) -> String {
    let reason = about.failure_reason.as_deref().unwrap_or_default();
    let condition = |kind: &str, status: &str| {
        let mut all = about.conditions.iter();
        all.find(|condition| condition.type_ == kind && condition.status == status)
            .map(|condition| condition.reason.as_str())
    };
    let finished = condition(names::CONDITION_FINISHED, "True");
    let was_canceled = finished == Some(finish::CANCELED) || reason == names::REASON_CANCELED;
    // Whatever ended a run that had never started: what kept it from starting is what is to be mended.
    if let Some(obstacle) = condition(names::CONDITION_STARTED, "False").and_then(way_on).filter(|_| !was_canceled) {
        return format!("{obstacle} Then run it again.");
    }
    let killed = about.pod.ended.iter().any(|ended| ended.reason.as_deref() == Some(finish::OUT_OF_MEMORY));
    let known = FAILURES.iter().find(|(class, part, _)| {
        finished == Some(*class) || reason.contains(part) || (killed && *class == finish::OUT_OF_MEMORY)
    });
    match (known, about.exit_code) {
        (Some((_, _, way_out)), _) => (*way_out).to_owned(),
        (None, Some(124)) => {
            "it ran into its deadline: raise deadlineMinutes of station {station}, or give it less to do.".to_owned()
        }
        (None, Some(137)) => "it was killed, most often for its memory: raise the limit in the template of station \
                              {station}; `kubectl signalbox logs {agent}` has its last words."
            .to_owned(),
        _ => "read what it printed: `kubectl signalbox logs {agent}`.".to_owned(),
    }
}

/// What an obstacle before the start asks for.
fn way_on(reason: &str) -> Option<&'static str> {
    WAITS.iter().find(|(part, _)| reason.contains(part)).map(|(_, way_out)| *way_out)
}

fn running(about: &Explanation) -> String {
    let told = about.conditions.iter().filter(|condition| condition.type_ == names::CONDITION_STARTED);
    let told = told.filter(|condition| condition.status == "False").map(|condition| condition.reason.as_str());
    let reasons: Vec<&str> = about.pod.waiting.iter().map(|waiting| waiting.reason.as_str()).chain(told).collect();
    if let Some(way_out) = reasons.into_iter().find_map(way_on) {
        return way_out.to_owned();
    }
    match (about.job.state, about.pod.state) {
        (There::Missing, _) => "wait a minute: its Job is gone, and the job-launcher will say so. If nothing changes: \
                                `kubectl signalbox doctor`."
            .to_owned(),
        (There::Found, There::Missing) => {
            "its Job has no pod: the events above say why; a quota or an admission policy \
                                           may refuse it."
                .to_owned()
        }
        _ if about.job.outcome.as_deref().is_some_and(|outcome| outcome != "running") => {
            "wait a minute: its Job has ended, and the job-launcher will write the result. If nothing changes: \
             `kubectl signalbox doctor`."
                .to_owned()
        }
        _ => "wait, or watch it: `kubectl signalbox logs -f {agent}`.".to_owned(),
    }
}

fn pending(about: &Explanation, now: Timestamp) -> String {
    if about.station.state == There::Missing {
        return "create station {station}; without it the run fails.".to_owned();
    }
    if about.recipe.state == There::Missing {
        return format!(
            "create agentdefinition {}, or correct spec.agentDefRef of station {{station}}; without it the run fails.",
            about.recipe.name
        );
    }
    if about.job.state == There::Found && !about.job.ours {
        return format!("delete job {}: it belongs to another run, and this one needs its name.", about.job.name);
    }
    if about.cancel_requested {
        return "wait: it is being ended.".to_owned();
    }
    let mut refused = about.conditions.iter().filter(|condition| condition.status == "False");
    if let Some(way_out) = refused.clone().find_map(|condition| way_on(&condition.reason)) {
        return way_out.to_owned();
    }
    let is_full = refused.any(|condition| condition.type_ == names::CONDITION_ADMITTED);
    match &about.queue {
        Some(queue) if !queue.may_start => {
            let first = queue
                .running
                .first()
                .map_or_else(String::new, |running| format!(", or free a slot: `kubectl signalbox cancel {running}`"));
            format!("wait for its turn{first}, or raise maxConcurrentRuns of station {{station}}.")
        }
        None if is_full => "wait for its turn: the Station is full.".to_owned(),
        _ if about.created.is_some_and(|created| now.duration_since(created) > PATIENCE) => {
            "nothing stands before it, and nobody starts it: is its namespace one that a Signalbox serves (that of \
             `make demo` serves ai-agents alone)? `kubectl signalbox doctor` says whether a job-launcher leads; its log \
             says what it was refused."
                .to_owned()
        }
        _ => "wait some seconds: it is about to be started.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use crate::{
        explain::{facts::Facts, view::view},
        fetch::Seen,
        fixture::time,
    };

    /// What to do about an Agent of which nothing else can be read.
    fn advice(status: Value, metadata: Value) -> String {
        let mut agent = json!({
            "apiVersion": "agents.re-cinq.com/v1alpha1", "kind": "Agent",
            "metadata": {"name": "run", "creationTimestamp": "2026-06-22T12:00:00Z"},
            "spec": {"stationRef": "hello"}, "status": status,
        });
        agent["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        let facts = Facts {
            agent: serde_json::from_value(agent).unwrap(),
            station: Seen::Denied,
            recipe: Seen::Denied,
            peers: Seen::Denied,
            job: Seen::Denied,
            pod: Seen::Denied,
            events: Seen::Denied,
        };
        view(&facts, time("2026-06-22T12:00:10Z")).what_to_do
    }

    fn condition(kind: &str, status: &str, reason: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-06-22T12:00:00Z"})
    }

    fn failed(code: i32, reason: &str, conditions: &[Value]) -> Value {
        json!({"phase": "Failed", "exitCode": code, "failureReason": reason, "conditions": conditions})
    }

    #[rstest]
    #[case(failed(1, "Station or AgentDefinition not found", &[]), "create the Station")]
    #[case(failed(1, "invalid run: codex is not built", &[]), "correct what the reason names, in station hello")]
    #[case(failed(1, "canceled", &[condition("Started", "False", "ImagePullBackOff")]), "nothing: somebody asked")]
    #[case(
        failed(1, "not started within 2 minutes: Unschedulable", &[condition("Started", "False", "Unschedulable")]),
        "no node takes the pod"
    )]
    #[case(failed(1, "not started within 2 minutes: Odd", &[condition("Started", "False", "Odd")]), "raise startTimeout")]
    #[case(failed(137, "Job failed", &[condition("Finished", "True", "OOMKilled")]), "raise the memory limit")]
    #[case(failed(137, "Job failed", &[]), "it was killed, most often for its memory")]
    #[case(failed(124, "Job failed", &[condition("Finished", "True", "Stalled")]), "its CLI fell silent")]
    #[case(failed(124, "Job failed", &[]), "it ran into its deadline")]
    #[case(failed(1, "DeadlineExceeded: too long", &[]), "raise deadlineMinutes of station hello")]
    #[case(failed(3, "Job failed", &[condition("Finished", "True", "JobFailed")]), "read what it printed: `kubectl signalbox logs run`")]
    #[case(json!({"phase": "Running"}), "wait, or watch it: `kubectl signalbox logs -f run`")]
    #[case(json!({"phase": "Running", "conditions": [condition("Started", "False", "QuotaExceeded")]}), "raise the ResourceQuota")]
    #[case(json!({}), "wait some seconds")]
    #[case(json!({"conditions": [condition("Admitted", "False", "StationFull")]}), "wait for its turn")]
    fn each_class_of_trouble_has_its_way_out(#[case] status: Value, #[case] beginning: &str) {
        let advice = advice(status, json!({}));
        assert!(advice.starts_with(beginning), "{advice}");
        assert!(!advice.contains('{'), "{advice}");
    }

    #[test]
    fn a_run_that_is_on_its_way_out_needs_nothing() {
        let cancel = json!({"annotations": {"agents.re-cinq.com/cancel": "true"}});
        assert_eq!(advice(json!({"phase": "Running"}), cancel), "wait: it is being ended.");
        let deleted = json!({"deletionTimestamp": "2026-06-22T12:00:05Z"});
        assert!(advice(json!({"phase": "Running"}), deleted).starts_with("nothing: it is being deleted"));
    }
}

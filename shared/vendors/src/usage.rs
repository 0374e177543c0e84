use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;
use serde_json::Value;
use signalbox_types::{
    Usage,
    event::{Lifecycle, LifecycleStatus, Stage},
};

use crate::{Vendor, claude, codex, exec, gemini, line, opencode};

/// The longest name of a model that is believed, in bytes.
const MAX_MODEL: usize = 128;

/// What one line says of the tokens, cost and time of the run.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// All but the model.
    pub(crate) usage: Usage,
    /// How many lines of its kind the process has printed before it, where that is told.
    pub(crate) index: Option<u64>,
    /// The tokens that each model has written.
    pub(crate) written: BTreeMap<String, u64>,
}

/// What the CLI has told of this run's tokens, cost and time in `log`, the output of the run's pod. Lines that are not
/// the CLI's do not matter. `None` where it told nothing. Contract: `docs/contract/vendor-clis.md` section 4.
///
/// `log` may lack its beginning: what has to be summed up is absent then, since the sum would be too small. `resumed`
/// says that the run went on with an earlier session, whose tokens some CLIs count again.
pub fn usage(vendor: Vendor, log: &str, resumed: bool) -> Option<Usage> {
    let parts = || log.lines().filter_map(|line| spent(vendor, line));
    let told = match vendor {
        // Cumulative over the thread, and where it stood before is not known.
        Vendor::Codex if resumed => None,
        Vendor::Codex | Vendor::Gemini => parts().next_back().map(|last| sum(&[last])),
        Vendor::Claude | Vendor::Exec => {
            let parts: Vec<Part> = parts().collect();
            let is_whole = parts.first().is_some_and(|first| first.index.unwrap_or(0) == 0);
            is_whole.then(|| sum(&parts))
        }
        Vendor::Opencode => {
            let parts: Vec<Part> = parts().collect();
            let is_whole = !parts.is_empty() && log.lines().any(is_start);
            is_whole.then(|| sum(&parts))
        }
    };
    told.filter(|usage| !usage.is_empty())
}

fn spent(vendor: Vendor, line: &str) -> Option<Part> {
    match vendor {
        Vendor::Claude => claude::spent(line),
        Vendor::Codex => codex::spent(line),
        Vendor::Gemini => gemini::spent(line),
        Vendor::Opencode => opencode::spent(line),
        Vendor::Exec => exec::spent(line),
    }
}

/// True for the event that the supervisor prints when it has started the CLI: all that the CLI said comes after it.
fn is_start(line: &str) -> bool {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow)]
        kind: Cow<'a, str>,
    }
    let is_event = line::parse::<Kind<'_>>(line).is_some_and(|line| line.kind == "lifecycle");
    is_event
        && line::parse::<Lifecycle>(line)
            .is_some_and(|event| event.phase == Stage::Agent && event.status == LifecycleStatus::Started)
}

/// The sum, field by field; a field that one part does not tell is absent.
fn sum(parts: &[Part]) -> Usage {
    let sum = |field: fn(&Usage) -> Option<u64>| total(parts.iter().map(|part| field(&part.usage)));
    Usage {
        input_tokens: sum(|usage| usage.input_tokens),
        output_tokens: sum(|usage| usage.output_tokens),
        cached_input_tokens: sum(|usage| usage.cached_input_tokens),
        cost_usd: parts
            .iter()
            .try_fold(0.0, |sum, part| Some(sum + part.usage.cost_usd?))
            .filter(|cost| cost.is_finite()),
        turns: sum(|usage| usage.turns),
        duration_ms: sum(|usage| usage.duration_ms),
        model: model(parts),
    }
}

/// The model that has written most; of two that have written as much, the first by name.
fn model(parts: &[Part]) -> Option<String> {
    let mut written: BTreeMap<&str, u64> = BTreeMap::new();
    for (model, tokens) in parts.iter().flat_map(|part| &part.written) {
        let sum = written.entry(model).or_default();
        *sum = sum.saturating_add(*tokens);
    }
    let answered = written.into_iter().filter(|(model, tokens)| *tokens > 0 && model.len() <= MAX_MODEL);
    answered.rev().max_by_key(|(_, tokens)| *tokens).map(|(model, _)| model.to_owned())
}

/// The sum of counts; `None` where one of them is not told, and where Kubernetes could not keep it: an agent can print
/// anything, and a status that the API server refuses would keep its run from ending.
pub(crate) fn total(counts: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    let total = counts.into_iter().try_fold(0_u64, |sum, count| sum.checked_add(count?))?;
    i64::try_from(total).is_ok().then_some(total)
}

/// The sum of costs in US dollars; `None` where one of them is no cost.
pub(crate) fn cost<'a>(costs: impl IntoIterator<Item = &'a Value>) -> Option<f64> {
    costs.into_iter().try_fold(0.0, |sum, cost| Some(sum + cost.as_f64().filter(|cost| *cost >= 0.0)?))
}

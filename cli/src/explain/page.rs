use jiff::Timestamp;
use signalbox_types::Phase;

use super::view::{EventView, Explanation, Queue, StationView, There};
use crate::{
    follow::usage_words,
    text::{Cell, Paint, Palette, age, clean, table},
};

/// The width of the words at the left.
const LABEL_WIDTH: usize = 10;

/// The explanation as a page.
pub(super) fn text(about: &Explanation, palette: Palette, now: Timestamp) -> String {
    let mut page = Page { palette, text: String::new() };
    let old = about.created.map_or_else(String::new, |created| format!(", {} old", age(created, now)));
    page.line("Agent", &format!("{} (namespace {}{old})", about.agent, about.namespace), Paint::Strong);
    page.line("Phase", &phase(about), paint(about.phase));
    page.line("Station", &station(&about.station), missing(about.station.state));
    page.line("Recipe", &recipe(about), missing(about.recipe.state));
    if let Some(queue) = about.queue.as_ref().filter(|_| !about.phase.is_terminal()) {
        page.line("Queue", &queue_words(queue, &about.station), Paint::Plain);
    }
    page.line("Job", &job(about), Paint::Plain);
    page.line("Pod", &pod(about), Paint::Plain);
    for ended in &about.pod.ended {
        let reason = ended.reason.as_ref().map_or_else(String::new, |reason| format!(", {reason}"));
        page.line(
            &format!("  {}", ended.container),
            &format!("ended, exit code {}{reason}", ended.exit_code),
            Paint::Plain,
        );
    }
    for waiting in &about.pod.waiting {
        let message = waiting.message.as_ref().map_or_else(String::new, |message| format!(": {message}"));
        let paint = if waiting.is_ordinary() { Paint::Plain } else { Paint::Busy };
        page.line(&format!("  {}", waiting.part), &format!("waits, {}{message}", waiting.reason), paint);
    }
    if let Some(usage) = about.usage.as_ref().map(usage_words).filter(|words| !words.is_empty()) {
        page.line("Usage", &usage, Paint::Plain);
    }
    page.conditions(about, now);
    match &about.events {
        None => page.line("Events", "you may not list events here", Paint::Dim),
        Some(events) if events.is_empty() => page.line("Events", "none", Paint::Plain),
        Some(events) => page.events(events, now),
    }
    page.text.push('\n');
    let label = palette.paint(Paint::Strong, "What to do:");
    page.text.push_str(&format!("{label} {}\n", clean(&about.what_to_do)));
    page.text
}

struct Page {
    palette: Palette,
    text: String,
}

impl Page {
    fn line(&mut self, label: &str, text: &str, paint: Paint) {
        let label = self.palette.paint(Paint::Dim, &format!("{label:<LABEL_WIDTH$}"));
        self.text.push_str(&format!("{label}  {}\n", self.palette.paint(paint, &clean(text))));
    }

    fn conditions(&mut self, about: &Explanation, now: Timestamp) {
        if about.conditions.is_empty() {
            return self.line("Conditions", "none", Paint::Plain);
        }
        let rows = about.conditions.iter().map(|condition| {
            let paint = if condition.status == "False" { Paint::Busy } else { Paint::Plain };
            let since = age(condition.last_transition_time.0, now);
            let cells = [&condition.type_, &condition.status, &condition.reason, &since, &condition.message];
            cells
                .iter()
                .enumerate()
                .map(|(at, text)| Cell::painted(text, if at == 2 { paint } else { Paint::Plain }))
                .collect()
        });
        let rows: Vec<Vec<Cell>> = rows.collect();
        self.table("Conditions", &["TYPE", "STATUS", "REASON", "AGE", "MESSAGE"], &rows);
    }

    fn events(&mut self, events: &[EventView], now: Timestamp) {
        let rows = events.iter().map(|event| {
            let at = event.at.map_or_else(|| "<unknown>".to_owned(), |at| age(at, now));
            let at = if event.count > 1 { format!("{at} (x{})", event.count) } else { at };
            let paint = if event.kind == "Warning" { Paint::Busy } else { Paint::Plain };
            vec![
                Cell::new(at),
                Cell::new(&event.object),
                Cell::painted(&event.kind, paint),
                Cell::new(&event.reason),
                Cell::new(&event.message),
            ]
        });
        let rows: Vec<Vec<Cell>> = rows.collect();
        self.table("Events", &["AGE", "OBJECT", "TYPE", "REASON", "MESSAGE"], &rows);
    }

    fn table(&mut self, label: &str, header: &[&str], rows: &[Vec<Cell>]) {
        self.text.push_str(&format!("{}\n", self.palette.paint(Paint::Dim, label)));
        for line in table(self.palette, header, rows).lines() {
            self.text.push_str(&format!("  {line}\n"));
        }
    }
}

const fn paint(phase: Phase) -> Paint {
    match phase {
        Phase::Pending | Phase::Running => Paint::Busy,
        Phase::Succeeded => Paint::Good,
        Phase::Failed => Paint::Bad,
    }
}

fn missing(there: There) -> Paint {
    if there == There::Missing { Paint::Bad } else { Paint::Plain }
}

fn phase(about: &Explanation) -> String {
    let mut text = about.phase.to_string();
    if let Some(code) = about.exit_code {
        text.push_str(&format!(", exit code {code}"));
    }
    if let Some(reason) = &about.failure_reason {
        text.push_str(&format!(", {reason}"));
    }
    if about.terminating {
        text.push_str(" (being deleted)");
    }
    if about.cancel_requested && !about.phase.is_terminal() {
        text.push_str(" (cancel requested)");
    }
    text
}

fn station(station: &StationView) -> String {
    let name = &station.name;
    let Some(limits) = &station.limits else { return absent(name, station.state) };
    let runs = limits.runs.map_or_else(|| "no limit of runs".to_owned(), |runs| format!("{runs} at a time"));
    let mut text = format!("{name}: {runs} ({}), deadline {}m", limits.policy, limits.deadline_minutes);
    if let Some(minutes) = limits.start_timeout_minutes {
        text.push_str(&format!(", has to start within {minutes}m"));
    }
    if let Some(minutes) = limits.stall_timeout_minutes {
        text.push_str(&format!(", may be silent for {minutes}m"));
    }
    text
}

fn recipe(about: &Explanation) -> String {
    let recipe = &about.recipe;
    match (&recipe.model, &recipe.execution) {
        (Some(model), Some(execution)) => format!("{}: model {model}, {execution}", recipe.name),
        // Which one it would be is not known.
        _ if recipe.name.is_empty() && recipe.state == There::Missing => "unknown, without the Station".to_owned(),
        _ if recipe.name.is_empty() => "you may not read it".to_owned(),
        _ => absent(&recipe.name, recipe.state),
    }
}

fn absent(name: &str, state: There) -> String {
    match state {
        There::Missing => format!("{name} is not there"),
        _ => format!("{name}: you may not read it"),
    }
}

fn queue_words(queue: &Queue, station: &StationView) -> String {
    let limit = station.limits.as_ref().and_then(|limits| limits.runs);
    let others = queue.running.len();
    let names = if queue.running.is_empty() { String::new() } else { format!(" ({})", queue.running.join(", ")) };
    let running = match limit {
        Some(limit) => format!("{others} of {limit} slots are taken by others{names}"),
        None => format!("{others} others run{names}"),
    };
    match (queue.position, queue.older.as_slice()) {
        (None, _) => running,
        (Some(position), []) => format!("{running}; this is number {position} in line"),
        (Some(position), older) => format!("{running}; this is number {position} in line, after {}", older.join(", ")),
    }
}

fn job(about: &Explanation) -> String {
    let job = &about.job;
    match (job.state, &job.outcome) {
        (There::Found, _) if !job.ours => format!("{} belongs to another run", job.name),
        (There::Found, Some(outcome)) => format!("{}: {outcome}", job.name),
        (There::Unreadable, _) => "you may not read it".to_owned(),
        _ if about.phase == Phase::Pending => "none yet".to_owned(),
        _ => format!("{} is gone", job.name),
    }
}

fn pod(about: &Explanation) -> String {
    let pod = &about.pod;
    let Some(name) = &pod.name else {
        return match (pod.state, about.phase) {
            (There::Unreadable, _) => "you may not read it".to_owned(),
            (_, Phase::Pending | Phase::Running) => "none yet".to_owned(),
            _ => "gone".to_owned(),
        };
    };
    let node = pod.node.as_ref().map_or_else(|| "on no node yet".to_owned(), |node| format!("on node {node}"));
    format!("{name}: {}, {node}", pod.phase.as_deref().unwrap_or("Pending"))
}

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;
use signalbox_types::{Agent, Phase, Station, Usage};

use crate::text::{Cell, Paint, Palette, age, count, dollars, table};

/// What `top` shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Top {
    pub(super) stations: Vec<Row>,
    pub(super) total: Counts,
}

/// A Station with its runs. One that only Agents name is shown too: theirs will fail.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    namespace: String,
    name: String,
    /// False for one that only Agents name.
    exists: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    recipe: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    policy: String,
    /// Runs at a time; absent means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    /// When the oldest waiting run was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_since: Option<Timestamp>,
    /// How long ago that was.
    #[serde(skip)]
    wait: String,
    #[serde(flatten)]
    counts: Counts,
}

/// Runs by phase, and the sums of what those that are kept have told.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    pending: usize,
    running: usize,
    succeeded: usize,
    failed: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    #[serde(rename = "costUSD", skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
}

/// Puts the Agents to their Stations, by namespace and name.
pub(super) fn view(stations: &[Station], agents: &[Agent], now: Timestamp) -> Top {
    let mut rows: BTreeMap<(String, String), Row> = BTreeMap::new();
    for station in stations {
        let (namespace, name) = (station.namespace().unwrap_or_default(), station.name_any());
        let row = Row {
            namespace: namespace.clone(),
            name: name.clone(),
            exists: true,
            recipe: station.spec.agent_def_ref.clone(),
            policy: station.spec.concurrency_policy.to_string(),
            limit: station.spec.concurrency_limit(),
            ..Row::default()
        };
        rows.insert((namespace, name), row);
    }
    let mut total = Counts::default();
    for agent in agents {
        let (namespace, name) = (agent.namespace().unwrap_or_default(), agent.spec.station_ref.clone());
        let row =
            rows.entry((namespace.clone(), name.clone())).or_insert_with(|| Row { namespace, name, ..Row::default() });
        row.counts.add(agent);
        total.add(agent);
        if agent.phase() == Phase::Pending
            && let Some(created) = agent.metadata.creation_timestamp.as_ref().map(|created| created.0)
        {
            row.waiting_since = Some(row.waiting_since.map_or(created, |since| since.min(created)));
        }
    }
    let mut stations: Vec<Row> = rows.into_values().collect();
    for row in &mut stations {
        row.wait = row.waiting_since.map_or_else(String::new, |since| age(since, now));
    }
    Top { stations, total }
}

impl Counts {
    fn add(&mut self, agent: &Agent) {
        *match agent.phase() {
            Phase::Pending => &mut self.pending,
            Phase::Running => &mut self.running,
            Phase::Succeeded => &mut self.succeeded,
            Phase::Failed => &mut self.failed,
        } += 1;
        let Some(Usage { input_tokens, output_tokens, cost_usd, .. }) =
            agent.status.as_ref().and_then(|status| status.usage.as_ref())
        else {
            return;
        };
        // Absent is not zero: a sum of which nothing is known stays absent.
        let plus = |sum: Option<u64>, more: Option<u64>| match (sum, more) {
            (None, None) => None,
            (sum, more) => Some(sum.unwrap_or(0).saturating_add(more.unwrap_or(0))),
        };
        self.input_tokens = plus(self.input_tokens, *input_tokens);
        self.output_tokens = plus(self.output_tokens, *output_tokens);
        if let Some(cost) = cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
        }
    }

    fn cells(&self, wait: &str) -> Vec<Cell> {
        let number =
            |number: usize, paint| Cell::painted(number.to_string(), if number == 0 { Paint::Dim } else { paint });
        let tokens = |tokens: Option<u64>| Cell::new(tokens.map_or_else(|| "-".to_owned(), count));
        vec![
            number(self.pending, Paint::Busy),
            Cell::new(if wait.is_empty() { "-" } else { wait }),
            number(self.running, Paint::Good),
            number(self.succeeded, Paint::Plain),
            number(self.failed, Paint::Bad),
            tokens(self.input_tokens),
            tokens(self.output_tokens),
            Cell::new(self.cost_usd.map_or_else(|| "-".to_owned(), dollars)),
        ]
    }
}

impl Row {
    fn cells(&self, all_namespaces: bool) -> Vec<Cell> {
        let place = all_namespaces.then(|| Cell::new(&self.namespace));
        let about = if self.exists {
            let limit = self.limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
            [Cell::new(&self.name), Cell::new(&self.recipe), Cell::new(&self.policy), Cell::new(limit)]
        } else {
            let missing = Cell::painted("<missing>", Paint::Bad);
            [Cell::new(&self.name), missing, Cell::new("-"), Cell::new("-")]
        };
        place.into_iter().chain(about).chain(self.counts.cells(&self.wait)).collect()
    }
}

impl Top {
    /// The table, with a line of sums where there is more than one Station.
    pub(super) fn text(&self, palette: Palette, all_namespaces: bool) -> String {
        let place: &[&str] = if all_namespaces { &["NAMESPACE"] } else { &[] };
        let header = ["STATION", "RECIPE", "POLICY", "LIMIT", "PENDING", "WAIT", "RUNNING", "SUCCEEDED", "FAILED"];
        let header: Vec<&str> = place.iter().copied().chain(header).chain(["INPUT", "OUTPUT", "COST"]).collect();
        let mut rows: Vec<Vec<Cell>> = self.stations.iter().map(|row| row.cells(all_namespaces)).collect();
        if rows.len() > 1 {
            let about = place
                .iter()
                .map(|_| Cell::default())
                .chain(["TOTAL", "", "", ""].map(|head| Cell::painted(head, Paint::Strong)));
            rows.push(about.chain(self.total.cells("")).collect());
        }
        table(palette, &header, &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{objects, time};

    fn top() -> Top {
        let objects = objects(include_str!("../../tests/fixtures/top.yaml"));
        view(&objects.all::<Station>(), &objects.all::<Agent>(), time("2026-06-22T12:10:00Z"))
    }

    #[test]
    fn stations_have_their_phases_queues_limits_tokens_and_cost() {
        insta::assert_snapshot!(top().text(Palette::PLAIN, false));
    }

    #[test]
    fn over_all_namespaces_the_first_column_is_the_namespace() {
        insta::assert_snapshot!(top().text(Palette::PLAIN, true));
    }

    #[test]
    fn programs_get_numbers_and_absent_is_not_zero() {
        insta::assert_yaml_snapshot!(top());
    }
}

//! `prune`: the finished runs beyond the history limits of their Stations. The rule is the pruner's own.

use std::io::{IsTerminal, stderr, stdin};

use anyhow::bail;
use jiff::Timestamp;
use kube::api::{DeleteParams, Preconditions};
use serde::Serialize;
use signalbox_agents::history;
use signalbox_types::{Agent, ObjectId, Phase, Station};

use crate::{
    args::{Connection, PruneArgs},
    fault::Ask,
    fetch,
    out::{self, Stream},
    session::Session,
    text::{Cell, Paint, Palette, age, table},
};

pub(crate) async fn run(at: &Connection, args: PruneArgs) -> anyhow::Result<u8> {
    let session = Session::open(at).await?;
    let (stations, agents) = tokio::try_join!(
        fetch::list_all::<Station>(session.api(), "stations"),
        fetch::list_all::<Agent>(session.api(), "agents"),
    )?;
    let surplus = view(&stations, &agents);
    if let Some(format) = args.output {
        out::object(format, &surplus)?;
        return Ok(0);
    }
    if surplus.is_empty() {
        out::note(&format!("Nothing to prune in {} namespace.", session.namespace))?;
        return Ok(0);
    }
    Stream::Stdout.write(&text(Palette::of(&std::io::stdout()), &surplus, Timestamp::now()))?;
    if args.dry_run {
        return Ok(0);
    }
    if !args.yes && !confirmed(surplus.len()).await? {
        out::note("Nothing was deleted.")?;
        return Ok(0);
    }
    let mut failed = 0;
    for one in &surplus {
        match delete(&session, &one.id).await {
            Ok(said) => out::say(&said)?,
            Err(error) => {
                failed += 1;
                out::note(&format!("error: {error:#}"))?;
            }
        }
    }
    Ok(u8::from(failed > 0))
}

/// A finished run that is not kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Surplus {
    #[serde(flatten)]
    id: ObjectId,
    station: String,
    phase: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<signalbox_types::Timestamp>,
    /// Runs of its phase that its Station keeps.
    limit: usize,
}

/// The finished runs that are not kept, Station by Station, the latest completed first.
fn view(stations: &[Station], agents: &[Agent]) -> Vec<Surplus> {
    let mut surplus = Vec::new();
    for station in stations {
        for id in history::surplus(station, agents) {
            let of = |agent: &&Agent| agent.metadata.uid.as_deref() == Some(&id.uid);
            let Some(agent) = agents.iter().find(of) else { continue };
            let phase = agent.phase();
            let limit = match phase {
                Phase::Succeeded => station.spec.successful_runs_kept(),
                _ => station.spec.failed_runs_kept(),
            };
            let completed_at = agent.status.as_ref().and_then(|status| status.completed_at);
            surplus.push(Surplus { id, station: agent.spec.station_ref.clone(), phase, completed_at, limit });
        }
    }
    surplus
}

fn text(palette: Palette, surplus: &[Surplus], now: Timestamp) -> String {
    let rows: Vec<Vec<Cell>> = surplus
        .iter()
        .map(|one| {
            let paint = if one.phase == Phase::Failed { Paint::Bad } else { Paint::Good };
            let completed = one.completed_at.map_or_else(|| "<unknown>".to_owned(), |at| age(at.get(), now));
            vec![
                Cell::new(&one.id.name),
                Cell::new(&one.station),
                Cell::painted(one.phase.as_str(), paint),
                Cell::new(completed),
                Cell::new(format!("beyond the latest {}", one.limit)),
            ]
        })
        .collect();
    table(palette, &["NAME", "STATION", "PHASE", "COMPLETED", "WHY"], &rows)
}

/// Asks; where nobody can answer, that is an error.
async fn confirmed(number: usize) -> anyhow::Result<bool> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        bail!("nothing was deleted: there is no terminal to ask on; give --yes to delete, or --dry-run to look");
    }
    let runs = if number == 1 { "this run".to_owned() } else { format!("these {number} runs") };
    Stream::Stderr.write(&format!("Delete {runs}? [y/N] "))?;
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        stdin().read_line(&mut answer).map(|_| answer)
    });
    Ok(matches!(answer.await??.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Deletes a run in the version that was looked at: one that has changed since is another matter.
async fn delete(session: &Session, id: &ObjectId) -> anyhow::Result<String> {
    let preconditions =
        Preconditions { uid: Some(id.uid.clone()), resource_version: Some(id.resource_version.clone()) };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    let said = match session.api::<Agent>().delete(&id.name, &params).await {
        Ok(_) => "deleted",
        Err(kube::Error::Api(status)) if status.code == 404 => "was deleted before",
        Err(kube::Error::Api(status)) if status.code == 409 => "kept: it has changed since it was looked at",
        Err(error) => {
            let object = session.named("agent", &id.name);
            return Err(Ask { verb: "delete", object: &object, if_missing: "" }.failed(error));
        }
    };
    Ok(format!("agent.agents.re-cinq.com \"{}\" {said}", id.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{objects, time};

    fn surplus() -> Vec<Surplus> {
        let objects = objects(include_str!("../tests/fixtures/prune.yaml"));
        view(&objects.all(), &objects.all())
    }

    #[test]
    fn only_finished_runs_beyond_their_stations_limits_are_named() {
        insta::assert_snapshot!(text(Palette::PLAIN, &surplus(), time("2026-06-22T12:10:00Z")));
    }

    #[test]
    fn programs_get_the_version_that_was_looked_at() {
        insta::assert_yaml_snapshot!(surplus());
    }
}

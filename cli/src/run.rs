//! `run`: makes an Agent, and follows it if asked to.

use std::collections::BTreeMap;

use kube::{
    ResourceExt,
    api::{ListParams, ObjectMeta, PostParams},
};
use signalbox_types::{Agent, AgentDefinition, AgentSpec, Station};
use signalbox_vendors::{Vendor, model_or_default};
use tokio::signal::unix::Signal;

use crate::{
    args::{Connection, RunArgs},
    fault::{Ask, Usage},
    fetch::{self, Seen},
    follow::{self, Lines, Options},
    out::{self, Stream},
    parameters,
    session::Session,
};

pub(crate) async fn run(at: &Connection, args: RunArgs) -> anyhow::Result<u8> {
    let flags = parameters::flags(&args.parameters).map_err(Usage)?;
    if args.cancel_on_interrupt && !(args.follow || args.wait) {
        return Err(Usage("--cancel-on-interrupt needs --follow or --wait".to_owned()).into());
    }
    let session = Session::open(at).await?;
    let recipe = recipe(&session, &args.station).await?;
    let names: Vec<&str> = flags.iter().map(|(name, _)| name.as_str()).collect();
    check_flags(&names, recipe.as_ref())?;
    let given = parameters::merge(args.set.iter().cloned().chain(flags)).map_err(Usage)?;
    for warning in missing(&given, recipe.as_ref()) {
        out::note(&warning)?;
    }

    let following = args.follow || args.wait;
    let mut interrupts = following.then(follow::interrupts).transpose()?;
    let wanted = view(&args, given);
    let created = tokio::select! {
        created = create(&session, &wanted) => created?,
        () = interrupted(interrupts.as_mut()) => {
            out::note("\nInterrupted before the answer came: the run may have been made; `kubectl get agents` says so.")?;
            return Ok(follow::INTERRUPTED);
        }
    };
    let stream = if args.output.is_some() { Stream::Stderr } else { Stream::Stdout };
    if following || args.output.is_none() {
        stream.say(&format!("agent.agents.re-cinq.com/{} created", created.name_any()))?;
    }
    let Some(interrupts) = &mut interrupts else {
        if let Some(format) = args.output {
            out::object(format, &created)?;
        }
        return Ok(0);
    };
    let model = args.model.as_deref().or(recipe.as_ref().map(|recipe| recipe.spec.model.as_str())).unwrap_or_default();
    let lines = if args.follow { Lines::Pretty } else { Lines::None };
    let vendor = Vendor::route(model_or_default(model));
    let options = Options { lines, cancel_on_interrupt: args.cancel_on_interrupt, stream, vendor };
    let (code, ended) = follow::follow(&session, created, options, interrupts).await?;
    if let (Some(format), Some(agent)) = (args.output, ended) {
        out::object(format, &agent)?;
    }
    Ok(code)
}

async fn create(session: &Session, wanted: &Agent) -> anyhow::Result<Agent> {
    let object = match (&wanted.metadata.name, &wanted.metadata.generate_name) {
        (None, Some(prefix)) => session.named("agent", &format!("{prefix}*")),
        (name, _) => session.named("agent", name.as_deref().unwrap_or_default()),
    };
    let ask = Ask { verb: "create", object: &object, if_missing: "the namespace has to be made first" };
    session.api::<Agent>().create(&PostParams::default(), wanted).await.map_err(|error| ask.failed(error))
}

/// Ends at Ctrl-C where that is listened for; else that ends the program.
async fn interrupted(interrupts: Option<&mut Signal>) {
    match interrupts {
        Some(interrupts) => drop(interrupts.recv().await),
        None => std::future::pending().await,
    }
}

/// The recipe of the Station, `None` where one of the two may not be read: a caller needs no more than to make Agents.
async fn recipe(session: &Session, station: &str) -> anyhow::Result<Option<AgentDefinition>> {
    let stations = session.api::<Station>();
    let object = session.named("station", station);
    let station = match fetch::get(&stations, station, &object).await? {
        Seen::Found(station) => station,
        Seen::Denied => return Ok(None),
        Seen::Missing => {
            let others = stations.list_metadata(&ListParams::default()).await;
            let others: Vec<String> = others.iter().flatten().map(ResourceExt::name_any).collect();
            let there = if others.is_empty() {
                "there is none".to_owned()
            } else {
                format!("there are: {}", others.join(", "))
            };
            anyhow::bail!("{object} is not there; {there}");
        }
    };
    let name = &station.spec.agent_def_ref;
    let object = session.named("agentdefinition", name);
    match fetch::get(&session.api::<AgentDefinition>(), name, &object).await? {
        Seen::Found(recipe) => Ok(Some(recipe)),
        Seen::Denied => Ok(None),
        Seen::Missing => anyhow::bail!(
            "{object}, which station \"{}\" names in spec.agentDefRef, is not there: each run would fail; create it, or \
             correct the Station",
            station.name_any()
        ),
    }
}

fn check_flags(names: &[&str], recipe: Option<&AgentDefinition>) -> Result<(), Usage> {
    let Some(recipe) = recipe else { return Ok(()) };
    let tokens = parameters::tokens(&recipe.spec.prompt);
    match names.iter().find_map(|name| parameters::refusal(name, &recipe.name_any(), &tokens)) {
        Some(refusal) => Err(Usage(refusal)),
        None => Ok(()),
    }
}

/// A warning for each token of the prompt that no parameter replaces, and for each parameter that replaces none.
fn missing(given: &BTreeMap<String, String>, recipe: Option<&AgentDefinition>) -> Vec<String> {
    let tokens = recipe.map(|recipe| parameters::tokens(&recipe.spec.prompt)).unwrap_or_default();
    let missing = tokens.iter().filter(|name| !given.contains_key(**name));
    let missing =
        missing.map(|name| format!("warning: parameter {name} is not given: {{{name}}} stays in the prompt as it is"));
    // A recipe's program may read it all the same, so it is no error.
    let unused = given.keys().filter(|name| recipe.is_some() && !tokens.contains(&name.as_str()));
    let unused = unused
        .map(|name| format!("warning: the prompt has no {{{name}}}: parameter {name} reaches AGENT_PARAMETERS alone"));
    missing.chain(unused).collect()
}

/// The Agent that is asked for.
fn view(args: &RunArgs, parameters: BTreeMap<String, String>) -> Agent {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let spec = AgentSpec {
        station_ref: args.station.clone(),
        parameters,
        task_id: text(&args.task_id),
        target_repo: text(&args.repo),
        branch: text(&args.branch),
        model: text(&args.model),
        ..AgentSpec::default()
    };
    let mut agent = Agent::new("", spec);
    let generate_name = || args.generate_name.clone().unwrap_or_else(|| format!("{}-", args.station));
    agent.metadata = match &args.name {
        Some(name) => ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        None => ObjectMeta { generate_name: Some(generate_name()), ..ObjectMeta::default() },
    };
    agent
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::args::{Cli, Command};

    fn args(line: &str) -> RunArgs {
        match Cli::try_parse_from(["kubectl-signalbox", "run"].into_iter().chain(line.split(' '))).unwrap().command {
            Command::Run(args) => args,
            other => panic!("{other:?}"),
        }
    }

    fn agent(line: &str) -> serde_json::Value {
        let args = args(line);
        let flags = parameters::flags(&args.parameters).unwrap();
        let parameters = parameters::merge(args.set.clone().into_iter().chain(flags)).unwrap();
        serde_json::to_value(view(&args, parameters)).unwrap()
    }

    fn recipe(prompt: &str) -> AgentDefinition {
        AgentDefinition::new("r", signalbox_types::AgentDefinitionSpec { prompt: prompt.into(), ..Default::default() })
    }

    #[test]
    fn an_agent_is_made_of_the_arguments() {
        let full = "hello --set a=1 --model m --task-id t --repo o/r --branch b --name n -- --text x=y";
        let expected = json!({
            "apiVersion": "agents.re-cinq.com/v1alpha1", "kind": "Agent", "metadata": {"name": "n"},
            "spec": {"stationRef": "hello", "parameters": {"a": "1", "text": "x=y"}, "model": "m", "taskId": "t",
                     "targetRepo": "o/r", "branch": "b"},
        });
        assert_eq!(agent(full), expected);
    }

    #[test]
    fn without_a_name_the_station_gives_its_beginning() {
        assert_eq!(agent("hello")["metadata"], json!({"generateName": "hello-"}));
        assert_eq!(agent("hello --generate-name x-")["metadata"], json!({"generateName": "x-"}));
    }

    #[test]
    fn a_flag_that_the_prompt_does_not_have_is_refused_with_those_it_has() {
        let recipe = recipe("Greet {name} with {text}");
        assert!(check_flags(&["name", "text"], Some(&recipe)).is_ok());
        assert!(check_flags(&["nmae"], None).is_ok());
        let refused = check_flags(&["nmae"], Some(&recipe)).unwrap_err();
        let expected = "--nmae: the prompt of agentdefinition \"r\" has no such parameter, it has: name, text; for one \
                        that the prompt does not have, use --set nmae=VALUE";
        assert_eq!(refused.0, expected);
    }

    #[test]
    fn a_token_without_a_parameter_is_warned_of() {
        let given = BTreeMap::from([("name".to_owned(), "Ada".to_owned())]);
        let warnings = missing(&given, Some(&recipe("{name} {text}")));
        assert_eq!(warnings, ["warning: parameter text is not given: {text} stays in the prompt as it is"]);
    }

    #[test]
    fn a_parameter_that_the_prompt_does_not_have_is_warned_of() {
        let given = BTreeMap::from([("nmae".to_owned(), "Ada".to_owned())]);
        let warnings = missing(&given, Some(&recipe("Hello")));
        assert_eq!(warnings, ["warning: the prompt has no {nmae}: parameter nmae reaches AGENT_PARAMETERS alone"]);
        assert!(missing(&given, None).is_empty());
    }
}

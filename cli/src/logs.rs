//! `logs`: what a run has printed, from its pod, or from its status once the pod is gone.

use std::io::{IsTerminal, stdout};

use anyhow::bail;
use futures::{AsyncBufReadExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::LogParams};
use signalbox_agents::outcome;
use signalbox_types::Agent;
use signalbox_vendors::Vendor;

use crate::{
    args::{Connection, LogsArgs},
    fault::Ask,
    fetch::Seen,
    follow::{Lines, Options, find_pod, follow, get_agent, interrupts, vendor_of},
    line,
    out::{self, Stream},
    session::Session,
    text::Palette,
};

/// The width of the word for what a line is.
const LABEL_WIDTH: usize = 6;

pub(crate) async fn run(at: &Connection, args: LogsArgs) -> anyhow::Result<u8> {
    let session = Session::open(at).await?;
    let agent = get_agent(&session, &args.agent).await?;
    let pretty = args.pretty || (!args.raw && stdout().is_terminal());
    let vendor = if pretty { vendor_of(&session, &agent).await } else { Vendor::Claude };
    if args.follow {
        let lines = if pretty { Lines::Pretty } else { Lines::Raw };
        let options = Options { lines, cancel_on_interrupt: false, stream: Stream::Stdout, vendor };
        return Ok(follow(&session, agent, options, &mut interrupts()?).await?.0);
    }
    let palette = Palette::of(&stdout());
    let show = |line: &[u8]| match pretty {
        true => out::bytes(&mut stdout().lock(), view(palette, vendor, &String::from_utf8_lossy(line)).as_bytes()),
        false => out::bytes(&mut stdout().lock(), line),
    };
    let pod = find_pod(&session, &agent).await?;
    let read = match &pod {
        Seen::Found(pod) => log(&session, pod, show).await?,
        Seen::Missing | Seen::Denied => false,
    };
    if !read {
        let Some(output) = output(&agent) else { bail!(nothing(&session, &agent, &pod)) };
        output.split_inclusive('\n').try_for_each(|line| show(line.as_bytes()))?;
    }
    Ok(0)
}

/// Shows the log that is the run's output; false where there is none.
async fn log(session: &Session, pod: &Pod, show: impl Fn(&[u8]) -> std::io::Result<()>) -> anyhow::Result<bool> {
    let container = outcome::pod_result(pod).container;
    let params = LogParams { container: Some(container.to_owned()), ..LogParams::default() };
    let stream = match session.api::<Pod>().log_stream(&pod.name_any(), &params).await {
        Ok(stream) => stream,
        // The container has not started, or the pod has just gone.
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 404) => return Ok(false),
        Err(error) => {
            let object = session.named("the log (pods/log) of pod", &pod.name_any());
            return Err(Ask { verb: "get", object: &object, if_missing: "" }.failed(error));
        }
    };
    pin_mut!(stream);
    let mut line = Vec::new();
    while stream.read_until(b'\n', &mut line).await? > 0 {
        show(&line)?;
        line.clear();
    }
    Ok(true)
}

fn output(agent: &Agent) -> Option<&str> {
    agent.status.as_ref().and_then(|status| status.output.as_deref()).filter(|output| !output.is_empty())
}

/// Why there is nothing to show.
fn nothing(session: &Session, agent: &Agent, pod: &Seen<Pod>) -> String {
    let name = agent.name_any();
    let why = match agent.status.as_ref().and_then(|status| status.failure_reason.as_deref()) {
        Some(reason) if agent.phase().is_terminal() => format!("it has ended ({}: {reason})", agent.phase()),
        _ if *pod == Seen::Denied => "you may not list pods here, and its status has no output yet".to_owned(),
        _ => format!("it is {}", agent.phase()),
    };
    format!(
        "{} has printed nothing that is still there: {why}; `kubectl signalbox explain {name}` says more",
        session.named("agent", &name)
    )
}

/// A line for people; empty for one that tells them nothing.
fn view(palette: Palette, vendor: Vendor, line: &str) -> String {
    let shown = line::view(vendor, line.trim_end_matches(['\n', '\r']));
    shown.map_or_else(String::new, |shown| line::entry(palette, "", LABEL_WIDTH, &shown))
}

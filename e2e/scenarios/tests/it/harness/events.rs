use signalbox_types::event::Lifecycle;

/// The lifecycle events among the lines of a run, in their order and in short: `agent failed exit=3`,
/// `init running tool=git`.
pub fn lifecycle(lines: &str) -> Vec<String> {
    lines.lines().filter_map(|line| serde_json::from_str(line).ok()).map(|event: Lifecycle| short(&event)).collect()
}

fn short(event: &Lifecycle) -> String {
    let word = |value: serde_json::Result<serde_json::Value>| {
        value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let mut text = format!("{} {}", word(serde_json::to_value(event.phase)), word(serde_json::to_value(event.status)));
    let details = [
        ("tool", event.tool.clone()),
        ("reason", event.reason.clone()),
        ("exit", event.exit_code.map(|code| code.to_string())),
    ];
    for (name, value) in details {
        if let Some(value) = value {
            text.push_str(&format!(" {name}={value}"));
        }
    }
    text
}

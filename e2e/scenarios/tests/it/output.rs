//! What a run prints, and where it goes.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use signalbox_types::{Phase, names};

use crate::harness::{Scene, ending, lifecycle, output, secret_token};

/// `MAX_OUTPUT_BYTES` as base sets it.
const MAX_OUTPUT: usize = 262_144;

#[tokio::test]
async fn case_41_of_5_mib_of_multi_byte_text_the_tail_is_kept() {
    let scene = Scene::calm("large").await;
    // 8,738 lines of 600 bytes.
    let script = r#"line=; i=0; while [ $i -lt 50 ]; do line="$line$i häßlich "; i=$((i + 1)); done
                    yes "$line" | head -n 8738; echo the end"#;
    let agent = scene.run("shell", script).await;
    let agent = scene.ended(&agent).await;
    assert_eq!(ending(&agent), (Phase::Succeeded, Some(0), String::new()));
    let output = output(&agent);
    let (marker, kept) = output.split_once("]...\n").expect("a marker");
    let cut: usize = marker.strip_prefix("...[truncated ").unwrap().trim_end_matches(" bytes").parse().unwrap();
    assert!(cut > 4 * 1024 * 1024 && kept.len() <= MAX_OUTPUT && kept.len() > MAX_OUTPUT - 4, "{cut} {}", kept.len());
    assert!(
        kept.ends_with(
            "the end\n{\"kind\":\"lifecycle\",\"phase\":\"agent\",\"status\":\"succeeded\",\"exitCode\":0}\n"
        )
    );
}

#[tokio::test]
async fn case_73_four_thousand_lines_on_standard_error_are_all_there() {
    let scene = Scene::calm("stderr").await;
    let agent =
        scene.run("shell", "i=1; while [ $i -le 4000 ]; do echo line $i >&2; i=$((i + 1)); done; echo done").await;
    let agent = scene.ended(&agent).await;
    assert_eq!(ending(&agent), (Phase::Succeeded, Some(0), String::new()));
    let lines: Vec<_> = output(&agent).lines().filter(|line| line.starts_with("[agent] line ")).collect();
    assert_eq!((lines.len(), lines[0], lines[3999]), (4000, "[agent] line 1", "[agent] line 4000"));
}

#[tokio::test]
async fn a_sink_hears_all_in_order_with_its_header_and_the_secret_shows_nowhere_else() {
    let scene = Scene::calm("sink").await;
    scene.apply(include_str!("../fixtures/sink.yaml"));
    let sink = format!("{}-sink", scene.name);
    scene.server_ready(&sink).await;
    let script = r#"i=1; while [ $i -le 20 ]; do echo "{\"type\":\"x\",\"n\":$i}"; i=$((i + 1)); done
                    echo plain text; echo '{"source":1,"event":2}'; echo '{"type":"result","is_error":false}'"#;
    let agent = scene.run(&scene.name, script).await;
    let pod = scene.pod_of(&agent).await.metadata.name;
    let ended = scene.ended(&agent).await;
    // Case 75: the other sink answers 500, and the run does not mind.
    assert_eq!(ending(&ended), (Phase::Succeeded, Some(0), String::new()));
    let refused: usize = scene.ask_server(&sink, "cgi-bin/refused").await.unwrap().trim().parse().unwrap();
    assert_eq!(refused % 3, 0, "three tries an event");
    assert!(refused > 0 && output(&ended).contains("http sink failed after retries: "), "{}", output(&ended));

    let heard = scene.ask_server(&sink, "cgi-bin/all").await.unwrap();
    let mut events = Vec::new();
    for line in heard.lines() {
        let (authorization, body) = line.split_once('\t').expect("a header and a body");
        assert_eq!(authorization, format!("Bearer {}", secret_token()));
        let mut envelope: Value = serde_json::from_str(body).expect("an envelope");
        let source = serde_json::json!({
            "agent": agent, "station": scene.name, "task": "e2e", "pod": pod, "namespace": scene.site.namespace,
        });
        assert_eq!(envelope["source"], source);
        events.push(envelope["event"].take());
    }
    // Case 74: what looks like an envelope is printed and not sent.
    assert!(output(&ended).contains("{\"source\":1,\"event\":2}\n"));
    let text: String = events.iter().map(|event| format!("{event}\n")).collect();
    let expected = [
        "init started",
        "init running tool=supervisor",
        "init running tool=skills",
        "init succeeded",
        "agent started",
        "agent succeeded exit=0",
    ];
    assert_eq!(lifecycle(&text), expected);
    let numbers = events.iter().filter_map(|event| event["n"].as_u64());
    assert_eq!(numbers.collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
    assert!(events.iter().any(|event| event == "plain text"));
    assert_eq!(events.len(), expected.len() + 20 + 2);
    is_nowhere(&scene, secret_token());
}

/// Looks through all that is shown of the namespace, and the logs of all that had to do with the run.
fn is_nowhere(scene: &Scene, secret: &str) {
    let encoded = STANDARD.encode(secret);
    let objects =
        scene.kubectl(&["get", "agents,stations,agentdefinitions,jobs,pods,events,configmaps,leases", "-o", "yaml"]);
    let mut shown = vec![("objects".to_owned(), objects)];
    let of_the_run = format!("{}={}", names::LABEL_JOB_NAME, names::job_name(&scene.name));
    let of_the_sink = format!("server={}-sink", scene.name);
    let selectors = [of_the_run.as_str(), &of_the_sink, "app.kubernetes.io/part-of=signalbox"];
    for selector in selectors {
        let logs = ["logs", "-l", selector, "--all-containers", "--tail=-1", "--max-log-requests=100"];
        shown.push((selector.to_owned(), scene.kubectl(&logs)));
    }
    for (place, text) in shown {
        assert!(!text.contains(secret) && !text.contains(encoded.trim_end_matches('=')), "the secret is in {place}");
    }
}

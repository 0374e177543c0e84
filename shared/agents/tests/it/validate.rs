use rstest::rstest;
use signalbox_agents::validate::{Switches, execution};

use crate::support::{Objects, yaml};

fn reason(execution_word: &str, resume: &str, switches: Switches) -> Option<String> {
    let mut objects = Objects::bare();
    objects.definition.spec.execution = yaml(execution_word);
    objects.agent.spec.resume_session = resume.to_owned();
    execution(&objects.run(), &switches).err().map(|rejection| rejection.to_string())
}

#[rstest]
#[case("interactive", "", None)]
#[case("interactive", "id", Some("resumeSession requires realtime execution"))]
#[case("batch", "id", Some("resumeSession requires realtime execution"))]
#[case::case_86("batch", "", Some("batch execution is disabled on this controller"))]
#[case("realtime", "", Some("realtime execution is disabled on this controller"))]
#[case("realtime", "id", Some("realtime execution is disabled on this controller"))]
#[case("misspelt", "", None)]
fn a_way_of_running_that_is_not_deployed_is_refused(
    #[case] word: &str,
    #[case] resume: &str,
    #[case] text: Option<&str>,
) {
    assert_eq!(reason(word, resume, Switches::default()).as_deref(), text);
}

#[test]
fn a_way_of_running_that_is_deployed_is_taken() {
    let all = Switches { batch: true, realtime: true };
    assert_eq!(reason("batch", "", all), None);
    assert_eq!(reason("realtime", "id", all), None);
}

#[rstest]
#[case("claude-opus-5-5", "11111111-2222-4333-8444-555555555555", true)]
#[case("gemini", "11111111-2222-4333-8444-555555555555", true)]
#[case("claude-opus-5-5", "mine", false)]
#[case("gpt-5.5", "nosuch", false)]
#[case("gemini", "latest", false)]
#[case("gemini", "1", false)]
#[case("exec", "mine", true)]
fn a_resumed_session_has_an_id_that_the_vendor_takes(#[case] model: &str, #[case] id: &str, #[case] valid: bool) {
    let mut objects = Objects::bare();
    objects.agent.spec.model = model.to_owned();
    objects.agent.spec.resume_session = id.to_owned();
    objects.definition.spec.execution = yaml("realtime");
    let all = Switches { batch: true, realtime: true };
    let reason = execution(&objects.run(), &all).err().map(|rejection| rejection.to_string());
    assert_eq!(reason.as_deref(), (!valid).then_some("invalid resumeSession"));
    let reason = execution(&objects.run(), &Switches::default()).err().map(|rejection| rejection.to_string());
    assert_eq!(reason.as_deref(), Some("realtime execution is disabled on this controller"), "comes first");
}

#[rstest]
#[case("claude-opus-5-5", "11111111-2222-4333-8444-555555555555", true)]
#[case("gemini", "mine", false)]
#[case("opencode", "mine", true)]
#[case("claude-opus-5-5", "11111111-2222-4333-8444-55555555555G", false)]
#[case("claude-opus-5-5", "11111111222243338444555555555555", false)]
#[case("claude-opus-5-5", "11111111-2222-4333-8444-555555555555-", false)]
#[case("claude-opus-5-5", "mine", false)]
#[case("gpt-5.5", "mine", false)]
#[case("exec", "mine", true)]
#[case("claude-opus-5-5", "", true)]
fn a_pinned_session_has_an_id_that_the_vendor_takes(#[case] model: &str, #[case] pin: &str, #[case] valid: bool) {
    let mut objects = Objects::bare();
    objects.agent.spec.model = model.to_owned();
    objects.definition.spec.resources.conversation.pin = pin.to_owned();
    let reason = execution(&objects.run(), &Switches::default()).err().map(|rejection| rejection.to_string());
    assert_eq!(reason.as_deref(), (!valid).then_some("invalid conversation.pin"));
}

use std::collections::BTreeMap;

use rstest::rstest;
use signalbox_vendors::{Install, Vendor, cli, env_copies, env_extras, state_paths};

#[rstest]
#[case(Vendor::Claude, "claude", "https://claude.ai/install.sh")]
#[case(Vendor::Codex, "codex", "https://chatgpt.com/codex/install.sh")]
#[case(Vendor::Opencode, "opencode", "https://opencode.ai/install")]
fn a_cli_is_installed_by_its_vendors_script(#[case] vendor: Vendor, #[case] command: &str, #[case] address: &str) {
    let cli = cli(vendor).unwrap();
    assert_eq!(cli.command, command);
    let Install::Script { url, shell, leaves } = cli.install else { unreachable!("{:?}", cli.install) };
    assert_eq!(url, address);
    assert!(cli.needs.contains(&shell) && cli.needs.contains(&"curl"), "{:?}", cli.needs);
    assert!(leaves.ends_with(&format!("/{command}")), "{leaves}");
    assert_eq!(cli.install.tarball("https://registry.npmjs.org", "1.0.0"), None);
}

#[rstest]
#[case("https://registry.npmjs.org")]
#[case("https://registry.npmjs.org/")]
fn fix_0_10_9_the_tarball_of_gemini_has_an_address_that_exists(#[case] registry: &str) {
    let cli = cli(Vendor::Gemini).unwrap();
    assert_eq!(
        cli.install.tarball(registry, cli.seen).unwrap(),
        "https://registry.npmjs.org/@google/gemini-cli/-/gemini-cli-0.61.0.tgz"
    );
    assert_eq!((cli.command, cli.needs), ("gemini", ["node"].as_slice()));
}

#[test]
fn a_command_of_a_recipe_is_not_installed() {
    assert_eq!(cli(Vendor::Exec), None);
}

#[rstest]
#[case(Vendor::Claude, &[".claude/projects"], true, true)]
#[case(Vendor::Codex, &[".codex/sessions"], false, true)]
#[case(Vendor::Gemini, &[".gemini/tmp", ".gemini/projects.json"], false, true)]
#[case(Vendor::Opencode, &[".local/share/opencode"], false, true)]
#[case(Vendor::Exec, &[], false, false)]
fn a_session_is_kept_in_these_paths(
    #[case] vendor: Vendor,
    #[case] paths: &[&str],
    #[case] can_pin: bool,
    #[case] can_resume: bool,
) {
    assert_eq!((state_paths(vendor), vendor.can_pin(), vendor.can_resume()), (paths, can_pin, can_resume));
}

#[test]
fn a_cli_gets_the_variables_that_it_needs_in_a_pod() {
    let extras = |vendor| env_extras(vendor).iter().copied().collect::<BTreeMap<_, _>>();
    assert_eq!(extras(Vendor::Claude).len(), 2);
    assert_eq!(
        extras(Vendor::Gemini),
        [("GEMINI_EXP", "/agent/.gemini/experiments.json"), ("GEMINI_CLI_NO_RELAUNCH", "true")].into()
    );
    assert_eq!(extras(Vendor::Opencode), [("OPENCODE_DISABLE_MODELS_FETCH", "1")].into());
    assert_eq!((env_extras(Vendor::Codex), env_extras(Vendor::Exec)), ([].as_slice(), [].as_slice()));
    assert_eq!(env_copies(Vendor::Codex), [("CODEX_API_KEY", "OPENAI_API_KEY")]);
    assert!([Vendor::Claude, Vendor::Gemini, Vendor::Opencode, Vendor::Exec].map(env_copies).concat().is_empty());
}

//! The manifest of the plugin, as krew reads it: <https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/>.

use serde_json::Value;

#[test]
fn the_krew_manifest_is_of_this_version_and_names_the_program_for_each_platform() {
    let manifest: Value = serde_saphyr::from_str(include_str!("../../../k8s/krew/signalbox.yaml")).unwrap();
    assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!((&manifest["kind"], &manifest["metadata"]["name"]), (&"Plugin".into(), &"signalbox".into()));
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    assert_eq!(manifest["spec"]["version"], version);
    assert!(manifest["spec"]["shortDescription"].as_str().is_some_and(|text| text.len() <= 50));
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    assert!(!platforms.is_empty());
    for platform in platforms {
        let arch = platform["selector"]["matchLabels"]["arch"].as_str().unwrap();
        let uri = platform["uri"].as_str().unwrap();
        assert!(uri.contains(&format!("/{version}/")) && uri.ends_with(&format!("linux-{arch}.tar.gz")), "{uri}");
        assert_eq!(platform["bin"], "kubectl-signalbox");
        assert_eq!(platform["sha256"].as_str().map(str::len), Some(64));
    }
}

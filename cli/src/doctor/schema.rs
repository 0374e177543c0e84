//! Whether a resource definition of the cluster is the one that this program was built with.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value, json};

/// Where the definition of the cluster first differs, `None` where it does not. What the API server adds by itself is no
/// difference.
pub(super) fn difference(expected: &CustomResourceDefinition, live: &CustomResourceDefinition) -> Option<String> {
    let essence = |definition: &CustomResourceDefinition| {
        let spec = &definition.spec;
        json!({ "scope": spec.scope, "versions": spec.versions, "shortNames": spec.names.short_names })
    };
    differs(&essence(expected), &essence(live), "spec")
}

fn differs(expected: &Value, live: &Value, path: &str) -> Option<String> {
    match (expected, live) {
        (Value::Object(expected), Value::Object(live)) => objects_differ(expected, live, path),
        (Value::Array(expected), Value::Array(live)) => {
            let longer = (expected.len() != live.len())
                .then(|| format!("{path} has {} entries in place of {}", live.len(), expected.len()));
            let pairs = expected.iter().zip(live).enumerate();
            pairs.into_iter().find_map(|(at, (one, other))| differs(one, other, &format!("{path}[{at}]"))).or(longer)
        }
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => None,
        (one, other) if one == other => None,
        (one, other) => Some(format!("{path} is {other} in place of {one}")),
    }
}

fn objects_differ(expected: &Map<String, Value>, live: &Map<String, Value>, path: &str) -> Option<String> {
    let below = |name: &str| format!("{path}.{name}");
    let missing = expected.iter().find_map(|(name, one)| match live.get(name) {
        None if one.is_null() => None,
        None => Some(format!("{} is missing", below(name))),
        Some(other) => differs(one, other, &below(name)),
    });
    // Fields of resources are named by us alone: one more is of another version.
    let more = || {
        let mut names = live.keys().filter(|_| path.ends_with(".properties"));
        names.find(|name| !expected.contains_key(*name)).map(|name| format!("{} is not known here", below(name)))
    };
    missing.or_else(more)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({"a": 1}), json!({"a": 1.0, "added": true}), None)]
    #[case(json!({"a": null}), json!({}), None)]
    #[case(json!({"a": {"b": 1}}), json!({"a": {}}), Some("spec.a.b is missing"))]
    #[case(json!({"a": [1, 2]}), json!({"a": [1]}), Some("spec.a has 1 entries in place of 2"))]
    #[case(json!({"a": ["x"]}), json!({"a": ["y"]}), Some("spec.a[0] is \"y\" in place of \"x\""))]
    #[case(json!({"properties": {}}), json!({"properties": {"new": {}}}), Some("spec.properties.new is not known here"))]
    fn the_first_difference_is_named(#[case] expected: Value, #[case] live: Value, #[case] found: Option<&str>) {
        assert_eq!(differs(&expected, &live, "spec").as_deref(), found);
    }

    #[test]
    fn each_definition_equals_itself_and_no_other() {
        let all = signalbox_types::crd::all();
        for (at, (_, one)) in all.iter().enumerate() {
            for (other_at, (_, other)) in all.iter().enumerate() {
                assert_eq!(difference(one, other).is_none(), at == other_at);
            }
        }
    }
}

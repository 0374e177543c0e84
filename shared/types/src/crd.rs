//! The CustomResourceDefinitions as they are installed: `k8s/crds/*.yaml` is generated from here.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::{Agent, AgentDefinition, Station};

/// The definitions, by the name of their file.
pub fn all() -> [(&'static str, CustomResourceDefinition); 3] {
    [
        ("agents.yaml", definition::<Agent>()),
        ("stations.yaml", definition::<Station>()),
        ("agentdefinitions.yaml", definition::<AgentDefinition>()),
    ]
}

fn definition<K: CustomResourceExt>() -> CustomResourceDefinition {
    let mut definition = K::crd();
    for version in &mut definition.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            conform(schema);
        }
    }
    definition
}

/// Makes a derived schema one for the API server. What a reader takes for absent must not become what the API server
/// writes: it would make required fields optional and fill every object with empty strings. Only the numbers that the
/// contract calls CRD defaults stay.
fn conform(schema: &mut JSONSchemaProps) {
    // The API server knows no unsigned formats, and warns of them.
    if schema.format.as_deref() == Some("uint64") {
        schema.format = Some("int64".to_owned());
    }
    schema.default = schema.default.take().filter(|default| default.0.is_number());
    let properties = schema.properties.iter_mut().flat_map(|properties| properties.values_mut());
    properties.for_each(conform);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        conform(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(additional)) = &mut schema.additional_properties {
        conform(additional);
    }
}

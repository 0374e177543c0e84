//! Objects of unit tests, from YAML.

use jiff::Timestamp;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The objects of a fixture.
pub(crate) struct Objects(Vec<Value>);

pub(crate) fn objects(yaml: &str) -> Objects {
    Objects(serde_saphyr::from_multiple(yaml).unwrap())
}

impl Objects {
    /// Those of a kind.
    pub(crate) fn all<K: Resource<DynamicType = ()> + DeserializeOwned>(&self) -> Vec<K> {
        let ours = |object: &&Value| object["kind"] == *K::kind(&());
        self.0.iter().filter(ours).map(|object| serde_json::from_value(object.clone()).unwrap()).collect()
    }

    /// The first of a kind.
    pub(crate) fn first<K: Resource<DynamicType = ()> + DeserializeOwned>(&self) -> Option<K> {
        self.all().into_iter().next()
    }
}

pub(crate) fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

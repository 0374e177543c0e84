//! The namespaces that a service serves: one, several, or all.

use std::{fmt, sync::Arc};

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource};

/// The word for all namespaces.
const ALL: &str = "*";
/// The longest name of a namespace:
/// <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-label-names>.
const MAX_NAME: usize = 63;

/// The namespaces that a service serves; cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Empty for all.
    names: Arc<[String]>,
}

impl Scope {
    /// Every namespace of the cluster, those made later too.
    pub fn all() -> Self {
        Self { names: Arc::default() }
    }

    /// One namespace.
    pub fn one(name: &str) -> Self {
        Self { names: Arc::new([name.to_owned()]) }
    }

    /// Reads `a`, `a,b` or `*`; one that is named twice counts once. `None` for anything else.
    pub fn parse(raw: &str) -> Option<Self> {
        if raw.trim() == ALL {
            return Some(Self::all());
        }
        let mut names: Vec<String> = Vec::new();
        for name in raw.split(',').map(str::trim) {
            if !is_name(name) {
                return None;
            }
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        Some(Self { names: names.into() })
    }

    /// The names, as a listing on the bus has them; empty for all.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether objects of that namespace are served.
    pub fn contains(&self, namespace: &str) -> bool {
        covers(&self.names, namespace)
    }

    /// Whether a listing of `listed` (empty for all) says something about every namespace served.
    pub fn is_within(&self, listed: &[String]) -> bool {
        if self.names.is_empty() { listed.is_empty() } else { self.names.iter().all(|name| covers(listed, name)) }
    }

    /// The same without these: for a list of names of which some are left.
    pub fn without(&self, names: &[String]) -> Self {
        let left = self.names.iter().filter(|name| !names.contains(name));
        Self { names: left.cloned().collect() }
    }

    /// Where to LIST and watch to see all of it: each namespace, which takes a Role in each, or the whole cluster
    /// (`None`), which takes a ClusterRole.
    pub fn places(&self) -> Vec<Option<String>> {
        if self.names.is_empty() { vec![None] } else { self.names.iter().cloned().map(Some).collect() }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.names.is_empty() { f.write_str(ALL) } else { f.write_str(&self.names.join(",")) }
    }
}

/// Whether `names` (empty for all) has that namespace.
pub fn covers(names: &[String], namespace: &str) -> bool {
    names.is_empty() || names.iter().any(|name| name == namespace)
}

/// The API of a kind at one of [`Scope::places`].
pub fn api_at<K>(client: &Client, place: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match place {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

fn is_name(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.len() <= MAX_NAME
        && bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(raw: &str) -> Option<Vec<String>> {
        Scope::parse(raw).map(|scope| scope.names().to_vec())
    }

    #[test]
    fn a_scope_is_one_name_several_or_a_star() {
        assert_eq!(names("ai-agents").unwrap(), ["ai-agents"]);
        assert_eq!(names("b, a,b").unwrap(), ["b", "a"]);
        assert_eq!(names("*").unwrap(), [""; 0]);
        for bad in ["", " ", ",", "a,", "a,*", "A", "a_b", "-a", "a-", "a.b", "a b", "**", &"a".repeat(64)] {
            assert_eq!(names(bad), None, "{bad}");
        }
        assert!(names(&"a".repeat(63)).is_some());
    }

    #[test]
    fn a_listing_says_something_about_a_scope_only_if_it_has_all_of_it() {
        let listed = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let two = Scope::parse("a,b").unwrap();
        assert!(two.is_within(&listed(&["b", "a", "c"])) && two.is_within(&[]));
        assert!(!two.is_within(&listed(&["a"])));
        assert!(Scope::all().is_within(&[]) && !Scope::all().is_within(&listed(&["a"])));
    }

    #[test]
    fn what_is_shown_is_what_is_read() {
        for raw in ["*", "a", "a,b"] {
            assert_eq!(Scope::parse(raw).unwrap().to_string(), raw);
        }
        assert_eq!(Scope::parse("a,b,c").unwrap().without(&["b".to_owned()]).to_string(), "a,c");
        assert!(Scope::all().contains("any") && !Scope::one("a").contains("b"));
    }
}

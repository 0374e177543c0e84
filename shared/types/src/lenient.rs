//! Lenient reading, as `docs/contract/agents.md` section 2 asks for: a field that is null counts as absent, an unknown
//! enum string is the enum's first member, a list item that cannot be decoded is dropped. What the API server's schema
//! refuses never gets here; what an older or newer schema let through must not stop a whole page.

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// Reads null as the type's default.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a list and leaves out the items that do not decode; null is an empty list.
pub fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let items = Option::<Vec<Value>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect())
}

/// Reads a value that may be malformed as absent.
pub fn or_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = Option::<Value>::deserialize(deserializer)?;
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}

/// True for a value equal to its type's default: such fields are not serialised.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The schema of an object whose fields the API server keeps without knowing them.
pub fn preserved_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// The schema of a string enum.
pub(crate) fn string_enum(members: &[&str]) -> Schema {
    json_schema!({ "type": "string", "enum": members })
}

/// A string read from JSON, borrowed where it can be.
#[derive(Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// A string enum whose first member is the default, and what any unknown string is read as.
macro_rules! lenient_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$member_meta:meta])* $member:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$member_meta])* $member),+ }

        impl $name {
            /// All members, in the contract's order.
            pub const ALL: &'static [$name] = &[$($name::$member),+];

            /// The member as it is written in a resource.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$member => $text),+ }
            }

            /// The member of that name; an unknown name is the first member.
            pub fn from_text(text: &str) -> Self {
                Self::ALL.iter().copied().find(|member| member.as_str() == text).unwrap_or_default()
            }
        }

        impl Default for $name {
            fn default() -> Self { Self::ALL[0] }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.as_str()) }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> { s.serialize_str(self.as_str()) }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = $crate::lenient::Text::deserialize(d)?;
                Ok(Self::from_text(&text.0))
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> { stringify!($name).into() }
            fn inline_schema() -> bool { true }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::lenient::string_enum(&[$($text),+])
            }
        }
    };
}
pub(crate) use lenient_enum;

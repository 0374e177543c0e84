use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient;

/// Tokens, cost and time of one run, as its CLI told them: `docs/contract/vendor-clis.md` section 4. What the CLI does
/// not say, or says in a way that counts other runs in, is absent: absent beats wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens that were read, those from a cache included.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens that were written.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Of the tokens that were read, those that came from a cache.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    pub cached_input_tokens: Option<u64>,
    /// The cost in US dollars.
    #[serde(
        default,
        rename = "costUSD",
        deserialize_with = "lenient::or_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub cost_usd: Option<f64>,
    /// Turns of the model.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// How long the CLI says it took, in milliseconds.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The model that answered; where there were several, the one that wrote most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Usage {
    /// True where the CLI has told nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

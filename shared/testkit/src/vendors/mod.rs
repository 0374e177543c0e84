//! Vendors' APIs without a vendor: one HTTP server that the real CLIs take for Anthropic's, OpenAI's or Google's, and an MCP
//! server beside them. It thinks nothing: a word in the prompt says what it answers ([`Step`]). What came is kept, keys
//! included, so that a test can say which key went where and that it went nowhere else.
//!
//! The shapes are those of the vendors' public references, as far as the CLIs need them:
//! <https://docs.claude.com/en/api/messages-streaming>, <https://platform.openai.com/docs/api-reference/responses-streaming>,
//! <https://platform.openai.com/docs/api-reference/chat-streaming>, <https://ai.google.dev/api/generate-content>,
//! <https://modelcontextprotocol.io/specification/2025-06-18/basic/transports>. CLIs change: `make e2e-vendors` runs them
//! against this server and compares what they print.

mod answer;
mod anthropic;
mod chat;
mod gemini;
mod mcp;
mod record;
mod responses;
mod script;
mod server;
#[cfg(test)]
mod tests;

pub use record::Request;
pub use script::{READ_FILE, SLEEP_MARKER, Step, TOOL_OUTPUT, TOUCHED_FILE};
pub use server::FakeVendors;

/// Tokens that each answer says it has read, apart from cached ones.
pub const INPUT_TOKENS: u64 = 100;
/// Tokens that each answer says it has read from a cache.
pub const CACHED_TOKENS: u64 = 20;
/// Tokens that each answer says it has written.
pub const OUTPUT_TOKENS: u64 = 12;

/// An API that the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    /// Anthropic's `/v1/messages`: Claude Code.
    Anthropic,
    /// OpenAI's `/v1/responses`: Codex.
    Responses,
    /// OpenAI's `/v1/chat/completions`, which many others speak: OpenCode.
    Chat,
    /// Google's `:generateContent` and `:streamGenerateContent`: Gemini CLI.
    Gemini,
    /// Model Context Protocol over streamable HTTP, with one tool, `ping`.
    Mcp,
}

impl Api {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Anthropic, Self::Responses, Self::Chat, Self::Gemini, Self::Mcp];

    /// What a client calls the API's address: the part after host and port.
    pub const fn base(self) -> &'static str {
        match self {
            Self::Anthropic => "/anthropic",
            Self::Responses => "/openai/v1",
            Self::Chat => "/compatible/v1",
            Self::Gemini => "/gemini",
            Self::Mcp => "/mcp",
        }
    }

    /// The header in which the API's clients send their key; `authorization` has `Bearer ` before it.
    pub const fn key_header(self) -> &'static str {
        match self {
            Self::Anthropic => "x-api-key",
            Self::Gemini => "x-goog-api-key",
            Self::Responses | Self::Chat | Self::Mcp => "authorization",
        }
    }

    /// The API of a path, and what follows its base.
    fn of(path: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|api| {
            let rest = path.strip_prefix(api.base())?;
            (rest.is_empty() || rest.starts_with('/')).then_some((api, rest))
        })
    }
}

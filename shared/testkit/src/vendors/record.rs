use super::Api;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// The API it was for; `None` where the server knows nothing at that path.
    pub api: Option<Api>,
    /// `POST`
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Names in lower case and values, in their order.
    pub headers: Vec<(String, String)>,
    /// The body; bytes that are not UTF-8 are replaced.
    pub body: String,
    /// The status of the answer.
    pub status: u16,
}

impl Request {
    /// The key that the request bore where its API looks for one.
    pub fn key(&self) -> Option<&str> {
        key(self.api?, &self.headers)
    }

    /// Whether it asked for a message: everything else is a CLI's housekeeping.
    pub fn asks_for_a_message(&self) -> bool {
        self.method == "POST" && self.status != 404 && self.api.is_some_and(|api| api != Api::Mcp)
    }

    /// The places of the request that have `secret` in them, such as `Anthropic header x-api-key`.
    pub(super) fn places_of(&self, secret: &str) -> Vec<String> {
        let api = self.api.map_or_else(|| self.path.clone(), |api| format!("{api:?}"));
        let headers = self.headers.iter().filter(|(_, value)| value.contains(secret));
        let mut places: Vec<String> = headers.map(|(name, _)| format!("{api} header {name}")).collect();
        if self.path.contains(secret) {
            places.push(format!("{api} path"));
        }
        if self.body.contains(secret) {
            places.push(format!("{api} body"));
        }
        places
    }
}

pub(super) fn key(api: Api, headers: &[(String, String)]) -> Option<&str> {
    let (_, value) = headers.iter().find(|(name, _)| name == api.key_header())?;
    Some(value.strip_prefix("Bearer ").unwrap_or(value))
}

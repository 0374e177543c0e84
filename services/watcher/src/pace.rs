//! At most one watch in [`PAUSE`]: kube's watcher asks for the next as soon as one has ended.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::Request;
use kube::{Client, client::Body};
use signalbox_runtime::sync::lock;
use tokio::time::{Instant, sleep_until};

/// Between the starts of two watches of a kind, `docs/contract/agents.md` section 7. A watch lasts for minutes, so this
/// only shows where something before the API server ends each at once: without it that would be thousands a second.
const PAUSE: Duration = Duration::from_secs(2);

/// The same client for the watch of one kind.
pub(crate) fn paced(client: Client, namespace: &str) -> Client {
    let due = Arc::new(Mutex::new(Instant::now()));
    let send = move |request: Request<Body>| {
        let (client, due) = (client.clone(), due.clone());
        async move {
            if is_watch(&request) {
                sleep_until(next(&due, Instant::now())).await;
            }
            client.send(request).await
        }
    };
    Client::new(tower::service_fn(send), namespace)
}

fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|field| field == "watch=true" || field == "watch=1")
}

/// When a watch that is asked for at `now` may start.
fn next(due: &Mutex<Instant>, now: Instant) -> Instant {
    let mut due = lock(due);
    let start = (*due).max(now);
    *due = start + PAUSE;
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_starts_at_once_after_a_long_one_and_two_seconds_after_a_short_one() {
        let now = Instant::now();
        let due = Mutex::new(now);
        assert_eq!(next(&due, now), now);
        assert_eq!(next(&due, now + Duration::from_millis(10)), now + PAUSE);
        let later = now + Duration::from_secs(300);
        assert_eq!(next(&due, later), later);
    }
}

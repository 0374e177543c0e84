use std::{fmt::Debug, future::Future, time::Duration};

use tokio::time::{Instant, sleep};

/// How long a probe pauses before it looks again.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks `probe` again and again until it gives a value, and returns that. A probe that is not content returns what it
/// saw instead.
///
/// # Panics
/// `limit` has passed: the message names `what` and what was seen last.
#[track_caller]
pub fn wait_for<T, S, F, P>(what: &str, limit: Duration, probe: P) -> impl Future<Output = T>
where
    S: Debug,
    F: Future<Output = Result<T, S>>,
    P: FnMut() -> F,
{
    wait_from(std::panic::Location::caller(), what, limit, probe)
}

async fn wait_from<T, S, F, P>(caller: &std::panic::Location<'_>, what: &str, limit: Duration, mut probe: P) -> T
where
    S: Debug,
    F: Future<Output = Result<T, S>>,
    P: FnMut() -> F,
{
    let deadline = Instant::now() + limit;
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(seen) if Instant::now() >= deadline => {
                panic!("{caller}: waited {limit:?} for: {what}; last seen: {seen:?}")
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// [`wait_for`] a condition that has nothing to show but itself.
///
/// # Panics
/// `limit` has passed.
#[track_caller]
pub fn eventually<F: Future<Output = bool>>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> F,
) -> impl Future<Output = ()> {
    wait_from(std::panic::Location::caller(), what, limit, move || {
        let holds = probe();
        async move { if holds.await { Ok(()) } else { Err(false) } }
    })
}

//! Leader election over hours of virtual time, with a network that delays, loses and hangs whatever it likes. The Lease
//! lives in memory and knows just what matters of the API server: compare-and-swap. That the real one does the same is
//! what `lease.rs` shows.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Method, Request, Response, StatusCode};
use kube::{Client, client::Body};
use proptest::{prelude::*, test_runner::TestCaseError};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use signalbox_runtime::{
    health::Health,
    lease::{DURATION, Elector, LeaseConfig, Term},
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The Lease and its version.
#[derive(Default)]
struct Server {
    lease: Option<Value>,
    version: u64,
}

impl Server {
    fn answer(&mut self, method: &Method, body: &[u8]) -> (StatusCode, Value) {
        let refused = |code: StatusCode, reason: &str| {
            (
                code,
                json!({"kind": "Status", "status": "Failure", "code": code.as_u16(), "reason": reason, "message": reason}),
            )
        };
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        match (method, &mut self.lease) {
            (&Method::GET, Some(lease)) => (StatusCode::OK, lease.clone()),
            (&Method::POST, Some(_)) => refused(StatusCode::CONFLICT, "AlreadyExists"),
            (&Method::POST, None) => {
                self.version += 1;
                let mut lease = body;
                lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
                self.lease = Some(lease.clone());
                (StatusCode::CREATED, lease)
            }
            (_, None) => refused(StatusCode::NOT_FOUND, "NotFound"),
            // A write that names no version is carried out, as it would be by the real one.
            (_, Some(lease))
                if !matches!(&body["metadata"]["resourceVersion"], Value::Null)
                    && body["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"] =>
            {
                refused(StatusCode::CONFLICT, "Conflict")
            }
            (_, Some(lease)) => {
                self.version += 1;
                for (name, value) in body["spec"].as_object().unwrap() {
                    lease["spec"][name] = value.clone();
                }
                lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
                (StatusCode::OK, lease.clone())
            }
        }
    }
}

/// How bad a network is, out of a thousand requests each.
#[derive(Clone, Copy, Debug)]
struct Weather {
    /// Are lost before they arrive.
    lost: u32,
    /// Are answered to nobody.
    unanswered: u32,
    /// Are late: most around the limit of a request, some by far.
    late: u32,
}

fn client(server: Arc<Mutex<Server>>, weather: Weather, seed: u64) -> Client {
    let chance = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, chance) = (server.clone(), chance.clone());
        async move {
            let roll = |limit: u32| chance.lock().unwrap().random_range(0..limit);
            let slow = roll(1000) < weather.late;
            let far = roll(1000) < 200;
            let way = |slow: bool| {
                let most = if slow && far {
                    30_000
                } else if slow {
                    5_000
                } else {
                    400
                };
                Duration::from_millis(roll(most).into())
            };
            let (there, back) = (way(slow), way(slow));
            let (method, body) = (request.method().clone(), request.into_body().collect_bytes().await.unwrap());
            let (lost, unanswered) = (roll(1000) < weather.lost, roll(1000) < weather.unanswered);
            // What was sent arrives, whether or not the sender is still waiting: as a request in a socket does.
            let arrives = tokio::spawn(async move {
                sleep(there).await;
                if lost { None } else { Some(server.lock().unwrap().answer(&method, &body)) }
            });
            let Some((code, answer)) = arrives.await.unwrap() else { return futures::future::pending().await };
            if unanswered {
                return futures::future::pending().await;
            }
            sleep(back).await;
            let body = Body::from(serde_json::to_vec(&answer).unwrap());
            Ok::<_, kube::Error>(Response::builder().status(code).body(body).unwrap())
        }
    });
    Client::new(service, "default")
}

/// The terms of a replica so far; its last one is the one that may hold.
type Terms = Arc<Mutex<Vec<Term>>>;

fn replica(client: Client, identity: &str) -> (Terms, CancellationToken) {
    let (terms, shutdown) = (Terms::default(), CancellationToken::new());
    let config =
        LeaseConfig { name: "lease".to_owned(), namespace: "default".to_owned(), identity: identity.to_owned() };
    let seen = terms.clone();
    let lead = move |term: Term| {
        seen.lock().unwrap().push(term.clone());
        async move { term.ended().await }
    };
    let run = Elector::new(client, config).run(
        shutdown.clone(),
        futures::stream::pending(),
        Health::new(),
        async || {},
        lead,
    );
    tokio::spawn(run);
    (terms, shutdown)
}

fn holds(terms: &Terms) -> bool {
    terms.lock().unwrap().last().is_some_and(|term| term.holds_for(Duration::ZERO))
}

/// Runs `replicas` for half an hour and looks at them every 25 ms. Returns for how much of it somebody led.
async fn simulate(replicas: u64, weather: Weather, seed: u64) -> Result<Duration, TestCaseError> {
    let server = Arc::new(Mutex::new(Server::default()));
    let start = |index: u64| {
        let client = client(server.clone(), weather, seed.wrapping_mul(31).wrapping_add(index));
        replica(client, &format!("replica-{index}"))
    };
    let all: Vec<_> = (0..replicas).map(start).collect();
    let (step, mut led) = (Duration::from_millis(25), Duration::ZERO);
    let end = Instant::now() + Duration::from_secs(1800);
    while Instant::now() < end {
        sleep(step).await;
        let leaders: Vec<_> = (0..).zip(&all).filter(|(_, (terms, _))| holds(terms)).map(|(index, _)| index).collect();
        prop_assert!(leaders.len() <= 1, "{leaders:?} lead at the same time");
        led += step * leaders.len() as u32;
    }
    let epochs: Vec<Vec<_>> =
        all.iter().map(|(terms, _)| terms.lock().unwrap().iter().map(Term::epoch).collect()).collect();
    prop_assert!(epochs.iter().all(|epochs| epochs.is_sorted()), "the epochs of a replica go back: {epochs:?}");
    let mut owned: Vec<_> = epochs.iter().flat_map(|epochs| epochs.iter().collect::<BTreeSet<_>>()).collect();
    owned.sort();
    prop_assert!(owned.windows(2).all(|pair| pair[0] != pair[1]), "two replicas share an epoch: {epochs:?}");
    all.iter().for_each(|(_, shutdown)| shutdown.cancel());
    Ok(led)
}

fn virtual_time(simulation: impl Future<Output = Result<Duration, TestCaseError>>) -> Result<Duration, TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(simulation)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_do_two_replicas_hold_the_lease_however_bad_the_network_is(
        replicas in 2u64..4, lost in 0u32..250, unanswered in 0u32..250, late in 0u32..900, seed: u64,
    ) {
        virtual_time(simulate(replicas, Weather { lost, unanswered, late }, seed))?;
    }
}

#[test]
fn on_a_good_network_somebody_leads_all_the_time() {
    let calm = Weather { lost: 0, unanswered: 0, late: 0 };
    let led = virtual_time(simulate(3, calm, 7)).unwrap();
    assert!(led > Duration::from_secs(1795), "led for {led:?} of 1800 s");
}

/// A server on a network that delays each answer, but not the first `prompt` of them, by `delay`.
fn delaying(prompt: usize, delay: Duration) -> Client {
    let (server, count) = (Arc::new(Mutex::new(Server::default())), Arc::new(AtomicUsize::new(0)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, number) = (server.clone(), count.fetch_add(1, Ordering::SeqCst));
        async move {
            let (method, body) = (request.method().clone(), request.into_body().collect_bytes().await.unwrap());
            let (code, answer) = server.lock().unwrap().answer(&method, &body);
            if number >= prompt {
                sleep(delay).await;
            }
            let body = Body::from(serde_json::to_vec(&answer).unwrap());
            Ok::<_, kube::Error>(Response::builder().status(code).body(body).unwrap())
        }
    });
    Client::new(service, "default")
}

async fn first_term(terms: &Terms) -> Term {
    while !holds(terms) {
        sleep(Duration::from_millis(1)).await;
    }
    terms.lock().unwrap()[0].clone()
}

#[test]
fn a_leader_whose_renewal_hangs_fences_itself_before_the_lease_can_be_taken() {
    virtual_time(async {
        // GET and POST are prompt; then each answer comes within the limit of one request, but two of them do not.
        let (terms, _shutdown) = replica(delaying(2, Duration::from_millis(4900)), "slow");
        let (term, began) = (first_term(&terms).await, Instant::now());
        term.ended().await;
        let held = began.elapsed();
        assert!(held < DURATION && held > Duration::from_secs(12), "held for {held:?}");
        Ok(held)
    })
    .unwrap();
}

#[test]
fn a_term_counts_from_before_its_write_was_sent_and_not_from_the_answer() {
    virtual_time(async {
        let delay = Duration::from_secs(4);
        let (terms, _shutdown) = replica(delaying(0, delay), "far-away");
        let term = first_term(&terms).await;
        assert!(term.holds_for(Duration::from_secs(9)) && !term.holds_for(DURATION - delay));
        Ok(delay)
    })
    .unwrap();
}

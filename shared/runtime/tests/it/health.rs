//! The health port as a kubelet, a Prometheus and a person with a port-forward see it.

use std::{net::SocketAddr, time::Duration};

use reqwest::{Client, Method, Response, StatusCode};
use rstest::rstest;
use signalbox_runtime::{
    client::install_crypto,
    health::{self, Health},
    metrics::Metrics,
};
use signalbox_testkit::eventually;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

struct Served {
    address: SocketAddr,
    health: Health,
    metrics: Metrics,
    shutdown: CancellationToken,
}

async fn served() -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (health, metrics, shutdown) = (Health::new(), Metrics::new().unwrap(), CancellationToken::new());
    tokio::spawn(health::serve(listener, health.clone(), metrics.clone(), None, shutdown.clone()));
    Served { address, health, metrics, shutdown }
}

impl Served {
    async fn send(&self, method: Method, path: &str) -> Response {
        install_crypto();
        Client::new().request(method, format!("http://{}{path}", self.address)).send().await.unwrap()
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        let response = self.send(Method::GET, path).await;
        (response.status(), response.text().await.unwrap())
    }
}

#[tokio::test]
async fn a_process_is_alive_at_once_and_ready_once_both_halves_are() {
    let served = served().await;
    assert_eq!(served.get("/healthz").await, (StatusCode::OK, "ok".to_owned()));
    let not_ready = (StatusCode::SERVICE_UNAVAILABLE, "not ready".to_owned());
    assert_eq!(served.get("/readyz").await, not_ready);
    served.health.set_api_reachable(true);
    assert_eq!(served.get("/readyz").await, (StatusCode::OK, "ok".to_owned()));
    served.health.set_reconcile_healthy(false);
    assert_eq!(served.get("/readyz").await, not_ready);
    assert_eq!(served.get("/healthz").await, (StatusCode::OK, "ok".to_owned()));
}

#[rstest]
#[case(Method::GET, "/")]
#[case(Method::GET, "/healthz/x")]
#[case(Method::POST, "/healthz")]
#[case(Method::DELETE, "/metrics")]
#[case(Method::GET, "/log-filter")]
#[case(Method::PUT, "/log-filter")]
#[tokio::test]
async fn all_else_is_not_found(#[case] method: Method, #[case] path: &str) {
    let served = served().await;
    let response = served.send(method, path).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert_eq!(response.text().await.unwrap(), "not found");
}

#[tokio::test]
async fn metrics_have_the_names_types_and_content_type_of_the_contract() {
    let served = served().await;
    served.metrics.set_leader(true);
    served.metrics.observe_reconcile(true, Duration::from_millis(250));
    served.metrics.observe_reconcile(false, Duration::from_millis(250));
    served.metrics.observe_api_request("GET", Duration::from_millis(500));
    let response = served.send(Method::GET, "/metrics").await;
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let text = response.text().await.unwrap();
    for line in [
        "# TYPE controller_is_leader gauge",
        "controller_is_leader 1",
        "# TYPE controller_reconciles_total counter",
        "controller_reconciles_total{result=\"success\"} 1",
        "controller_reconciles_total{result=\"error\"} 1",
        "# TYPE controller_reconcile_duration_seconds summary",
        "controller_reconcile_duration_seconds_sum 0.5",
        "controller_reconcile_duration_seconds_count 2",
        "# TYPE controller_apiserver_request_duration_seconds summary",
        "controller_apiserver_request_duration_seconds_sum{verb=\"GET\"} 0.5",
        "controller_apiserver_request_duration_seconds_count{verb=\"GET\"} 1",
    ] {
        assert!(text.lines().any(|seen| seen == line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn an_idle_connection_does_not_hold_up_the_shutdown() {
    let served = served().await;
    install_crypto();
    let client = Client::new();
    let url = format!("http://{}/healthz", served.address);
    client.get(&url).send().await.unwrap().text().await.unwrap();
    served.shutdown.cancel();
    eventually("the port is closed", Duration::from_secs(1), || async {
        tokio::net::TcpStream::connect(served.address).await.is_err()
    })
    .await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_refused() {
    let taken = health::bind(0).await.unwrap();
    let error = health::bind(taken.local_addr().unwrap().port()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

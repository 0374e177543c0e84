//! The two clients, against servers that misbehave in one way each.

use std::{
    io::Write,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Config,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams},
};
use serde_json::json;
use signalbox_runtime::{client::Clients, metrics::Metrics};
use signalbox_testkit::{Namespace, Proxy, TempDir};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::Instant,
};
use wiremock::{
    Mock, MockServer, ResponseTemplate,
    matchers::{header, method},
};

fn config(url: &str) -> Config {
    Config::new(url.parse().unwrap())
}

fn config_maps(client: &kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn config_map() -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": "x"}})).unwrap()
}

fn clients(config: Config) -> Clients {
    Clients::from_config(config, &Metrics::new().unwrap()).unwrap()
}

#[tokio::test]
async fn a_write_is_sent_once_whatever_the_answer() {
    let server = MockServer::start().await;
    for code in [429, 500, 503, 504] {
        server.reset().await;
        let answer = ResponseTemplate::new(code).insert_header("Retry-After", "0");
        Mock::given(wiremock::matchers::any()).respond_with(answer).mount(&server).await;
        let api = config_maps(&clients(config(&server.uri())).writer);
        let patch = Patch::Merge(json!({}));
        assert!(api.create(&PostParams::default(), &config_map()).await.is_err());
        assert!(api.patch("x", &PatchParams::default(), &patch).await.is_err());
        assert!(api.patch_status("x", &PatchParams::default(), &patch).await.is_err());
        assert!(api.delete("x", &DeleteParams::default()).await.is_err());
        assert!(api.get("x").await.is_err());
        assert_eq!(server.received_requests().await.unwrap().len(), 5, "for {code}");
    }
}

#[tokio::test]
async fn a_read_is_tried_again_when_the_server_asks_for_it() {
    let server = MockServer::start().await;
    let busy = ResponseTemplate::new(429).insert_header("Retry-After", "0");
    Mock::given(method("GET")).respond_with(busy).up_to_n_times(2).mount(&server).await;
    Mock::given(method("GET"))
        .respond_with(ResponseTemplate::new(200).set_body_json(config_map()))
        .mount(&server)
        .await;
    config_maps(&clients(config(&server.uri())).reader).get("x").await.unwrap();
    assert_eq!(server.received_requests().await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_write_without_an_answer_fails_after_five_seconds_and_may_have_happened() {
    let namespace = Namespace::fresh().await;
    let proxy = Proxy::to(namespace.plane().address()).await;
    let mut config = namespace.plane().config();
    config.cluster_url = format!("https://{}", proxy.address()).parse().unwrap();
    let api: Api<ConfigMap> = Api::namespaced(clients(config).writer, &namespace.name);
    // So that a connection is there: what is held back is the answer alone.
    assert!(api.get_opt("x").await.unwrap().is_none());
    proxy.stall_answers();
    let began = Instant::now();
    let error = api.create(&PostParams::default(), &config_map()).await.unwrap_err();
    let took = began.elapsed();
    assert!(matches!(error, kube::Error::Service(_)) && error.to_string().contains("no answer within 5s"), "{error}");
    assert!((Duration::from_millis(4900)..Duration::from_secs(7)).contains(&took), "{took:?}");
    assert!(namespace.api::<ConfigMap>().get_opt("x").await.unwrap().is_some(), "it was made");
    proxy.resume();
    assert!(api.get_opt("x").await.unwrap().is_some(), "the client goes on with a new connection");
}

fn put(path: &Path, text: &str) {
    std::fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn case_64_a_rotated_token_is_used_by_the_next_request_and_the_old_one_while_the_file_cannot_be_read() {
    let server = MockServer::start().await;
    let ok = || ResponseTemplate::new(200).set_body_json(config_map());
    Mock::given(method("GET")).respond_with(ok()).mount(&server).await;
    Mock::given(method("PATCH")).respond_with(ok()).mount(&server).await;
    let dir = TempDir::new("token");
    let file = dir.write("token", "first\n");
    let mut config = config(&server.uri());
    config.auth_info.token_file = Some(file.display().to_string());
    let clients = clients(config);
    let ask = async || {
        config_maps(&clients.reader).get("x").await.unwrap();
        config_maps(&clients.writer).patch("x", &PatchParams::default(), &Patch::Merge(json!({}))).await.unwrap();
    };
    ask().await;
    put(&file, "second\n");
    ask().await;
    std::fs::remove_file(&file).unwrap();
    ask().await;
    put(&file, "");
    ask().await;
    put(&file, "third");
    ask().await;
    let requests = server.received_requests().await.unwrap();
    let tokens: Vec<_> = requests.iter().map(|request| request.headers["authorization"].to_str().unwrap()).collect();
    let expected = ["first", "first", "second", "second", "second", "second", "second", "second", "third", "third"];
    assert_eq!(tokens, expected.map(|token| format!("Bearer {token}")));
}

#[tokio::test]
async fn a_token_file_that_is_not_there_at_the_start_is_named() {
    let mut config = config("http://127.0.0.1:1");
    config.auth_info.token_file = Some("/nowhere/token".to_owned());
    let error = Clients::from_config(config, &Metrics::new().unwrap()).err().unwrap();
    assert!(error.to_string().starts_with("token file /nowhere/token: "), "{error}");
}

#[tokio::test]
async fn a_fixed_token_is_sent_as_it_is() {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(200).set_body_json(config_map());
    Mock::given(header("authorization", "Bearer fixed")).respond_with(answer).expect(1).mount(&server).await;
    let mut config = config(&server.uri());
    config.auth_info.token = Some("fixed".to_owned().into());
    config_maps(&clients(config).writer).get("x").await.unwrap();
}

#[tokio::test]
async fn requests_are_measured_by_verb_and_watches_are_not() {
    let namespace = Namespace::fresh().await;
    let metrics = Metrics::new().unwrap();
    let clients = Clients::from_config(namespace.plane().config(), &metrics).unwrap();
    let reader: Api<ConfigMap> = Api::namespaced(clients.reader, &namespace.name);
    let writer: Api<ConfigMap> = Api::namespaced(clients.writer, &namespace.name);
    reader.list(&ListParams::default()).await.unwrap();
    writer.create(&PostParams::default(), &config_map()).await.unwrap();
    reader.get("x").await.unwrap();
    let watch = reader.watch(&WatchParams::default().timeout(1), "0").await.unwrap();
    watch.try_for_each(|_| async { Ok(()) }).await.unwrap();
    let text = metrics.encode().unwrap();
    for count in ["{verb=\"GET\"} 2", "{verb=\"POST\"} 1"] {
        let line = format!("controller_apiserver_request_duration_seconds_count{count}");
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}

/// A server that answers every request with this head and body, then with nothing more.
async fn answering(head: &'static str, piece: &'static [u8], pieces: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(head.as_bytes()).await;
                for _ in 0..pieces {
                    let _ = stream.write_all(piece).await;
                }
                std::future::pending::<()>().await
            });
        }
    });
    url
}

const ENDLESS: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn an_answer_over_64_mib_is_an_error_and_not_cut() {
    let url = answering(ENDLESS, &[b' '; 1024 * 1024], 66).await;
    let clients = clients(config(&url));
    for client in [clients.reader, clients.writer] {
        let error = config_maps(&client).get("x").await.unwrap_err();
        assert!(format!("{error:?}").contains("LengthLimit"), "{error:?}");
    }
}

#[tokio::test]
async fn a_watch_line_over_4_mib_is_an_error_and_smaller_ones_are_none() {
    static EVENT: &[u8] = b"{\"type\":\"ADDED\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\"}}}\n";
    static LONG: &[u8] = &[b' '; 1024 * 1024];
    let url = answering(ENDLESS, EVENT, 100_000).await;
    let seen = AtomicUsize::new(0);
    let watch = config_maps(&clients(config(&url)).reader).watch(&WatchParams::default(), "0").await.unwrap();
    let counted = watch.try_for_each(|_| async {
        // Eight megabytes in all: it is the line that counts, not the watch.
        if seen.fetch_add(1, Ordering::SeqCst) + 1 == 100_000 {
            Err(kube::Error::LinesCodecMaxLineLengthExceeded)
        } else {
            Ok(())
        }
    });
    assert!(matches!(counted.await, Err(kube::Error::LinesCodecMaxLineLengthExceeded)));
    assert_eq!(seen.load(Ordering::SeqCst), 100_000);
    let url = answering(ENDLESS, LONG, 5).await;
    let watch = config_maps(&clients(config(&url)).reader).watch(&WatchParams::default(), "0").await.unwrap();
    let error = watch.try_for_each(|_| async { Ok(()) }).await.unwrap_err();
    assert!(format!("{error:?}").contains("WatchLineTooLong"), "{error:?}");
}

//! Certificates are read by child processes here, since `SSL_CERT_FILE` is a variable of the whole process.

use std::{process::Command, sync::Arc, time::Duration};

use rcgen::generate_simple_self_signed;
use signalbox_output::Output;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

/// Set for the child process that plays the run, to the address of its sink.
const SINK: &str = "TEST_TLS_SINK";

/// Takes one event over TLS and answers 200; the first bytes of the request, if there was one.
async fn take_one(listener: TcpListener, certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> String {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await else { return String::new() };
    let mut request = vec![0; 4096];
    let length = stream.read(&mut request).await.unwrap_or_default();
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    String::from_utf8_lossy(&request[..length]).into_owned()
}

/// Runs the test `the_run_that_a_child_plays` with or without the server's certificate as `SSL_CERT_FILE`.
async fn request_of_a_run(trusted: bool) -> String {
    let own = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let sink = format!("https://localhost:{}/in", listener.local_addr().unwrap().port());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, own.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let server = tokio::spawn(take_one(listener, own.cert.der().clone(), key));

    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "tls::the_run_that_a_child_plays", "--nocapture"]).env(SINK, sink);
    child.env_remove("SSL_CERT_DIR").env_remove("SSL_CERT_FILE");
    if trusted {
        child.env("SSL_CERT_FILE", file);
    }
    let status = tokio::task::spawn_blocking(move || child.output().unwrap().status).await.unwrap();
    assert!(status.success());
    server.await.unwrap()
}

#[tokio::test]
async fn the_run_that_a_child_plays() {
    let Ok(sink) = std::env::var(SINK) else { return };
    let output = Output::from_env(|name| match name {
        "AGENT_NOTIFY_URL" => Some(sink.clone()),
        "AGENT_SINK_RETRY_ATTEMPTS" => Some("1".to_owned()),
        _ => None,
    });
    output.line(b"1", None).await;
    output.finish(Duration::from_secs(20)).await;
}

#[tokio::test]
async fn a_sink_behind_a_certificate_of_ssl_cert_file_gets_its_events() {
    assert!(request_of_a_run(true).await.starts_with("POST /in HTTP/1.1"));
}

#[tokio::test]
async fn a_sink_behind_an_unknown_certificate_gets_nothing() {
    assert_eq!(request_of_a_run(false).await, "");
}

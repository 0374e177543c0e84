//! The same git server behind TLS, as real ones are.

use std::{fs, sync::Arc};

use rcgen::generate_simple_self_signed;
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer},
};

use crate::{
    init::Init,
    server::{GitServer, TOKEN},
};

/// Takes the TLS off connections to a git server.
struct Tls {
    url: String,
    /// With `ca.pem` in it.
    folder: TempDir,
    server: GitServer,
    _runtime: Runtime,
}

impl Tls {
    fn start() -> Self {
        let server = GitServer::start();
        let own = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), own.cert.pem()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![own.cert.der().clone()],
                PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap(),
            )
            .unwrap();
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let (acceptor, plain) = (TlsAcceptor::from(Arc::new(config)), server.url.replace("http://", ""));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, plain) = (acceptor.clone(), plain.clone());
                tokio::spawn(async move {
                    let mut inside = TcpStream::connect(plain).await?;
                    copy_bidirectional(&mut acceptor.accept(stream).await?, &mut inside).await
                });
            }
        });
        Self { url, folder, server, _runtime: runtime }
    }

    fn clone_into(&self, init: Init) -> Init {
        let url = format!("{}/private/app.git", self.url);
        init.env("GH_TOKEN", TOKEN).repos(&json!([{"name": "app", "url": url, "token_secret": "GH_TOKEN"}]))
    }
}

#[test]
fn a_private_repository_behind_a_known_certificate_is_cloned_over_tls() {
    let tls = Tls::start();
    let ca = tls.folder.path().join("ca.pem");
    let mut init = tls.clone_into(Init::new().env("SSL_CERT_FILE", ca.to_str().unwrap()));
    let ended = init.run();
    ended.assert_succeeded();
    assert!(init.workspace().join("app/two").exists());
    assert!(!ended.log.contains("without TLS"), "{}", ended.log);
}

#[test]
fn a_server_with_an_unknown_certificate_gets_neither_a_request_nor_the_token() {
    let tls = Tls::start();
    let ended = tls.clone_into(Init::new()).run();
    ended.assert_failed(128, &json!({"tool": "git"}));
    assert!(tls.server.seen().is_empty() && ended.log.contains("certificate"), "{}", ended.log);
}

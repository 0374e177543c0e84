//! An HTTP server that the supervisor talks to.

use std::net::{SocketAddr, TcpListener};

use tokio::runtime::Runtime;
use wiremock::{Mock, MockServer, Request, ResponseTemplate, matchers::method};

pub struct Server {
    runtime: Runtime,
    server: MockServer,
}

impl Server {
    /// On a port of its own.
    pub fn that_answers(answer: ResponseTemplate) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), answer)
    }

    pub fn at(address: SocketAddr, answer: ResponseTemplate) -> Self {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(async {
            let server = MockServer::builder().listener(TcpListener::bind(address).unwrap()).start().await;
            Mock::given(method("POST")).respond_with(answer).mount(&server).await;
            server
        });
        Self { runtime, server }
    }

    pub fn uri(&self) -> String {
        self.server.uri()
    }

    pub fn requests(&self) -> Vec<Request> {
        self.runtime.block_on(self.server.received_requests()).unwrap()
    }
}

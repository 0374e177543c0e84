//! A web server with whatever a test puts there, and archives to put there.

use std::io;

use flate2::{Compression, write::GzEncoder};
use tar::{Builder, EntryType, Header};
use tokio::runtime::Runtime;
use wiremock::{
    Mock, MockServer, Request, ResponseTemplate,
    matchers::{any, method, path},
};

pub struct Web {
    server: MockServer,
    runtime: Runtime,
}

impl Web {
    /// Answers 404 to all that nothing is put at.
    pub fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(MockServer::start());
        Self { server, runtime }
    }

    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.server.uri())
    }

    pub fn put(&self, at: &str, body: impl Into<Vec<u8>>) {
        self.answer(at, ResponseTemplate::new(200).set_body_bytes(body.into()));
    }

    pub fn answer(&self, at: &str, answer: ResponseTemplate) {
        let mock = Mock::given(method("GET")).and(path(at)).respond_with(answer);
        self.runtime.block_on(mock.mount(&self.server));
    }

    /// To all that nothing is put at.
    pub fn answer_all(&self, answer: ResponseTemplate) {
        let mock = Mock::given(any()).respond_with(answer).with_priority(10);
        self.runtime.block_on(mock.mount(&self.server));
    }

    pub fn mount(&self, mock: Mock) {
        self.runtime.block_on(mock.mount(&self.server));
    }

    pub fn requests(&self) -> Vec<Request> {
        self.runtime.block_on(self.server.received_requests()).unwrap()
    }

    pub fn paths(&self) -> Vec<String> {
        self.requests().iter().map(|request| request.url.path().to_owned()).collect()
    }

    /// The values of a header, over all requests.
    pub fn seen(&self, header: &str) -> Vec<String> {
        let requests = self.requests();
        let values = requests.iter().flat_map(|request| request.headers.get_all(header));
        values.map(|value| value.to_str().unwrap().to_owned()).collect()
    }
}

/// An archive of files.
pub fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in files {
        let mut header = header(EntryType::Regular, name, content.len() as u64);
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// An archive of a harmless member, and one that is not.
pub fn hostile(kind: EntryType, name: &str) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    builder.append(&header(EntryType::Regular, "harmless", 0), io::empty()).unwrap();
    builder.append(&header(kind, name, 0), io::empty()).unwrap();
    builder.into_inner().unwrap().finish().unwrap()
}

/// As no honest program writes it.
fn header(kind: EntryType, name: &str, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(1_000_000_000);
    header.set_cksum();
    header
}

use std::{
    net::{Ipv4Addr, TcpStream},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{Process, TempDir, programs::program};

/// How long the server may take to listen.
const START_LIMIT: Duration = Duration::from_secs(10);

/// A nats-server of a test's own.
pub struct Nats {
    port: u16,
    process: Mutex<Process>,
    // Last, so that the server is gone before its directory is.
    dir: TempDir,
}

impl Nats {
    /// A server without users on a free port.
    ///
    /// # Panics
    /// It does not start.
    pub async fn start() -> Self {
        Self::start_with("").await
    }

    /// A server with more configuration, such as `authorization { users: [...] }`.
    ///
    /// # Panics
    /// It does not start.
    pub async fn start_with(config: &str) -> Self {
        let config = config.to_owned();
        let started = tokio::task::spawn_blocking(move || {
            let dir = TempDir::new("nats");
            dir.write("nats.conf", &config);
            // The server picks a port by itself and writes it down, so that no other process can take it in between.
            let process = launch(&dir, -1);
            let port = written_port(&dir, &process);
            Self { port, process: Mutex::new(process), dir }
        });
        started.await.expect("nats-server starts")
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Its address, for a [`crate::Proxy`].
    pub fn address(&self) -> std::net::SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// SIGKILL. Its port stays closed until [`Nats::restart`].
    pub fn kill(&self) {
        self.process().kill();
    }

    /// A new server on the same port; the old one is killed.
    ///
    /// # Panics
    /// It does not start.
    pub async fn restart(&self) {
        self.kill();
        let process = launch(&self.dir, i32::from(self.port));
        *self.process() = process;
        let address = self.address();
        crate::eventually("nats-server listens again", START_LIMIT, || async {
            tokio::net::TcpStream::connect(address).await.is_ok()
        })
        .await;
    }

    /// SIGSTOP: connections stay open, and nothing is answered.
    pub fn pause(&self) {
        self.process().pause();
    }

    /// SIGCONT, after [`Nats::pause`].
    pub fn resume(&self) {
        self.process().resume();
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn launch(dir: &TempDir, port: i32) -> Process {
    let (path, port) = (dir.path(), port.to_string());
    let (config, ports) = (path.join("nats.conf"), path.to_owned());
    let args = [
        "--addr".as_ref(),
        "127.0.0.1".as_ref(),
        "--port".as_ref(),
        port.as_ref(),
        "--config".as_ref(),
        config.as_os_str(),
        "--ports_file_dir".as_ref(),
        ports.as_os_str(),
    ];
    Process::start(&program("nats-server"), args, &path.join("nats.log"))
}

fn written_port(dir: &TempDir, process: &Process) -> u16 {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        if let Some(port) = ports_file(dir.path())
            && TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        {
            return port;
        }
        let started = process.is_running() && Instant::now() < deadline;
        assert!(started, "nats-server does not start: {}", process.log_tail());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `nats-server_<pid>.ports`: `{"nats": ["nats://127.0.0.1:<port>"], ...}`.
fn ports_file(dir: &Path) -> Option<u16> {
    let mut entries = std::fs::read_dir(dir).ok()?.filter_map(Result::ok);
    let file = entries.find(|entry| entry.path().extension().is_some_and(|extension| extension == "ports"))?;
    let ports: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file.path()).ok()?).ok()?;
    ports["nats"][0].as_str()?.rsplit(':').next()?.parse().ok()
}

use std::net::{Ipv4Addr, SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// What a proxy does with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Passes it on.
    Pass,
    /// Keeps connections open and passes nothing on: a partition.
    Stall,
    /// Passes requests on and keeps the answers back: what was asked for happens, and the asker does not know.
    StallAnswers,
    /// Closes connections, new ones too: a server that is away.
    Refuse,
}

/// What all connections of a proxy follow.
#[derive(Clone, Copy)]
struct State {
    mode: Mode,
    /// Connections of an older generation are closed. A number and not a mode: a mode that is taken back at once may
    /// never be seen.
    generation: u64,
}

/// A TCP proxy that breaks connections on command; its end closes them all. What was held back is passed on when it
/// resumes, as a network does it.
pub struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
}

impl Proxy {
    /// A proxy on a free port before `target`.
    ///
    /// # Panics
    /// No port can be had.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (state, seen) = watch::channel(State { mode: Mode::Pass, generation: 0 });
        tokio::spawn(accept(listener, target, seen));
        Self { address, state }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes everything on (again).
    pub fn resume(&self) {
        self.state.send_modify(|state| state.mode = Mode::Pass);
    }

    /// Holds everything back, both ways; connections stay open, new ones too.
    pub fn stall(&self) {
        self.state.send_modify(|state| state.mode = Mode::Stall);
    }

    /// Holds back what the target says, and passes on what it is asked.
    pub fn stall_answers(&self) {
        self.state.send_modify(|state| state.mode = Mode::StallAnswers);
    }

    /// Closes all connections, and new ones at once.
    pub fn refuse(&self) {
        self.state.send_modify(|state| *state = State { mode: Mode::Refuse, generation: state.generation + 1 });
    }

    /// Closes all connections; new ones are served.
    pub fn drop_connections(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, mut state: watch::Receiver<State>) {
    loop {
        let client = tokio::select! {
            accepted = listener.accept() => match accepted { Ok((client, _)) => client, Err(_) => return },
            changed = state.changed() => match changed {
                Ok(()) => continue,
                // The sender is gone: so is the proxy.
                Err(_) => return,
            },
        };
        if state.borrow().mode != Mode::Refuse {
            tokio::spawn(serve(client, target, state.clone()));
        }
    }
}

async fn serve(client: TcpStream, target: SocketAddr, mut state: watch::Receiver<State>) {
    let generation = state.borrow().generation;
    let Ok(server) = TcpStream::connect(target).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    let requests =
        pump(client_reads, server_writes, state.clone(), |mode| matches!(mode, Mode::Pass | Mode::StallAnswers));
    let answers = pump(server_reads, client_writes, state.clone(), |mode| mode == Mode::Pass);
    tokio::select! {
        _ = state.wait_for(|state| state.generation != generation) => {}
        _ = async { tokio::join!(requests, answers) } => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    flows: fn(Mode) -> bool,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(count) = from.read(&mut buffer).await else { return };
        let gone = state.wait_for(|state| flows(state.mode)).await.is_err();
        if gone || count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

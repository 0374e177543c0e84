use std::time::Duration;

use signalbox_testkit::{Nats, eventually};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

const LIMIT: Duration = Duration::from_secs(10);
/// How long silence is listened to.
const SILENCE: Duration = Duration::from_millis(100);

/// The first line a server says to a client, `INFO {...}`.
async fn greeting(nats: &Nats) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(TcpStream::connect(nats.address()).await?).read_line(&mut line).await?;
    Ok(line)
}

#[tokio::test]
async fn a_server_comes_back_on_its_port_after_a_kill() {
    let nats = Nats::start().await;
    let url = nats.url();
    assert!(greeting(&nats).await.unwrap().starts_with("INFO "));
    nats.kill();
    assert!(greeting(&nats).await.is_err());
    nats.restart().await;
    assert!(greeting(&nats).await.unwrap().starts_with("INFO "));
    assert_eq!(nats.url(), url);
}

#[tokio::test]
async fn a_paused_server_accepts_and_answers_nothing() {
    let nats = Nats::start().await;
    nats.pause();
    // The signal takes a moment to arrive.
    eventually("it is silent", LIMIT, || async { timeout(SILENCE, greeting(&nats)).await.is_err() }).await;
    nats.resume();
    eventually("it answers again", LIMIT, || async {
        greeting(&nats).await.is_ok_and(|line| line.starts_with("INFO "))
    })
    .await;
}

#[tokio::test]
async fn a_server_with_users_refuses_strangers() {
    let users = "authorization { users: [{ user: watcher, password: right }] }";
    let nats = Nats::start_with(users).await;
    let mut stream = BufReader::new(TcpStream::connect(nats.address()).await.unwrap());
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    stream.write_all(b"CONNECT {\"user\":\"watcher\",\"pass\":\"wrong\"}\r\nPING\r\n").await.unwrap();
    line.clear();
    timeout(LIMIT, stream.read_line(&mut line)).await.unwrap().unwrap();
    assert!(line.contains("Authorization Violation"), "{line}");
}

use std::time::Duration;

use signalbox_testkit::Proxy;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

const LIMIT: Duration = Duration::from_secs(10);
/// How long silence is listened to.
const SILENCE: Duration = Duration::from_millis(100);

/// A server that answers each byte with the next one, and the proxy before it.
async fn proxied() -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(byte) = stream.read_u8().await {
                    stream.write_u8(byte + 1).await.unwrap();
                }
            });
        }
    });
    Proxy::to(address).await
}

async fn ask(stream: &mut TcpStream, byte: u8) -> std::io::Result<u8> {
    stream.write_u8(byte).await?;
    stream.read_u8().await
}

#[tokio::test]
async fn what_was_held_back_arrives_after_a_stall() {
    let proxy = proxied().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut stream, 1).await.unwrap(), 2);
    for stall in [Proxy::stall, Proxy::stall_answers] {
        stall(&proxy);
        assert!(timeout(SILENCE, ask(&mut stream, 5)).await.is_err(), "nothing passes");
        proxy.resume();
        assert_eq!(timeout(LIMIT, stream.read_u8()).await.unwrap().unwrap(), 6);
    }
}

#[tokio::test]
async fn refused_connections_are_closed_and_served_again_later() {
    let proxy = proxied().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut stream, 1).await.unwrap(), 2);
    proxy.refuse();
    assert!(timeout(LIMIT, ask(&mut stream, 1)).await.unwrap().is_err());
    let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(timeout(LIMIT, ask(&mut refused, 1)).await.unwrap().is_err());
    proxy.resume();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(timeout(LIMIT, ask(&mut stream, 1)).await.unwrap().unwrap(), 2);
    proxy.drop_connections();
    assert!(timeout(LIMIT, ask(&mut stream, 1)).await.unwrap().is_err());
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(timeout(LIMIT, ask(&mut stream, 1)).await.unwrap().unwrap(), 2);
}

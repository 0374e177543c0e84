//! The bus: plain NATS, on which nothing is kept and anything may be lost (`docs/decisions/0001-plain-nats.md`).
//!
//! A service never waits for it. A publish that cannot go out is dropped with a log line, a subscription that missed
//! something says so through [`Bus::trouble`], and whoever holds a Store then asks Kubernetes instead.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_nats::{Client, ConnectOptions, Event, HeaderMap, Subscriber};
use tokio::sync::{Notify, watch};

/// Messages a subscription may hold unread. A burst of 10,000 changes fits; more means that the listing repairs it.
const SUBSCRIPTION_CAPACITY: usize = 16_384;
/// How long one attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest pause between attempts: a bus that comes back is used within this.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(2);
/// Dropped messages are told once in this time, with their count: the client raises one event for each.
const DROP_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Where the bus is and who asks.
#[derive(Clone)]
pub struct BusConfig {
    /// `nats://host:port`; several are separated by commas.
    pub url: String,
    /// The user and its password; `None` for a server without users.
    pub credentials: Option<(String, String)>,
    /// The name that the server's connection list shows.
    pub name: String,
}

/// Why the bus could not be set up. A server that is away is no error: the client goes on trying.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The address cannot be one of a server.
    #[error("NATS_URL: {0}")]
    Connect(#[from] async_nats::ConnectError),
    /// The client has ended.
    #[error("subscribe to {subject}: {source}")]
    Subscribe {
        /// The subject.
        subject: String,
        /// The client's own word.
        source: async_nats::SubscribeError,
    },
}

/// A connection to the bus; cheap to clone.
#[derive(Clone)]
pub struct Bus {
    client: Client,
    trouble: watch::Receiver<u64>,
}

impl Bus {
    /// Starts connecting and returns at once, whether or not a server is there.
    pub async fn connect(config: BusConfig) -> Result<Self, BusError> {
        let (trouble_tx, trouble) = watch::channel(0);
        let drops = Arc::new(Drops::default());
        tokio::spawn(report_drops(Arc::downgrade(&drops)));
        let mut options = ConnectOptions::new()
            .name(config.name)
            .retry_on_initial_connect()
            .connection_timeout(CONNECT_TIMEOUT)
            .subscription_capacity(SUBSCRIPTION_CAPACITY)
            .reconnect_delay_callback(|attempt| {
                let millis = 100u64.saturating_mul(1 << attempt.min(8));
                Duration::from_millis(millis).min(MAX_RECONNECT_DELAY)
            })
            .event_callback(move |event| {
                let (trouble_tx, drops) = (trouble_tx.clone(), drops.clone());
                async move { observe(&event, &trouble_tx, &drops) }
            });
        if let Some((user, password)) = config.credentials {
            options = options.user_and_password(user, password);
        }
        let servers: Vec<_> = config.url.split(',').map(str::trim).map(str::to_owned).collect();
        let client = options.connect(servers).await?;
        Ok(Self { client, trouble })
    }

    /// Publishes without waiting for the server. The caller is told of nothing: the bus carries hints, and a lost one
    /// is found by the next listing. A refusal (too large, no right) is logged with the subject.
    pub async fn publish(&self, subject: String, traceparent: Option<&str>, body: Vec<u8>) {
        let mut headers = HeaderMap::new();
        if let Some(traceparent) = traceparent {
            headers.insert(signalbox_types::bus::HEADER_TRACEPARENT, traceparent);
        }
        // Without a connection the client would keep messages and send them late; late is harmless but useless.
        if self.client.connection_state() != async_nats::connection::State::Connected {
            return;
        }
        if let Err(error) = self.client.publish_with_headers(subject.clone(), headers, body.into()).await {
            tracing::error!(%subject, %error, "publish refused");
        }
    }

    /// Sends what was published and waits for it to be written out.
    pub async fn flush(&self) {
        if self.is_connected() {
            let _ = self.client.flush().await;
        }
    }

    /// Subscribes; without a server now, as soon as there is one.
    pub async fn subscribe(&self, subject: String) -> Result<Subscriber, BusError> {
        let subscribed = self.client.subscribe(subject.clone()).await;
        subscribed.map_err(|source| BusError::Subscribe { subject, source })
    }

    /// A counter that grows when messages may have been missed: after a reconnect, and when a subscription overflowed.
    pub fn trouble(&self) -> watch::Receiver<u64> {
        self.trouble.clone()
    }

    /// Waits until a server is there, for `limit` at most.
    pub async fn connected_within(&self, limit: Duration) {
        let mut trouble = self.trouble.clone();
        let connected = async { while !self.is_connected() && trouble.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(limit, connected).await;
    }

    /// Whether a server is there now.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }
}

#[derive(Default)]
struct Drops {
    count: AtomicU64,
    some: Notify,
}

fn observe(event: &Event, trouble: &watch::Sender<u64>, drops: &Drops) {
    match event {
        Event::SlowConsumer(_) => {
            // Thousands come for one burst. The first of a second is enough to make a listing now.
            if drops.count.fetch_add(1, Ordering::Relaxed) == 0 {
                trouble.send_modify(|count| *count += 1);
                drops.some.notify_one();
            }
        }
        Event::Connected => {
            tracing::info!("bus connected");
            trouble.send_modify(|count| *count += 1);
        }
        Event::Disconnected => tracing::warn!("bus disconnected; changes are found by listings until it is back"),
        // A publish that permissions refuse returns Ok; this is the only place that tells of it.
        Event::ServerError(error) => tracing::error!(%error, "bus refused"),
        Event::ClientError(error) => tracing::warn!(%error, "bus client"),
        Event::LameDuckMode | Event::Draining | Event::Closed => tracing::info!(%event, "bus"),
    }
}

async fn report_drops(drops: std::sync::Weak<Drops>) {
    while let Some(drops) = drops.upgrade() {
        // The timeout lets the task end with its bus.
        if tokio::time::timeout(Duration::from_secs(60), drops.some.notified()).await.is_err() {
            continue;
        }
        tokio::time::sleep(DROP_REPORT_INTERVAL).await;
        let count = drops.count.swap(0, Ordering::Relaxed);
        tracing::warn!(count, "messages dropped: subscription full; a listing is made instead");
    }
}

//! A TCP proxy that cuts connections where a test wants it: before a request reaches the server, or between the request and its
//! reply.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::failure::Checked;

/// What the proxy does with the next bytes of every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Traffic {
    /// Forwards both ways.
    Forwarded,
    /// Forwards requests; at the first byte of a reply the connection is cut, and the reply is lost.
    RepliesLost,
    /// Cuts the connection at the first byte of a request, which is lost.
    RequestsLost,
    /// Forwards nothing, and keeps the connections: nobody replies.
    Held,
}

impl Traffic {
    fn of(byte: u8) -> Traffic {
        match byte {
            1 => Traffic::RepliesLost,
            2 => Traffic::RequestsLost,
            3 => Traffic::Held,
            _ => Traffic::Forwarded,
        }
    }
}

/// A proxy in front of a server. It stops when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    control: Arc<Control>,
    _accepting: JoinSet<()>,
}

#[derive(Default)]
struct Control {
    traffic: AtomicU8,
    /// How many connections were cut.
    cuts: AtomicU64,
    /// How often bytes were held.
    holds: AtomicU64,
    /// How many connections there have been.
    opened: AtomicU64,
    /// The first so many connections are held.
    held_before: AtomicU64,
    /// The next reply with these bytes is lost.
    lost_next: Mutex<Option<&'static [u8]>>,
    changed: tokio::sync::Notify,
}

impl Control {
    fn lost_next(&self) -> MutexGuard<'_, Option<&'static [u8]>> {
        self.lost_next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the reply that is to be lost.
    fn is_lost_next(&self, reply: &[u8]) -> bool {
        let mut lost = self.lost_next();
        let is_lost = lost.is_some_and(|bytes| reply.windows(bytes.len()).any(|part| part == bytes));
        if is_lost {
            *lost = None;
        }
        is_lost
    }

    fn traffic(&self, connection: u64) -> Traffic {
        match connection < self.held_before.load(Ordering::SeqCst) {
            true => Traffic::Held,
            false => Traffic::of(self.traffic.load(Ordering::SeqCst)),
        }
    }
}

impl Proxy {
    /// A proxy in front of a port of this machine, on a free port.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(port: u16) -> Checked<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let control = Arc::new(Control::default());
        let mut accepting = JoinSet::new();
        let shared = Arc::clone(&control);
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(connection(client, port, Arc::clone(&shared)));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Proxy { address, control, _accepting: accepting })
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Changes what happens from now on.
    pub fn set(&self, traffic: Traffic) {
        self.control.traffic.store(traffic as u8, Ordering::SeqCst);
        self.control.changed.notify_waiters();
    }

    /// Holds what is sent on the connections that are open now; new ones are not affected. What is held arrives late, when it is
    /// [released](Proxy::release).
    pub fn hold_existing(&self) {
        self.control.held_before.store(self.control.opened.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Forwards what was held.
    pub fn release(&self) {
        self.control.held_before.store(0, Ordering::SeqCst);
        self.control.changed.notify_waiters();
    }

    /// Cuts the connection of the next reply that has these bytes, and forwards everything else: what was asked is done, and nobody learns
    /// of it.
    pub fn lose_next(&self, bytes: &'static [u8]) {
        *self.control.lost_next() = Some(bytes);
    }

    /// Whether that reply has not come yet.
    #[must_use]
    pub fn is_to_lose(&self) -> bool {
        self.control.lost_next().is_some()
    }

    /// How many connections were cut.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.control.cuts.load(Ordering::SeqCst)
    }

    /// How often bytes were held.
    #[must_use]
    pub fn holds(&self) -> u64 {
        self.control.holds.load(Ordering::SeqCst)
    }
}

async fn connection(mut client: TcpStream, port: u16, control: Arc<Control>) {
    let number = control.opened.fetch_add(1, Ordering::SeqCst);
    let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_read, client_write) = client.split();
    let (server_read, server_write) = server.split();
    // When either way ends, both are dropped, and with them the connections.
    tokio::select! {
        () = forward(client_read, server_write, &control, number, Traffic::RequestsLost) => {}
        () = forward(server_read, client_write, &control, number, Traffic::RepliesLost) => {}
    }
}

/// Forwards one way until the connection ends or traffic of this way is to be lost.
async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    control: &Control,
    number: u64,
    lost: Traffic,
) {
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let Ok(len @ 1..) = from.read(&mut bytes).await else { return };
        if control.traffic(number) == Traffic::Held {
            control.holds.fetch_add(1, Ordering::SeqCst);
        }
        loop {
            let mut changed = pin!(control.changed.notified());
            // Registered before the look, so that no change is missed.
            changed.as_mut().enable();
            if control.traffic(number) != Traffic::Held {
                break;
            }
            changed.await;
        }
        let is_reply = lost == Traffic::RepliesLost;
        if control.traffic(number) == lost || is_reply && control.is_lost_next(&bytes[..len]) {
            control.cuts.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if to.write_all(&bytes[..len]).await.is_err() {
            return;
        }
    }
}

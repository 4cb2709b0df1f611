//! A server in memory that reads the bytes of a connection without a socket. Compiled for the fuzz targets only.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use keystead_core::{Code, Error, Result, ShardId};
use keystead_engine::{Completion, Engine, Local, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::yield_now;

use super::context::HttpContext;
use super::request;
use crate::app::App;
use crate::bounds::Bounds;
use crate::policies::file;
use crate::settings::{Loaded, Sources};

/// The size of the buffer in each direction.
const BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// After so many idle turns of the loop, a connection is taken to wait for more input.
const QUIET_TURNS: usize = 12;

/// A server that is never opened to the network.
pub struct Server {
    app: Arc<App>,
    bounds: Arc<Bounds>,
}

impl Server {
    /// A server with these policies, in the form of the settings file.
    ///
    /// # Errors
    /// When the policies are invalid.
    pub fn new(policies: &str) -> Result<Server> {
        let settings = Loaded::from_sources(Sources::default())?.settings;
        let app = App::with_database(settings, Engine::open(&Options::in_memory())?, 0, 100);
        app.policies.replace(&file::parse(policies, "fuzz.toml")?)?;
        Ok(Server { app: Arc::new(app), bounds: Arc::new(Bounds::default()) })
    }

    /// Sets how long a script may run.
    pub fn set_script_ms(&self, ms: u64) {
        let facts = self.app.hub.host.facts();
        let _ = self.app.hub.config.set(&[(b"busy-reply-threshold", ms.to_string().as_bytes())], &facts);
    }

    /// Sends these bytes to a server with an empty database, and returns everything that it sends back.
    ///
    /// # Errors
    /// When the shard has ended.
    pub fn exchange(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let (app, bounds, bytes) = (Arc::clone(&self.app), Arc::clone(&self.bounds), bytes.to_vec());
        let (done, received) = channel();
        let task = move |local: Local| -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
            Box::pin(connection(app, bounds, local, bytes, done))
        };
        self.app.engine.spawn(ShardId(0), Box::new(task))?;
        received.recv().map_err(|_| Error::new(Code::Internal, "the shard has ended"))
    }
}

async fn connection(app: Arc<App>, bounds: Arc<Bounds>, local: Local, bytes: Vec<u8>, done: Sender<Vec<u8>>) {
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 5000));
    let context = Rc::new(HttpContext::new(app, bounds, local, peer, IpAddr::V4(Ipv4Addr::LOCALHOST)));
    let _ = context.in_turn(|turn, _| turn.run(true, |keys, _| (keys.flush(), Completion::Commit))).await;
    let service = service_fn(move |request| {
        let context = Rc::clone(&context);
        async move { Ok::<_, Infallible>(request::respond(&context, request).await) }
    });
    let (mut client, server) = duplex(BUFFER_BYTES);
    let served = tokio::task::spawn_local(
        http1::Builder::new()
            .max_header_size(Bounds::default().header_bytes_max)
            .serve_connection(TokioIo::new(server), service),
    );
    let _ = client.write_all(&bytes).await;
    let received = until_quiet(&mut client).await;
    served.abort();
    let _ = done.send(received);
}

/// Everything that is received until the connection ends or is idle.
async fn until_quiet(client: &mut DuplexStream) -> Vec<u8> {
    let (mut received, mut quiet) = (Vec::new(), 0);
    while quiet < QUIET_TURNS {
        let mut buffer = [0; 16 * 1024];
        tokio::select! {
            biased;
            read = client.read(&mut buffer) => match read {
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    received.extend_from_slice(&buffer[..count]);
                    quiet = 0;
                }
            },
            () = yield_now() => quiet += 1,
        }
    }
    received
}

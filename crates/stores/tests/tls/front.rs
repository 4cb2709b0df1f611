//! TLS in front of a server that has none, as a reverse proxy has it.

use std::net::SocketAddr;
use std::sync::Arc;

use keystead_testkit::servers::Site;
use keystead_testkit::servers::certificates::{self, CERTIFICATE, KEY};
use keystead_testkit::{Checked, Failure};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// It stops when it is dropped.
pub(crate) struct Front {
    address: SocketAddr,
    _accepting: JoinSet<()>,
}

impl Front {
    /// Makes certificates in the server's directory, and listens on a free port.
    pub(crate) async fn start(site: &Site) -> Checked<Front> {
        certificates::make(&site.dir)?;
        let certificate = CertificateDer::from_pem_file(site.dir.join(CERTIFICATE)).map_err(Failure::new)?;
        let key = PrivateKeyDer::from_pem_file(site.dir.join(KEY)).map_err(Failure::new)?;
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key);
        let acceptor = TlsAcceptor::from(Arc::new(config.map_err(Failure::new)?));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, port) = (listener.local_addr()?, site.port());
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(forward(acceptor.clone(), stream, port));
            }
        });
        Ok(Front { address, _accepting: accepting })
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

async fn forward(acceptor: TlsAcceptor, stream: TcpStream, port: u16) {
    let _ = stream.set_nodelay(true);
    // A client that does not accept the certificate ends the connection.
    let Ok(mut client) = acceptor.accept(stream).await else { return };
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}

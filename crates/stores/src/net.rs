//! Connections to servers: TCP without delay, and TLS with the certificates that the system trusts. Opens sockets.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
#[cfg(feature = "tls")]
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error as TlsError, RootCertStore};

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A name, or an address of IPv4 or IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Address {
    /// `host`, `host:port`, `[v6]:port`. `None` when the port is not one, or the host is empty.
    pub(crate) fn parse(text: &str, default_port: u16) -> Option<Address> {
        let (host, port) = match text.strip_prefix('[') {
            Some(v6) => {
                let (host, rest) = v6.split_once(']')?;
                (host, rest.strip_prefix(':').or_else(|| rest.is_empty().then_some("")))
            }
            None => match text.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, Some("")),
            },
        };
        let port = match port? {
            "" => default_port,
            port => port.parse().ok()?,
        };
        (!host.is_empty()).then(|| Address { host: host.to_owned(), port })
    }
}

/// Both ways of a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// How certificates are checked.
pub type Tls = Arc<ClientConfig>;

const NO_ROOTS: &str = "this system has no trusted certificates: install ca-certificates";

/// Trusts what the system trusts.
///
/// # Errors
/// With what to install when it trusts nothing.
pub fn system_tls() -> Result<Tls, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(NO_ROOTS.to_owned());
    }
    Ok(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}

/// The certificates that the system trusts, in DER, for libraries that check certificates by themselves.
///
/// # Errors
/// As [`system_tls`].
#[cfg(feature = "tls")]
pub fn system_certificates() -> Result<Vec<Vec<u8>>, String> {
    let certificates = rustls_native_certs::load_native_certs().certs;
    let is_valid =
        |certificate: &CertificateDer<'static>| RootCertStore::empty().add(certificate.clone()).is_ok();
    let valid: Vec<Vec<u8>> = certificates.into_iter().filter(is_valid).map(|one| one.to_vec()).collect();
    if valid.is_empty() { Err(NO_ROOTS.to_owned()) } else { Ok(valid) }
}

/// Connects without TLS. The error says why not.
pub(crate) async fn connect_plain(address: &Address) -> Result<TcpStream, String> {
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
    let stream = stream.map_err(|error| format!("cannot connect to {address}: {error}"))?;
    stream.set_nodelay(true).map_err(|error| format!("cannot use the connection to {address}: {error}"))?;
    Ok(stream)
}

/// Connects. The error says why not, without a secret.
pub(crate) async fn connect(address: &Address, tls: Option<&Tls>) -> Result<Box<dyn Stream>, String> {
    let host = &address.host;
    let stream = connect_plain(address).await?;
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(host.clone()).map_err(|_| format!("'{host}' is no name of a server"))?;
    let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
    let stream =
        stream.map_err(|error| format!("no TLS connection to {address}: {}", handshake_advice(&error)))?;
    Ok(Box::new(stream))
}

/// Why a TLS handshake failed, and what to do about it.
#[must_use]
pub fn handshake_advice(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<TlsError>());
    let advice = match cause {
        Some(TlsError::InvalidCertificate(certificate)) => certificate_advice(certificate),
        Some(TlsError::AlertReceived(_)) => Some(
            "the server ended the handshake: perhaps it wants a client certificate, which stores do not present",
        ),
        Some(TlsError::InvalidMessage(_)) => Some(NO_TLS),
        None if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            Some(NO_TLS)
        }
        _ => None,
    };
    match advice {
        Some(advice) => format!("{advice} ({error})"),
        None => error.to_string(),
    }
}

/// What to add to the error of an HTTP connection that was lost before its first reply.
#[cfg(any(feature = "redis", feature = "dynamodb", feature = "denokv", feature = "etcd", feature = "http"))]
pub(crate) fn lost_advice(is_new: bool, tls: Option<&Tls>) -> &'static str {
    match (is_new, tls) {
        (true, None) => {
            ": if the server wants TLS, the URL must say so (upstash+https://, https://, tls=true)"
        }
        _ => "",
    }
}

const NO_TLS: &str = "the server does not speak TLS on this port: use its TLS port, or a URL without TLS";

fn certificate_advice(error: &CertificateError) -> Option<&'static str> {
    Some(match error {
        // A bad signature: the name of a trusted issuer, with another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the issuer of the server's certificate is not trusted: add the issuer's certificate to those of the \
             system, or set SSL_CERT_FILE to its file"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is for another name: write a name of the certificate in the URL"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired: renew it"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet: check the clocks"
        }
        // What `openssl req -x509` makes unless it is given other extensions.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the server's certificate is that of a certificate authority: issue one with basicConstraints=CA:FALSE"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_that_fails_says_what_to_do() {
        use tokio_rustls::rustls::{AlertDescription, InvalidMessage};
        let invalid = TlsError::InvalidCertificate;
        for (error, expected) in [
            (invalid(CertificateError::UnknownIssuer), "SSL_CERT_FILE"),
            (invalid(CertificateError::NotValidForName), "another name"),
            (invalid(CertificateError::Expired), "renew it"),
            (invalid(CertificateError::NotValidYet), "check the clocks"),
            (TlsError::InvalidMessage(InvalidMessage::InvalidContentType), "does not speak TLS"),
            (TlsError::AlertReceived(AlertDescription::CertificateRequired), "client certificate"),
        ] {
            let text = handshake_advice(&io::Error::new(io::ErrorKind::InvalidData, error));
            assert!(text.contains(expected), "{text}");
        }
        let closed = handshake_advice(&io::ErrorKind::UnexpectedEof.into());
        assert!(closed.contains("does not speak TLS"), "{closed}");
    }

    #[test]
    fn addresses_are_parsed_and_printed() {
        for (text, host, port) in [
            ("localhost", "localhost", 7),
            ("127.0.0.1:6379", "127.0.0.1", 6379),
            ("[::1]", "::1", 7),
            ("[::1]:99", "::1", 99),
        ] {
            let address = Address::parse(text, 7).unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port), "{text}");
            assert_eq!(Address::parse(&address.to_string(), 1), Some(address));
        }
        for text in ["", ":5", "host:port", "host:70000", "[::1", "[::1]x"] {
            assert_eq!(Address::parse(text, 7), None, "{text}");
        }
    }
}

//! Certificates of the RESP listener. Touches the two files that the settings name.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use keystead_core::Result;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::failure::failure;
use crate::permissions::{self, Exposure};
use crate::settings::Settings;

/// The TLS configuration of the RESP listener, with the certificates that were read last.
#[derive(Clone)]
pub struct Tls(Arc<RwLock<TlsAcceptor>>);

impl Tls {
    /// With the certificates that the settings name, if they name any.
    ///
    /// # Errors
    /// `config_invalid` with the one line for the user.
    pub fn new(settings: &Settings) -> Result<Option<Tls>> {
        Ok(acceptor(settings)?.map(|acceptor| Tls(Arc::new(RwLock::new(acceptor)))))
    }

    /// For a new connection.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the certificates again, for new connections.
    ///
    /// # Errors
    /// When they cannot be used; those that were read before stay.
    pub fn reload(&self, settings: &Settings) -> Result<()> {
        if let Some(new) = acceptor(settings)? {
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = new;
        }
        Ok(())
    }
}

fn acceptor(settings: &Settings) -> Result<Option<TlsAcceptor>> {
    let (certificate, key) = match (&settings.resp_tls_cert, &settings.resp_tls_key) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        _ => {
            return Err(failure(
                "--resp-tls-cert and --resp-tls-key go together, and one of them is missing",
                "name both files, or neither",
            ));
        }
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|e| cannot_read("--resp-tls-cert", certificate, &e))?;
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(|e| cannot_read("--resp-tls-key", key, &e))?;
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key_der).map_err(|e| {
            failure(
                format_args!(
                    "the certificate and the key of --resp-tls-cert and --resp-tls-key cannot be used ({e})"
                ),
                "name a PEM certificate chain, its own first, and the PEM key that belongs to it",
            )
        })?;
    if let Some(Exposure::Open(warning)) = permissions::secret("--resp-tls-key", key) {
        tracing::warn!("{warning}");
    }
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn cannot_read(flag: &str, path: &Path, error: &dyn std::fmt::Display) -> keystead_core::Error {
    failure(
        format_args!("{flag} {}: it cannot be read ({error})", path.display()),
        "name a file in PEM form that this user may read",
    )
}

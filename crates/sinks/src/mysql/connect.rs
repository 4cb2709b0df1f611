//! Where a MySQL server is, how to log in there, and what its errors mean. Opens sockets.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use keystead_core::{Code, Error, Result};
use keystead_stores::connect::{Address, Authority, Url, handshake_advice, system_certificates};
use mysql_async::{Conn, DriverError, IoError, Opts, OptsBuilder, ServerError, SslOpts};

use crate::bounds::MYSQL_STATEMENTS_KEPT;
use crate::session::Failed;

const PORT: u16 = 3306;

/// What is not strict by default. `NO_AUTO_VALUE_ON_ZERO`: the key 0 is 0.
const SQL_MODE: &str = "STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,\
    NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION";

/// Where to connect.
pub(super) struct Target {
    address: Address,
    database: String,
    options: Opts,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

impl Target {
    /// It takes the parameter `tls`.
    pub(super) fn of(url: &Url<'_>, deadline: Duration) -> Result<Target> {
        let Authority { username, password, mut addresses, path } = Authority::of(url, PORT)?;
        let (Some(address), true) = (addresses.pop(), addresses.is_empty()) else {
            return Err(url.bad("it has one address: the one of the primary"));
        };
        if path.is_empty() {
            return Err(url.bad("the database is missing"));
        }
        let tls = match url.take("tls")?.unwrap_or(false) {
            // Certificates are always checked: an encrypted connection to somebody else is worth nothing.
            true => {
                let roots = system_certificates().map_err(|error| url.bad(&error))?;
                let roots = roots.into_iter().map(Into::into).collect();
                Some(SslOpts::default().with_disable_built_in_roots(true).with_root_certs(roots))
            }
            false => None,
        };
        // A lock that takes longer than a call may is given up by the server, too.
        let patience = deadline.as_secs().clamp(1, 3600);
        let session = format!(
            "SET SESSION sql_mode = '{SQL_MODE}', autocommit = 1, foreign_key_checks = 1, unique_checks = 1, \
             time_zone = '+00:00', innodb_lock_wait_timeout = {patience}"
        );
        let options = OptsBuilder::default()
            .ip_or_hostname(address.host.clone())
            .tcp_port(address.port)
            .prefer_socket(Some(false))
            .user(Some(username.unwrap_or_else(|| "root".to_owned())))
            .pass(password)
            .db_name(Some(path.clone()))
            .tcp_nodelay(true)
            .stmt_cache_size(MYSQL_STATEMENTS_KEPT)
            .ssl_opts(tls)
            .setup(vec!["SET NAMES utf8mb4".to_owned(), session]);
        Ok(Target { address, database: path, options: options.into() })
    }

    /// Logs in.
    pub(super) fn connect(&self) -> Pin<Box<dyn Future<Output = mysql_async::Result<Conn>> + Send>> {
        Conn::new(self.options.clone())
    }
}

/// Closes a connection whose server does not reply. The library would ask a task to end the call first, and wait for the reply.
pub(super) fn abandon<T: Send + 'static>(connection: T) {
    // On a thread without a runtime there are no tasks. If it cannot be started, the connection is dropped here.
    drop(std::thread::Builder::new().spawn(move || drop(connection)));
}

/// The error of a login.
pub(super) fn to_connect(target: &Target, error: &mysql_async::Error) -> Error {
    let Target { address, database, .. } = target;
    let message = match error {
        mysql_async::Error::Server(ServerError { code: 1045 | 1698, .. }) => {
            // MariaDB has the same error for a connection without TLS that must have it.
            let tls =
                if target.options.ssl_opts().is_none() { ", or it takes TLS only (tls=true)" } else { "" };
            format!("the MySQL server at {address} rejected the user name or password{tls}")
        }
        mysql_async::Error::Server(ServerError { code: 1044, .. }) => {
            format!("this user may not use the database '{database}': grant it")
        }
        mysql_async::Error::Server(ServerError { code: 1049, .. }) => {
            format!("the MySQL server at {address} has no database '{database}': create it")
        }
        mysql_async::Error::Server(error) => {
            format!("the MySQL server at {address} rejected the login: {}", error.message)
        }
        mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer) => {
            format!(
                "no TLS connection to {address}: the server has none: set up its certificate, or write tls=false"
            )
        }
        mysql_async::Error::Io(IoError::Tls(error)) => {
            format!("no TLS connection to {address}: {}", tls_advice(error))
        }
        mysql_async::Error::Io(IoError::Io(error)) => match error.get_ref() {
            Some(_) => format!("no TLS connection to {address}: {}", handshake_advice(error)),
            None => format!("cannot connect to {address}: {error}"),
        },
        error => format!("the server at {address} did not greet as a MySQL server does ({error})"),
    };
    Error::new(Code::StoreUnavailable, message)
}

fn tls_advice(error: &mysql_async::TlsError) -> String {
    match error {
        mysql_async::TlsError::Tls(error) => {
            handshake_advice(&std::io::Error::new(std::io::ErrorKind::InvalidData, error.clone()))
        }
        error => error.to_string(),
    }
}

/// Why a statement failed.
pub(super) fn failed(error: &mysql_async::Error) -> Failed {
    match error {
        mysql_async::Error::Server(server) if is_about_a_row(server) => Failed::Row(reason(server)),
        mysql_async::Error::Server(server) => {
            let message = format!("the MySQL server rejected a statement: {}", reason(server));
            Failed::Call(Error::new(Code::StoreUnavailable, message))
        }
        // The library's own words never contain parameters of a statement.
        _ => {
            let message = format!("the connection to the MySQL server was lost ({error})");
            Failed::Call(Error::unknown(Code::StoreUnavailable, message))
        }
    }
}

/// Whether it is because the user lacks a right.
pub(super) fn lacks_a_right(error: &mysql_async::Error) -> bool {
    matches!(error, mysql_async::Error::Server(ServerError { code: 1044 | 1142 | 1227, .. }))
}

/// Data exceptions, violated constraints, and what triggers raise, by class; and those that have no class of their own.
fn is_about_a_row(error: &ServerError) -> bool {
    const OTHERS: [u16; 10] = [1118, 1153, 1265, 1364, 1366, 1411, 1441, 1526, 3819, 4025];
    error.state.get(..2).is_some_and(|class| ["22", "23", "45"].contains(&class))
        || OTHERS.contains(&error.code)
}

fn reason(error: &ServerError) -> String {
    let ServerError { code, message, .. } = error;
    match code {
        // What `on_duplicate_key` of `statement` assigns.
        1048 if message.contains(crate::layout::BATCH_COLUMN) => {
            "another key has a row with the same value in a column that is unique".to_owned()
        }
        3819 | 4025 => format!("a check fails: {message} (error {code})"),
        code => format!("{message} (error {code})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_needs_one_address_and_a_database() {
        for (rest, expected) in [
            ("//root@a,b/d", "one address"),
            ("//root@a", "the database is missing"),
            ("//root:secret@a:x/d", "host:port"),
        ] {
            let url = Url::of(rest, super::super::MYSQL.form).unwrap();
            let error = Target::of(&url, Duration::from_secs(1)).err().unwrap();
            assert!(error.message().contains(expected) && !error.message().contains("secret"), "{error}");
        }
    }

    #[test]
    fn errors_of_rows_are_told_from_those_of_calls() {
        let of = |code, state: &str, message: &str| {
            let (message, state) = (message.to_owned(), state.to_owned());
            failed(&mysql_async::Error::Server(ServerError { code, message, state }))
        };
        for (code, state) in
            [(1062, "23000"), (1406, "22001"), (4025, "23000"), (3819, "HY000"), (1644, "45000")]
        {
            assert!(matches!(of(code, state, "no"), Failed::Row(_)), "{code}");
        }
        for (code, state) in [(1205, "HY000"), (1213, "40001"), (1290, "HY000"), (1146, "42S02")] {
            assert!(matches!(of(code, state, "no"), Failed::Call(_)), "{code}");
        }
        let Failed::Row(reason) = of(1048, "23000", "Column 'keystead_batch' cannot be null") else {
            panic!()
        };
        assert!(reason.contains("another key"), "{reason}");
    }
}

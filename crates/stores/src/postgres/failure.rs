//! What can go wrong with a call to PostgreSQL, and what that means for its outcome.

use keystead_core::{Code, Error};
use tokio_postgres::error::{DbError, Severity, SqlState};

use super::connect::Target;
use crate::net::Address;

/// The error of a call that was sent: `store_unavailable`, *not applied* if the server has rolled the statement back.
pub fn of_call(error: &tokio_postgres::Error) -> Error {
    let Some(db) = error.as_db_error() else {
        // The driver's own words never contain parameters of a statement.
        let message = format!("the connection to the PostgreSQL server was lost ({error})");
        return Error::unknown(Code::StoreUnavailable, message);
    };
    let message = format!("the PostgreSQL server replied {} {}", db.code().code(), db.message());
    if db.message().contains("statement pooling mode") {
        let message = format!("{message}: use atomic=cas, or a pooler in transaction mode");
        return Error::unknown(Code::StoreUnavailable, message);
    }
    match is_rolled_back(db) {
        true => Error::new(Code::StoreUnavailable, with_advice(db, message)),
        false => Error::unknown(Code::StoreUnavailable, message),
    }
}

/// An ERROR ends the statement and its transaction, and the connection goes on. What ends the connection may have come after the commit.
fn is_rolled_back(db: &DbError) -> bool {
    matches!(db.parsed_severity(), Some(Severity::Error))
}

fn with_advice(db: &DbError, message: String) -> String {
    let advice = match *db.code() {
        SqlState::READ_ONLY_SQL_TRANSACTION => "the server is a standby: use the address of the primary",
        SqlState::UNDEFINED_TABLE => "the table was dropped: open the store again",
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "grant SELECT, INSERT, UPDATE and DELETE on the table to this user"
        }
        SqlState::DISK_FULL => "the disk of the server is full",
        _ => return message,
    };
    format!("{message}: {advice}")
}

/// Whether the statement lost a race that the server could not serialize, and was rolled back.
pub(super) fn is_lost_race(error: &tokio_postgres::Error) -> bool {
    let races = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| races.contains(code))
}

/// The error of a connection that was not established: nothing was sent.
pub(super) fn to_connect(target: &Target, error: &tokio_postgres::Error) -> Error {
    let Target { address, database, .. } = target;
    let why = error.as_db_error().map_or("", DbError::message);
    let logins = [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION];
    let message = match error.code() {
        // The words of PostgreSQL about a rule of pg_hba.conf for hostssl, and those of PgBouncer.
        Some(_) if why.contains("no encryption") || why.contains("SSL required") => {
            format!("the PostgreSQL server at {address} wants TLS: add sslmode=verify-full ({why})")
        }
        // PgBouncer has one code for all it rejects.
        Some(code) if logins.contains(code) || why.contains("authentication failed") => {
            format!("the PostgreSQL server at {address} rejected the user name or password ({why})")
        }
        Some(&SqlState::INVALID_CATALOG_NAME) => {
            format!(
                "the PostgreSQL server at {address} has no database '{database}': create it with createdb"
            )
        }
        Some(&SqlState::TOO_MANY_CONNECTIONS) => {
            format!(
                "the PostgreSQL server at {address} has no connection left: lower connections= or use a pooler"
            )
        }
        Some(code) => {
            format!("the PostgreSQL server at {address} rejected the connection: {} {why}", code.code())
        }
        None => not_spoken(address, error),
    };
    Error::new(Code::StoreUnavailable, message)
}

/// The connection was lost, or what came was not the protocol.
fn not_spoken(address: &Address, error: &tokio_postgres::Error) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    let why = source.unwrap_or_default();
    match error.to_string().contains("TLS") {
        true if why.contains("does not support TLS") => {
            format!("no TLS connection to {address}{why}: a server without TLS needs sslmode=disable")
        }
        true => format!("no TLS connection to {address}{why}"),
        false if why.contains("password missing") => {
            format!("the PostgreSQL server at {address} wants a password: postgres://USER:PASSWORD@...")
        }
        false => format!("the server at {address} does not speak the PostgreSQL protocol ({error}{why})"),
    }
}

//! What a server and its table look like. Creates the table of positions.

use keystead_core::{Code, Error, Result};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use super::connect::{failed, lacks_a_right};
use super::{Known, MARIADB_KEY, MYSQL_KEY, STATEMENT_BYTES, dialect, integer_at, query, text_at};
use crate::layout::{BATCH_COLUMN, LOGS_TABLE, Layout, POSITIONS_TABLE, Values};
use crate::log::event::{COLUMNS as EVENT_COLUMNS, KEY_COLUMN};
use crate::param::{Kind, Param};
use crate::statement::{Dialect, Statement};
use crate::table::{self, Found, FoundColumn};
use crate::{log, positions};

const COLUMNS: &str = "SELECT COLUMN_NAME, COLUMN_TYPE, DATA_TYPE, IS_NULLABLE, COLUMN_DEFAULT IS NULL, EXTRA, \
    COALESCE(GENERATION_EXPRESSION, '') <> '', COALESCE(COLLATION_NAME, '') \
    FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION";

/// Columns that are unique by themselves, as a whole.
const UNIQUE: &str = "SELECT MIN(COLUMN_NAME) FROM information_schema.STATISTICS \
    WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ? AND NON_UNIQUE = 0 \
    GROUP BY INDEX_NAME HAVING COUNT(*) = 1 AND MIN(SUB_PART) IS NULL";

const ENGINE: &str = "SELECT COALESCE(ENGINE, TABLE_TYPE) FROM information_schema.TABLES \
    WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ?";

/// MariaDB's JSON is a text with this check.
const CHECKS: &str = "SELECT CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS \
    WHERE CONSTRAINT_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ?";

/// Of these collations no two texts are the same: they neither ignore case nor spaces at the end.
const EXACT: [&str; 2] = ["utf8mb4_nopad_bin", "utf8mb4_0900_bin"];

/// Finds out whether the layout fits the server.
pub(super) async fn look(connection: &mut Conn, layout: &Layout) -> Result<Known> {
    let server = "SELECT VERSION(), @@global.read_only, @@max_allowed_packet";
    let rows = query(connection, &plain(server)).await?;
    let row = rows.first().ok_or_else(|| unavailable("the MySQL server does not say what it is"))?;
    if integer_at(row, 1) == Some(1) {
        return Err(unavailable("the MySQL server is a replica (read_only): use the address of the primary"));
    }
    let is_mariadb = text_at(row, 0).contains("MariaDB");
    let packet = integer_at(row, 2).and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(1 << 20);
    let key = if is_mariadb { MARIADB_KEY } else { MYSQL_KEY };
    let dialect = dialect(key, STATEMENT_BYTES.min(packet / 2));
    let own = |name: &str| [Param::Null, Param::Text(name.to_owned())];
    create(connection, &own(POSITIONS_TABLE), &positions::create(&dialect)).await?;
    check_engine(connection, &own(POSITIONS_TABLE), POSITIONS_TABLE).await?;
    let (schema, name) = match layout.table.split_once('.') {
        Some((schema, name)) => (Param::Text(schema.to_owned()), name),
        None => (Param::Null, layout.table.as_str()),
    };
    let of_table = [schema, Param::Text(name.to_owned())];
    let keeps_events = layout.values == Values::Events;
    if keeps_events && let Some(quoted) = table::quoted_name(&layout.table, &dialect) {
        create(connection, &of_table, &log::sql::create(layout, &quoted, &dialect, key)).await?;
        create(connection, &own(LOGS_TABLE), &log::sql::create_logs(&dialect)).await?;
        check_engine(connection, &own(LOGS_TABLE), LOGS_TABLE).await?;
    }
    let found = found(connection, &of_table, is_mariadb, layout).await?;
    let may_be_null = found.as_ref().is_some_and(|(_, may_be_null)| *may_be_null);
    if let Some((found, _)) = &found {
        check_engine(connection, &of_table, &layout.table).await?;
        check_key(found, layout, &dialect)?;
    }
    let table = table::check(layout, found.map(|(found, _)| found), &dialect)?;
    if keeps_events {
        query(connection, &log::sql::register(layout, &table.quoted, &dialect)).await?;
    }
    if may_be_null {
        // With NULL, a row of another key could not be told from one of the same.
        let name = &layout.table;
        let message = format!(
            "the column {BATCH_COLUMN} of {name} may be NULL: run ALTER TABLE {name} MODIFY {BATCH_COLUMN} bigint NOT NULL DEFAULT 0"
        );
        return Err(Error::new(Code::ConfigInvalid, message));
    }
    Ok(Known { dialect, table, request_bytes: packet.saturating_sub(16 * 1024) })
}

fn plain(sql: &str) -> Statement {
    Statement { sql: sql.to_owned(), params: Vec::new(), otherwise: None }
}

fn unavailable(message: &'static str) -> Error {
    Error::new(Code::StoreUnavailable, message)
}

/// Creates a table of our own, unless it is there.
async fn create(connection: &mut Conn, of_table: &[Param], sql: &str) -> Result<()> {
    if !rows_of(connection, ENGINE, of_table).await?.is_empty() {
        return Ok(());
    }
    let Err(error) = connection.query_drop(sql).await else { return Ok(()) };
    if lacks_a_right(&error) {
        let message = format!("this user may not create tables: run {sql} as the owner");
        return Err(Error::new(Code::ConfigInvalid, message));
    }
    Err(failed(&error).into())
}

async fn rows_of(connection: &mut Conn, sql: &str, of_table: &[Param]) -> Result<Vec<mysql_async::Row>> {
    let statement = Statement { params: of_table.to_vec(), ..plain(sql) };
    Ok(query(connection, &statement).await?)
}

/// Rows and position must become visible together.
async fn check_engine(connection: &mut Conn, of_table: &[Param], table: &str) -> Result<()> {
    let rows = rows_of(connection, ENGINE, of_table).await?;
    let engine = rows.first().map(|row| text_at(row, 0)).unwrap_or_default();
    if engine.eq_ignore_ascii_case("innodb") {
        return Ok(());
    }
    let message = format!(
        "the table {table} is of the engine {engine}, which has no transactions: run ALTER TABLE {table} ENGINE=InnoDB"
    );
    Err(Error::new(Code::ConfigInvalid, message))
}

/// The table, and whether the number of the batch may be NULL there.
async fn found(
    connection: &mut Conn,
    of_table: &[Param],
    is_mariadb: bool,
    layout: &Layout,
) -> Result<Option<(Found, bool)>> {
    let rows = rows_of(connection, COLUMNS, of_table).await?;
    if rows.is_empty() {
        return Ok(None);
    }
    let unique = rows_of(connection, UNIQUE, of_table).await?.iter().map(|row| text_at(row, 0)).collect();
    let checks: Vec<String> = match is_mariadb {
        true => rows_of(connection, CHECKS, of_table).await?.iter().map(|row| text_at(row, 0)).collect(),
        false => Vec::new(),
    };
    let columns = rows.iter().map(|row| {
        let name = text_at(row, 0);
        let (mut type_name, data_type) = (text_at(row, 1), text_at(row, 2));
        let kind = match checks.contains(&format!("json_valid(`{name}`)")) {
            true => Kind::Json,
            false => kind_of(&type_name, &data_type),
        };
        let collation = text_at(row, 7);
        let is_key = match layout.values {
            Values::Events => name == EVENT_COLUMNS[KEY_COLUMN],
            _ => name == layout.key,
        };
        if is_key && EXACT.contains(&collation.as_str()) {
            type_name = format!("{type_name} COLLATE {collation}");
        }
        let is_required = text_at(row, 3) == "NO"
            && integer_at(row, 4) == Some(1)
            && !text_at(row, 5).contains("auto_increment");
        FoundColumn { name, type_name, kind, is_required, is_generated: integer_at(row, 6) == Some(1) }
    });
    let nullable = rows.iter().any(|row| text_at(row, 0) == BATCH_COLUMN && text_at(row, 3) == "YES");
    let columns = columns.collect();
    Ok(Some((Found { columns, unique }, nullable)))
}

/// Different keys must not be the same to the key's column.
fn check_key(found: &Found, layout: &Layout, dialect: &Dialect) -> Result<()> {
    let Some(key) = found.columns.iter().find(|column| column.name == layout.key) else { return Ok(()) };
    let is_exact = key.kind == Kind::Integer
        || key.type_name.starts_with("varbinary")
        || key.type_name.contains(" COLLATE ");
    if is_exact {
        return Ok(());
    }
    let (table, name) = (&layout.table, dialect.quoted(&key.name));
    let message = format!(
        "the column {} of {table} takes different keys for the same (case, accents or spaces at the end): \
         run ALTER TABLE {table} MODIFY {name} {} NOT NULL, or map keys to integers",
        key.name, dialect.types.key
    );
    Err(Error::new(Code::ConfigInvalid, message))
}

fn kind_of(type_name: &str, data_type: &str) -> Kind {
    match data_type {
        "tinyint" if type_name.starts_with("tinyint(1)") => Kind::Bool,
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Kind::Integer,
        "float" | "double" => Kind::Real,
        "json" => Kind::Json,
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => Kind::Text,
        _ => Kind::Other,
    }
}

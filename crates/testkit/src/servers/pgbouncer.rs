//! PgBouncer in transaction mode, in front of a PostgreSQL of its own. It refuses to run as root, too.

use std::path::Path;
use std::process::Command;

use super::postgres::{PASSWORD, accepts, as_nobody, find as find_postgres, prepare as prepare_postgres};
use super::{Kind, Site, find_binary, nothing_to_join};
use crate::failure::{Checked, Failure};

const ALONE: Kind = Kind {
    name: "pgbouncer",
    ports: 2,
    find: || {
        find_postgres()?;
        find_binary("pgbouncer", &["pgbouncer", "../sbin/pgbouncer"], "apt install pgbouncer")
    },
    prepare: |_, site| prepare(site, TRANSACTION),
    commands,
    ready: |site| Box::pin(async { accepts(site.ports[1]).await && accepts(site.port()).await }),
    join: nothing_to_join,
};

/// Fewer connections to the server than a store has to the pooler, so that they change hands all the time.
const TRANSACTION: &str = "pool_mode = transaction\ndefault_pool_size = 6";

/// PgBouncer in transaction mode on the first port, its PostgreSQL on the second.
pub static PGBOUNCER: Kind = ALONE;

/// The same with a single connection to the server.
pub static PGBOUNCER_SINGLE: Kind = Kind {
    name: "pgbouncer-single",
    prepare: |_, site| prepare(site, "pool_mode = transaction\ndefault_pool_size = 1"),
    ..ALONE
};

/// In statement mode, which knows no transactions.
pub static PGBOUNCER_STATEMENT: Kind = Kind {
    name: "pgbouncer-statement",
    prepare: |_, site| prepare(site, "pool_mode = statement\ndefault_pool_size = 6"),
    ..ALONE
};

fn commands(binary: &Path, site: &Site) -> Vec<Command> {
    let Ok(postgres) = find_postgres() else { return Vec::new() };
    let mut pooler = as_nobody(binary);
    pooler.arg(site.dir.join("pgbouncer.ini")).current_dir("/");
    vec![super::postgres::command(&postgres, site, site.ports[1]), pooler]
}

fn prepare(site: &Site, pool: &str) -> Checked {
    prepare_postgres(&find_postgres().map_err(Failure::new)?, site)?;
    let (users, port, behind) = (site.dir.join("users.txt"), site.ports[0], site.ports[1]);
    std::fs::write(&users, format!("\"postgres\" \"{PASSWORD}\"\n"))?;
    let settings = format!(
        "[databases]\npostgres = host=127.0.0.1 port={behind}\n[pgbouncer]\n{pool}\nlisten_addr = 127.0.0.1\n\
         listen_port = {port}\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {}\nmax_client_conn = 500\n\
         server_login_retry = 1\n",
        users.display()
    );
    Ok(std::fs::write(site.dir.join("pgbouncer.ini"), settings)?)
}

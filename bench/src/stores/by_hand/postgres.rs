//! PostgreSQL: one prepared upsert that decides and returns, on as many connections as our store has.

use std::sync::Arc;

use keystead_testkit::servers::{Site, postgres};
use tokio::sync::Mutex;
use tokio_postgres::{Client, Config, NoTls, Statement};

use super::super::Call;
use super::{BURST_MS, INTERVAL_MS, denied, failed, now_ms};

const CONNECTIONS: usize = 16;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS by_hand (key bytea PRIMARY KEY, tat float8 NOT NULL)";

const CHECK: &str = "\
INSERT INTO by_hand AS b (key, tat) VALUES ($1, $2::float8 + $3::float8) \
ON CONFLICT (key) DO UPDATE SET tat = greatest(b.tat, $2) + $3 WHERE greatest(b.tat, $2) + $3 - $4::float8 <= $2 \
RETURNING tat";

struct Pool {
    permits: tokio::sync::Semaphore,
    idle: Mutex<Vec<(Client, Statement)>>,
}

pub(crate) async fn prepare(site: Site) -> Call {
    let mut config = Config::new();
    config
        .host("127.0.0.1")
        .port(site.port())
        .user("postgres")
        .password(postgres::PASSWORD)
        .dbname("postgres");
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS {
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        if idle.is_empty() {
            client.batch_execute(TABLE).await.unwrap();
        }
        let check = client.prepare(CHECK).await.unwrap();
        idle.push((client, check));
    }
    let pool = Arc::new(Pool { permits: tokio::sync::Semaphore::new(CONNECTIONS), idle: Mutex::new(idle) });
    Arc::new(move |key| {
        let pool = Arc::clone(&pool);
        Box::pin(async move {
            let _permit = pool.permits.acquire().await.unwrap();
            let (client, check) = pool.idle.lock().await.pop().unwrap();
            let name = format!("by-hand:{key:05}").into_bytes();
            let row = client.query_opt(&check, &[&name, &(now_ms() as f64), &INTERVAL_MS, &BURST_MS]).await;
            pool.idle.lock().await.push((client, check));
            row.map_err(failed)?.map(|_| ()).ok_or_else(denied)
        })
    })
}

//! Redis, Valkey and Redis Cluster: one EVALSHA on a multiplexed connection to the node of the key.

use std::sync::Arc;

use keystead_core::key::slot;
use keystead_testkit::servers::Site;
use redis::aio::MultiplexedConnection;

use super::super::Call;
use super::{BURST_MS, INTERVAL_MS, SCRIPT, denied, failed, now_ms};

pub(crate) async fn prepare(site: Site) -> Call {
    let (mut nodes, mut sha) = (Vec::new(), String::new());
    for port in &site.ports {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        let mut node = client.get_multiplexed_async_connection().await.unwrap();
        sha = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut node).await.unwrap();
        nodes.push(node);
    }
    let (nodes, sha): (Arc<[MultiplexedConnection]>, Arc<str>) = (nodes.into(), sha.into());
    Arc::new(move |key| {
        let (nodes, sha) = (Arc::clone(&nodes), Arc::clone(&sha));
        Box::pin(async move {
            let name = format!("by-hand:{key:05}");
            // As redis-cli divides the slots.
            let node = usize::from(slot(name.as_bytes())) * nodes.len() / 16_384;
            let mut command = redis::cmd("EVALSHA");
            command.arg(&*sha).arg(1).arg(name).arg(now_ms()).arg(INTERVAL_MS).arg(BURST_MS);
            let reply: (u64, u64, u64, u64) =
                command.query_async(&mut nodes[node].clone()).await.map_err(failed)?;
            if reply.0 == 1 { Ok(()) } else { Err(denied()) }
        })
    })
}

//! A slot that moves to another node while steps run on its keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keystead_core::key::slot;
use keystead_core::{StoreExt, Ttl};
use keystead_testkit::servers::{ask, redis};
use keystead_testkit::steps::increment;

use super::{Outcomes, count, key, open, server};

async fn text(port: u16, request: &str) -> String {
    let reply = ask(port, format!("{request}\r\n").as_bytes()).await;
    let reply = String::from_utf8_lossy(&reply).into_owned();
    assert!(!reply.starts_with('-'), "{request}: {reply}");
    reply
}

async fn node_id(port: u16) -> String {
    let reply = text(port, "CLUSTER MYID").await;
    reply.lines().nth(1).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_is_followed() {
    let Some(server) = server(&redis::REDIS_CLUSTER).await else { return };
    let ports = server.site().ports.clone();
    for parameters in ["", "&atomic=watch"] {
        let url = format!("redis+cluster://{}?deadline=40s{parameters}", server.site().addresses());
        // Each has a slot of its own: a node does not give up a slot while it has other keys of it.
        let key = key(&format!("{{moving{parameters}}}"));
        let slot = slot(key.as_bytes());
        let stop = Arc::new(AtomicBool::new(false));
        let mut workers = Vec::new();
        for _ in 0..4 {
            let (store, key, stop) = (open(&url), key.clone(), Arc::clone(&stop));
            workers.push(tokio::spawn(async move {
                let mut outcomes = Outcomes::default();
                while !stop.load(Ordering::SeqCst) {
                    outcomes.add(&store.apply(&key, &increment(Ttl::Never)).await);
                }
                outcomes
            }));
        }
        let store = open(&url);
        for _ in 0..3 {
            while count(&*store, &key).await < 20 {}
            move_slot(&ports, slot, &key.to_string()).await;
        }
        stop.store(true, Ordering::SeqCst);
        let mut all = Outcomes::default();
        for worker in workers {
            let one = worker.await.unwrap();
            (all.applied, all.not_applied, all.unknown) =
                (all.applied + one.applied, all.not_applied + one.not_applied, all.unknown + one.unknown);
        }
        assert!(all.applied >= 20 && all.unknown == 0, "{all:?}");
        all.assert_exact(count(&*store, &key).await);
        println!("{parameters}: {all:?}");
    }
}

/// Moves a slot from its owner to the next node, with all keys that it has, as `redis-cli --cluster reshard` does. One of the keys finds the
/// owner.
pub(crate) async fn move_slot(ports: &[u16], slot: u16, key: &str) {
    let mut owner = None;
    for (i, port) in ports.iter().enumerate() {
        if !ask(*port, format!("GET {key}\r\n").as_bytes()).await.starts_with(b"-MOVED") {
            owner = Some(i);
        }
    }
    let from = owner.unwrap();
    let (source, target) = (ports[from], ports[(from + 1) % ports.len()]);
    let (source_id, target_id) = (node_id(source).await, node_id(target).await);
    text(target, &format!("CLUSTER SETSLOT {slot} IMPORTING {source_id}")).await;
    text(source, &format!("CLUSTER SETSLOT {slot} MIGRATING {target_id}")).await;
    // From now on no key is created here.
    let keys = text(source, &format!("CLUSTER GETKEYSINSLOT {slot} 100")).await;
    for key in keys.lines().filter(|line| !line.starts_with(['*', '$'])) {
        text(source, &format!("MIGRATE 127.0.0.1 {target} {key} 0 5000")).await;
    }
    for port in [target, source].into_iter().chain(ports.iter().copied()) {
        text(port, &format!("CLUSTER SETSLOT {slot} NODE {target_id}")).await;
    }
}

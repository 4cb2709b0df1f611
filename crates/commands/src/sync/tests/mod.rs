//! The protocol on a keyspace: histories of clients that are offline, networks that lose and repeat, and single cases.

mod cases;
mod histories;

use std::collections::HashSet;

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::Keyspace;
use serde_json::Value;

use super::apply::{Item, apply};
use super::{Edit, Mutation, Outcome};
use crate::documents;
use crate::families::json::document;

const NOW: Millis = Millis(1_800_000_000_000);

fn mutation(id: u64, key: &str, edit: Edit, ts: u64) -> Mutation {
    Mutation { id, key: Bytes::from(key.as_bytes()), edit, ts, if_version: None, seen: None }
}

fn send(keys: &mut Keyspace, client: &str, mutations: &[Mutation], now: Millis) -> Vec<Outcome> {
    let items: Vec<Item> =
        mutations.iter().map(|mutation| Item { mutation: mutation.clone(), rejected: None }).collect();
    apply(keys, client, &items, HashSet::new(), now).unwrap()
}

fn read(keys: &mut Keyspace, key: &str, now: Millis) -> Option<Value> {
    let document = documents::get(keys, key.as_bytes(), now).unwrap()?;
    Some(document::parse(&document.text).unwrap())
}

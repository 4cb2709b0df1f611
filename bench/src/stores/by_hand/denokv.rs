//! Deno KV: one AtomicWrite of KV Connect, in Protocol Buffers by hand.

use std::sync::Arc;

use keystead_testkit::servers::{Site, denokv};

use super::super::{Call, KEYS};
use super::http::Pool;
use super::{decide, denied, failed, now_ms};

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

/// A check of the versionstamp, which is empty if there must be no value, and a mutation that sets the value.
fn atomic_write(key: &[u8], versionstamp: &[u8], value: &[u8]) -> Vec<u8> {
    let (mut check, mut set, mut encoded, mut out) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    bytes(&mut check, 1, key);
    if !versionstamp.is_empty() {
        bytes(&mut check, 2, versionstamp);
    }
    bytes(&mut encoded, 1, value);
    number(&mut encoded, 2, 3);
    bytes(&mut set, 1, key);
    bytes(&mut set, 2, &encoded);
    number(&mut set, 3, 1);
    bytes(&mut out, 1, &check);
    bytes(&mut out, 2, &set);
    out
}

/// Where the metadata has this field.
fn field<'a>(metadata: &'a str, name: &str) -> &'a str {
    let begin = format!("\"{name}\":\"");
    let value = metadata.split(&begin).nth(1).and_then(|rest| rest.split('"').next());
    value.unwrap_or_else(|| panic!("no {name} in {metadata}"))
}

/// The versionstamp of a key, and its state.
type Cached = tokio::sync::Mutex<(Vec<u8>, f64)>;

/// Checks of one key wait for each other; the last versionstamp is kept here.
pub(crate) async fn prepare(site: Site) -> Call {
    let login = format!("authorization: Bearer {}\r\ncontent-type: application/json\r\n", denokv::TOKEN);
    let metadata = Pool::new(site.port(), &login).post("/", r#"{"supportedVersions":[2]}"#).await.unwrap();
    let headers = format!(
        "authorization: Bearer {}\r\nx-denokv-version: 2\r\nx-denokv-database-id: {}\r\ncontent-type: application/x-protobuf\r\n",
        field(&metadata, "token"),
        field(&metadata, "databaseId")
    );
    let (pool, path): (_, Arc<str>) =
        (Pool::new(site.port(), &headers), format!("{}/atomic_write", field(&metadata, "url")).into());
    // What an earlier run has left is not in the way of keys with another name.
    let run = now_ms();
    let states: Arc<[Cached]> = (0..KEYS[1]).map(|_| Cached::default()).collect();
    Arc::new(move |key| {
        let (pool, path, states) = (Arc::clone(&pool), Arc::clone(&path), Arc::clone(&states));
        Box::pin(async move {
            let mut state = states[key].lock().await;
            let tat = decide(state.1, now_ms() as f64);
            let key = format!("\x02by-hand:{run}:{key:05}\0");
            let write = atomic_write(key.as_bytes(), &state.0, format!("{tat:?}").as_bytes());
            let reply = pool.post_bytes(&path, &write).await.map_err(failed)?;
            // The status is success, and the versionstamp has ten bytes.
            match reply[..] {
                [0x08, 1, 0x12, 10, ref versionstamp @ ..] if versionstamp.len() >= 10 => {
                    *state = (versionstamp[..10].to_vec(), tat);
                    Ok(())
                }
                _ => Err(denied().context(format!("{reply:?}"))),
            }
        })
    })
}

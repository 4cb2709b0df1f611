//! Reads and swaps of rows: of one, or of several in a statement. A statement is its own transaction, unless the caller has begun one.

use std::collections::HashMap;
use std::sync::Arc;

use keystead_core::{Key, Result};
use tokio_postgres::Row;

use super::failure::{is_lost_race, of_call};
use super::pool::{Lease, Pool};
use super::table::{Param, Query};
use crate::bounds::RECLAIM_MS_MAX;
use crate::cas::record::Record;
use crate::cas::{Reading, Stored, Swap, Swapped, VersionToken};
use crate::copied::copy;
use crate::gather::Carrier;

type Failed = tokio_postgres::Error;

/// Reads.
pub(super) struct Reads(pub(super) Arc<Pool>);

/// Swaps of different keys.
pub(super) struct Swaps(pub(super) Arc<Pool>);

/// A swap that owns its data.
pub(super) struct RowSwap {
    key: Key,
    expected: Option<i64>,
    version: i64,
    text: String,
    left_ms: Option<f64>,
}

impl RowSwap {
    pub(super) fn new(key: &Key, swap: &Swap<'_>) -> RowSwap {
        RowSwap::row(key, swap.expected, swap.version, swap.text.to_owned(), swap.reclaim_ms)
    }

    /// A row of this record, where there must be one of this version or none.
    pub(super) fn of(
        key: &Key,
        expected: Option<VersionToken>,
        record: &Record,
        reclaim_ms: Option<u64>,
    ) -> RowSwap {
        RowSwap::row(key, expected, record.version, record.encode(), reclaim_ms)
    }

    fn row(
        key: &Key,
        expected: Option<VersionToken>,
        version: u64,
        text: String,
        reclaim_ms: Option<u64>,
    ) -> RowSwap {
        RowSwap {
            key: key.clone(),
            expected: expected.map(|token| token.0 as i64),
            version: version as i64,
            text,
            left_ms: reclaim_ms.filter(|ms| *ms <= RECLAIM_MS_MAX).map(|ms| ms as f64),
        }
    }

    fn done(&self) -> Swapped {
        Swapped::Done(VersionToken(self.version as u128))
    }

    fn reply(&self, replies: &mut Replies<'_>) -> Swapped {
        match replies.remove(self.key.as_bytes()) {
            Some(None) => self.done(),
            Some(current) => Swapped::Conflict(Some(Reading { stored: current, now: None })),
            None => Swapped::Conflict(None),
        }
    }
}

impl Carrier for Reads {
    type Call = Key;
    type Reply = Reading;

    async fn send(&self, keys: Vec<Key>) -> Vec<Result<Reading>> {
        let lease = match self.0.take().await {
            Ok(lease) => lease,
            Err(error) => return keys.iter().map(|_| Err(copy(&error))).collect(),
        };
        let read = match &keys[..] {
            [key] => read(&lease, key).await.map(|stored| vec![stored]),
            _ => read_many(&lease, &keys).await,
        };
        match read {
            Ok(read) => {
                lease.finish();
                read.into_iter().map(|stored| Ok(Reading { stored, now: None })).collect()
            }
            Err(error) => {
                let error = lease.failed(&error);
                keys.iter().map(|_| Err(copy(&error))).collect()
            }
        }
    }
}

impl Carrier for Swaps {
    type Call = RowSwap;
    type Reply = Swapped;

    async fn send(&self, swaps: Vec<RowSwap>) -> Vec<Result<Swapped>> {
        let lease = match self.0.take().await {
            Ok(lease) => lease,
            Err(error) => return swaps.iter().map(|_| Err(copy(&error))).collect(),
        };
        match &swaps[..] {
            [only] => {
                let swapped = swap(&lease, only).await;
                lease.finish_after(swapped.as_ref().err());
                vec![match swapped {
                    Ok(swapped) => Ok(swapped),
                    Err(error) if is_lost_race(&error) => Ok(Swapped::Conflict(None)),
                    Err(error) => Err(of_call(&error)),
                }]
            }
            _ => {
                let sent = Many::send(&lease, &swaps).await;
                lease.finish_after(sent.errors());
                sent.each(&swaps)
            }
        }
    }
}

/// Reads the value of a key.
pub(super) async fn read(lease: &Lease<'_>, key: &Key) -> Result<Option<Stored>, Failed> {
    let rows = lease.query(Query::Read, &[&key.as_bytes()]).await?;
    rows.first().map(|row| stored(row, 0)).transpose()
}

/// Replaces the value of a key if its version is the expected one.
pub(super) async fn swap(lease: &Lease<'_>, swap: &RowSwap) -> Result<Swapped, Failed> {
    let key = swap.key.as_bytes();
    let mut params: Vec<Param<'_>> = vec![&key, &swap.version, &swap.text, &swap.left_ms];
    let query = match &swap.expected {
        None => Query::Insert,
        Some(expected) => {
            params.push(expected);
            Query::Update
        }
    };
    Ok(match lease.execute(query, &params).await? {
        // In the same statement, a plain read would see the row as it was when the statement began.
        0 => Swapped::Conflict(None),
        _ => swap.done(),
    })
}

/// Reads the values of keys.
async fn read_many(lease: &Lease<'_>, keys: &[Key]) -> Result<Vec<Option<Stored>>, Failed> {
    read_by(lease, Query::ReadMany, keys).await
}

/// Reads the values of keys and locks their rows until the transaction ends.
pub(super) async fn hold_many(lease: &Lease<'_>, keys: &[Key]) -> Result<Vec<Option<Stored>>, Failed> {
    read_by(lease, Query::HoldMany, keys).await
}

async fn read_by(lease: &Lease<'_>, query: Query, keys: &[Key]) -> Result<Vec<Option<Stored>>, Failed> {
    let names: Vec<&[u8]> = keys.iter().map(Key::as_bytes).collect();
    let rows = lease.query(query, &[&names]).await?;
    let mut found = HashMap::with_capacity(rows.len());
    for row in &rows {
        found.insert(row.try_get::<_, &[u8]>(0)?, stored(row, 1)?);
    }
    Ok(names.iter().map(|name| found.get(name).cloned()).collect())
}

/// Replaces the values of keys in a transaction that the caller has begun.
pub(super) async fn swap_many(lease: &Lease<'_>, swaps: &[RowSwap]) -> Result<Vec<Swapped>, Failed> {
    let Many { inserted, updated } = Many::send(lease, swaps).await;
    let rows = [inserted?, updated?].concat();
    let mut replies = by_key(&rows)?;
    Ok(swaps.iter().map(|swap| swap.reply(&mut replies)).collect())
}

/// The replies to swaps of several rows: one statement for those that must be absent, and one for the others. Outside of a transaction each is
/// one by itself, so that one may be committed while the other fails.
struct Many {
    inserted: Result<Vec<Row>, Failed>,
    updated: Result<Vec<Row>, Failed>,
}

impl Many {
    async fn send(lease: &Lease<'_>, swaps: &[RowSwap]) -> Many {
        let (inserts, updates): (Vec<&RowSwap>, Vec<&RowSwap>) =
            swaps.iter().partition(|swap| swap.expected.is_none());
        let (inserted, updated) = tokio::join!(
            send_many(lease, Query::InsertMany, &inserts),
            send_many(lease, Query::SwapMany, &updates)
        );
        Many { inserted, updated }
    }

    fn errors(&self) -> impl Iterator<Item = &Failed> {
        self.inserted.as_ref().err().into_iter().chain(self.updated.as_ref().err())
    }

    /// The result of each swap: that of its own statement.
    fn each(&self, swaps: &[RowSwap]) -> Vec<Result<Swapped>> {
        let (mut inserted, mut updated) = (replies(&self.inserted), replies(&self.updated));
        let of = |swap: &RowSwap| {
            let of_its_statement = if swap.expected.is_none() { &mut inserted } else { &mut updated };
            match of_its_statement {
                Ok(replies) => Ok(swap.reply(replies)),
                Err(error) => Err(copy(error)),
            }
        };
        swaps.iter().map(of).collect()
    }
}

/// The current value of each key that was not replaced, where the statement returned it, and `None` for each that was.
type Replies<'a> = HashMap<&'a [u8], Option<Stored>>;

/// The replies of one statement that was its own transaction.
fn replies(rows: &Result<Vec<Row>, Failed>) -> Result<Replies<'_>> {
    match rows {
        Ok(rows) => by_key(rows).map_err(|error| of_call(&error)),
        // It was rolled back: a key without a reply has lost its race.
        Err(error) if is_lost_race(error) => Ok(Replies::new()),
        Err(error) => Err(of_call(error)),
    }
}

fn by_key(rows: &[Row]) -> Result<Replies<'_>, Failed> {
    let mut replies = Replies::with_capacity(rows.len());
    for row in rows {
        let conflict = row.try_get::<_, Option<i64>>(1)?.map(|_| stored(row, 1)).transpose()?;
        replies.insert(row.try_get::<_, &[u8]>(0)?, conflict);
    }
    Ok(replies)
}

async fn send_many(lease: &Lease<'_>, query: Query, swaps: &[&RowSwap]) -> Result<Vec<Row>, Failed> {
    if swaps.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<&[u8]> = swaps.iter().map(|swap| swap.key.as_bytes()).collect();
    let versions: Vec<i64> = swaps.iter().map(|swap| swap.version).collect();
    let texts: Vec<&str> = swaps.iter().map(|swap| &*swap.text).collect();
    let left_ms: Vec<Option<f64>> = swaps.iter().map(|swap| swap.left_ms).collect();
    let expected: Vec<i64> = swaps.iter().filter_map(|swap| swap.expected).collect();
    let mut params: Vec<Param<'_>> = vec![&keys, &versions, &texts, &left_ms];
    if query == Query::SwapMany {
        params.push(&expected);
    }
    lease.query(query, &params).await
}

/// The value in this column and the next.
fn stored(row: &Row, column: usize) -> Result<Stored, Failed> {
    let version: i64 = row.try_get(column)?;
    Ok(Stored { token: VersionToken(version as u128), text: row.try_get(column + 1)? })
}

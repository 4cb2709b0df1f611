//! The table: its attributes, and its creation.

use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Code, Error, Result};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::wire::{Failed, Wire};
use crate::bounds::{DYNAMODB_CREATED_WITHIN, DYNAMODB_POLL_EVERY};

/// The partition key: the text of a key.
pub(super) const KEY: &str = "key";
/// The version of the record, a number.
pub(super) const VERSION: &str = "version";
/// The [text form](crate::cas::record) of the record.
pub(super) const RECORD: &str = "record";
/// From when on the item may be deleted, in seconds since 1970: the TTL attribute.
pub(super) const RECLAIM_AT: &str = "reclaim_at";

#[derive(Deserialize)]
struct TableReply {
    #[serde(rename = "Table")]
    table: Description,
}

#[derive(Deserialize)]
struct Description {
    #[serde(rename = "TableStatus")]
    status: String,
}

/// Creates the table, and waits for a while until it is active, which takes seconds on AWS.
pub(super) async fn create(wire: &Arc<Wire>, patience: Duration) -> Result<()> {
    let request = json!({
        "TableName": wire.table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": KEY, "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": KEY, "KeyType": "HASH"}],
    });
    match wire.call::<IgnoredAny>("CreateTable", &request).await {
        Ok(_) => {
            let wire = Arc::clone(wire);
            // Not of this call, which may be given up before the table is active.
            tokio::spawn(async move { expire_items(&wire).await });
        }
        // It exists by now, or another process is creating it.
        Err(Failed::Rejected(exception)) if exception.name() == "ResourceInUseException" => {}
        Err(failed) => return Err(wire.error(failed)),
    }
    match timeout(patience, until_active(wire)).await {
        Ok(active) => active,
        Err(_) => {
            let message = format!("the table '{}' is being created: try again in some seconds", wire.table);
            Err(Error::new(Code::StoreUnavailable, message))
        }
    }
}

async fn until_active(wire: &Wire) -> Result<()> {
    loop {
        let reply = wire.call::<TableReply>("DescribeTable", &json!({"TableName": wire.table})).await;
        if reply.map_err(|failed| wire.error(failed))?.table.status == "ACTIVE" {
            return Ok(());
        }
        sleep(DYNAMODB_POLL_EVERY).await;
    }
}

/// Lets the server delete items that may be reclaimed. Without it they stay, which is no error: some servers cannot do it.
async fn expire_items(wire: &Wire) {
    if let Ok(Ok(())) = timeout(DYNAMODB_CREATED_WITHIN, until_active(wire)).await {
        let request = json!({
            "TableName": wire.table,
            "TimeToLiveSpecification": {"AttributeName": RECLAIM_AT, "Enabled": true},
        });
        drop(wire.call::<IgnoredAny>("UpdateTimeToLive", &request).await);
    }
}

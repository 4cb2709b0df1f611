//! DynamoDB: a table with one item for each key. Accesses that table, and creates it if the URL says so (`create=true`).
//!
//! An item has the version and the [text form](crate::cas::record) of its record. A swap is a conditional PutItem on the version, and a lost
//! one returns the current item; reads are consistent ones. Nothing is retried, because a repeated PutItem cannot be
//! distinguished from a lost race.
//!
//! | To find                              | open      |
//! |--------------------------------------|-----------|
//! | signatures                           | `sign`    |
//! | requests, replies, exceptions        | `wire`    |
//! | exceptions as errors                 | `failure` |
//! | the table and its creation           | `table`   |

mod failure;
mod sign;
mod table;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Capabilities, Clock, Code, Error, Key, Result, Store, SystemClock};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::Scheme;
use super::url::Url;
use crate::authority::decoded;
use crate::bounds::{
    DEADLINE_PARTS, DYNAMODB_ATTRIBUTES_BYTES_MAX, DYNAMODB_CLOCK_SKEW_MS_MAX, DYNAMODB_ITEM_BYTES_MAX,
    DYNAMODB_KEY_BYTES_MAX, DYNAMODB_TABLE_BYTES, HEADER_BYTES_MAX, RECLAIM_MS_MAX,
};
use crate::cas::{Backend, CasStore, Reading, Swap, Swapped, VersionToken};
use crate::http::Http;
use crate::net::{self, Address};
use crate::url::deadline_ms;
use sign::Credentials;
use table::{KEY, RECLAIM_AT, RECORD, VERSION};
use wire::{Failed, Item, Wire};

pub(super) const SCHEME: Scheme = Scheme {
    name: "dynamodb",
    form: "dynamodb://TABLE?region=REGION&endpoint=https://HOST:PORT&create=false&deadline=5s",
    about: "a DynamoDB table; shared and durable",
    open,
};

fn open(url: &Url<'_>, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    let rest = url.path.strip_prefix("//").ok_or_else(|| url.bad("the table is missing"))?;
    let (login, table) = rest.rsplit_once('@').unwrap_or(("", rest));
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !DYNAMODB_TABLE_BYTES.contains(&table.len()) || !table.bytes().all(valid) {
        return Err(url.bad("a table has 3 to 255 letters, digits, dots, - and _"));
    }
    let region = url.take::<String>("region")?.or_else(|| variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
    let region = region.ok_or_else(|| url.bad("the region is missing, also in the variable AWS_REGION"))?;
    if region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(url.bad("a region is a name as eu-west-1"));
    }
    let credentials = credentials(url, login)?;
    let endpoint = url.take::<String>("endpoint")?;
    let endpoint = endpoint.or_else(|| variable(&["AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"]));
    let endpoint = endpoint.unwrap_or_else(|| {
        let china = if region.starts_with("cn-") { ".cn" } else { "" };
        format!("https://dynamodb.{region}.amazonaws.com{china}")
    });
    let (address, host, is_tls) = endpoint_of(&endpoint)
        .ok_or_else(|| url.bad("the endpoint is http://HOST:PORT or https://HOST:PORT"))?;
    let create = url.take("create")?.unwrap_or(false);
    let deadline_ms = deadline_ms(url)?;
    url.finish()?;
    let tls = match is_tls {
        true => Some(net::system_tls().map_err(|error| url.bad(&error))?),
        false => None,
    };
    // A little less than the layer allows a call.
    let patience = Duration::from_millis(deadline_ms) / DEADLINE_PARTS as u32 * 9 / 10;
    let http = Http::new(vec![address], tls, patience);
    let wire = Arc::new(Wire { http, host, region, table: table.to_owned(), credentials });
    let backend = DynamoDbBackend { wire, create, patience };
    Ok(Arc::new(CasStore::new(backend, clock, deadline_ms)?))
}

/// The first of these variables that is set.
fn variable(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// Those of the URL, else those of the environment.
fn credentials(url: &Url<'_>, login: &str) -> Result<Credentials> {
    if let Some((id, secret)) = login.split_once(':')
        && let (Some(access_key_id), Some(secret_access_key)) = (decoded(url, id)?, decoded(url, secret)?)
    {
        return Ok(Credentials { access_key_id, secret_access_key, session_token: None });
    }
    if !login.is_empty() {
        return Err(url.bad("a login is the access key, a colon and the secret"));
    }
    match (variable(&["AWS_ACCESS_KEY_ID"]), variable(&["AWS_SECRET_ACCESS_KEY"])) {
        (Some(access_key_id), Some(secret_access_key)) => {
            let session_token = variable(&["AWS_SESSION_TOKEN"]);
            Ok(Credentials { access_key_id, secret_access_key, session_token })
        }
        _ => Err(url.bad("the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are missing")),
    }
}

/// The address of an endpoint, its `Host` header, and whether it has TLS.
fn endpoint_of(endpoint: &str) -> Option<(Address, String, bool)> {
    let (is_tls, rest) = match endpoint.strip_prefix("https://") {
        Some(rest) => (true, rest),
        None => (false, endpoint.strip_prefix("http://")?),
    };
    let host = rest.strip_suffix('/').unwrap_or(rest);
    if host.contains(['/', '@', '?']) {
        return None;
    }
    let address = Address::parse(host, if is_tls { 443 } else { 80 })?;
    Some((address, host.to_owned(), is_tls))
}

struct DynamoDbBackend {
    wire: Arc<Wire>,
    create: bool,
    patience: Duration,
}

#[derive(Deserialize)]
struct Got {
    #[serde(rename = "Item")]
    item: Option<Item>,
}

/// The key as text: an item can be found in AWS's console by it.
fn text_of(key: &Key) -> Result<String> {
    let text = key.text();
    match text.len() <= DYNAMODB_KEY_BYTES_MAX {
        true => Ok(text.into_owned()),
        false => {
            let message = format!("the key has more than {DYNAMODB_KEY_BYTES_MAX} bytes when it is escaped");
            Err(Error::new(Code::TooLarge, message))
        }
    }
}

impl DynamoDbBackend {
    async fn get(&self, key: &str) -> Result<Got, Failed> {
        let request = json!({"TableName": self.wire.table, "Key": {KEY: {"S": key}}, "ConsistentRead": true});
        self.wire.call("GetItem", &request).await
    }
}

impl Backend for DynamoDbBackend {
    fn scheme(&self) -> &'static str {
        "dynamodb"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomic: true,
            durable: true,
            shared: true,
            sync: false,
            injected_clock: true,
            key_bytes_max: DYNAMODB_KEY_BYTES_MAX,
            state_bytes_max: DYNAMODB_ITEM_BYTES_MAX
                - DYNAMODB_KEY_BYTES_MAX
                - DYNAMODB_ATTRIBUTES_BYTES_MAX
                - HEADER_BYTES_MAX,
        }
    }

    async fn read(&self, key: &Key) -> Result<Reading> {
        let key = text_of(key)?;
        let got = match self.get(&key).await {
            Err(Failed::Rejected(exception))
                if self.create && exception.name() == "ResourceNotFoundException" =>
            {
                table::create(&self.wire, self.patience / 2).await?;
                self.get(&key).await
            }
            got => got,
        };
        let item = got.map_err(|failed| self.wire.error(failed))?.item;
        Ok(Reading { stored: item.map(Item::stored).transpose()?, now: None })
    }

    async fn swap(&self, key: &Key, swap: &Swap<'_>) -> Result<Swapped> {
        let mut request = json!({
            "TableName": self.wire.table,
            "Item": {
                KEY: {"S": text_of(key)?},
                VERSION: {"N": swap.version.to_string()},
                RECORD: {"S": swap.text},
            },
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        });
        match swap.expected {
            // Names of attributes are replaced, because many are words of the language.
            None => {
                request["ConditionExpression"] = "attribute_not_exists(#key)".into();
                request["ExpressionAttributeNames"] = json!({"#key": KEY});
            }
            Some(VersionToken(version)) => {
                request["ConditionExpression"] = "#version = :expected".into();
                request["ExpressionAttributeNames"] = json!({"#version": VERSION});
                request["ExpressionAttributeValues"] = json!({":expected": {"N": version.to_string()}});
            }
        }
        if let Some(ms) = swap.reclaim_ms.filter(|ms| *ms <= RECLAIM_MS_MAX) {
            let at = SystemClock.now().plus_ms(ms + DYNAMODB_CLOCK_SKEW_MS_MAX);
            request["Item"][RECLAIM_AT] = json!({"N": at.0.div_ceil(1000).to_string()});
        }
        match self.wire.call::<IgnoredAny>("PutItem", &request).await {
            Ok(_) => Ok(Swapped::Done(VersionToken(swap.version.into()))),
            Err(Failed::Rejected(exception)) => match exception.name() {
                // Without an item: it was removed, or this server does not return items.
                "ConditionalCheckFailedException" => {
                    let stored = exception.item.map(|item| item.stored()).transpose()?;
                    Ok(Swapped::Conflict(stored.map(|stored| Reading { stored: Some(stored), now: None })))
                }
                // A transaction of somebody else has the item.
                "TransactionConflictException" => Ok(Swapped::Conflict(None)),
                _ => Err(self.wire.error(Failed::Rejected(exception))),
            },
            Err(failed) => Err(self.wire.error(failed)),
        }
    }

    async fn close(&self) -> Result<()> {
        self.wire.http.close();
        Ok(())
    }
}

//! Stores a whole sorted set in a key, for commands that store their result. It touches the keyspace.

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;
use keystead_model::value::{Value, ZSet};

use crate::ctx::Ctx;
use crate::errors::CommandResult;
use crate::reply::Reply;

/// Replaces the value and the expiration of a key by a sorted set, and returns its number of members. An empty
/// one deletes the key.
pub(crate) fn store(ctx: &mut Ctx<'_>, key: &[u8], mut zset: ZSet) -> CommandResult {
    if zset.is_packed() {
        // In small sorted sets, in Redis too, zero has no sign.
        let is_minus_zero = |score: f64| score == 0.0 && score.is_sign_negative();
        let zeros = zset.iter().filter(|(_, score)| is_minus_zero(*score));
        let zeros: Vec<Bytes> = zeros.map(|(member, _)| Bytes::from(member)).collect();
        for member in &zeros {
            zset.insert(member, 0.0);
        }
    }
    let count = zset.len();
    ctx.keys.replace(key, Value::ZSet(zset), Expire::At(Millis::NEVER), ctx.now)?;
    Ok(Reply::count(count))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn an_existing_value_is_replaced() {
        Desk::new().expect(&[
            ("ZADD z 0 a 1 b", ":2"),
            ("SET d x", "+OK"),
            ("EXPIRE d 100", ":1"),
            ("ZUNIONSTORE d 1 z WEIGHTS -1", ":2"),
            ("ZRANGE d 0 -1 WITHSCORES", "*4 $1 b $2 -1 $1 a $1 0"),
            ("TTL d", ":-1"),
            ("ZUNIONSTORE d 1 none", ":0"),
            ("EXISTS d", ":0"),
        ]);
    }
}

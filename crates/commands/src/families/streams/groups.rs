//! What commands on groups share: error texts, and recording that a consumer was seen. It touches the keyspace.

use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::StreamMut;

use crate::errors::Fail;

/// `NOGROUP No such key 's' or consumer group 'g'`
pub(super) fn none(key: &[u8], group: &[u8]) -> Fail {
    let (key, group) = (String::from_utf8_lossy(key), String::from_utf8_lossy(group));
    Fail::text(format!("NOGROUP No such key '{key}' or consumer group '{group}'"))
}

/// The same for XREADGROUP.
pub(super) fn none_to_read(key: &[u8], group: &[u8]) -> Fail {
    Fail::text(format!("{} in XREADGROUP with GROUP option", none(key, group).line()))
}

/// `NOGROUP No such consumer group 'g' for key name 's'`
pub(super) fn none_of_key(key: &[u8], group: &[u8]) -> Fail {
    let (key, group) = (String::from_utf8_lossy(key), String::from_utf8_lossy(group));
    Fail::text(format!("NOGROUP No such consumer group '{group}' for key name '{key}'"))
}

/// Records that a consumer, which may be new, made a request, and whether it received anything.
pub(super) fn see(stream: &mut StreamMut<'_>, group: &Bytes, consumer: &Bytes, now: Millis, active: bool) {
    let known = stream.group(group).and_then(|group| group.consumer(consumer));
    let active_at = if active { Some(now) } else { known.and_then(|consumer| consumer.active_at()) };
    stream.put_consumer(group, consumer, now, active_at);
}

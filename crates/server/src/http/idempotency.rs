//! The `Idempotency-Key` header, for all APIs that change keys: a request that is sent twice runs once. Touches the shard of the
//! change, and the home shard of the idempotency key where that is another.
//!
//! An API reads the header with [`of`] and runs its change with [`run_at`]. Invariant: the change and its stored response are
//! one atomic step, so a crash leaves both or neither; a change that is undone leaves no response and no claim, and may be sent again,
//! even with another body.

use std::sync::Arc;

use keystead_commands::idempotency::{Claim, IdempotencyKey, Known, StoredResponse};
use keystead_commands::meter;
use keystead_core::{Error, Millis, ShardId};
use keystead_engine::Completion;
use keystead_model::keyspace::Keyspace;

use super::context::HttpContext;
use super::request::HttpRequest;

pub(super) use keystead_http_api::idempotency::{IDEMPOTENCY_KEY, IdempotencyError};

/// The request's idempotency key, with a fingerprint of the request. `significant_headers` are those that matter to its API.
pub(super) fn of(
    request: &HttpRequest,
    significant_headers: &[&str],
) -> Result<Option<IdempotencyKey>, IdempotencyError> {
    keystead_http_api::idempotency::of(&request.head, &request.body, significant_headers)
}

/// Runs a change on a shard, all or nothing, and returns its response once that is durable. A change with an idempotency key runs only
/// if it has not run before; otherwise the stored response is returned, with the default `T`.
///
/// The change returns the response in its stored form, and a `T` for its handler. An error undoes it; an error that shall be
/// repeated is returned as a response.
pub(super) async fn run_at<T, R>(
    context: &HttpContext,
    shard: ShardId,
    idempotency_key: Option<IdempotencyKey>,
    run: impl FnOnce(&mut Keyspace, Millis) -> Result<(StoredResponse, T), R> + Send + 'static,
) -> Result<(StoredResponse, T), R>
where
    T: Default + Send + 'static,
    R: From<IdempotencyError> + From<Error> + Send + 'static,
{
    let shards = context.app.engine.shards();
    let claimed = match &idempotency_key {
        Some(idempotency_key) if claim::<R>(context, idempotency_key, shard).await? => {
            Some(idempotency_key.clone())
        }
        _ => None,
    };
    let waiting = Arc::clone(&context.app.hub.waiting);
    let ran = context.run_at(shard, true, move |keys, now| {
        let result = match &idempotency_key {
            Some(idempotency_key) => at_most_once(idempotency_key, keys, shard, shards, now, run),
            None => run(keys, now),
        };
        // A large response counts from here on, because it may wait for the disk before it waits for the client.
        let result = result.and_then(|(response, extra): (StoredResponse, T)| {
            let share =
                waiting.take(response.body.len()).ok_or_else(|| R::from(meter::too_many_waiting()))?;
            Ok(((response, extra), share))
        });
        let completion = Completion::commit_if(result.is_ok());
        (result, completion)
    });
    let ran = ran.await;
    // An error has changed nothing, so the key is free again. Where the outcome is unknown, the key stays claimed.
    if let (Some(idempotency_key), Ok(Err(_))) = (claimed, &ran) {
        release(context, idempotency_key).await;
    }
    ran?.map(|(result, _share)| result)
}

/// Claims an idempotency key on its home shard, where that is not the shard of the change: a request that reuses it for other keys
/// may run on another shard, and still must be detected. Returns whether this request claimed it.
async fn claim<R: From<IdempotencyError> + From<Error>>(
    context: &HttpContext,
    idempotency_key: &IdempotencyKey,
    shard: ShardId,
) -> Result<bool, R> {
    let shards = context.app.engine.shards();
    let home = idempotency_key.home(shards);
    if home == shard {
        return Ok(false);
    }
    let idempotency_key = idempotency_key.clone();
    let claimed = context.run_at(home, true, move |keys, now| {
        let claimed = idempotency_key.claim(keys, shards, now);
        let completion = Completion::commit_if(claimed.is_ok());
        (claimed, completion)
    });
    match claimed.await?? {
        Claim::New => Ok(true),
        Claim::Own => Ok(false),
        Claim::Other => Err(IdempotencyError::KeyReused.into()),
    }
}

/// Releases a claimed idempotency key. If that fails it stays claimed, as after a crash, until it expires.
async fn release(context: &HttpContext, idempotency_key: IdempotencyKey) {
    let shards = context.app.engine.shards();
    let released = context.run_at(idempotency_key.home(shards), true, move |keys, now| {
        let released = idempotency_key.release(keys, shards, now);
        let completion = Completion::commit_if(released.is_ok());
        (released, completion)
    });
    if let Ok(Err(error)) | Err(error) = released.await {
        tracing::warn!(%error, "cannot release the Idempotency-Key of a request that failed");
    }
}

fn at_most_once<T: Default, R: From<IdempotencyError> + From<Error>>(
    idempotency_key: &IdempotencyKey,
    keys: &mut Keyspace,
    shard: ShardId,
    shards: usize,
    now: Millis,
    run: impl FnOnce(&mut Keyspace, Millis) -> Result<(StoredResponse, T), R>,
) -> Result<(StoredResponse, T), R> {
    match idempotency_key.look(keys, shard, shards, now)? {
        Known::Again(stored) => return Ok((stored, T::default())),
        Known::Other => return Err(IdempotencyError::KeyReused.into()),
        Known::New => {}
    }
    let (stored, result) = run(keys, now)?;
    if stored.is_too_large() {
        return Err(IdempotencyError::ResponseTooLarge.into());
    }
    idempotency_key.keep(keys, shard, shards, &stored, now)?;
    Ok((stored, result))
}

#[cfg(test)]
mod tests {
    use keystead_commands::bounds::IDEMPOTENCY_RESPONSE_BYTES_MAX;

    use super::*;

    fn named(
        target: &str,
        body: &'static str,
        headers: &[(&str, &str)],
    ) -> Result<Option<IdempotencyKey>, IdempotencyError> {
        let mut request = hyper::Request::builder().method("POST").uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let head = request.body(()).unwrap().into_parts().0;
        of(&HttpRequest::for_test(head, body), &["x-form"])
    }

    fn fingerprint(target: &str, body: &'static str, headers: &[(&str, &str)]) -> u64 {
        let headers = [&[("idempotency-key", "n")], headers].concat();
        named(target, body, &headers).unwrap().unwrap().fingerprint
    }

    #[test]
    fn a_name_is_one_header_of_some_bytes() {
        assert!(named("/", "", &[]).unwrap().is_none());
        assert_eq!(*named("/", "", &[("idempotency-key", "n")]).unwrap().unwrap().name, *b"n");
        let (most, long) = ("x".repeat(255), "x".repeat(256));
        assert!(named("/", "", &[("idempotency-key", &most)]).unwrap().is_some());
        for headers in [
            &[("idempotency-key", "")][..],
            &[("idempotency-key", &long)],
            &[("idempotency-key", "a"), ("idempotency-key", "b")],
        ] {
            assert_eq!(named("/", "", headers).unwrap_err(), IdempotencyError::InvalidKey, "{headers:?}");
        }
    }

    #[test]
    fn what_makes_a_difference_makes_another_request_and_the_token_does_not() {
        let first = fingerprint("/a?b=1", "x", &[]);
        assert_eq!(first, fingerprint("/a?b=1", "x", &[("x-other", "y")]));
        for same in ["/a?b=1&_token=t", "/a?_token=t&b=1"] {
            assert_eq!(first, fingerprint(same, "x", &[]), "{same}");
        }
        for (target, body, headers) in [
            ("/a?b=2", "x", &[][..]),
            ("/a", "x", &[]),
            ("/b?b=1", "x", &[]),
            ("/a?b=1", "y", &[]),
            ("/a?b=1", "x", &[("x-form", "z")]),
        ] {
            assert_ne!(first, fingerprint(target, body, headers), "{target} {body} {headers:?}");
        }
    }

    fn stored(
        keys: &mut Keyspace,
        idempotency_key: &IdempotencyKey,
        body: &'static [u8],
    ) -> Result<(StoredResponse, Vec<u8>), TestError> {
        let stored = StoredResponse { status: 200, version: None, body: body.to_vec() };
        at_most_once(idempotency_key, keys, ShardId(0), 1, Millis(1), |_, _| Ok((stored, vec![1])))
    }

    #[derive(Debug, PartialEq)]
    enum TestError {
        IdempotencyError(IdempotencyError),
        Broken,
    }

    impl From<IdempotencyError> for TestError {
        fn from(error: IdempotencyError) -> Self {
            TestError::IdempotencyError(error)
        }
    }

    impl From<Error> for TestError {
        fn from(_: Error) -> Self {
            TestError::Broken
        }
    }

    #[test]
    fn a_repeat_returns_the_stored_response_and_nothing_else() {
        let mut keys = Keyspace::in_memory();
        let idempotency_key = IdempotencyKey::new(b"n", &[b"1"]);
        let failed =
            at_most_once::<(), TestError>(&idempotency_key, &mut keys, ShardId(0), 1, Millis(1), |_, _| {
                Err(TestError::Broken)
            });
        assert_eq!(failed, Err(TestError::Broken));
        let (first, beside) = stored(&mut keys, &idempotency_key, b"a").unwrap();
        assert_eq!((&*first.body, &*beside), (&b"a"[..], &[1][..]), "what is undone stores no response");
        assert_eq!(stored(&mut keys, &idempotency_key, b"b"), Ok((first, Vec::new())));
        let other = IdempotencyKey::new(b"n", &[b"2"]);
        assert_eq!(
            stored(&mut keys, &other, b"b"),
            Err(TestError::IdempotencyError(IdempotencyError::KeyReused))
        );
    }

    #[test]
    fn a_response_that_is_too_large_is_not_stored() {
        let mut keys = Keyspace::in_memory();
        let idempotency_key = IdempotencyKey::new(b"n", &[b"1"]);
        static LONG: [u8; IDEMPOTENCY_RESPONSE_BYTES_MAX + 1] = [b'x'; IDEMPOTENCY_RESPONSE_BYTES_MAX + 1];
        assert_eq!(
            stored(&mut keys, &idempotency_key, &LONG),
            Err(TestError::IdempotencyError(IdempotencyError::ResponseTooLarge))
        );
        assert!(stored(&mut keys, &idempotency_key, &LONG[1..]).is_ok(), "at the bound it is");
    }
}

//! Requests that are sent twice and run once (`Idempotency-Key`), for all doors that change keys. Touches the shard of the
//! change, and the home of the name where that is another.
//!
//! A door reads the header with [`of`] and runs its change with [`run_at`]. Invariant: the change and the note of its answer are
//! one atomic step, so a crash leaves both or neither; what is undone leaves no note and no claim, and may be sent again, also with
//! another body.

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use keystead_commands::limits::ANSWER_KEPT_BYTES_MAX;
use keystead_commands::once::{Claim, Kept, Known, Once};
use keystead_core::{Error, Millis};
use keystead_model::keyspace::Keyspace;

use super::here::Here;
use super::request::Asked;
use crate::limits::IDEMPOTENCY_KEY_BYTES_MAX;

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Why a request is refused because of its name. Each door tells it in its own form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misused {
    /// The header cannot be a name.
    Header,
    /// Another request had the name.
    Other,
    /// The answer is too large to be kept; everything is undone.
    Answer,
}

impl Misused {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Misused::Header => StatusCode::BAD_REQUEST,
            Misused::Other => StatusCode::UNPROCESSABLE_ENTITY,
            Misused::Answer => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    pub(super) fn words(self) -> String {
        match self {
            Misused::Header => {
                format!("one Idempotency-Key of 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes is taken")
            }
            Misused::Other => "this Idempotency-Key was used for another request".to_owned(),
            Misused::Answer => format!(
                "the answer is over {ANSWER_KEPT_BYTES_MAX} bytes, too large to be kept for a repeat: nothing was changed"
            ),
        }
    }
}

/// The request's name, with what tells it from other requests: its method, its target but for the token, its body, and those of
/// its headers that make a difference at this door.
pub(super) fn of(asked: &Asked, telling: &[&str]) -> Result<Option<Once>, Misused> {
    let headers = &asked.head.headers;
    let Some(name) = headers.get(&IDEMPOTENCY_KEY) else { return Ok(None) };
    let is_one = headers.get_all(&IDEMPOTENCY_KEY).iter().count() == 1;
    if !is_one || name.is_empty() || name.len() > IDEMPOTENCY_KEY_BYTES_MAX {
        return Err(Misused::Header);
    }
    let query = asked.head.uri.query().unwrap_or_default().split('&');
    let query: Vec<&str> = query.filter(|parameter| !parameter.starts_with("_token=")).collect();
    let query = query.join("&");
    let lines_of = |name: &&str| {
        let lines: Vec<&[u8]> = headers.get_all(*name).iter().map(HeaderValue::as_bytes).collect();
        lines.join(&b',')
    };
    let telling: Vec<Vec<u8>> = telling.iter().map(lines_of).collect();
    let path = asked.head.uri.path().as_bytes();
    let mut parts = vec![asked.head.method.as_str().as_bytes(), path, query.as_bytes(), &asked.body];
    parts.extend(telling.iter().map(Vec::as_slice));
    Ok(Some(Once::new(name.as_bytes(), &parts)))
}

/// Runs a change on a shard, all or nothing, and gives its answer when that is durable. A change that has a name runs only if it
/// has not run before; else its first answer is given again, and nothing beside it.
///
/// The change says what it comes to with the answer, as it can be kept, and with what else it wants to tell its door. An error
/// undoes it; a refusal that shall be told again is an answer.
pub(super) async fn run_at<T, R>(
    here: &Here,
    shard: usize,
    once: Option<Once>,
    run: impl FnOnce(&mut Keyspace, Millis) -> Result<(Kept, T), R> + Send + 'static,
) -> Result<(Kept, T), R>
where
    T: Default + Send + 'static,
    R: From<Misused> + From<Error> + Send + 'static,
{
    let shards = here.app.engine.shards();
    let taken = match &once {
        Some(once) if claim::<R>(here, once, shard).await? => Some(once.clone()),
        _ => None,
    };
    let ran = here.run_at(shard, true, move |keys, now| {
        let result = match &once {
            Some(once) => at_most_once(once, keys, (shard, shards), now, run),
            None => run(keys, now),
        };
        let keep = result.is_ok();
        (result, keep)
    });
    let ran = ran.await;
    // What was refused has changed nothing, so its name is free. Where it is not known what became of it, the name stays taken.
    if let (Some(once), Ok(Err(_))) = (taken, &ran) {
        release(here, once).await;
    }
    ran?
}

/// Takes the name of a request at the name's home, where that is not the shard of the change: a repeat with other keys may
/// belong to another shard, and still must be seen. Tells whether it was free.
async fn claim<R: From<Misused> + From<Error>>(here: &Here, once: &Once, shard: usize) -> Result<bool, R> {
    let shards = here.app.engine.shards();
    let home = once.home(shards);
    if home == shard {
        return Ok(false);
    }
    let once = once.clone();
    let claimed = here.run_at(home, true, move |keys, now| {
        let claimed = once.claim(keys, shards, now);
        let keep = claimed.is_ok();
        (claimed, keep)
    });
    match claimed.await?? {
        Claim::New => Ok(true),
        Claim::Own => Ok(false),
        Claim::Other => Err(Misused::Other.into()),
    }
}

/// Lets go of a name. Where that fails it stays taken, as after a crash, until it expires.
async fn release(here: &Here, once: Once) {
    let shards = here.app.engine.shards();
    let released = here.run_at(once.home(shards), true, move |keys, now| {
        let released = once.release(keys, shards, now);
        let keep = released.is_ok();
        (released, keep)
    });
    if let Ok(Err(error)) | Err(error) = released.await {
        tracing::warn!(%error, "the name of a request that was refused stays taken");
    }
}

fn at_most_once<T: Default, R: From<Misused> + From<Error>>(
    once: &Once,
    keys: &mut Keyspace,
    place: (usize, usize),
    now: Millis,
    run: impl FnOnce(&mut Keyspace, Millis) -> Result<(Kept, T), R>,
) -> Result<(Kept, T), R> {
    match once.look(keys, place, now)? {
        Known::Again(kept) => return Ok((kept, T::default())),
        Known::Other => return Err(Misused::Other.into()),
        Known::New => {}
    }
    let (kept, told) = run(keys, now)?;
    if kept.is_too_large() {
        return Err(Misused::Answer.into());
    }
    once.keep(keys, place, &kept, now)?;
    Ok((kept, told))
}

#[cfg(test)]
mod tests {
    use super::super::rights::Rights;
    use super::*;

    fn named(target: &str, body: &'static str, headers: &[(&str, &str)]) -> Result<Option<Once>, Misused> {
        let mut request = hyper::Request::builder().method("POST").uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let head = request.body(()).unwrap().into_parts().0;
        let asked = Asked { head, body: body.into(), rights: Rights::All };
        of(&asked, &["x-form"])
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
            assert_eq!(named("/", "", headers).unwrap_err(), Misused::Header, "{headers:?}");
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

    fn told(keys: &mut Keyspace, once: &Once, body: &'static [u8]) -> Result<(Kept, Vec<u8>), Told> {
        let kept = Kept { status: 200, version: None, body: body.to_vec() };
        at_most_once(once, keys, (0, 1), Millis(1), |_, _| Ok((kept, vec![1])))
    }

    #[derive(Debug, PartialEq)]
    enum Told {
        Misused(Misused),
        Broken,
    }

    impl From<Misused> for Told {
        fn from(misused: Misused) -> Self {
            Told::Misused(misused)
        }
    }

    impl From<Error> for Told {
        fn from(_: Error) -> Self {
            Told::Broken
        }
    }

    #[test]
    fn a_repeat_gets_the_answer_and_nothing_beside_it() {
        let mut keys = Keyspace::in_memory();
        let once = Once::new(b"n", &[b"1"]);
        let failed = at_most_once::<(), Told>(&once, &mut keys, (0, 1), Millis(1), |_, _| Err(Told::Broken));
        assert_eq!(failed, Err(Told::Broken));
        let (first, beside) = told(&mut keys, &once, b"a").unwrap();
        assert_eq!((&*first.body, &*beside), (&b"a"[..], &[1][..]), "what is undone leaves no note");
        assert_eq!(told(&mut keys, &once, b"b"), Ok((first, Vec::new())));
        let other = Once::new(b"n", &[b"2"]);
        assert_eq!(told(&mut keys, &other, b"b"), Err(Told::Misused(Misused::Other)));
    }

    #[test]
    fn an_answer_that_is_too_large_is_not_kept() {
        let mut keys = Keyspace::in_memory();
        let once = Once::new(b"n", &[b"1"]);
        static LONG: [u8; ANSWER_KEPT_BYTES_MAX + 1] = [b'x'; ANSWER_KEPT_BYTES_MAX + 1];
        assert_eq!(told(&mut keys, &once, &LONG), Err(Told::Misused(Misused::Answer)));
        assert!(told(&mut keys, &once, &LONG[1..]).is_ok(), "at the limit it is");
    }
}

//! The body of a request, read within bounds on its size, its time, and the memory of all bodies together. Touches the request's
//! connection.
//!
//! Invariant: the bodies that are held count until they are dropped, so that many clients that send at the same time, or send slowly,
//! cannot fill the memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::request::RequestError;
use crate::bounds::{BODIES_BYTES_MAX, BODY_SMALL_BYTES};

/// The bytes of all bodies that are not small.
#[derive(Debug, Default)]
pub struct Bodies(AtomicUsize);

/// The share of one body, until it is dropped.
struct Share {
    of: Arc<Bodies>,
    counted: usize,
}

impl Share {
    /// Counts so many bytes, unless they are few. False if they do not fit.
    fn set(&mut self, bytes: usize) -> bool {
        if bytes <= BODY_SMALL_BYTES || bytes <= self.counted {
            return true;
        }
        let more = bytes - self.counted;
        self.counted = bytes;
        self.of.0.fetch_add(more, Ordering::Relaxed) + more <= BODIES_BYTES_MAX
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

/// A body that counts until it is dropped.
struct Counted {
    bytes: Vec<u8>,
    _share: Share,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads the whole body, of at most `most` bytes, within its timeout.
pub(crate) async fn read(
    bodies: &Arc<Bodies>,
    within: Duration,
    most: usize,
    body: Incoming,
) -> Result<Bytes, RequestError> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    // A client that announces the length gets the error before it sends the body.
    let announced = body.size_hint().lower();
    if announced > most as u64 {
        return Err(RequestError::TooLarge(most, announced));
    }
    let whole = collect(bodies, most, body);
    match tokio::time::timeout(within, whole).await {
        Ok(whole) => whole,
        Err(_) => Err(RequestError::TimedOut),
    }
}

async fn collect<B>(bodies: &Arc<Bodies>, most: usize, mut body: B) -> Result<Bytes, RequestError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: ToString,
{
    let announced = body.size_hint().exact().and_then(|exact| usize::try_from(exact).ok());
    let (mut first, mut whole) = (Bytes::new(), Vec::new());
    let mut share = Share { of: Arc::clone(bodies), counted: 0 };
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| RequestError::Unreadable(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        let len = first.len() + whole.len() + data.len();
        if len > most {
            return Err(RequestError::TooLarge(most, most as u64 + 1));
        }
        if first.is_empty() && whole.is_empty() {
            // Most bodies arrive in one part, which is not copied.
            first = data;
            continue;
        }
        if len > whole.capacity() {
            // Doubled as usual, but not beyond what may arrive.
            let capacity = len.max(len.saturating_mul(2).min(announced.unwrap_or(most)));
            if !share.set(capacity) {
                return Err(RequestError::BodiesFull);
            }
            whole.reserve_exact(capacity - whole.len());
        }
        whole.extend_from_slice(&std::mem::take(&mut first));
        whole.extend_from_slice(&data);
    }
    if whole.is_empty() {
        return Ok(first);
    }
    Ok(Bytes::from_owner(Counted { bytes: whole, _share: share }))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::Frame;

    use super::*;

    /// A body of these parts.
    struct Parts(VecDeque<Bytes>);

    impl Body for Parts {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
        }
    }

    fn collected(bodies: &Arc<Bodies>, most: usize, parts: &[&[u8]]) -> Result<Bytes, RequestError> {
        let parts = Parts(parts.iter().map(|part| Bytes::copy_from_slice(part)).collect());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(collect(bodies, most, parts))
    }

    #[test]
    fn parts_become_one_body_within_its_bound() {
        let bodies = Arc::default();
        for parts in [&[][..], &[&b"abc"[..]], &[b"a", b"", b"bc"], &[b"", b"ab", b"c"]] {
            let expected: Vec<u8> = parts.concat();
            assert_eq!(collected(&bodies, 3, parts).unwrap(), expected);
        }
        for parts in [&[&b"abcd"[..]][..], &[b"abc", b"d"]] {
            assert!(matches!(collected(&bodies, 3, parts), Err(RequestError::TooLarge(3, 4))));
        }
    }

    #[test]
    fn all_bodies_together_are_bounded_while_they_are_held() {
        let bodies = Arc::default();
        let part = vec![b'x'; 8 << 20];
        let body = || collected(&bodies, 16 << 20, &[&part, &part]);
        let mut held = Vec::new();
        let error = loop {
            match body() {
                Ok(bytes) => held.push(bytes),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, RequestError::BodiesFull));
        assert_eq!(held.len(), BODIES_BYTES_MAX / (16 << 20));
        assert!(collected(&bodies, 1 << 20, &[b"small", b"body"]).is_ok(), "small bodies are always read");
        held.pop();
        assert!(body().is_ok());
        drop(held);
        assert_eq!(bodies.0.load(Ordering::Relaxed), 0);
    }
}

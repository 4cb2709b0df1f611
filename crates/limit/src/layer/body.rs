//! The body of a response: the service's own with the lease that is held until it ends, or the text of a rejection.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Something that is released when it is dropped.
pub(super) trait Held: Send {}

impl<T: Send> Held for T {}

pin_project_lite::pin_project! {
    /// The body of a response of a [`LimitLayer`](super::LimitLayer).
    pub struct LimitBody<B> {
        #[pin]
        inner: Inner<B>,
        held: Option<Box<dyn Held>>,
    }
}

pin_project_lite::pin_project! {
    #[project = InnerProjection]
    enum Inner<B> {
        Service { #[pin] body: B },
        Rejection { text: Option<Bytes> },
    }
}

impl<B> LimitBody<B> {
    /// The service's own body, and the lease that is held until it ends.
    pub(super) fn service(body: B, held: Option<Box<dyn Held>>) -> Self {
        LimitBody { inner: Inner::Service { body }, held }
    }

    /// The text of a rejection.
    pub(super) fn rejection(text: String) -> Self {
        LimitBody { inner: Inner::Rejection { text: Some(Bytes::from(text)) }, held: None }
    }
}

impl<B: Body<Data = Bytes>> Body for LimitBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = match this.inner.project() {
            InnerProjection::Rejection { text } => {
                return Poll::Ready(text.take().map(|text| Ok(Frame::data(text))));
            }
            InnerProjection::Service { body } => std::task::ready!(body.poll_frame(cx)),
        };
        // Nothing follows the end or an error, and the reader may keep the body for a long time.
        if !matches!(frame, Some(Ok(_))) {
            this.held.take();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Rejection { text } => text.is_none(),
            Inner::Service { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Rejection { text } => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Inner::Service { body } => body.size_hint(),
        }
    }
}

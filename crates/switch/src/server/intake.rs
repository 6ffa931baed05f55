//! Incoming requests: bounds on the bytes of incomplete messages.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Bytes, http};
use tonic::server::NamedService;

use tributary_access::server::Peer;

use super::connections::{Connections, Held};
use super::service::Service;

/// Bytes of gRPC's header before each message: a flag and the length.
const HEADER: usize = 5;

/// The generated service, with bounds on incomplete messages of clients.
#[derive(Clone, Debug)]
pub(super) struct Intake<S> {
    inner: S,
    service: Service,
}

impl<S> Intake<S> {
    pub(super) fn new(inner: S, service: Service) -> Self {
        Self { inner, service }
    }
}

impl<S: NamedService> NamedService for Intake<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> tonic::codegen::Service<http::Request<Body>> for Intake<S>
where
    S: tonic::codegen::Service<http::Request<Body>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> S::Future {
        let extensions = request.extensions();
        // Encrypted connections tell more.
        let known = extensions.get::<Peer>().map(|peer| peer.connection);
        let connection = known.or_else(|| extensions.get().copied()).unwrap_or_default();
        let held = Connections::hold(self.service.connections(), connection);
        let service = self.service.clone();
        let counted = |body| {
            Body::new(Counted { body, held, service, header: Vec::new(), left: 0, bytes: 0 })
        };
        self.inner.call(request.map(counted))
    }
}

/// A body whose incomplete message is counted.
struct Counted {
    body: Body,
    held: Held,
    service: Service,
    /// The received part of the next message's header.
    header: Vec<u8>,
    /// Remaining and received bytes of the current message.
    left: usize,
    bytes: usize,
}

impl Counted {
    fn note(&mut self, mut data: &[u8]) -> Result<(), Status> {
        while !data.is_empty() {
            let wanted = if self.left > 0 { self.left } else { HEADER - self.header.len() };
            let (part, rest) = data.split_at(wanted.min(data.len()));
            data = rest;
            if self.left > 0 {
                self.left -= part.len();
                self.bytes += part.len();
                if self.left == 0 {
                    self.bytes = 0;
                }
                continue;
            }
            self.header.extend_from_slice(part);
            if let [_, length @ ..] = &self.header[..]
                && let Ok(length) = <[u8; 4]>::try_from(length)
            {
                self.left = u32::from_be_bytes(length) as usize;
                self.header.clear();
            }
        }
        let service = &self.service;
        self.held.set(self.bytes, |connection| service.is_controller(connection))
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let noted = frame.and_then(|frame| match frame.data_ref() {
            Some(data) => self.note(data).map(|()| frame),
            None => Ok(frame),
        });
        Poll::Ready(Some(noted))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

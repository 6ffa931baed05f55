//! Incoming requests: bounds on the bytes of incomplete messages.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Bytes, http};

use super::connections::{Connections, Held, connection};
use super::service::Service;

/// Bytes of gRPC's header before each message: a flag and the length.
const HEADER: usize = 5;

/// A request whose incomplete messages are counted, and refused if they are too many.
pub(super) fn counted(service: &Service, request: http::Request<Body>) -> http::Request<Body> {
    let connection = connection(request.extensions());
    let held = Connections::hold(service.connections(), connection);
    let service = service.clone();
    request.map(|body| {
        Body::new(Counted { body, held, service, header: Vec::new(), left: 0, bytes: 0 })
    })
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

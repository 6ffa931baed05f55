//! HTTP/2 on connections. All gRPC servers are served here, so that the transport is compiled once; a release does not
//! optimise this crate, which takes time to compile and little to run.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower::{Layer, Service};

use crate::connection::{Incoming, Peer};
use crate::policy::Policy;

/// Pings that find out whether a client is gone.
#[derive(Clone, Copy, Debug)]
pub struct Pings {
    /// Their interval.
    pub every: Duration,
    /// Time for the answer.
    pub patience: Duration,
}

/// Settings of HTTP/2.
#[derive(Clone, Copy, Debug)]
pub struct Http2 {
    /// Pings on silent connections, if clients get any.
    pub pings: Option<Pings>,
    /// The flow-control window of a call; `None` for the usual one.
    pub call_window: Option<u32>,
    /// The flow-control window of a connection.
    pub connection_window: u32,
    /// Calls of a connection, including streams.
    pub calls: u32,
}

/// Serves until `incoming` ends, or until `shutdown` resolves and the calls in progress have ended. With a policy,
/// each request gets the grant of its caller, or is refused.
pub fn serve(
    services: Routes,
    policy: Option<Policy>,
    incoming: Incoming,
    http2: Http2,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
) -> Pin<Box<dyn Future<Output = Result<(), tonic::transport::Error>> + Send>> {
    // In an async function, all of this would be compiled again by each crate that calls it.
    let router = tonic::transport::Server::builder()
        .http2_keepalive_interval(http2.pings.map(|pings| pings.every))
        .http2_keepalive_timeout(http2.pings.map(|pings| pings.patience))
        .initial_stream_window_size(http2.call_window)
        .initial_connection_window_size(http2.connection_window)
        .max_concurrent_streams(http2.calls)
        .layer(GuardLayer(policy))
        .add_routes(services);
    Box::pin(router.serve_with_incoming_shutdown(incoming, shutdown))
}

/// Puts a guard before services.
#[derive(Clone, Debug)]
struct GuardLayer(Option<Policy>);

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, inner: S) -> Guard<S> {
        Guard { inner, policy: self.0.clone() }
    }
}

/// Gives each request the grant of its caller, if there is a policy.
#[derive(Clone)]
struct Guard<S> {
    inner: S,
    policy: Option<Policy>,
}

impl<S> Service<Request<Body>> for Guard<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Some(policy) = &self.policy else { return Box::pin(self.inner.call(request)) };
        let peer = request.extensions().get::<Peer>();
        let caller = peer.map(|peer| peer.caller.clone());
        let grant = caller.as_ref().and_then(|caller| policy.grant(caller));
        let Some(grant) = grant else {
            let who = caller.map_or_else(|| "nobody".to_owned(), |caller| caller.to_string());
            let refusal = Status::permission_denied(format!("{who} may not use this server"));
            return Box::pin(async move { Ok(refusal.into_http()) });
        };
        request.extensions_mut().insert(grant);
        request.extensions_mut().insert(policy.clone());
        Box::pin(self.inner.call(request))
    }
}

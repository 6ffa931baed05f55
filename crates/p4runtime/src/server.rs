//! The gRPC service of a device.
//!
//! What tonic and prost generate for each service is compiled here, once for all devices: a release does not
//! optimise this crate, which takes time to compile and little to run.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming, async_trait};

use crate::p4::v1::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use crate::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, ReadRequest, ReadResponse,
    SetForwardingPipelineConfigRequest, SetForwardingPipelineConfigResponse, StreamMessageRequest,
    StreamMessageResponse, WriteRequest, WriteResponse,
};

pub use tonic::codegen::BoxStream;

/// A device that answers the calls.
pub type Device = dyn P4Runtime<
        ReadStream = BoxStream<ReadResponse>,
        StreamChannelStream = BoxStream<StreamMessageResponse>,
    >;

/// What is done to each request before its messages are read.
pub type Intake = dyn Fn(http::Request<Body>) -> http::Request<Body> + Send + Sync;

/// The service of a device. Messages of more than `most_bytes` bytes are refused.
#[must_use]
pub fn routes(device: Arc<Device>, most_bytes: usize, intake: Arc<Intake>) -> Routes {
    let calls = P4RuntimeServer::new(Calls(device))
        .max_decoding_message_size(most_bytes)
        .max_encoding_message_size(most_bytes);
    Routes::new(Entrance { calls, intake })
}

/// The generated service, after the intake.
#[derive(Clone)]
struct Entrance {
    calls: P4RuntimeServer<Calls>,
    intake: Arc<Intake>,
}

impl NamedService for Entrance {
    const NAME: &'static str = <P4RuntimeServer<Calls> as NamedService>::NAME;
}

impl Service<http::Request<Body>> for Entrance {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<http::Request<Body>>::poll_ready(&mut self.calls, context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.calls.call((self.intake)(request))
    }
}

/// The generated service needs a type of a known size.
struct Calls(Arc<Device>);

#[async_trait]
impl P4Runtime for Calls {
    async fn write(
        &self,
        request: Request<WriteRequest>,
    ) -> Result<Response<WriteResponse>, Status> {
        self.0.write(request).await
    }

    type ReadStream = BoxStream<ReadResponse>;

    async fn read(
        &self,
        request: Request<ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        self.0.read(request).await
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        self.0.set_forwarding_pipeline_config(request).await
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        self.0.get_forwarding_pipeline_config(request).await
    }

    type StreamChannelStream = BoxStream<StreamMessageResponse>;

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        self.0.stream_channel(request).await
    }

    async fn capabilities(
        &self,
        request: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        self.0.capabilities(request).await
    }
}

//! The gRPC service of an emulated cross-connect.

use tonic::{Request, Response, Status};
use tributary_access::{Grant, Role};
use tributary_api::crossconnect::v1;
use tributary_api::crossconnect::v1::cross_connect_server::{CrossConnect, CrossConnectServer};

use super::{Control, Ended, messages};

/// Longest request: 65535 ports in pairs, at most 10 bytes each, and some room.
const MESSAGE_LIMIT: usize = 1 << 20;

/// The gRPC service that lets controllers use `control`.
#[must_use]
pub fn service(control: Control) -> CrossConnectServer<impl CrossConnect> {
    CrossConnectServer::new(Service(control)).max_decoding_message_size(MESSAGE_LIMIT)
}

struct Service(Control);

#[tonic::async_trait]
impl CrossConnect for Service {
    async fn read(
        &self,
        request: Request<v1::ReadRequest>,
    ) -> Result<Response<v1::ReadResponse>, Status> {
        Grant::of(&request)?.require(Role::Observe)?;
        let circuits = messages::write(&self.0.circuits().await?);
        Ok(Response::new(v1::ReadResponse { ports: self.0.ports().into(), circuits }))
    }

    async fn change(
        &self,
        request: Request<v1::ChangeRequest>,
    ) -> Result<Response<v1::ChangeResponse>, Status> {
        Grant::of(&request)?.require(Role::Operate)?;
        let next = messages::read(&request.get_ref().circuits).map_err(Status::invalid_argument)?;
        let changed = self.0.change(next).await?;
        changed.map_err(|reason| Status::invalid_argument(reason.to_string()))?;
        Ok(Response::new(v1::ChangeResponse {}))
    }
}

impl From<Ended> for Status {
    fn from(ended: Ended) -> Self {
        Self::unavailable(ended.to_string())
    }
}

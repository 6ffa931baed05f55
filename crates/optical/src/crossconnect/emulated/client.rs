//! The controller's side of an emulated cross-connect.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use tonic::transport::Channel;
use tonic::{Code, Status};
use tributary_access::{ClientKeys, Remote, remote};
use tributary_api::crossconnect::v1;
use tributary_api::crossconnect::v1::cross_connect_client::CrossConnectClient;

use super::messages;
use crate::crossconnect::{CrossConnect, Error};
use tributary_model::circuits::Circuits;

/// An emulated cross-connect, over gRPC.
#[derive(Debug)]
pub struct Client {
    name: String,
    limit: Duration,
    client: CrossConnectClient<Channel>,
}

/// The text is not an address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not an address: write HOST:PORT or unix:PATH")]
pub struct BadAddress(pub String);

impl Client {
    /// A client of the process that listens at `address`, HOST:PORT or unix:PATH. It connects when it
    /// is used, within a Tokio runtime. `limit` is the time limit for each answer; it must be longer
    /// than the outage.
    ///
    /// # Errors
    /// If the address is malformed.
    pub fn new(
        address: &str,
        limit: Duration,
        keys: Option<Arc<ClientKeys>>,
    ) -> Result<Self, BadAddress> {
        let bad = || BadAddress(address.to_owned());
        let remote = Remote::new(address, keys).map_err(|error| BadAddress(error.0))?;
        let remote = remote.filter(|_| !address.ends_with(":0")).ok_or_else(bad)?;
        let client = CrossConnectClient::new(remote.with_patience(limit).connect_lazy());
        Ok(Self { name: format!("emulated:{address}"), limit, client })
    }

    async fn read(&mut self) -> Result<v1::ReadResponse, Error> {
        let mut client = self.client.clone();
        self.answer(client.read(v1::ReadRequest {})).await
    }

    async fn answer<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, Error> {
        let device = self.name.clone();
        match tokio::time::timeout(self.limit, call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            // An error below gRPC has a cause. The process may have died during the call.
            Ok(Err(status)) if status.code() == Code::Unavailable || status.source().is_some() => {
                Err(Error::Unreachable { device, reason: remote::reason(&status) })
            }
            Ok(Err(status)) => Err(Error::Refused { device, reason: remote::reason(&status) }),
            Err(_) => Err(Error::Silent { device, limit: self.limit }),
        }
    }

    fn refused(&self, reason: impl Into<String>) -> Error {
        Error::Refused { device: self.name.clone(), reason: reason.into() }
    }
}

#[tonic::async_trait]
impl CrossConnect for Client {
    fn name(&self) -> &str {
        &self.name
    }

    async fn ports(&mut self) -> Result<u16, Error> {
        let ports = self.read().await?.ports;
        u16::try_from(ports).map_err(|_| self.refused(format!("{ports} ports are too many")))
    }

    async fn circuits(&mut self) -> Result<Circuits, Error> {
        let answer = self.read().await?;
        messages::read(&answer.circuits).map_err(|reason| self.refused(reason))
    }

    async fn set(&mut self, next: &Circuits) -> Result<(), Error> {
        let mut client = self.client.clone();
        let request = v1::ChangeRequest { circuits: messages::write(next) };
        self.answer(client.change(request)).await?;
        Ok(())
    }
}

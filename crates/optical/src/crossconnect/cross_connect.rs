//! The interface that all kinds of cross-connects share.

use std::fmt;
use std::time::Duration;

use tributary_model::circuits::{Circuits, Invalid, Port};

/// A cross-connect, as its controller uses it. One implementation per kind of device.
///
/// Implementations connect when they are first used, and again after a device was lost. So an error
/// is not final: call again. After an error of [`change`](Self::change), any of the old and new
/// circuits may exist, and no others. Repeat the change, or read the circuits.
///
/// Dropping a future of [`change`](Self::change) does not stop the device.
#[tonic::async_trait]
pub trait CrossConnect: fmt::Debug + Send {
    /// Kind and address, for messages.
    fn name(&self) -> &str;

    /// Number of ports.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Silent`], [`Error::Refused`].
    async fn ports(&mut self) -> Result<u16, Error>;

    /// The circuits that exist now, read from the device.
    ///
    /// # Errors
    /// Those of [`ports`](Self::ports); [`Error::Foreign`].
    async fn circuits(&mut self) -> Result<Circuits, Error>;

    /// Has the device change to `next`, and returns when it reports that all of `next` carry light.
    /// Touches only the difference. Drivers implement this; users call [`change`](Self::change).
    ///
    /// # Errors
    /// Those of [`ports`](Self::ports).
    async fn set(&mut self, next: &Circuits) -> Result<(), Error>;

    /// Changes to `next`, and reads the circuits back. Circuits that exist already carry light
    /// throughout. Everything else that the device was configured for is removed.
    ///
    /// # Errors
    /// Those of [`circuits`](Self::circuits), [`Error::Invalid`] before anything has changed, and
    /// [`Error::Wrong`].
    async fn change(&mut self, next: &Circuits) -> Result<(), Error> {
        let ports = self.ports().await?;
        let device = self.name().to_owned();
        if let Err(reason) = next.fit(ports) {
            return Err(Error::Invalid { device, reason });
        }
        self.set(next).await?;
        let read = self.circuits().await;
        let (Ok(found) | Err(Error::Foreign { circuits: found, .. })) = &read else {
            return read.map(drop);
        };
        let differs = |port: &Port| found.peer(*port) != next.peer(*port);
        let ports: Vec<Port> = (1..=ports).map(Port).filter(differs).collect();
        if ports.is_empty() {
            return read.map(drop);
        }
        Err(Error::Wrong { device, ports, found: found.clone() })
    }
}

/// Why a cross-connect could not be read or changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// No connection, or it was lost.
    #[error("cannot reach the cross-connect {device}: {reason}")]
    Unreachable {
        /// [`CrossConnect::name`].
        device: String,
        /// The reason.
        reason: String,
    },
    /// No answer in time.
    #[error("the cross-connect {device} does not answer within {limit:?}")]
    Silent {
        /// [`CrossConnect::name`].
        device: String,
        /// The time limit.
        limit: Duration,
    },
    /// The device answered with an error, or not as its protocol demands.
    #[error("the cross-connect {device} refuses: {reason}")]
    Refused {
        /// [`CrossConnect::name`].
        device: String,
        /// What the device answered.
        reason: String,
    },
    /// The device cannot have these circuits.
    #[error("the cross-connect {device} cannot have these circuits: {reason}")]
    Invalid {
        /// [`CrossConnect::name`].
        device: String,
        /// The reason.
        reason: Invalid,
    },
    /// The device has a configuration that is not made of circuits, for instance by another
    /// controller. A change removes it.
    #[error(
        "the cross-connect {device} has been configured for more than circuits: {}; a change of \
         circuits removes this",
        found.join(", ")
    )]
    Foreign {
        /// [`CrossConnect::name`].
        device: String,
        /// Each piece of such configuration.
        found: Vec<String>,
        /// The circuits that exist besides.
        circuits: Circuits,
    },
    /// After a change that the device reported as done, it has other circuits than those asked for.
    #[error(
        "the cross-connect {device} did not do as asked at ports {}: its circuits are {found}",
        list(ports)
    )]
    Wrong {
        /// [`CrossConnect::name`].
        device: String,
        /// The ports whose circuits differ.
        ports: Vec<Port>,
        /// All circuits of the device.
        found: Circuits,
    },
}

fn list(ports: &[Port]) -> String {
    ports.iter().map(Port::to_string).collect::<Vec<_>>().join(", ")
}

//! A cross-connect in memory with deterministic faults, for tests of its users.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::crossconnect::{CrossConnect, Error};
use tributary_model::circuits::{Circuits, Port};

/// Stands in for a device. Clones are the same device, so that a test can keep one while its subject
/// uses another.
#[derive(Clone, Debug)]
pub struct Double {
    limit: Duration,
    device: Arc<Mutex<Device>>,
}

#[derive(Debug)]
struct Device {
    ports: u16,
    circuits: Circuits,
    fault: Option<Fault>,
    changes: usize,
}

/// What is wrong with a [`Double`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It cannot be reached.
    Lost,
    /// It accepts requests and does not answer. Changes are not made.
    Silent,
    /// It makes changes, but its answers are lost.
    Mute,
    /// It refuses changes.
    Refusing,
    /// It reports changes as done, but this port stays dark.
    Stuck(Port),
}

const NAME: &str = "double";

impl Double {
    /// A device without circuits and without faults. `limit` is the time after which its users stop
    /// waiting for an answer.
    #[must_use]
    pub fn new(ports: u16, limit: Duration) -> Self {
        let device = Device { ports, circuits: Circuits::DARK, fault: None, changes: 0 };
        Self { limit, device: Arc::new(Mutex::new(device)) }
    }

    /// Begins or ends a fault.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.lock().fault = fault;
    }

    /// Restarts the device, which forgets its circuits.
    pub fn restart(&self) {
        self.lock().circuits = Circuits::DARK;
    }

    /// Its circuits, whatever its fault.
    #[must_use]
    pub fn truth(&self) -> Circuits {
        self.lock().circuits.clone()
    }

    /// Number of requests that changed its circuits.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.lock().changes
    }

    fn lock(&self) -> MutexGuard<'_, Device> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an answer that does not come, or reports why there is no connection.
    async fn contact(&self, fault: Option<Fault>) -> Result<(), Error> {
        let device = NAME.to_owned();
        match fault {
            Some(Fault::Lost) => {
                Err(Error::Unreachable { device, reason: "its cable is unplugged".into() })
            }
            Some(Fault::Silent | Fault::Mute) => {
                tokio::time::sleep(self.limit).await;
                Err(Error::Silent { device, limit: self.limit })
            }
            _ => Ok(()),
        }
    }
}

#[tonic::async_trait]
impl CrossConnect for Double {
    fn name(&self) -> &str {
        NAME
    }

    async fn ports(&mut self) -> Result<u16, Error> {
        // The number of ports is known since the first contact, so that a fault shows in the change.
        Ok(self.lock().ports)
    }

    async fn circuits(&mut self) -> Result<Circuits, Error> {
        let fault = self.lock().fault;
        self.contact(fault).await?;
        Ok(self.truth())
    }

    async fn set(&mut self, next: &Circuits) -> Result<(), Error> {
        let fault = self.lock().fault;
        if fault == Some(Fault::Refusing) {
            return Err(Error::Refused { device: NAME.into(), reason: "it is locked".into() });
        }
        if !matches!(fault, Some(Fault::Lost | Fault::Silent)) {
            let mut next = next.clone();
            if let Some(Fault::Stuck(port)) = fault {
                next.part(port);
            }
            let mut device = self.lock();
            device.changes += usize::from(device.circuits != next);
            device.circuits = next;
        }
        self.contact(fault).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(a: u16, b: u16) -> Circuits {
        Circuits::new([(Port(a), Port(b))]).unwrap()
    }

    #[tokio::test]
    async fn each_fault_has_its_error() {
        let double = Double::new(4, Duration::from_millis(3));
        let mut user: Box<dyn CrossConnect> = Box::new(double.clone());
        user.change(&pair(1, 2)).await.unwrap();
        assert_eq!(user.circuits().await, Ok(pair(1, 2)));

        let invalid = user.change(&pair(1, 5)).await.unwrap_err().to_string();
        assert_eq!(
            invalid,
            "the cross-connect double cannot have these circuits: the cross-connect has ports 1 to 4, not 5"
        );
        for (fault, message, truth) in [
            (Fault::Lost, "cannot reach the cross-connect double: its cable is unplugged", (1, 2)),
            (Fault::Silent, "the cross-connect double does not answer within 3ms", (1, 2)),
            (Fault::Refusing, "the cross-connect double refuses: it is locked", (1, 2)),
            (Fault::Mute, "the cross-connect double does not answer within 3ms", (3, 4)),
        ] {
            double.set_fault(Some(fault));
            assert_eq!(user.change(&pair(3, 4)).await.unwrap_err().to_string(), message);
            assert_eq!(double.truth(), pair(truth.0, truth.1), "{fault:?}");
        }
        double.set_fault(Some(Fault::Stuck(Port(2))));
        assert_eq!(
            user.change(&pair(2, 3)).await.unwrap_err().to_string(),
            "the cross-connect double did not do as asked at ports 2, 3: its circuits are none"
        );
        double.set_fault(None);
        user.change(&pair(2, 3)).await.unwrap();
        double.restart();
        assert_eq!(user.circuits().await, Ok(Circuits::DARK));
        assert_eq!(double.changes(), 4, "1-2, then 3-4, then none, then 2-3");
    }
}

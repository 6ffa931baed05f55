//! A connection to a switch, and the names of its program.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tonic::Code;
use tributary_controller::client::{Client, Failure, Stream, SwitchConfig};
use tributary_p4runtime::p4::v1::{Entity, Update, update};

use crate::names::Names;
use crate::{Error, text};

/// How long a switch may take to notice that a controller has left.
const GRACE: Duration = Duration::from_secs(1);
/// Time between two attempts meanwhile.
const PAUSE: Duration = Duration::from_millis(50);
/// Updates per request.
const BATCH: usize = 500;

/// A connection to a switch.
///
/// Reading needs no rights. A command that writes becomes the primary controller, and gives that up at its end, unless
/// the session [keeps](Self::keep) it.
#[derive(Debug)]
pub struct Session {
    client: Client,
    names: Names,
    primary: Option<Stream>,
    keep: bool,
}

impl Session {
    /// Connects, and reads the names of the program.
    ///
    /// # Errors
    /// If no switch answers.
    pub async fn connect(config: SwitchConfig) -> Result<Self, Error> {
        let client = Client::connect(Arc::new(config)).await?;
        let mut session = Self { client, names: Names::default(), primary: None, keep: false };
        session.refresh().await?;
        Ok(session)
    }

    /// Stays primary between commands, from the first one that writes: for many commands at once.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// The names of the program, as they were last read.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Reads the names again: another controller may have set another program.
    ///
    /// # Errors
    /// If the switch does not answer.
    pub async fn refresh(&mut self) -> Result<(), Error> {
        let info = self.client.running().await?.and_then(|running| running.p4info);
        let info = info.unwrap_or_default();
        if *self.names.info() != info {
            self.names = Names::new(info);
        }
        Ok(())
    }

    /// The calls that need no names.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Becomes primary, if it is not.
    pub(crate) async fn become_primary(&mut self) -> Result<&mut Stream, Error> {
        let stream = match self.primary.take() {
            Some(stream) => stream,
            None => self.win().await?,
        };
        Ok(self.primary.insert(stream))
    }

    /// Becomes primary. The previous command may have had the same election ID, and the switch takes a moment to notice
    /// that it has left. The ID is the client's present one, which arbitration may have raised.
    async fn win(&mut self) -> Result<Stream, Error> {
        let deadline = Instant::now() + GRACE;
        loop {
            match self.client.arbitrate().await {
                Err(tributary_controller::Error::NotPrimary { primary, own, .. })
                    if primary == own && Instant::now() < deadline =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Gives up being primary, unless the session keeps it: at the end of a command, also of one that was cancelled.
    pub fn release(&mut self) {
        if !self.keep {
            self.primary = None;
        }
    }

    pub(crate) async fn read(&self, entity: Entity) -> Result<Vec<Entity>, Error> {
        Ok(self.client.read(vec![entity]).await?)
    }

    /// Writes updates of one kind, and becomes primary for that.
    pub(crate) async fn write(
        &mut self,
        kind: update::Type,
        entities: Vec<Entity>,
    ) -> Result<usize, Error> {
        if entities.is_empty() {
            return Ok(0);
        }
        self.become_primary().await?;
        let update = |entity| Update { r#type: kind.into(), entity: Some(entity) };
        let updates: Vec<Update> = entities.into_iter().map(update).collect();
        for batch in updates.chunks(BATCH) {
            let failures = self.client.try_write(batch).await?;
            if let Some(first) = failures.first() {
                return Err(self.refused(batch, &failures, first));
            }
        }
        Ok(updates.len())
    }

    fn refused(&self, batch: &[Update], failures: &[Failure], first: &Failure) -> Error {
        let entity = batch.get(first.index).and_then(|update| update.entity.as_ref());
        Error::Refused {
            what: entity.map_or_else(|| "an update".to_owned(), |one| text::show(&self.names, one)),
            reason: first.reason.clone(),
            failed: failures.len(),
            all: batch.len(),
            fix: match first.code {
                Code::AlreadyExists => Some("to replace it, use `change`"),
                Code::NotFound => Some("`dump` and the lists show what the switch has"),
                Code::ResourceExhausted => Some("delete other entries first"),
                _ => None,
            },
        }
    }
}

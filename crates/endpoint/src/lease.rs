//! A job that this process has admitted at a controller, and that ends with the process.
//!
//! The process holds the job's lease: a stream that the controller watches. Sums need no controller, so they
//! go on while it is away. The process holds the lease again as soon as there is an answer.
//!
//! | answer | consequence |
//! | --- | --- |
//! | none, or a broken stream | ask again, at least every 0.5 s |
//! | the stream ends without error, or the job is not known, or another process holds the lease | the job is lost |

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tributary_access::{ClientKeys, Remote};
use tributary_proto::jobs::v1;
use tributary_proto::jobs::v1::jobs_client::JobsClient;
use tributary_protocol::{Assignment, Rate};
use tributary_wire::{Epoch, JobId, Run};

use crate::stream::{KEEPALIVE, assignment, reason};

/// Pauses before a request is repeated: the first, and the one to which they double.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Timeout of a connection and of an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Timeout of an admission or a release, which change all switches of a job.
const CHANGE: Duration = Duration::from_secs(60);

/// Where a controller listens: HOST:PORT or unix:PATH, perhaps behind `http://`, `https://` or
/// `tributary://`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// HOST:PORT or unix:PATH.
    at: String,
    /// Whether the connection is encrypted, if the address says so.
    encrypted: Option<bool>,
}

impl FromStr for Address {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let schemes = [("http://", Some(false)), ("https://", Some(true)), ("tributary://", None)];
        let found = schemes
            .iter()
            .find_map(|(scheme, encrypted)| Some((text.strip_prefix(scheme)?, *encrypted)));
        let (at, encrypted) = found.unwrap_or((text, None));
        let at = at.strip_suffix('/').unwrap_or(at).to_owned();
        ensure!(
            Remote::new(&at, None).is_ok_and(|remote| remote.is_some()),
            "`{text}` is not the address of a controller; write HOST:PORT, tributary://HOST:PORT, \
             https://HOST:PORT or unix:PATH"
        );
        Ok(Self { at, encrypted })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.at)
    }
}

/// A controller, and how to connect to it.
#[derive(Clone, Debug)]
pub struct Controller {
    address: Arc<str>,
    remote: Remote,
}

impl Controller {
    /// The controller at an address, over TLS if there are certificates.
    ///
    /// # Errors
    /// If the address and the certificates contradict each other, or the latter are unusable.
    pub fn new(address: &Address, keys: Option<Arc<ClientKeys>>) -> Result<Self> {
        match (address.encrypted, &keys) {
            (Some(true), None) => {
                bail!(
                    "the controller is at https://{address}, and there is no root for its certificate"
                )
            }
            (Some(false), Some(_)) => bail!(
                "the controller is at http://{address}, which is not encrypted, and there is a root for \
                 its certificate; write https://{address}, or give no root"
            ),
            _ => {}
        }
        let remote = Remote::new(&address.at, keys)?.context("not an address")?;
        let remote = remote.with_keepalive(KEEPALIVE);
        Ok(Self { address: address.to_string().into(), remote })
    }
}

/// A job to admit. It is summed in the network, and has no parameter server.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its name, for people.
    pub name: String,
    /// Names of the workers' hosts.
    pub workers: Vec<String>,
    /// Aggregators wanted.
    pub size: u32,
}

/// An admitted job and its lease. If it is dropped, the controller releases the job after a grace period.
#[derive(Debug)]
pub struct Leased {
    /// The run of the admission, which names the lease.
    run: Run,
    /// That of the current run.
    epoch: Epoch,
    assignment: Assignment,
    rate: Option<Rate>,
    address: Arc<str>,
    client: JobsClient<Channel>,
    holder: JoinHandle<()>,
}

impl Leased {
    /// Admits a job, in the calling Tokio runtime. If the job is lost later, `lost` is told how: text that
    /// follows "the controller at …".
    ///
    /// # Errors
    /// If the controller does not answer or refuses the job.
    pub async fn admit(
        controller: &Controller,
        request: Request,
        lost: impl FnOnce(String) + Send + 'static,
    ) -> Result<Self> {
        let address = Arc::clone(&controller.address);
        let channel = controller.remote.connect().await.map_err(|error| {
            anyhow!(
                "no controller answers at {address} ({}); start `tributary controller --on-demand`, or \
                 correct the address",
                crate::root_cause(&error)
            )
        })?;
        let mut client = JobsClient::new(channel);
        let Request { name, workers, size } = request;
        let aggregation = v1::Aggregation::Network.into();
        let admission = v1::AdmitRequest {
            name,
            workers,
            size,
            aggregation,
            lease: true,
            ..v1::AdmitRequest::default()
        };
        let refused = |status: Status| {
            anyhow!("the controller at {address} refuses the job: {}", reason(&status))
        };
        let admitted = tokio::time::timeout(CHANGE, client.admit(admission)).await;
        let admitted =
            admitted.with_context(|| format!("the controller at {address} takes too long"))?;
        let admitted = admitted.map_err(refused)?.into_inner();
        let senseless = || format!("the controller at {address} answers something senseless");
        let job = u16::try_from(admitted.job_id).ok().and_then(JobId::new);
        let run = job.zip(Epoch::new(admitted.epoch)).map(|(job, epoch)| job.run(epoch));
        let run = run.with_context(senseless)?;
        let assignment = assignment(admitted.assignment.as_ref()).ok().with_context(senseless)?;
        let told = hold(&mut client, run).await.map_err(refused)?;
        let holder = Holder { run, address: Arc::clone(&address), client: client.clone() };
        let holder = tokio::spawn(holder.keep(told, lost));
        let rate = Rate::new(admitted.rate);
        Ok(Self { run, epoch: run.epoch, assignment, rate, address, client, holder })
    }

    /// The job's first run.
    #[must_use]
    pub fn run(&self) -> Run {
        self.run
    }

    /// Where the controller is.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How switches serve the job.
    #[must_use]
    pub fn assignment(&self) -> Assignment {
        self.assignment
    }

    /// The most that each worker may send.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Begins another run of the job, when all its workers have all results of this one. Asks again until
    /// there is an answer.
    ///
    /// # Errors
    /// If the controller refuses, so that the job is lost: text that follows "the controller at …".
    pub async fn renew(&mut self) -> Result<Epoch, String> {
        let (job_id, epoch) = (self.run.job.get().into(), self.run.epoch.get());
        let request = v1::RenewRequest { job_id, epoch, over: self.epoch.get() };
        let mut pause = FIRST_PAUSE;
        loop {
            let answer = tokio::time::timeout(CHANGE, self.client.renew(request)).await;
            let status = match answer {
                Ok(Ok(answer)) => {
                    let next = Epoch::new(answer.into_inner().epoch);
                    self.epoch = next.ok_or("answers something senseless")?;
                    return Ok(self.epoch);
                }
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded("it takes too long"),
            };
            if is_final(&status) {
                return Err(format!("does not continue it: {}", reason(&status)));
            }
            if pause == FIRST_PAUSE {
                let (run, address) = (self.run, &self.address);
                let why = reason(&status);
                tracing::warn!("{run}: the controller at {address} begins no other run yet: {why}");
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Releases the job. Returns how many aggregators were still in use. If this fails, the controller
    /// releases the job by itself.
    ///
    /// # Errors
    /// If the controller does not answer or cannot release the job.
    pub async fn release(&mut self) -> Result<u32> {
        self.holder.abort();
        let request = v1::ReleaseRequest { job_id: self.run.job.get().into() };
        let released = tokio::time::timeout(PATIENCE, self.client.release(request)).await;
        match released {
            Ok(Ok(answer)) => Ok(answer.into_inner().freed),
            // It is gone, which is what was wanted.
            Ok(Err(status)) if status.code() == Code::NotFound => Ok(0),
            Ok(Err(status)) => bail!(
                "job {} is not released yet: the controller at {} answers: {}",
                self.run.job,
                self.address,
                reason(&status)
            ),
            Err(_) => bail!(
                "job {} is not released yet: the controller at {} does not answer",
                self.run.job,
                self.address
            ),
        }
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        self.holder.abort();
    }
}

/// An answer in time.
async fn within<T>(answer: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let late = |_| Status::deadline_exceeded(format!("no answer came in {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, answer).await.map_err(late)?
}

/// A stream that holds a lease, after its first message.
async fn hold(
    client: &mut JobsClient<Channel>,
    run: Run,
) -> Result<Streaming<v1::HoldResponse>, Status> {
    let request = v1::HoldRequest { job_id: run.job.get().into(), epoch: run.epoch.get() };
    let mut told = within(client.hold(request)).await?.into_inner();
    match within(told.message()).await? {
        Some(_) => Ok(told),
        None => Err(Status::not_found("it was released")),
    }
}

/// Whether it makes no sense to ask again.
fn is_final(status: &Status) -> bool {
    use Code::{AlreadyExists, FailedPrecondition, NotFound, PermissionDenied, Unimplemented};
    let code = status.code();
    matches!(code, NotFound | AlreadyExists | FailedPrecondition | PermissionDenied | Unimplemented)
}

struct Holder {
    run: Run,
    address: Arc<str>,
    client: JobsClient<Channel>,
}

impl Holder {
    /// Holds the lease until the job is lost.
    async fn keep(mut self, told: Streaming<v1::HoldResponse>, lost: impl FnOnce(String)) {
        let mut held = Some(told);
        let mut pause = FIRST_PAUSE;
        let mut is_away = false;
        let why = loop {
            let outcome = match held.take() {
                Some(mut told) => match told.message().await {
                    Ok(Some(_)) => {
                        held = Some(told);
                        continue;
                    }
                    Ok(None) => Ok(()),
                    Err(status) => Err(status),
                },
                None => match hold(&mut self.client, self.run).await {
                    Ok(told) => {
                        if std::mem::take(&mut is_away) {
                            tracing::info!("the controller at {} answers again", self.address);
                        }
                        held = Some(told);
                        pause = FIRST_PAUSE;
                        continue;
                    }
                    Err(status) => Err(status),
                },
            };
            match outcome {
                Ok(()) => break "has released it".to_owned(),
                Err(status) if is_final(&status) => match status.code() {
                    Code::NotFound => {
                        break "does not know it any more: it was released, or the controller was \
                               started again without its --journal"
                            .to_owned();
                    }
                    _ => break format!("does not keep it: {}", reason(&status)),
                },
                Err(status) => {
                    if !std::mem::replace(&mut is_away, true) {
                        tracing::warn!(
                            "{}: no answer from the controller at {} ({}); the job goes on",
                            self.run,
                            self.address,
                            reason(&status)
                        );
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        };
        lost(format!("the controller at {} {why}", self.address));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_several_forms() {
        let cases = [
            ("10.9.0.2:29813", "10.9.0.2:29813", None),
            ("tributary://controller:29813", "controller:29813", None),
            ("tributary://controller:29813/", "controller:29813", None),
            ("http://controller:1", "controller:1", Some(false)),
            ("https://controller:1/", "controller:1", Some(true)),
            ("unix:/run/tributary.sock", "unix:/run/tributary.sock", None),
        ];
        for (text, at, encrypted) in cases {
            let expected = Address { at: at.into(), encrypted };
            assert_eq!(text.parse::<Address>().unwrap(), expected);
        }
        for text in ["", "controller", "http://", "ftp://a:b", "tributary://:5", "a:99999"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("is not the address of a controller"), "{text}: {error}");
        }
    }

    #[test]
    fn encryption_follows_from_address_and_certificates() {
        let at = |text: &str| Controller::new(&text.parse().unwrap(), None);
        assert!(at("10.9.0.2:1").is_ok());
        let error = at("https://10.9.0.2:1").unwrap_err().to_string();
        assert!(error.contains("no root for its certificate"), "{error}");
    }
}

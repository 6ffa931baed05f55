//! Admits a job at a controller, for workers that take part in it with a [`Membership`](crate::membership).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use tonic::Status;
use tributary_access::remote::reason;
use tributary_access::{ClientKeys, Remote};
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_wire::JobId;

/// Timeout of an admission, which changes all switches of a job.
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

/// The controller at an address, over TLS if there are certificates.
///
/// # Errors
/// If the address and the certificates contradict each other, or the latter are unusable.
pub fn controller(address: &Address, keys: Option<Arc<ClientKeys>>) -> Result<Remote> {
    match (address.encrypted, &keys) {
        (Some(true), None) => {
            bail!(
                "the controller is at https://{address}, and there is no root for its certificate"
            )
        }
        (Some(false), Some(_)) => bail!(
            "the controller is at http://{address}, which is not encrypted, and there is a root for its certificate; \
             write https://{address}, or give no root"
        ),
        _ => Remote::new(&address.at, keys)?.context("not an address"),
    }
}

/// A job to admit. It ends when no worker takes part any more.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its name, for people.
    pub name: String,
    /// The hosts of its workers: names or IP addresses.
    pub workers: Vec<String>,
    /// The table `[job]` of a job file, without name, ID, hosts and workload.
    pub settings: String,
    /// What a worker must show.
    pub key: Vec<u8>,
}

/// Admits a job. Returns its ID.
///
/// # Errors
/// If the controller does not answer or refuses the job.
pub async fn admit(controller: &Remote, request: Request) -> Result<JobId> {
    let channel = controller.connect().await.map_err(|error| {
        anyhow!(
            "no controller answers at {controller} ({error}); start `tributary controller --listen`, or correct the address"
        )
    })?;
    let Request { name, workers, settings, key } = request;
    let admission = v1::AdmitRequest {
        name,
        workers,
        settings,
        key,
        lease: true,
        ..v1::AdmitRequest::default()
    };
    let mut client = JobsClient::new(channel);
    let admitted = tokio::time::timeout(CHANGE, client.admit(admission)).await;
    let admitted =
        admitted.with_context(|| format!("the controller at {controller} takes too long"))?;
    let refused = |status: Status| {
        anyhow!("the controller at {controller} refuses the job: {}", reason(&status))
    };
    let job = u16::try_from(admitted.map_err(refused)?.into_inner().job_id).ok();
    let senseless = || format!("the controller at {controller} answers something senseless");
    job.and_then(JobId::new).with_context(senseless)
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
        let at = |text: &str| controller(&text.parse().unwrap(), None);
        assert!(at("10.9.0.2:1").is_ok());
        let error = at("https://10.9.0.2:1").unwrap_err().to_string();
        assert!(error.contains("no root for its certificate"), "{error}");
    }
}

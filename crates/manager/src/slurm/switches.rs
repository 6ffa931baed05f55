//! Client of the switches' controller.

use std::collections::BTreeMap;
use std::time::Duration;

use tonic::transport::Channel;
use tonic::{Code, Status};
use tributary_access::Remote;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;

use crate::slurm::number;
use crate::slurm::placer::{Admission, Served};
use crate::slurm::wish::Sums;

/// Maximum time for an answer. A sweep visits all aggregators.
const PATIENCE: Duration = Duration::from_secs(40);

/// The table `[job]` of a job file: the switches that add, and what workers of ours sum.
fn settings(admission: &Admission) -> String {
    let mut text = "[job]\n".to_owned();
    if let Some(adding) = admission.adding.as_ref().filter(|adding| !adding.is_empty()) {
        // Names need no escapes.
        text += &format!("switches = {adding:?}\n");
    }
    if let Some(Sums { count, bytes }) = admission.sums {
        let workload = format!("kind = \"random\", tensors = {count}, bytes = \"{bytes}B\"");
        text += &format!("workload = {{ {workload} }}\n");
    }
    text
}

/// A connection to the controller, made when it is needed.
#[derive(Clone, Debug)]
pub struct Switches(JobsClient<Channel>);

impl Switches {
    /// A controller. Must be called within a runtime.
    #[must_use]
    pub fn at(controller: &Remote) -> Self {
        let channel = controller.clone().with_timeout(PATIENCE).connect_lazy();
        Self(JobsClient::new(channel))
    }

    /// The served jobs, by number.
    ///
    /// # Errors
    ///
    /// The controller's status.
    pub async fn list(&mut self) -> Result<BTreeMap<u16, Served>, Status> {
        let jobs = self.0.list(v1::ListRequest {}).await?.into_inner().jobs;
        // One with a lease is not Slurm's, but of the processes of a job.
        let jobs = jobs.into_iter().filter(|job| job.lease.is_none());
        let served = jobs.filter_map(|job| {
            let number = u16::try_from(job.job_id).ok()?;
            let served =
                Served { workers: job.workers, ps: job.parameter_server, epoch: job.epoch };
            Some((number, served))
        });
        Ok(served.collect())
    }

    /// Admits a job and returns its run and the node of its parameter server, if it has one. What an earlier admission with this number has left is
    /// released first, so it may be repeated until the job starts.
    ///
    /// # Errors
    ///
    /// The controller's status.
    pub async fn admit(&mut self, admission: &Admission) -> Result<(u32, Option<String>), Status> {
        let Admission { job, ref workers, ref ps, run, .. } = *admission;
        self.release(number(job)).await?;
        let request = v1::AdmitRequest {
            job_id: number(job).into(),
            workers: workers.clone(),
            parameter_server: ps.clone().unwrap_or_default(),
            aggregation: match admission.adding.as_deref() {
                Some([]) => v1::Aggregation::Server.into(),
                _ => v1::Aggregation::Unspecified.into(),
            },
            epoch: run.unwrap_or_default(),
            name: format!("slurm-{job}"),
            // Its processes may take part as the workers. No lease: Slurm tells when the job is over.
            settings: settings(admission),
            ..v1::AdmitRequest::default()
        };
        let v1::AdmitResponse { epoch, parameter_server, .. } =
            self.0.admit(request).await?.into_inner();
        Ok((epoch, Some(parameter_server).filter(|ps| !ps.is_empty())))
    }

    /// Releases a job; a job that is not served is released already.
    ///
    /// # Errors
    ///
    /// The controller's status.
    pub async fn release(&mut self, number: u16) -> Result<(), Status> {
        match self.0.release(v1::ReleaseRequest { job_id: number.into() }).await {
            Err(status) if status.code() != Code::NotFound => Err(status),
            _ => Ok(()),
        }
    }
}

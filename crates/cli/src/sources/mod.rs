//! Metrics of the control plane. Those of switches and endpoints are in their own crates.

mod certificates;
mod controlled;
mod crossconnect;
mod manager;
mod served;
mod slots;

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;

pub(crate) use certificates::Certificates;
pub(crate) use controlled::{Controlled, TakingPart};
pub(crate) use crossconnect::Mirror;
pub(crate) use manager::Managed;
pub(crate) use served::Served;
pub(crate) use slots::Slots;

/// How long another part may take to answer before its metrics are left out.
const PATIENCE: Duration = Duration::from_secs(2);

/// Waits for an answer in a thread that writes a page of metrics; `None` if it does not come in time.
fn wait<T>(answer: impl Future<Output = T>) -> Option<T> {
    let runtime = Handle::try_current().ok()?;
    runtime.block_on(async { tokio::time::timeout(PATIENCE, answer).await }).ok()
}

//! `tributary job logs`: what a worker's command has written.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};
use tributary_api::placement::v1;
use tributary_api::placement::v1::job::State;

use super::LogsArgs;
use super::manager::{Client, ask_at, refused};

/// Pause between two looks at a log that grows.
const PAUSE: Duration = Duration::from_millis(300);

/// # Errors
/// One line that describes the problem.
pub(super) fn run(args: &LogsArgs) -> Result<()> {
    ask_at(args.manager.as_deref(), &args.keys, async |client| {
        let mut from = 0;
        loop {
            // Before the log is read, so that its end is not missed.
            let over = !args.follow || is_over(client, args.job).await?;
            let end = print_from(client, args, from).await?;
            if over {
                return Ok(());
            }
            from = end;
            tokio::time::sleep(PAUSE).await;
        }
    })
}

/// Prints a log from this byte on. Returns where it ends.
async fn print_from(client: &mut Client, args: &LogsArgs, mut from: u64) -> Result<u64> {
    loop {
        let request = v1::LogRequest { job_id: args.job, worker: args.worker, from };
        let part = client.log(request).await.map_err(refused)?.into_inner();
        let mut output = std::io::stdout().lock();
        output.write_all(&part.data).and_then(|()| output.flush()).context("cannot print")?;
        from += part.data.len() as u64;
        if part.data.is_empty() || from >= part.size {
            return Ok(from);
        }
    }
}

async fn is_over(client: &mut Client, job_id: u32) -> Result<bool> {
    let watched = client.watch(v1::WatchRequest { job_id }).await.map_err(refused)?;
    let first = watched.into_inner().message().await.map_err(refused)?;
    let job = first.and_then(|first| first.job).context("the manager ended")?;
    Ok(matches!(job.state(), State::Finished | State::Failed | State::Cancelled))
}

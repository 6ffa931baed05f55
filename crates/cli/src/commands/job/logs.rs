//! `tributary job logs`: what a worker's command has written.

use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::{Context, Result};
use tonic::{Code, Status};
use tributary_api::placement::v1;
use tributary_api::placement::v1::job::State;

use super::LogsArgs;
use super::manager::{Client, refused};

/// Pause between two looks at a log that grows.
const PAUSE: Duration = Duration::from_millis(300);

/// # Errors
/// One line that describes the problem.
pub(super) fn run(args: &LogsArgs) -> Result<()> {
    args.manager.ask(async |client| {
        let mut reader = Reader { job: args.job, worker: args.worker, from: 0, attempt: 0 };
        match args.follow {
            true => reader.follow(client).await,
            false => reader.print(client).await?.map_err(refused).map(drop),
        }
    })
}

/// Where the next part of a log begins.
#[derive(Clone, Copy, Debug)]
struct Reader {
    job: u32,
    worker: u32,
    from: u64,
    /// The attempt that wrote what has been printed; 0 if nothing has.
    attempt: u32,
}

impl Reader {
    /// Prints what there is, and then what is added, until the job is over.
    async fn follow(&mut self, client: &mut Client) -> Result<()> {
        let watched = v1::WatchRequest { job_id: self.job, history: false };
        let mut states = client.watch(watched).await.map_err(refused)?.into_inner();
        let mut over = false;
        loop {
            let printed = self.print(client).await?;
            match printed {
                Ok(true) => {}
                // The reader of the output has gone.
                Ok(false) => return Ok(()),
                // It has not started, or another attempt follows.
                Err(status) if status.code() == Code::FailedPrecondition && !over => {}
                Err(status) => return Err(refused(status)),
            }
            if over {
                return Ok(());
            }
            tokio::select! {
                state = states.message() => {
                    let state = state.map_err(refused)?.and_then(|state| state.job);
                    let job = state.context("the manager ended; the job continues")?;
                    over = matches!(
                        job.state(),
                        State::Finished | State::Failed | State::Cancelled
                    );
                }
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    /// Prints from here to where the log ends now. Returns whether somebody reads the output.
    async fn print(&mut self, client: &mut Client) -> Result<Result<bool, Status>> {
        let mut end = None;
        loop {
            let request = v1::LogRequest { job_id: self.job, worker: self.worker, from: self.from };
            let part = match client.log(request).await {
                Ok(part) => part.into_inner(),
                Err(status) => return Ok(Err(status)),
            };
            if let Some(why) = self.begins_again(&part) {
                eprintln!("{why}");
                (self.from, end) = (0, None);
                continue;
            }
            let end = *end.get_or_insert(part.size);
            let mut output = io::stdout().lock();
            match output.write_all(&part.data).and_then(|()| output.flush()) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Ok(false)),
                printed => printed.context("cannot print")?,
            }
            self.from += part.data.len() as u64;
            if part.data.is_empty() || self.from >= end {
                return Ok(Ok(true));
            }
        }
    }

    /// Why a part does not continue what has been printed.
    fn begins_again(&mut self, part: &v1::LogResponse) -> Option<String> {
        let before = std::mem::replace(&mut self.attempt, part.attempt);
        if before == 0 {
            return None;
        }
        if before != part.attempt {
            return Some(format!("attempt {}:", part.attempt));
        }
        (part.size < self.from)
            .then(|| "the command has shortened its log; from the beginning:".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_attempt_or_a_shorter_log_begins_again() {
        let mut reader = Reader { job: 1, worker: 0, from: 0, attempt: 0 };
        let part = |attempt, size| v1::LogResponse { data: Vec::new(), size, attempt };
        assert_eq!(reader.begins_again(&part(1, 10)), None);
        reader.from = 10;
        assert_eq!(reader.begins_again(&part(1, 10)), None);
        assert!(reader.begins_again(&part(1, 9)).unwrap().contains("shortened"));
        assert_eq!(reader.begins_again(&part(2, 40)).unwrap(), "attempt 2:");
        assert_eq!(reader.begins_again(&part(2, 40)), None);
    }
}

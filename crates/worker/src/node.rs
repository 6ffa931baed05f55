//! A worker on a port: tensors in, their sums out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tributary_driver::Driver;
use tributary_netio::FrameIo;
use tributary_protocol::worker::{Event, Failure, Stats};
use tributary_protocol::{ConfigError, Endpoint, SubmitError, Tensor, Worker, WorkerConfig};
use tributary_wire::Sequence;

/// How long a worker sleeps before it looks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// Why tensors were not summed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The worker's settings contradict each other.
    #[error("worker settings: {0}")]
    Config(#[from] ConfigError),
    /// A tensor cannot be summed.
    #[error("tensor {tensor}: {source}")]
    Submit {
        /// Position in the list given.
        tensor: usize,
        /// Why.
        source: SubmitError,
    },
    /// The port failed.
    #[error("network: {0}")]
    Io(#[from] io::Error),
    /// Results stopped coming.
    #[error(
        "no result came for {waited:.1?} (fragment {sequence} is due); is the parameter server up \
         and the job admitted at the switch?"
    )]
    Stalled {
        /// The lowest fragment whose result is due.
        sequence: Sequence,
        /// How long.
        waited: Duration,
    },
    /// The protocol gave up.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Somebody raised the stop flag.
    #[error("stopped")]
    Stopped,
}

/// A worker of a job, on a port.
///
/// It works in the thread that calls [`all_reduce`](Self::all_reduce), and only then: between two
/// calls a worker owes nothing to anybody, as whoever has a result knows that the task is complete.
#[derive(Debug)]
pub struct Node<Io> {
    driver: Driver<Worker, Io>,
    stop: Arc<AtomicBool>,
}

impl<Io: FrameIo> Node<Io> {
    /// Puts a worker on a port. `stop` ends [`all_reduce`](Self::all_reduce) early, from any thread.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub fn new(config: WorkerConfig, io: Io, stop: Arc<AtomicBool>) -> Result<Self, Error> {
        Ok(Self { driver: Driver::new(Worker::new(config)?, io), stop })
    }

    /// Sums tensors over all workers of the job and returns the sums in the same order and memory.
    /// All workers must call it with tensors of the same shapes.
    ///
    /// # Errors
    /// [`Error`] tells. After an error the worker is of no use any more.
    pub fn all_reduce(&mut self, tensors: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        let mut left = tensors.len();
        let mut sums = Vec::with_capacity(left);
        for (tensor, values) in tensors.into_iter().enumerate() {
            let submitted = self.driver.endpoint_mut().submit(values);
            submitted.map_err(|source| Error::Submit { tensor, source })?;
        }
        while left > 0 {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            self.driver.turn(PATIENCE)?;
            while let Some(event) = self.driver.endpoint_mut().poll_event() {
                match event {
                    Event::TensorDone { tensor, .. } => {
                        sums.push(tensor);
                        left -= 1;
                    }
                    Event::Stalled { sequence, waited } => {
                        return Err(Error::Stalled { sequence, waited });
                    }
                    Event::Failed(failure) => return Err(failure.into()),
                }
            }
        }
        Ok(sums)
    }

    /// What the worker has counted.
    pub fn stats(&self) -> Stats {
        *self.driver.endpoint().stats()
    }

    /// The port, for its statistics.
    pub fn io(&self) -> &Io {
        self.driver.io()
    }
}

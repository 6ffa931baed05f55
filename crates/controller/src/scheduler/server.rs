//! The socket that the scheduler is served on.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tributary_proto::scheduler::v1::job_scheduler_server::JobSchedulerServer;

use super::Scheduler;

/// How long requests that are under way may keep the server from ending.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A scheduler that is being served. Dropping it ends that at once, and leaves the jobs as they are.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves on a TCP socket; port 0 takes a free one.
    ///
    /// # Errors
    /// If the address cannot be listened at.
    pub async fn start(scheduler: Scheduler, address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let service = JobSchedulerServer::new(scheduler);
        let serving = tonic::transport::Server::builder()
            // Notices clients that are gone without a word, whose streams would stay.
            .http2_keepalive_interval(Some(Duration::from_secs(10)))
            .add_service(service)
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), async {
                // An error means that nobody will ever say so.
                let _ = stopped.await;
            });
        let task = tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::warn!("the scheduler's server failed: {error}");
            }
        });
        Ok(Self { address, stop: Some(stop), task })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more requests and answers those that are under way.
    pub async fn stop(mut self) {
        self.stop.take();
        // Whoever watches a job that could not be released would watch it for ever.
        let _ = tokio::time::timeout(LAST_WORDS, &mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

//! The server that Prometheus asks.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt as _};
use tributary_access::{Listen, listen};
use tributary_base::connections::bounded;

use crate::Metrics;
use crate::page::Format;

/// Open connections: some Prometheus servers, and a person with a browser.
const CONNECTIONS: usize = 16;

/// Time for a request to arrive, and for a connection without one to stay open.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// Age at which a connection is closed, whatever its client does.
const LIFETIME: Duration = Duration::from_secs(60);

/// Age up to which a page is sent again. However often clients ask, the parts of the process are not asked
/// more often.
const FRESH: Duration = Duration::from_millis(500);

/// Longest head of a request: hyper's minimum.
const REQUEST_BYTES: usize = 8 << 10;

/// Serves metrics in a thread of its own. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    address: Listen,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Server {
    /// Listens at an address, and answers `GET /metrics` there.
    ///
    /// # Errors
    /// One line, if it cannot listen.
    pub fn start(metrics: Metrics, address: &Listen) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .thread_name("metrics page")
            .enable_all()
            .build()
            .context("cannot start threads")?;
        let bound = runtime.block_on(async {
            Ok::<_, io::Error>(match address {
                Listen::Tcp(address) => Bound::Tcp(TcpListener::bind(address).await?),
                Listen::Unix(path) => Bound::Unix(listen::bind(path, false).await?),
            })
        });
        let bound = bound.with_context(|| {
            format!(
                "cannot serve metrics at {address} (--metrics); choose a free address of this host"
            )
        })?;
        let address = match &bound {
            Bound::Tcp(listener) => Listen::Tcp(listener.local_addr()?),
            Bound::Unix(_) => address.clone(),
        };
        let (stop, stopped) = oneshot::channel();
        let pages = Pages(Arc::new(State { metrics, kept: Mutex::default() }));
        let serve = move || {
            runtime.block_on(async {
                match bound {
                    Bound::Tcp(listener) => {
                        pages.serve(TcpListenerStream::new(listener), stopped).await;
                    }
                    Bound::Unix(listener) => {
                        pages.serve(UnixListenerStream::new(listener), stopped).await;
                    }
                }
            });
            // A page that waits for a part of this process must not delay its end.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("metrics".into()).spawn(serve);
        let thread = thread.context("cannot start a thread")?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens, with the actual port.
    #[must_use]
    pub fn address(&self) -> &Listen {
        &self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            drop(thread.join());
        }
        if let Listen::Unix(path) = &self.address {
            drop(std::fs::remove_file(path));
        }
    }
}

/// The pages of this process.
#[derive(Clone)]
struct Pages(Arc<State>);

struct State {
    metrics: Metrics,
    /// The last page, and when it was written.
    kept: Mutex<Option<(Format, Instant, Arc<str>)>>,
}

impl Pages {
    async fn serve<IO>(
        &self,
        streams: impl Stream<Item = io::Result<IO>>,
        mut stopped: oneshot::Receiver<()>,
    ) where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut streams = std::pin::pin!(bounded(streams, CONNECTIONS));
        loop {
            let stream = tokio::select! {
                _ = &mut stopped => return,
                stream = streams.next() => stream,
            };
            let Some(Ok(stream)) = stream else { return };
            let pages = self.clone();
            let answer = service_fn(move |request| {
                let pages = pages.clone();
                async move { Ok::<_, Infallible>(pages.answer(&request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(REQUEST_TIME)
                .max_buf_size(REQUEST_BYTES)
                .serve_connection(TokioIo::new(stream), answer);
            tokio::spawn(async {
                // Errors are about this client only.
                drop(tokio::time::timeout(LIFETIME, connection).await);
            });
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<String> {
        if request.uri().path() != "/metrics" {
            return plain(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "metrics are only read\n");
            refusal.headers_mut().insert(ALLOW, http::HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        let format = format(request.headers());
        let pages = self.clone();
        // Parts of this process may take a moment to answer.
        match tokio::task::spawn_blocking(move || pages.page(format)).await {
            Ok(page) => {
                let mut response = Response::new(page.as_ref().to_owned());
                let media = http::HeaderValue::from_static(format.media_type());
                response.headers_mut().insert(CONTENT_TYPE, media);
                response
            }
            Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be written\n"),
        }
    }

    fn page(&self, format: Format) -> Arc<str> {
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, since, page)) = &*kept
            && *of == format
            && since.elapsed() < FRESH
        {
            return Arc::clone(page);
        }
        let page: Arc<str> = self.0.metrics.page(format).into();
        *kept = Some((format, Instant::now(), Arc::clone(&page)));
        page
    }
}

/// OpenMetrics for clients that accept it.
fn format(headers: &HeaderMap) -> Format {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    match accepts.into_iter().any(|value| value.contains("application/openmetrics-text")) {
        true => Format::OpenMetrics,
        false => Format::Text,
    }
}

fn plain(status: StatusCode, text: &str) -> Response<String> {
    let mut response = Response::new(text.to_owned());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};

    use super::*;
    use crate::remote;

    fn start() -> (Server, SocketAddr) {
        let any = Listen::Tcp(([127, 0, 0, 1], 0).into());
        let server = Server::start(Metrics::on(), &any).unwrap();
        let Listen::Tcp(address) = *server.address() else { unreachable!() };
        (server, address)
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // The server may hang up before it has read a long request.
        let _ = write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn metrics_of_the_process_are_served_in_both_formats() {
        let (_server, address) = start();
        let older = ask(address, "GET /metrics");
        assert!(older.contains("content-type: text/plain; version=0.0.4"), "{older}");
        for name in ["process_resident_memory_bytes ", "process_open_fds ", "process_threads "] {
            assert!(older.contains(&format!("\n{name}")), "{name}: {older}");
        }
        assert!(older.contains("tributary_build_info{version=\""), "{older}");
        let newer = ask(
            address,
            "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text; q=1\r\nX:",
        );
        assert!(newer.contains("content-type: application/openmetrics-text"), "{newer}");
        assert!(newer.ends_with("# EOF\n"), "{newer}");
        assert!(newer.contains("# TYPE process_cpu_seconds counter\n"), "{newer}");
    }

    #[test]
    fn other_requests_are_refused() {
        let (_server, address) = start();
        assert!(ask(address, "GET /").starts_with("HTTP/1.1 404"));
        assert!(ask(address, "POST /metrics").starts_with("HTTP/1.1 405"));
        let long = ask(address, &format!("GET /{}", "x".repeat(20_000)));
        assert!(long.is_empty() || long.starts_with("HTTP/1.1 4"), "{long}");
    }

    #[test]
    fn connections_are_bounded_and_idle_ones_do_not_keep_others_out_for_ever() {
        let (_server, address) = start();
        let idle: Vec<_> = (0..CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        // The server may not have accepted all yet.
        thread::sleep(Duration::from_millis(200));
        let mut refused = TcpStream::connect(address).unwrap();
        refused.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        assert!(matches!(refused.read(&mut [0; 8]), Ok(0) | Err(_)));
        drop(idle);
        thread::sleep(Duration::from_millis(200));
        assert!(ask(address, "GET /metrics").starts_with("HTTP/1.1 200"));
    }

    #[test]
    fn a_unix_socket_serves_other_processes_and_goes_with_the_server() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("metrics.sock");
        let server = Server::start(Metrics::on(), &Listen::Unix(path.clone())).unwrap();
        let all = Metrics::on();
        let guests = [
            all.add_process("worker 0", path.clone()),
            all.add_process("away", directory.path().join("none")),
        ];
        let page = all.page(Format::OpenMetrics);
        assert_eq!(page.matches("# TYPE process_open_fds gauge\n").count(), 1, "{page}");
        assert!(page.contains("\nprocess_open_fds{process=\"worker 0\"} "), "{page}");
        assert!(page.contains("\nprocess_open_fds ") && page.ends_with("\n# EOF\n"), "{page}");
        assert!(
            remote::fetch(&path, Format::Text).unwrap().starts_with("# HELP tributary_build_info")
        );
        drop(guests);
        assert!(!all.page(Format::OpenMetrics).contains("worker"));
        drop(server);
        assert!(!path.exists());
    }
}

//! The web page: one document, and a stream of events (server-sent events) with the lines of a hub.
//!
//! The address holds a random word, so that other users of the host and other web pages cannot read it.
//! There is nothing but to read: no request changes anything.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Semaphore, oneshot};

use crate::live::Hub;
use crate::live::hub::Reader;
use crate::live::model::Line;

/// Most connections; further ones wait.
const CONNECTIONS: usize = 64;
/// Time for a client to send the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(2);
/// Most bytes of the head of a request.
const HEAD_BYTES: usize = 16 << 10;
/// Lines in one piece of the stream.
const PIECE: usize = 32;
/// A sign of life after so much silence.
const SILENCE: Duration = Duration::from_secs(10);

/// The document, whose scripts and styles have a place for the nonce.
const PAGE: &str = include_str!("page/watch.html");
const STYLE: &str = include_str!("page/watch.css");
const SCRIPT: &str = include_str!("page/watch.js");

type Content = UnsyncBoxBody<Bytes, Infallible>;
type Answer = Response<Content>;

/// Serves the page of a hub. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What all connections share.
#[derive(Debug)]
struct Site {
    hub: Hub,
    /// The path of the page, `/WORD/`.
    path: String,
    page: Bytes,
    policy: HeaderValue,
}

impl Server {
    /// Listens at an address of this host; port 0 takes a free one.
    ///
    /// # Errors
    /// If it cannot listen there, or the address is one that other hosts reach: the page has no
    /// encryption.
    pub fn start(hub: Hub, address: SocketAddr) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the page is not encrypted, so it is served on this host only: choose a port of \
                 127.0.0.1, and reach it from elsewhere with `ssh -L PORT:127.0.0.1:PORT HOST`",
            ));
        }
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let site = Arc::new(Site::new(hub)?);
        let url = format!("http://{address}{}", site.path);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, site) => {}
                    // An error means that the sender was dropped, which also ends the server.
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("watch".into()).spawn(serve)?;
        Ok(Self { url, stop: Some(stop), thread: Some(thread) })
    }

    /// Address of the page.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop = None;
        // A panic of the thread was reported there.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Site {
    fn new(hub: Hub) -> io::Result<Self> {
        let (word, nonce): (u128, u128) = (rand::random(), rand::random());
        let nonce = format!("{nonce:032x}");
        let page = PAGE.replace("{nonce}", &nonce);
        let page = page.replace("{style}", STYLE).replace("{script}", SCRIPT);
        let policy = format!(
            "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
             connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        );
        let policy = HeaderValue::from_str(&policy).map_err(io::Error::other)?;
        Ok(Self { hub, path: format!("/{word:032x}/"), page: page.into(), policy })
    }

    fn answer(&self, request: &Request<Incoming>) -> Answer {
        let mut answer = match request.uri().path().strip_prefix(&self.path) {
            Some("" | "events") if request.method() != Method::GET => {
                let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
                answer
            }
            Some("") => typed("text/html; charset=utf-8", whole(self.page.clone())),
            Some("events") => typed("text/event-stream", events(self.hub.reader())),
            _ => text(
                StatusCode::NOT_FOUND,
                "not found; open the address that the command printed\n",
            ),
        };
        let headers = answer.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        for (name, value) in [
            (CACHE_CONTROL, "no-store"),
            (REFERRER_POLICY, "no-referrer"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        answer
    }
}

async fn accept(listener: TcpListener, site: Arc<Site>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("watch: {error}"),
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // For example too many open files, which may pass.
                tracing::warn!("watch: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let site = Arc::clone(&site);
        tokio::spawn(async move {
            let answer = service_fn(move |request: Request<Incoming>| {
                let answer = site.answer(&request);
                async move { Ok::<_, Infallible>(answer) }
            });
            let served = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .keep_alive(false)
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), answer)
                .await;
            if let Err(error) = served {
                tracing::debug!("watch: {error}");
            }
            drop(place);
        });
    }
}

fn whole(bytes: impl Into<Bytes>) -> Content {
    Full::new(bytes.into()).boxed_unsync()
}

fn text(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = typed("text/plain; charset=utf-8", whole(text));
    *answer.status_mut() = status;
    answer
}

fn typed(kind: &'static str, body: Content) -> Answer {
    let mut answer = Response::new(body);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// All lines, and then each new one, until the end. Nothing is kept for a client that does not read: it
/// gets the lines that are left when it does.
fn events(reader: Reader) -> Content {
    let pieces = stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        let Ok(entries) = tokio::time::timeout(SILENCE, reader.next(PIECE)).await else {
            return Some((Bytes::from_static(b":\n\n"), Some(reader)));
        };
        let mut piece = String::new();
        let mut over = false;
        for entry in &entries {
            over |= matches!(*entry.line, Line::End(_));
            piece += "data: ";
            piece += &entry.json;
            piece += "\n\n";
        }
        Some((piece.into(), (!over).then_some(reader)))
    });
    let frames = futures_util::StreamExt::map(pieces, |piece| Ok(Frame::data(piece)));
    StreamBody::new(frames).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;
    use crate::live::model::tests::{sample, scene};

    /// What a server answers to a request that ends the connection, or up to the end of the stream.
    fn ask(server: &Server, method: &str, path: &str) -> String {
        let address = server.url().strip_prefix("http://").unwrap().split('/').next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn path(server: &Server) -> String {
        format!("/{}", server.url().splitn(4, '/').nth(3).unwrap())
    }

    fn start(hub: &Hub) -> Server {
        Server::start(hub.clone(), "127.0.0.1:0".parse().unwrap()).unwrap()
    }

    #[test]
    fn a_late_viewer_gets_all_lines_up_to_the_end() {
        let hub = Hub::default();
        let server = start(&hub);
        hub.push(Line::Scene(scene()));
        for at in 0..100 {
            hub.push(Line::Sample(sample(at, 1, 1)));
        }
        hub.end(None);
        let answer = ask(&server, "GET", &format!("{}events", path(&server)));
        assert!(answer.contains("content-type: text/event-stream"), "{answer}");
        let lines = answer.lines().filter_map(|line| line.strip_prefix("data: "));
        let lines: Vec<_> = lines.map(|line| Line::parse(line).unwrap()).collect();
        assert_eq!(lines.len(), 102);
        assert_eq!(lines[0], Line::Scene(scene()));
        assert!(matches!(lines[101], Line::End(_)));
    }

    #[test]
    fn a_viewer_gets_lines_as_they_come() {
        let hub = Hub::default();
        let server = start(&hub);
        let later = hub.clone();
        let source = std::thread::spawn(move || {
            later.push(Line::Scene(scene()));
            for at in 0..10 {
                std::thread::sleep(Duration::from_millis(5));
                later.push(Line::Sample(sample(at, 1, 1)));
            }
            later.end(Some("interrupted".into()));
        });
        let answer = ask(&server, "GET", &format!("{}events", path(&server)));
        source.join().unwrap();
        assert_eq!(answer.matches("data: ").count(), 12);
        assert!(answer.contains("interrupted"));
    }

    #[test]
    fn the_page_is_served_with_a_policy_that_allows_nothing_from_elsewhere() {
        let server = start(&Hub::default());
        let answer = ask(&server, "GET", &path(&server));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
        assert!(!head.contains("unsafe"), "{head}");
        let nonce = head.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
        assert!(body.contains(&format!("<script nonce=\"{nonce}\">")));
        assert!(!body.contains("{script}") && !body.contains("{style}"));
        for outside in ["https://", "//cdn", "@import", "innerHTML", "eval("] {
            assert!(!body.contains(outside), "{outside}");
        }
    }

    #[test]
    fn who_does_not_know_the_word_gets_nothing() {
        let server = start(&Hub::default());
        for other in ["/", "/events", "/00000000000000000000000000000000/events"] {
            assert!(ask(&server, "GET", other).starts_with("HTTP/1.1 404 "), "{other}");
        }
        assert!(ask(&server, "POST", &path(&server)).starts_with("HTTP/1.1 405 "));
    }

    #[test]
    fn an_address_that_others_reach_is_refused() {
        let error = Server::start(Hub::default(), "0.0.0.0:0".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("ssh -L"), "{error}");
    }
}

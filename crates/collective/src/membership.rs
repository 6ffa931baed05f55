//! Who is alive, and how far each rank is.
//!
//! Each rank keeps a TCP connection to a [`Hub`] in the process of the switch. A process that dies closes
//! its connection, and the hub tells the others. Lines of JSON, several per second, also show how many
//! calls each rank has begun, so that a rank that is late can be named, and the silence of a host that
//! is gone is noticed.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

/// How often each side sends a line.
const BEAT: Duration = Duration::from_millis(250);

/// Silence after which the other side is taken for dead.
pub const SILENCE: Duration = Duration::from_secs(10);

/// Longest line that is accepted. The list of 1024 ranks is shorter.
const LINE: usize = 1 << 17;

/// Calls that a rank has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Progress(pub u64);

/// How a rank stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It has not connected yet.
    Absent,
    /// It is there.
    Present(Progress),
    /// It has left in order, after this many calls.
    Left(Progress),
    /// It died, or was not heard of any more.
    Lost(String),
}

impl Standing {
    fn is_over(&self) -> bool {
        matches!(self, Self::Left(_) | Self::Lost(_))
    }
}

/// A line from a rank.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FromRank {
    Hello {
        secret: String,
        rank: u16,
    },
    Beat(Progress),
    Leave(Progress),
    /// Its calls have failed, for this reason.
    GiveUp(String),
}

/// The connections of all ranks.
#[derive(Debug)]
pub struct Hub {
    address: SocketAddr,
    standings: watch::Receiver<Vec<Standing>>,
    all: Arc<watch::Sender<Vec<Standing>>>,
}

impl Hub {
    /// Listens on an address, in the calling Tokio runtime. Connections without the secret are closed.
    /// A rank that does not connect within `patience` is lost.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub async fn start(
        address: SocketAddr,
        secret: String,
        ranks: u16,
        patience: Duration,
    ) -> Result<Self> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr().context("no address")?;
        let (sender, standings) = watch::channel(vec![Standing::Absent; usize::from(ranks)]);
        let sender = Arc::new(sender);
        let (late, all) = (Arc::clone(&sender), Arc::clone(&sender));
        tokio::spawn(async move {
            tokio::time::sleep(patience).await;
            late.send_if_modified(|all| {
                let absent = all.iter_mut().filter(|one| **one == Standing::Absent);
                let text = || format!("has not connected within {patience:.0?}");
                absent.map(|one| *one = Standing::Lost(text())).count() > 0
            });
        });
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        tokio::spawn(serve(stream, secret.clone(), Arc::clone(&sender)));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accepting a rank failed");
                        tokio::time::sleep(BEAT).await;
                    }
                }
            }
        });
        Ok(Self { address, standings, all })
    }

    /// Returns what reports this rank as lost, for a reason that its connection does not show.
    pub fn loss(&self, rank: u16) -> impl FnOnce(String) + Send + 'static {
        let all = Arc::clone(&self.all);
        move |why| {
            all.send_if_modified(|all| {
                let own = &mut all[usize::from(rank)];
                let changes = !own.is_over();
                if changes {
                    *own = Standing::Lost(why);
                }
                changes
            });
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until all ranks have left or are lost, at most for `patience`.
    pub async fn emptied(&mut self, patience: Duration) {
        let over = |all: &Vec<Standing>| all.iter().all(Standing::is_over);
        // Whatever the outcome, the wait is over.
        drop(timeout(patience, self.standings.wait_for(over)).await);
    }
}

/// Serves a connection until the rank leaves or is lost.
async fn serve(
    stream: tokio::net::TcpStream,
    secret: String,
    all: Arc<watch::Sender<Vec<Standing>>>,
) {
    drop(stream.set_nodelay(true));
    let (reader, mut writer) = stream.into_split();
    let mut lines = tokio::io::BufReader::new(tokio::io::AsyncReadExt::take(reader, LINE as u64));
    let mut line = String::new();
    let hello = match timeout(SILENCE, lines.read_line(&mut line)).await {
        Ok(Ok(_)) => serde_json::from_str(&line),
        _ => return,
    };
    let Ok(FromRank::Hello { secret: theirs, rank }) = hello else { return };
    let rank = usize::from(rank);
    if theirs != secret || rank >= all.borrow().len() {
        return;
    }
    let set = |standing| {
        all.send_if_modified(|all| {
            let own = &mut all[rank];
            !own.is_over() && std::mem::replace(own, standing) != all[rank]
        });
    };
    set(Standing::Present(Progress::default()));
    let mut changes = all.subscribe();
    let tell = async {
        loop {
            let mut text = serde_json::to_vec(&*changes.borrow_and_update()).expect("plain data");
            text.push(b'\n');
            if writer.write_all(&text).await.is_err() {
                // The other half notices it, too.
                return std::future::pending::<()>().await;
            }
            // The end of a rank is told at once, progress now and then.
            let ended = changes.wait_for({
                let before = over(&all.borrow());
                move |now| over(now) != before
            });
            drop(timeout(BEAT, ended).await);
        }
    };
    let hear = async {
        loop {
            line.clear();
            lines.get_mut().set_limit(LINE as u64);
            match timeout(SILENCE, lines.read_line(&mut line)).await {
                Err(_) => break Standing::Lost(format!("was silent for {SILENCE:.0?}")),
                Ok(Err(error)) => break Standing::Lost(format!("is gone: {error}")),
                Ok(Ok(0)) => break Standing::Lost("is gone: its process has ended".into()),
                Ok(Ok(_)) => match serde_json::from_str(&line) {
                    Ok(FromRank::Beat(progress)) => set(Standing::Present(progress)),
                    Ok(FromRank::Leave(progress)) => break Standing::Left(progress),
                    Ok(FromRank::GiveUp(why)) => break Standing::Lost(format!("gave up: {why}")),
                    _ => break Standing::Lost("sent something senseless".into()),
                },
            }
        }
    };
    let end = tokio::select! {
        end = hear => end,
        () = tell => unreachable!("it never ends"),
    };
    set(end);
    // A process that was only stopped learns why the others have given it up.
    let mut text = serde_json::to_vec(&*all.borrow()).expect("plain data");
    text.push(b'\n');
    drop(timeout(BEAT, writer.write_all(&text)).await);
}

/// Number of ranks that are no longer there.
fn over(all: &[Standing]) -> usize {
    all.iter().filter(|standing| standing.is_over()).count()
}

/// A rank's connection to the hub.
#[derive(Debug)]
pub struct Member {
    voice: Voice,
    thread: Option<JoinHandle<()>>,
}

/// What a rank says to the hub at its end.
#[derive(Clone, Debug)]
pub struct Voice {
    stream: Arc<TcpStream>,
    /// Whether the rank has left or given up.
    left: Arc<Mutex<bool>>,
}

impl Voice {
    /// Tells all ranks that this one's calls have failed.
    pub fn give_up(&self, why: &str) {
        self.last(&FromRank::GiveUp(why.into()));
    }

    /// A hub that is gone needs no message, and only the first one counts.
    fn last(&self, message: &FromRank) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *left, true) {
            drop(send(&self.stream, message));
        }
    }
}

impl Member {
    /// Connects to the hub, which is in the process of rank `host`. `progress` is asked for this rank's
    /// progress, and `tell` gets all standings when they arrive, or how the hub was lost.
    ///
    /// # Errors
    /// If the hub cannot be reached.
    pub fn join(
        address: SocketAddr,
        secret: &str,
        rank: u16,
        progress: impl Fn() -> Progress + Send + 'static,
        tell: impl Fn(Result<Vec<Standing>, String>) + Send + 'static,
    ) -> Result<Self> {
        let connect = || -> io::Result<TcpStream> {
            let stream = TcpStream::connect_timeout(&address, SILENCE)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE))?;
            stream.set_write_timeout(Some(SILENCE))?;
            Ok(stream)
        };
        let stream =
            connect().with_context(|| format!("cannot reach the first rank at {address}"))?;
        send(&stream, &FromRank::Hello { secret: secret.into(), rank })
            .context("cannot greet the first rank")?;
        let left = Arc::new(Mutex::new(false));
        let stream = Arc::new(stream);
        let (own, leaving) = (Arc::clone(&stream), Arc::clone(&left));
        let run = move || {
            let mut lines = BufReader::new(&*own);
            let mut text = String::new();
            let mut last = Instant::now().checked_sub(BEAT);
            let why = loop {
                text.clear();
                match io::Read::take(&mut lines, LINE as u64).read_line(&mut text) {
                    Ok(0) => break "its process has ended".to_owned(),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        break format!("it was silent for {SILENCE:.0?}");
                    }
                    Err(error) => break error.to_string(),
                    Ok(_) => {}
                }
                match serde_json::from_str(&text) {
                    Ok(standings) => tell(Ok(standings)),
                    Err(_) => break "it sent something senseless".to_owned(),
                }
                if last.is_none_or(|last| last.elapsed() >= BEAT / 2) {
                    last = Some(Instant::now());
                    let left = leaving.lock().unwrap_or_else(PoisonError::into_inner);
                    // An error also ends the reading.
                    if !*left {
                        drop(send(&own, &FromRank::Beat(progress())));
                    }
                }
            };
            if !*leaving.lock().unwrap_or_else(PoisonError::into_inner) {
                tell(Err(why));
            }
        };
        let thread = std::thread::Builder::new().name("membership".into()).spawn(run);
        let thread = Some(thread.context("cannot start a thread")?);
        Ok(Self { voice: Voice { stream, left }, thread })
    }

    /// How this rank can give up.
    #[must_use]
    pub fn voice(&self) -> Voice {
        self.voice.clone()
    }

    /// Leaves in order, after this many calls.
    pub fn leave(&self, progress: Progress) {
        self.voice.last(&FromRank::Leave(progress));
    }
}

impl Drop for Member {
    /// Without [`leave`](Self::leave), the others take this rank for lost.
    fn drop(&mut self) {
        *self.voice.left.lock().unwrap_or_else(PoisonError::into_inner) = true;
        drop(self.voice.stream.shutdown(Shutdown::Both));
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // The panic hook has reported a panic of the thread.
            drop(thread.join());
        }
    }
}

fn send(mut stream: &TcpStream, message: &FromRank) -> io::Result<()> {
    let mut text = serde_json::to_vec(message).expect("plain data");
    text.push(b'\n');
    stream.write_all(&text)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver};

    use super::*;

    type Told = Receiver<Result<Vec<Standing>, String>>;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    fn start(runtime: &tokio::runtime::Runtime, ranks: u16, patience: Duration) -> Hub {
        let any = "127.0.0.1:0".parse().unwrap();
        runtime.block_on(Hub::start(any, "secret".into(), ranks, patience)).unwrap()
    }

    fn join(hub: &Hub, rank: u16, calls: u64) -> (Member, Told) {
        let (sender, told) = mpsc::channel();
        let tell = move |standings| drop(sender.send(standings));
        let member = Member::join(hub.address(), "secret", rank, move || Progress(calls), tell);
        (member.unwrap(), told)
    }

    /// What is told once the standing of a rank is as expected.
    fn until(told: &Told, rank: usize, expected: impl Fn(&Standing) -> bool) -> Standing {
        let begin = Instant::now();
        loop {
            let left = Duration::from_secs(20).saturating_sub(begin.elapsed());
            let standings = told.recv_timeout(left).expect("in time").expect("the hub lives");
            if expected(&standings[rank]) {
                return standings[rank].clone();
            }
        }
    }

    #[test]
    fn the_end_of_a_rank_is_told_at_once() {
        let runtime = runtime();
        let mut hub = start(&runtime, 3, Duration::from_secs(60));
        let (first, told) = join(&hub, 0, 7);
        let (second, _) = join(&hub, 1, 9);
        let (third, _) = join(&hub, 2, 5);
        until(&told, 1, |standing| *standing == Standing::Present(Progress(9)));
        second.leave(Progress(10));
        until(&told, 1, |standing| *standing == Standing::Left(Progress(10)));
        // As if its process had died.
        let begin = Instant::now();
        third.voice.stream.shutdown(Shutdown::Both).unwrap();
        until(&told, 2, |standing| matches!(standing, Standing::Lost(_)));
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        drop((first, second, third));
        let begin = Instant::now();
        runtime.block_on(hub.emptied(Duration::from_secs(20)));
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_hub_that_dies_is_told_and_strangers_are_not_heard() {
        let runtime = runtime();
        let hub = start(&runtime, 2, Duration::from_millis(600));
        let nothing = |_| ();
        let stranger = Member::join(hub.address(), "guess", 1, Progress::default, nothing).unwrap();
        let mut raw = TcpStream::connect(hub.address()).unwrap();
        raw.write_all(b"GET / HTTP/1.1\n\n").unwrap();
        let (member, told) = join(&hub, 0, 0);
        until(&told, 0, |standing| matches!(standing, Standing::Present(_)));
        let absent = until(&told, 1, |standing| *standing != Standing::Absent);
        assert_eq!(absent, Standing::Lost("has not connected within 600ms".into()));
        drop(runtime);
        let end = told.iter().find_map(Result::err);
        assert!(end.is_some_and(|why| !why.is_empty()));
        drop((member, stranger));
    }
}

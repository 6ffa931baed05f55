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
use tributary_wire::Epoch;

/// How often each side sends a line.
const BEAT: Duration = Duration::from_millis(250);

/// The rank whose process has the hub.
pub const FIRST: u16 = 0;

/// Silence after which the other side is taken for dead.
pub const SILENCE: Duration = Duration::from_secs(10);

/// Longest line that is accepted. The list of 1024 ranks is shorter.
const LINE: usize = 1 << 17;

/// How far a rank is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Calls that it has begun.
    pub calls: u64,
    /// Runs of the group's job that are over for it: it has all their results, and waits for the next one.
    pub runs: u64,
}

/// All that a rank is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct News {
    /// Of all ranks.
    pub standings: Vec<Standing>,
    /// The number of runs of the group's job that are over for all ranks.
    pub runs: u64,
    /// The run that has begun after these: its epoch for each lane. The first one has none, because a rank
    /// knows it when it joins.
    pub epochs: Vec<u32>,
}

impl News {
    /// Whether all ranks have all results of the current run, and wait for the next one.
    fn run_is_over(&self) -> bool {
        let is_over = |standing: &Standing| matches!(standing, Standing::Present(progress) if progress.runs > self.runs);
        self.standings.iter().all(is_over)
    }
}

/// How a rank stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It has not connected yet.
    Absent,
    /// It is there.
    Present(Progress),
    /// It has left in order.
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
    news: Arc<watch::Sender<News>>,
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
        let standings = vec![Standing::Absent; usize::from(ranks)];
        let news = Arc::new(watch::Sender::new(News { standings, runs: 0, epochs: Vec::new() }));
        let (late, all) = (Arc::clone(&news), Arc::clone(&news));
        tokio::spawn(async move {
            tokio::time::sleep(patience).await;
            late.send_if_modified(|news| {
                let absent = news.standings.iter_mut().filter(|one| **one == Standing::Absent);
                let text = || format!("has not connected within {patience:.0?}");
                absent.map(|one| *one = Standing::Lost(text())).count() > 0
            });
        });
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        tokio::spawn(serve(stream, secret.clone(), Arc::clone(&all)));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accepting a rank failed");
                        tokio::time::sleep(BEAT).await;
                    }
                }
            }
        });
        Ok(Self { address, news })
    }

    /// Returns what reports this rank as lost, for a reason that its connection does not show.
    pub fn loss(&self, rank: u16) -> impl FnOnce(String) + Send + 'static {
        let news = Arc::clone(&self.news);
        move |why| {
            news.send_if_modified(|news| {
                let own = &mut news.standings[usize::from(rank)];
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

    /// From now on, begins a run of the group's job whenever the one before is over for all ranks, in the
    /// calling Tokio runtime. `renew` returns the lanes' epochs, or how the group is lost, in words that
    /// follow the name of the rank with the hub.
    pub fn renew_with<Renewal>(&self, mut renew: impl FnMut() -> Renewal + Send + 'static)
    where
        Renewal: Future<Output = Result<Vec<Epoch>, String>> + Send,
    {
        let (news, loss) = (Arc::clone(&self.news), self.loss(FIRST));
        tokio::spawn(async move {
            let mut changes = news.subscribe();
            // It lasts as long as the runtime, because this has a sender.
            while changes.wait_for(News::run_is_over).await.is_ok() {
                let epochs = match renew().await {
                    Ok(epochs) => epochs,
                    Err(why) => return loss(why),
                };
                tracing::debug!(?epochs, "the group's job has begun another run");
                news.send_modify(|news| {
                    news.runs += 1;
                    news.epochs = epochs.into_iter().map(Epoch::get).collect();
                });
            }
        });
    }

    /// Waits until all ranks have left or are lost, at most for `patience`.
    pub async fn emptied(&self, patience: Duration) {
        let mut news = self.news.subscribe();
        let over = news.wait_for(|news| news.standings.iter().all(Standing::is_over));
        // Whatever the outcome, the wait is over.
        drop(timeout(patience, over).await);
    }
}

/// Serves a connection until the rank leaves or is lost.
async fn serve(stream: tokio::net::TcpStream, secret: String, news: Arc<watch::Sender<News>>) {
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
    if theirs != secret || rank >= news.borrow().standings.len() {
        return;
    }
    let set = |standing| {
        news.send_if_modified(|news| {
            let own = &mut news.standings[rank];
            !own.is_over() && std::mem::replace(own, standing) != news.standings[rank]
        });
    };
    set(Standing::Present(Progress::default()));
    let mut changes = news.subscribe();
    let tell = async {
        loop {
            let mut text = serde_json::to_vec(&*changes.borrow_and_update()).expect("plain data");
            text.push(b'\n');
            if writer.write_all(&text).await.is_err() {
                // The other half notices it, too.
                return std::future::pending::<()>().await;
            }
            // The end of a rank or a run is told at once, progress now and then.
            let ended = changes.wait_for({
                let before = ends(&news.borrow());
                move |now| ends(now) != before
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
    let mut text = serde_json::to_vec(&*news.borrow()).expect("plain data");
    text.push(b'\n');
    drop(timeout(BEAT, writer.write_all(&text)).await);
}

/// The number of ranks that are no longer there, and of runs that are over.
fn ends(news: &News) -> (usize, u64) {
    (news.standings.iter().filter(|standing| standing.is_over()).count(), news.runs)
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
    /// Connects to the hub. `progress` is asked for this rank's progress, and `tell` gets the news when they
    /// arrive, or how the hub was lost.
    ///
    /// # Errors
    /// If the hub cannot be reached.
    pub fn join(
        address: SocketAddr,
        secret: &str,
        rank: u16,
        progress: impl Fn() -> Progress + Send + 'static,
        tell: impl Fn(Result<News, String>) + Send + 'static,
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
                    Ok(news) => tell(Ok(news)),
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

    /// Leaves in order.
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

    type Told = Receiver<Result<News, String>>;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    fn start(runtime: &tokio::runtime::Runtime, ranks: u16, patience: Duration) -> Hub {
        let any = "127.0.0.1:0".parse().unwrap();
        runtime.block_on(Hub::start(any, "secret".into(), ranks, patience)).unwrap()
    }

    fn join(hub: &Hub, rank: u16, calls: u64) -> (Member, Told) {
        let (sender, told) = mpsc::channel();
        let tell = move |news| drop(sender.send(news));
        let progress = Progress { calls, runs: 0 };
        let member = Member::join(hub.address(), "secret", rank, move || progress, tell);
        (member.unwrap(), told)
    }

    /// What is told once the standing of a rank is as expected.
    fn until(told: &Told, rank: usize, expected: impl Fn(&Standing) -> bool) -> Standing {
        let begin = Instant::now();
        loop {
            let left = Duration::from_secs(20).saturating_sub(begin.elapsed());
            let News { standings, .. } =
                told.recv_timeout(left).expect("in time").expect("the hub lives");
            if expected(&standings[rank]) {
                return standings[rank].clone();
            }
        }
    }

    #[test]
    fn the_end_of_a_rank_is_told_at_once() {
        let runtime = runtime();
        let hub = start(&runtime, 3, Duration::from_secs(60));
        let (first, told) = join(&hub, 0, 7);
        let (second, _) = join(&hub, 1, 9);
        let (third, _) = join(&hub, 2, 5);
        until(&told, 1, |standing| *standing == Standing::Present(Progress { calls: 9, runs: 0 }));
        second.leave(Progress { calls: 10, runs: 0 });
        until(&told, 1, |standing| *standing == Standing::Left(Progress { calls: 10, runs: 0 }));
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

//! The log that an operator reads: one clear line per kind of fault, rate-limited. This test has
//! its own process, because the log belongs to the process.

use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::common::{Desk, hello, is_closed, say, short, worker};
use tributary_wire::channel::{Hello, Role, Token};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn each_kind_of_fault_is_logged_once() {
    let log = Log::default();
    let sink = log.clone();
    tracing_subscriber::fmt().with_writer(move || sink.clone()).with_ansi(false).init();
    let desk = Desk::new(short());
    let role = Role::Worker(worker(1));
    for _ in 0..30 {
        let mut stranger = desk.stranger();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert!(is_closed(&mut stranger));
        for hello in [Hello { token: Token([0x5e; 16]), ..hello(1, role) }, hello(7, role)] {
            let mut stranger = desk.stranger();
            say(&mut stranger, &hello);
            assert!(is_closed(&mut stranger));
        }
    }
    let mut stalled = desk.guest(1);
    stalled.write_all(&[0, 0]).unwrap();
    assert!(is_closed(&mut stalled));
    let stats = desk.until(|stats| stats.stalled == 1);
    assert_eq!((stats.garbage, stats.forged, stats.unknown_job), (30, 30, 30));
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for line in [
        "a stranger at 127.0.0.1:",
        "it sent garbage: a message of ",
        "says it is worker 1 of job 1 and was refused: its token is not the job's",
        "says it is worker 1 of job 7 and was refused: the job is not served here",
        "worker 1 of job 1 at 127.0.0.1:",
        "was disconnected: it began a message and did not end it within 300ms",
    ] {
        assert!(log.contains(line), "no `{line}` in {log}");
    }
    assert!(log.lines().count() < 30, "{log}");
    assert!(!log.contains("5e5e"), "no token is ever shown: {log}");
}

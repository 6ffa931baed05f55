//! Recorders with outputs that are slow, fail, or are read back with another library.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use pcap_parser::pcapng::OptionCode;
use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{Block, PcapBlockOwned, PcapNGSlice};
use tributary_netio::capture::{Direction, Frame, Interface, Recorder, Summary, Tap};
use tributary_netio::{FrameIo as _, memory};

fn interfaces() -> Vec<Interface> {
    let interface = |name: &str| Interface { name: name.into(), description: String::new() };
    vec![interface("a"), interface("b")]
}

fn frame(milliseconds: u64, bytes: &[u8]) -> Frame<'_> {
    let time = Duration::from_millis(1_000_000 + milliseconds);
    Frame { time, interface: 1, direction: Direction::Inbound, bytes, comment: None }
}

/// Interface, direction, time in milliseconds and first byte of a frame.
type Read = (u32, u32, u64, u8);

/// The frames, and all comments.
fn read(file: &[u8]) -> (Vec<Read>, Vec<String>) {
    let (mut frames, mut comments) = (Vec::new(), Vec::new());
    for block in PcapNGSlice::from_slice(file).unwrap() {
        let block = block.unwrap();
        let options = match &block {
            PcapBlockOwned::NG(Block::SectionHeader(section)) => &section.options,
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => &packet.options,
            _ => continue,
        };
        for option in options.iter().filter(|option| option.code == OptionCode::Comment) {
            comments.push(option.as_str().unwrap().to_owned());
        }
        if let PcapBlockOwned::NG(Block::EnhancedPacket(packet)) = &block {
            let flags = options.iter().find(|option| option.code == OptionCode(2)).unwrap();
            let time = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            let first = packet.packet_data()[0];
            frames.push((packet.if_id, flags.as_u32_le().unwrap(), time / 1_000_000, first));
        }
    }
    (frames, comments)
}

#[test]
fn frames_of_several_threads_are_in_the_order_of_their_times() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng");
    let recorder = Recorder::create(&path, "about it", &interfaces()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let recorder = recorder.clone();
            scope.spawn(move || {
                for turn in 0..100 {
                    recorder.frame(&frame(turn / 10, &[thread; 60]));
                }
            });
        }
    });
    let (summary, result) = recorder.finish();
    result.unwrap();
    assert_eq!(summary, Summary { written: 400, dropped: 0 });
    let (frames, comments) = read(&std::fs::read(&path).unwrap());
    assert_eq!(comments, ["about it"]);
    assert_eq!(frames.len(), 400);
    assert!(frames.is_sorted_by_key(|(_, _, time, _)| *time));
    // A second recorder does not touch the file.
    let error = Recorder::create(&path, "", &interfaces()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
}

/// An output that waits for permission to write.
struct Slow(Receiver<()>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // An error means that all further writes are permitted.
        let _ = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_slow_output_loses_frames_and_blocks_nobody() {
    let (permit, permits) = channel();
    permit.send(()).unwrap();
    let recorder = Recorder::queued(Box::new(Slow(permits)), "", &interfaces()).unwrap();
    let bytes = vec![0; 1 << 20];
    let started = Instant::now();
    for at in 0..200 {
        recorder.frame(&frame(100 * at, &bytes));
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    drop(permit);
    let (summary, result) = recorder.finish();
    result.unwrap();
    assert_eq!(summary.written + summary.dropped, 200);
    // 64 MiB wait, and few more were on their way to the output.
    assert!((60..=70).contains(&summary.written), "{summary:?}");
}

/// An output with room for this many bytes, like a disk.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.checked_sub(bytes.len()) {
            Some(left) => self.0 = left,
            None => return Err(io::ErrorKind::StorageFull.into()),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_capture_with_an_error() {
    let recorder = Recorder::queued(Box::new(Full(3 << 20)), "", &interfaces()).unwrap();
    let bytes = vec![0; 1 << 20];
    for at in 0..10 {
        recorder.frame(&frame(at, &bytes));
    }
    let (summary, result) = recorder.finish();
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(summary.written + summary.dropped, 10);
    assert!(summary.dropped >= 7, "{summary:?}");
    assert!(Recorder::queued(Box::new(Full(10)), "", &interfaces()).is_err());
}

#[test]
fn a_tap_records_what_is_sent_and_what_is_received() {
    let (recorder, buffer) = Recorder::in_memory("", &interfaces());
    let (near, far) = memory::pair();
    let mut near = Tap::new(near, recorder.clone(), 0);
    let mut far = Tap::new(far, recorder.clone(), 1);
    assert!(near.send(&[7; 60]).unwrap());
    near.flush().unwrap();
    let mut received = Vec::new();
    far.receive(10, &mut |frame| received.push(frame.to_vec())).unwrap();
    assert_eq!(received, [[7; 60]]);
    // This one is not sent, so it is not recorded.
    assert!(near.send(&[8; 3]).is_err());
    let (summary, result) = recorder.finish();
    result.unwrap();
    assert_eq!(summary, Summary { written: 2, dropped: 0 });
    let (frames, _) = read(&buffer.take());
    let places: Vec<_> =
        frames.iter().map(|(interface, flags, _, first)| (*interface, *flags, *first)).collect();
    assert_eq!(places, [(0, 2, 7), (1, 1, 7)]);
}

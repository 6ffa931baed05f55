//! The sweep that frees a job's aggregators: a packet enters the switch, visits every aggregator by
//! recirculation, and comes back.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tracing::instrument;
use tributary_protocol::Assignment;
use tributary_wire::agg::{Packet, Repr};
use tributary_wire::{
    Audience, Bitmap, Ecn, Envelope, Flags, Host, Kind, Mac, Protocol, Rack, Run, Sequence,
    emit_frame,
};

use crate::Error;
use crate::session::Session;

/// A sweep that is not back by then is sent again: it may have been lost.
const RETRY: Duration = Duration::from_secs(2);

/// Distinguishes sweeps.
static NONCE: AtomicU32 = AtomicU32::new(1);

/// The packet that starts a sweep in a switch with this protocol: of all aggregators, or of the
/// segment of a P4INC or SwitchML job.
#[must_use]
pub fn frame(protocol: Protocol, run: Run, assignment: Assignment, nonce: Sequence) -> Vec<u8> {
    // Only the switch sees the frame, so any addresses do.
    let nobody = Host { mac: Mac([0x02, 0, 0, 0, 0, 0]), ip: Ipv4Addr::UNSPECIFIED };
    let envelope = Envelope { source: nobody, destination: nobody, ecn: Ecn::NotEct };
    let repr = Repr {
        protocol,
        kind: Kind::Sweep,
        flags: Flags::NONE,
        priority: assignment.service.get(),
        job: run.job,
        epoch: run.epoch,
        values: 0,
        sequence: nonce,
        bitmap: Bitmap::EMPTY,
        rack: Rack::NONE,
        audience: Audience::ALL,
        index: assignment.segment.offset,
    };
    let mut frame = Vec::new();
    emit_frame(&mut frame, &envelope, &repr);
    frame
}

/// Number of aggregators that the sweep freed, if the frame is this sweep coming back.
#[must_use]
pub fn freed(frame: &[u8], run: Run, nonce: Sequence) -> Option<u32> {
    let packet = Packet::new_checked(frame).ok()?;
    let its = packet.job().run(packet.epoch());
    let own = packet.kind() == Kind::Sweep && its == run && packet.sequence() == nonce;
    own.then(|| packet.bitmap().0)
}

/// Frees all aggregators of a run in a switch. Returns how many the last sweep freed: fewer than
/// were occupied if an earlier one was lost on its way.
#[instrument(skip_all, fields(switch = session.name(), %run))]
pub(crate) async fn sweep(
    session: &Session,
    run: Run,
    assignment: Assignment,
    limit: Duration,
) -> Result<u32, Error> {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        let nonce = Sequence(NONCE.fetch_add(1, Ordering::Relaxed));
        let mut packets = session.packets_in();
        match session.packet_out(frame(session.protocol(), run, assignment, nonce)).await {
            Ok(()) => {}
            // The session is about to reconnect.
            Err(Error::Lost { .. }) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            Err(error) => return Err(error),
        }
        let until = end.min(Instant::now() + RETRY);
        let back = async {
            loop {
                match packets.recv().await {
                    Ok(packet) => match freed(&packet, run, nonce) {
                        Some(freed) => return Some(freed),
                        None => continue,
                    },
                    // The frame may have been among those missed: sweep again.
                    Err(RecvError::Lagged(_) | RecvError::Closed) => return None,
                }
            }
        };
        if let Ok(Some(freed)) = tokio::time::timeout_at(until, back).await {
            return Ok(freed);
        }
    }
    Err(Error::SweepLost {
        switch: session.name().to_owned(),
        job: run.job,
        seconds: limit.as_secs(),
    })
}

#[cfg(test)]
mod tests {
    use tributary_protocol::Mode;
    use tributary_wire::{AggregatorIndex, Epoch, JobId, Segment, Service};

    use super::*;

    #[test]
    fn only_the_frame_of_the_same_sweep_counts() {
        let job = JobId::new(7).unwrap();
        let (run, nonce) = (job.run(Epoch::FIRST), Sequence(9));
        let mut walk = frame(Protocol::Esa, run, Assignment::NONE, nonce);
        assert_eq!(freed(&walk, run, nonce), Some(0));
        assert_eq!(freed(&walk, JobId::new(8).unwrap().run(run.epoch), nonce), None);
        assert_eq!(freed(&walk, job.run(Epoch::new(2).unwrap()), nonce), None);
        assert_eq!(freed(&walk, run, Sequence(8)), None);
        // The bitmap field has the count: the last of bytes 16 to 19 of the header.
        let at = walk.len() - 28 + 19;
        walk[at] = 3;
        assert_eq!(freed(&walk, run, nonce), Some(3));
        assert_eq!(freed(&walk[..walk.len() - 1], run, nonce), None);
    }

    #[test]
    fn a_sweep_of_a_segment_starts_at_its_offset() {
        let segment = Segment { offset: AggregatorIndex(512), size: 64 };
        let assignment = Assignment { service: Service::new(9), segment, mode: Mode::Local };
        let run = JobId::new(7).unwrap().run(Epoch::FIRST);
        let walk = frame(Protocol::P4inc, run, assignment, Sequence(1));
        let packet = Packet::new_checked(&walk).unwrap();
        assert_eq!((packet.service(), packet.repr().index), (Service::new(9), segment.offset));
    }
}

//! The faults of a topology's links, around real ports.

use tributary_netio::FrameIo;
use tributary_netio::faults::{Delay, FaultInjector, Faults, Faulty, InvalidFaults, Reorder};
use tributary_wire::PORT;

use tributary_model::{End, LinkFaults, LinkId, Scenario, Topology};

/// The first stream of faults of plain frames on hosts' links.
const PLAIN: u64 = 1 << 33;
/// The streams of each lane but the first follow after so many others.
const LANE: u64 = 1 << 34;

/// A reordered frame is overtaken by at most this many later frames.
const DISPLACEMENT: u32 = 8;

/// Bytes per frame on the link outside the frame itself: preamble, check sequence, gap.
const FRAMING: usize = 24;

/// Nanoseconds that a link of `bandwidth` bits per second takes to send so many bytes of a frame.
#[must_use]
pub fn serialisation(bandwidth: f64, frame_bytes: usize) -> u64 {
    ((8 * (frame_bytes + FRAMING)) as f64 * 1e9 / bandwidth).ceil() as u64
}

/// The faults of a link, as an injector applies them.
#[must_use]
pub fn of_link(link: &LinkFaults) -> Faults {
    Faults {
        loss: link.loss,
        burst: link.burst,
        duplicate: link.duplicate,
        reorder: Reorder {
            probability: link.reorder,
            displacement: DISPLACEMENT,
            ..Reorder::default()
        },
        delay: Delay { fixed: link.delay, jitter: link.jitter },
        outages: Vec::new(),
    }
}

/// Puts the faults of links around ports. All random choices follow from the seed.
#[derive(Clone, Copy, Debug)]
pub struct Links<'t> {
    /// The network.
    pub topology: &'t Topology,
    /// The seed of the run.
    pub seed: u64,
}

impl<'s> From<&'s Scenario> for Links<'s> {
    fn from(scenario: &'s Scenario) -> Self {
        Self { topology: &scenario.network.topology, seed: scenario.seed }
    }
}

impl Links<'_> {
    /// Puts the faults of a link around a port at one of its ends: on what the port sends, and on what
    /// it receives.
    ///
    /// # Errors
    /// If the faults make no sense.
    pub fn faulty<Io: FrameIo>(
        &self,
        link: LinkId,
        end: End,
        io: Io,
    ) -> Result<Faulty<Io>, InvalidFaults> {
        self.faulty_from(0, link, end, io)
    }

    /// The same at the port of one of several lanes that a host has at its end of the link.
    ///
    /// # Errors
    /// If the faults make no sense.
    pub fn faulty_lane<Io: FrameIo>(
        &self,
        lane: usize,
        link: LinkId,
        end: End,
        io: Io,
    ) -> Result<Faulty<Io>, InvalidFaults> {
        self.faulty_from(LANE * lane as u64, link, end, io)
    }

    /// The same at a port in the network: of a switch or a cable. On a host's link only plain frames
    /// suffer there, such as the TCP segments of ESA's channels: the host's endpoint injects the faults
    /// into its own packets.
    ///
    /// # Errors
    /// If the faults make no sense.
    pub fn faulty_in_network<Io: FrameIo>(
        &self,
        link: LinkId,
        end: End,
        io: Io,
    ) -> Result<Faulty<Io>, InvalidFaults> {
        let ends = self.topology.link(link).ends;
        if ends.iter().all(|end| matches!(end, End::Switch(..))) {
            return self.faulty(link, end, io);
        }
        Ok(self.faulty_from(PLAIN, link, end, io)?.only(is_plain))
    }

    /// The same at an optical port of a unit. Wherever the circuit leads, each of its two directions
    /// meets the faults where it begins.
    ///
    /// # Errors
    /// If the faults make no sense.
    pub fn faulty_fibre<Io: FrameIo>(&self, end: End, io: Io) -> Result<Faulty<Io>, InvalidFaults> {
        let (topology, optical) = (self.topology, self.topology.optical.as_ref());
        let faults = optical.map(|optical| optical.fibre.faults).unwrap_or_default();
        let End::Switch(switch, port) = end else { return Ok(Faulty::new(io, None, None)) };
        if faults.is_none() {
            return Ok(Faulty::new(io, None, None));
        }
        let fibre = topology.fibre(switch, port).map_or(0, |port| u64::from(port.0));
        let stream = 2 * topology.fixed_links() as u64 + fibre;
        let injector = FaultInjector::new(of_link(&faults), self.seed, stream)?;
        Ok(Faulty::new(io, Some(injector), None))
    }

    fn faulty_from<Io: FrameIo>(
        &self,
        first_stream: u64,
        link: LinkId,
        end: End,
        io: Io,
    ) -> Result<Faulty<Io>, InvalidFaults> {
        let cable = self.topology.link(link);
        let injector = |sender: End| {
            if cable.faults.is_none() {
                return Ok(None);
            }
            let stream = first_stream + 2 * link.0 as u64 + u64::from(cable.ends[0] != sender);
            FaultInjector::new(of_link(&cable.faults), self.seed, stream).map(Some)
        };
        let [a, b] = cable.ends;
        let far = if a == end { b } else { a };
        Ok(Faulty::new(io, injector(end)?, injector(far)?))
    }
}

/// Whether a frame is a packet of an endpoint: UDP to our port over IPv4 without options.
#[must_use]
pub fn is_packet(frame: &[u8]) -> bool {
    !is_plain(frame)
}

/// Whether a frame is none of the endpoints'.
fn is_plain(frame: &[u8]) -> bool {
    const IPV4: [u8; 2] = [0x08, 0x00];
    const UDP: [u8; 1] = [17];
    let is = |range: std::ops::Range<usize>, wanted: &[u8]| frame.get(range) == Some(wanted);
    !(is(12..14, &IPV4) && is(23..24, &UDP) && is(36..38, &PORT.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use tributary_wire::{Audience, Ecn, Envelope, Host};

    use super::*;

    #[test]
    fn packets_of_endpoints_are_not_plain_and_tcp_is() {
        let job = tributary_wire::JobId::new(1).expect("a job");
        let envelope =
            Envelope { source: Host::service(job), destination: Host::group(job), ecn: Ecn::Ect0 };
        let repr = tributary_wire::agg::Repr {
            protocol: tributary_wire::Protocol::Esa,
            kind: tributary_wire::Kind::Gradient,
            flags: tributary_wire::Flags::NONE,
            priority: 1,
            job,
            epoch: tributary_wire::Epoch::FIRST,
            values: 32,
            sequence: tributary_wire::Sequence(0),
            bitmap: tributary_wire::Bitmap::EMPTY,
            rack: tributary_wire::Rack::NONE,
            audience: Audience::ALL,
            index: tributary_wire::AggregatorIndex(0),
        };
        let mut frame = Vec::new();
        tributary_wire::emit_frame(&mut frame, &envelope, &repr);
        assert!(!is_plain(&frame));
        for (at, other) in [(23, 6), (12, 0x86), (37, 0)] {
            let mut frame = frame.clone();
            frame[at] = other;
            assert!(is_plain(&frame), "byte {at}");
        }
        assert!(is_plain(&frame[..37]) && is_plain(&[]));
    }
}

//! Super-frames: packets of one flow that the kernel carries as one buffer, with the same headers and
//! size; the last one may be shorter. A `virtio_net_hdr` before the buffer tells its parts.
//!
//! UDP over IPv4 is joined and cut. Its checksum is not filled in between the ends of such a path, so
//! each datagram leaves here without one (zero), as RFC 768 permits. TCP is only cut ([`tcp`]): into
//! the segments that a network card would send. The checksums of other packets are completed.
//!
//! Whoever sends a buffer writes its `virtio_net_hdr`. Each frame costs its receiver a fixed amount of
//! work, so a buffer becomes at most one frame for each [`LEAST_PER_FRAME`] bytes, and no frame that is
//! longer than the interface carries. Other buffers are dropped, and so is every description that does
//! not match the headers. The field `hdr_len` has no effect.

use std::ops::Range;

mod tcp;

/// Length of a `virtio_net_hdr`.
pub(crate) const VNET: usize = 10;

/// Length of the longest joined frame. An IPv4 packet has at most 65 535 bytes.
const LONGEST: usize = 65_000;

/// Most datagrams in a joined frame. Kernels refuse more than 64 (older ones) or 128.
const MOST_DATAGRAMS: u64 = 64;

/// Fewest bytes of a super-frame for each of its frames: those of the shortest frame on a wire. So nobody
/// causes more frames with super-frames than with plain ones of the same rate.
const LEAST_PER_FRAME: usize = 60;

/// Length of the longest frame with an IPv4 packet and two tags.
pub(crate) const LONGEST_RECEIVED: usize = 14 + 2 * 4 + 65_535;

// From linux/virtio_net.h.
const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Added to the kind of a TCP super-frame whose first segment alone has the flag CWR.
const GSO_ECN: u8 = 0x80;
const TCP_V4_ECN: u8 = GSO_TCP_V4 | GSO_ECN;
const TCP_V6_ECN: u8 = GSO_TCP_V6 | GSO_ECN;

/// Headers of an Ethernet frame without tags, with IPv4 without options and UDP.
pub(crate) const HEADERS: usize = 42;
pub(crate) const IP: usize = 14;
pub(crate) const UDP: usize = 34;
const UDP_HEADER: usize = 8;
/// Offset of the checksum in a UDP header.
const UDP_CHECKSUM: usize = 6;
pub(crate) const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_TCP: u8 = 6;

/// Most bytes of headers in a super-frame that is cut: two tags, IPv4 and TCP with all options.
const MOST_HEADERS: usize = 14 + 2 * 4 + 60 + 60;

/// Why a received buffer cannot be delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unusable;

/// What the headers of a segment depend on.
#[derive(Clone, Copy, Debug)]
enum Transport {
    /// None: segments are whole frames.
    Frames,
    /// UDP, with the start of the IPv4 header.
    Udp(usize),
    Tcp(tcp::Stream),
}

/// The frames in a received buffer, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// The headers of a full segment; with TCP, of the next one.
    template: [u8; MOST_HEADERS],
    headers: usize,
    transport: Transport,
    /// Payload of a full segment.
    size: usize,
    /// Start of the next segment's payload, and end of the last one's.
    next: usize,
    end: usize,
}

impl Cut {
    /// One frame.
    pub(crate) fn whole(frame: Range<usize>) -> Self {
        Self::frames(frame.len(), frame)
    }

    /// Frames of `size` bytes; the last one may be shorter.
    pub(crate) fn frames(size: usize, frames: Range<usize>) -> Self {
        Self {
            template: [0; MOST_HEADERS],
            headers: 0,
            transport: Transport::Frames,
            size,
            next: frames.start,
            end: frames.end,
        }
    }

    /// Interprets the `virtio_net_hdr` of the frame at `frame` in a buffer, and completes the checksum
    /// of a frame that is not a super-frame. `tag` is the length of tags that were added to the frame
    /// after the kernel had described it, and `longest` that of the longest frame to deliver.
    pub(crate) fn new(
        vnet: [u8; VNET],
        buffer: &mut [u8],
        frame: Range<usize>,
        tag: usize,
        longest: usize,
    ) -> Result<Self, Unusable> {
        let [flags, kind, _, _, s0, s1, c0, c1, o0, o1] = vnet;
        let word = |low, high| usize::from(u16::from_ne_bytes([low, high]));
        let checksum =
            (flags & NEEDS_CHECKSUM != 0).then(|| (frame.start + tag + word(c0, c1), word(o0, o1)));
        let bytes = buffer.get_mut(..frame.end).ok_or(Unusable)?;
        match (kind, checksum) {
            (GSO_NONE, _) if frame.len() > longest => Err(Unusable),
            (GSO_NONE, None) => Ok(Self::whole(frame)),
            (GSO_NONE, Some((start, offset))) => {
                let ipv4 = ipv4_before(bytes, frame.start, start, PROTOCOL_UDP);
                if offset == UDP_CHECKSUM && ipv4.is_some() {
                    let field = bytes.get_mut(start + offset..start + offset + 2);
                    field.ok_or(Unusable)?.fill(0);
                } else {
                    complete(bytes, start, offset)?;
                }
                Ok(Self::whole(frame))
            }
            (GSO_UDP_L4, Some((start, UDP_CHECKSUM))) => {
                let ip = ipv4_before(bytes, frame.start, start, PROTOCOL_UDP).ok_or(Unusable)?;
                let first = start + UDP_HEADER;
                let mut cut = Self::parts(bytes, &frame, first, word(s0, s1), longest)?;
                let ip = ip - frame.start;
                finish(&mut cut.template[..cut.headers], ip, cut.size)?;
                Ok(Self { transport: Transport::Udp(ip), ..cut })
            }
            (GSO_TCP_V4 | TCP_V4_ECN | GSO_TCP_V6 | TCP_V6_ECN, Some((start, tcp::CHECKSUM))) => {
                let ip = match kind & !GSO_ECN {
                    GSO_TCP_V4 => ipv4_before(bytes, frame.start, start, PROTOCOL_TCP),
                    _ => ipv6_before(bytes, frame.start, start, PROTOCOL_TCP),
                };
                let ip = ip.ok_or(Unusable)?;
                let first = start + tcp::header(&bytes[start..]).ok_or(Unusable)?;
                let mut cut = Self::parts(bytes, &frame, first, word(s0, s1), longest)?;
                let headers = &mut cut.template[..cut.headers];
                let [ip, tcp] = [ip, start].map(|at| at - frame.start);
                let stream = tcp::Stream::new(headers, ip, tcp, frame.end - start, cut.size)?;
                Ok(Self { transport: Transport::Tcp(stream), ..cut })
            }
            _ => Err(Unusable),
        }
    }

    /// Segments of `size` bytes from `first` on, with the headers that precede them.
    fn parts(
        bytes: &[u8],
        frame: &Range<usize>,
        first: usize,
        size: usize,
        longest: usize,
    ) -> Result<Self, Unusable> {
        let headers = first - frame.start;
        if first >= frame.end || headers > MOST_HEADERS {
            return Err(Unusable);
        }
        justified(headers, frame.end - first, size)?;
        if headers + size.min(frame.end - first) > longest {
            return Err(Unusable);
        }
        let mut template = [0; MOST_HEADERS];
        template[..headers].copy_from_slice(&bytes[frame.start..first]);
        let transport = Transport::Udp(0);
        Ok(Self { template, headers, transport, size, next: first, end: frame.end })
    }

    /// Datagrams of one flow with these headers, except for lengths and the IPv4 checksum, and with
    /// `size` bytes of payload each, at `payload` in a buffer. There is room for headers before it.
    pub(crate) fn datagrams(
        headers: &[u8; HEADERS],
        size: usize,
        payload: Range<usize>,
    ) -> Result<Self, Unusable> {
        if payload.start < HEADERS {
            return Err(Unusable);
        }
        justified(HEADERS, payload.len(), size)?;
        let mut template = [0; MOST_HEADERS];
        template[..HEADERS].copy_from_slice(headers);
        finish(&mut template[..HEADERS], IP, size)?;
        let (next, end) = (payload.start, payload.end);
        Ok(Self { template, headers: HEADERS, transport: Transport::Udp(IP), size, next, end })
    }

    /// The place of the next frame in the buffer. It overwrites frames that were returned before.
    pub(crate) fn next(&mut self, buffer: &mut [u8]) -> Option<Range<usize>> {
        if self.next >= self.end {
            return None;
        }
        let length = self.size.min(self.end - self.next);
        let frame = self.next - self.headers..self.next + length;
        let (template, segment) = (&mut self.template[..self.headers], &mut buffer[frame.clone()]);
        // A copy of a known length needs no call.
        match (segment.first_chunk_mut::<HEADERS>(), template.as_array::<HEADERS>()) {
            (Some(headers), Some(template)) => *headers = *template,
            _ => segment[..self.headers].copy_from_slice(template),
        }
        self.next += length;
        match &self.transport {
            Transport::Udp(ip) if length < self.size => {
                // It is shorter than the full segment, for which these lengths were valid.
                let finished = finish(&mut segment[..self.headers], *ip, length);
                debug_assert!(finished.is_ok());
            }
            Transport::Frames | Transport::Udp(_) => {}
            Transport::Tcp(stream) => {
                stream.finish(segment, self.next == self.end);
                stream.advance(template, length);
            }
        }
        Some(frame)
    }
}

/// Refuses to cut a buffer, of these headers and payload, into segments of `size` bytes of payload if it
/// has too few bytes for that many.
fn justified(headers: usize, payload: usize, size: usize) -> Result<(), Unusable> {
    // One frame is as long as it came.
    let is_justified = match size {
        0 => false,
        _ => payload <= size || payload.div_ceil(size) * LEAST_PER_FRAME <= headers + payload,
    };
    if is_justified { Ok(()) } else { Err(Unusable) }
}

/// The start of the IPv4 header of an unfragmented packet whose next header, of a given protocol, is
/// at `transport`.
fn ipv4_before(bytes: &[u8], frame: usize, transport: usize, protocol: u8) -> Option<usize> {
    let (ip, header) = network_before(bytes, frame, transport, [8, 0])?;
    let is_ipv4 = header.len() >= 20
        && header[0] == 0x40 | (header.len() / 4) as u8
        && header.len().is_multiple_of(4)
        && (header[6] & 0x3f, header[7]) == (0, 0)
        && header[9] == protocol;
    is_ipv4.then_some(ip)
}

/// The same for IPv6 without extension headers.
fn ipv6_before(bytes: &[u8], frame: usize, transport: usize, protocol: u8) -> Option<usize> {
    let (ip, header) = network_before(bytes, frame, transport, [0x86, 0xdd])?;
    (header.len() == 40 && header[0] >> 4 == 6 && header[6] == protocol).then_some(ip)
}

/// The network header between an Ethernet header with this type, perhaps with tags, and `transport`.
fn network_before(
    bytes: &[u8],
    frame: usize,
    transport: usize,
    ether_type: [u8; 2],
) -> Option<(usize, &[u8])> {
    let mut at = frame + 12;
    while matches!(bytes.get(at..at + 2)?, [0x81, 0] | [0x88, 0xa8]) {
        at += 4;
    }
    let ip = at + 2;
    let header = bytes.get(ip..transport)?;
    (bytes.get(at..ip)? == ether_type).then_some((ip, header))
}

/// Writes the lengths of a datagram with `payload` bytes into its headers, and removes its checksum.
fn finish(headers: &mut [u8], ip: usize, payload: usize) -> Result<(), Unusable> {
    let udp = headers.len() - UDP_HEADER;
    let total = u16::try_from(headers.len() - ip + payload).map_err(|_| Unusable)?;
    let datagram = (UDP_HEADER + payload) as u16;
    finish_ipv4(&mut headers[ip..udp], total);
    headers[udp + 4..udp + 6].copy_from_slice(&datagram.to_be_bytes());
    headers[udp + UDP_CHECKSUM..].fill(0);
    Ok(())
}

/// Writes the total length into an IPv4 header, and its checksum.
fn finish_ipv4(header: &mut [u8], total: u16) {
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[10..12].fill(0);
    let sum = !folded(sum(header));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Completes a checksum that holds the sum of the pseudo-header.
fn complete(bytes: &mut [u8], start: usize, offset: usize) -> Result<(), Unusable> {
    let covered = bytes.get_mut(start..).filter(|covered| offset + 2 <= covered.len());
    let covered = covered.ok_or(Unusable)?;
    let sum = match !folded(sum(covered)) {
        // In UDP, zero would mean that there is none (RFC 768).
        0 if offset == UDP_CHECKSUM => u16::MAX,
        sum => sum,
    };
    covered[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

/// The sum of big-endian words, with a zero after an odd last byte.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let words: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    words + rest.first().map_or(0, |last| u64::from(*last) << 8)
}

fn folded(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A frame that is about to be sent, to which others may be joined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    /// Length of the whole frame.
    length: usize,
    /// What others repeat of the first frame, and so leave out.
    headers: usize,
    /// The rest of the first frame.
    size: usize,
    /// Whether others may follow.
    is_open: bool,
    datagrams: u64,
}

/// The place of the number by which sockets share a UDP port: the job in our packets.
pub(crate) const FLOW: Range<usize> = HEADERS + 4..HEADERS + 6;

impl Joined {
    pub(crate) const NONE: Self =
        Self { length: 0, headers: 0, size: 0, is_open: false, datagrams: 0 };

    /// Puts a frame of at most `longest` bytes, if others are to be joined to it, into an empty
    /// buffer, after the room for its `virtio_net_hdr`.
    pub(crate) fn first(frame: &[u8], longest: usize, buffer: &mut [u8]) -> Self {
        buffer[VNET..VNET + frame.len()].copy_from_slice(frame);
        let size = frame.len().saturating_sub(HEADERS);
        let is_open = frame.len() <= longest && joinable(frame);
        Self { length: frame.len(), headers: HEADERS, size, is_open, datagrams: 1 }
    }

    /// The same for a datagram that contains a frame. All frames that are joined to it keep their headers.
    pub(crate) fn contained(frame: &[u8], longest: usize, buffer: &mut [u8]) -> Self {
        let length = frame.len();
        buffer[VNET..VNET + length].copy_from_slice(frame);
        Self { length, headers: 0, size: length, is_open: length <= longest, datagrams: 1 }
    }

    /// Appends a frame to the buffer if both fit into one super-frame.
    pub(crate) fn append(&mut self, frame: &[u8], buffer: &mut [u8]) -> bool {
        if !self.is_open || frame.len() < self.headers {
            return false;
        }
        let payload = &frame[self.headers..];
        let length = self.length + payload.len();
        if payload.len() > self.size || length > LONGEST {
            return false;
        }
        let frames = self.datagrams as usize + 1;
        let is_justified = frames * LEAST_PER_FRAME <= length;
        if self.headers > 0 && !(is_justified && self.continues(frame, buffer)) {
            return false;
        }
        let end = VNET + self.length;
        buffer[end..end + payload.len()].copy_from_slice(payload);
        self.length += payload.len();
        self.datagrams += 1;
        self.is_open = payload.len() == self.size && self.datagrams < MOST_DATAGRAMS;
        true
    }

    /// Whether a frame is a datagram of the flow of those in the buffer, which are [`joinable`].
    fn continues(&self, frame: &[u8], buffer: &[u8]) -> bool {
        let first = &buffer[VNET..VNET + HEADERS + self.size];
        // Where several sockets share a port, the first datagram decides which of them gets all.
        has_headers_of(frame, first) && has_lengths(frame) && first.get(FLOW) == frame.get(FLOW)
    }

    /// Where the frame is in the buffer.
    pub(crate) fn frame(&self) -> Range<usize> {
        VNET..VNET + self.length
    }

    /// The payload of each datagram, if there are several; the last one may be shorter.
    pub(crate) fn segment(&self) -> Option<u16> {
        (self.datagrams > 1).then_some(self.size as u16)
    }

    /// The number of frames.
    pub(crate) fn frames(&self) -> u64 {
        self.datagrams
    }

    /// Completes the headers, and writes the `virtio_net_hdr`.
    pub(crate) fn seal(&self, buffer: &mut [u8]) {
        let (vnet, frame) = buffer.split_at_mut(VNET);
        vnet.fill(0);
        if self.datagrams > 1 {
            let [s0, s1] = (self.size as u16).to_ne_bytes();
            let [h0, h1] = (HEADERS as u16).to_ne_bytes();
            let [c0, c1] = (UDP as u16).to_ne_bytes();
            let [o0, o1] = (UDP_CHECKSUM as u16).to_ne_bytes();
            vnet.copy_from_slice(&[NEEDS_CHECKSUM, GSO_UDP_L4, h0, h1, s0, s1, c0, c1, o0, o1]);
            let headers = &mut frame[..HEADERS];
            let finished = finish(headers, IP, self.length - HEADERS);
            debug_assert!(finished.is_ok(), "shorter than `LONGEST`");
            // Whoever cuts it expects the sum of the pseudo-header.
            let datagram = (self.length - UDP) as u64;
            let pseudo = sum(&headers[IP + 12..UDP]) + u64::from(PROTOCOL_UDP) + datagram;
            headers[UDP + UDP_CHECKSUM..].copy_from_slice(&folded(pseudo).to_be_bytes());
        }
    }
}

/// A datagram that can be joined, from the loopback's address to its port 9, where it is discarded.
pub(crate) fn discarded() -> Vec<u8> {
    const PAYLOAD: usize = LEAST_PER_FRAME;
    let mut frame = vec![0; HEADERS];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[IP] = 0x45;
    (frame[IP + 8], frame[IP + 9]) = (64, PROTOCOL_UDP);
    frame[IP + 12..UDP].copy_from_slice(&[127, 0, 0, 1, 127, 0, 0, 1]);
    (frame[UDP + 1], frame[UDP + 3]) = (9, 9);
    finish(&mut frame, IP, PAYLOAD).expect("it is short");
    frame.resize(HEADERS + PAYLOAD, 0);
    frame
}

/// Whether a frame is one UDP datagram over IPv4 without options, tags, padding and checksum.
pub(crate) fn joinable(frame: &[u8]) -> bool {
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    has_lengths(frame)
        && word(12) == 0x0800
        && frame[IP] == 0x45
        && word(IP + 6) & 0x3fff == 0
        && frame[IP + 9] == PROTOCOL_UDP
}

/// Whether the lengths in the headers of a UDP datagram over IPv4 are the frame's, and there is no checksum.
fn has_lengths(frame: &[u8]) -> bool {
    let word = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    frame.len() > HEADERS
        && word(IP + 2) == frame.len() - IP
        && word(UDP + 4) == frame.len() - UDP
        && word(UDP + UDP_CHECKSUM) == 0
}

/// Ones for each byte of a flow's headers that is the same in all its frames: all but the lengths, and the checksum
/// of the IPv4 header.
const SAME: [u8; HEADERS] = {
    let mut same = [u8::MAX; HEADERS];
    let lengths = [IP + 2, IP + 10, UDP + 4, UDP + UDP_CHECKSUM];
    let mut at = 0;
    while at < lengths.len() {
        (same[lengths[at]], same[lengths[at] + 1]) = (0, 0);
        at += 1;
    }
    same
};

/// Whether two frames have the headers of the same flow. In words of 16 bytes, of which the last two overlap: this is
/// done for each frame.
fn has_headers_of(frame: &[u8], first: &[u8]) -> bool {
    let Some((frame, first)) = frame.first_chunk::<HEADERS>().zip(first.first_chunk()) else {
        return false;
    };
    let word = |bytes: &[u8; HEADERS], at: usize| {
        u128::from_ne_bytes(*bytes[at..].first_chunk().expect("within the headers"))
    };
    let differs = |at| (word(frame, at) ^ word(first, at)) & word(&SAME, at);
    (differs(0) | differs(16) | differs(HEADERS - 16)) == 0
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A datagram of a flow, with the fields that flows differ in.
    pub(crate) fn datagram(flow: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; HEADERS];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, flow, 2, 0, 0, 0, 0, 9]);
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[IP] = 0x45;
        frame[IP + 1] = flow & 3;
        frame[IP + 6] = 0x40;
        frame[IP + 8] = 64;
        frame[IP + 9] = PROTOCOL_UDP;
        frame[IP + 12..UDP].copy_from_slice(&[10, 0, 0, flow, 10, 0, 0, 9]);
        frame[UDP..UDP + 4].copy_from_slice(&[0x74, 0x72, 0x74, 0x72]);
        finish(&mut frame, IP, payload.len()).unwrap();
        frame.extend_from_slice(payload);
        frame
    }

    /// The buffers that would be sent, and how many frames each has.
    fn joined(frames: &[Vec<u8>]) -> Vec<(Vec<u8>, u64)> {
        let mut buffers: Vec<(Vec<u8>, Joined)> = Vec::new();
        for frame in frames {
            let last = buffers.last_mut();
            if last.is_some_and(|(buffer, joined)| joined.append(frame, buffer)) {
                continue;
            }
            let mut buffer = vec![0; VNET + LONGEST_RECEIVED];
            let first = Joined::first(frame, usize::MAX, &mut buffer);
            buffers.push((buffer, first));
        }
        let seal = |(mut buffer, joined): (Vec<u8>, Joined)| {
            joined.seal(&mut buffer);
            buffer.truncate(joined.frame().end);
            (buffer, joined.frames())
        };
        buffers.into_iter().map(seal).collect()
    }

    /// The frames in a buffer that begins with a `virtio_net_hdr`.
    pub(crate) fn cut(buffer: &mut [u8]) -> Result<Vec<Vec<u8>>, Unusable> {
        let frame = VNET..buffer.len();
        let vnet = *buffer.first_chunk().ok_or(Unusable)?;
        let mut cut = Cut::new(vnet, buffer, frame, 0, LONGEST_RECEIVED)?;
        let mut frames = Vec::new();
        while let Some(frame) = cut.next(buffer) {
            frames.push(buffer[frame].to_vec());
        }
        Ok(frames)
    }

    #[test]
    fn equal_datagrams_share_a_buffer_and_a_shorter_one_ends_it() {
        let frames: Vec<_> = [300, 300, 300, 20, 300].map(|n| datagram(1, &vec![7; n])).into();
        let buffers = joined(&frames);
        assert_eq!(buffers.iter().map(|(_, frames)| *frames).collect::<Vec<_>>(), [4, 1]);
        // The kernel's description of the first one, and its length in the headers.
        let (first, _) = &buffers[0];
        assert_eq!(first[..2], [NEEDS_CHECKSUM, GSO_UDP_L4]);
        assert_eq!(u16::from_ne_bytes([first[4], first[5]]), 300);
        assert_eq!(usize::from(u16::from_be_bytes([first[26], first[27]])), 28 + 920);
        assert_eq!(first.len(), VNET + HEADERS + 920);
        assert_eq!(buffers[1].0[..VNET], [0; VNET], "one frame needs no description");
    }

    /// The first datagram's headers are those of all datagrams in the buffer.
    #[test]
    fn datagrams_that_differ_in_any_bit_of_their_headers_do_not_share_a_buffer() {
        let frame = datagram(1, &[7; 300]);
        for bit in 0..8 * HEADERS {
            let mut other = frame.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            // The IPv4 checksum follows from the rest.
            let shared = (IP + 10..IP + 12).contains(&(bit / 8));
            let buffers = joined(&[frame.clone(), other]);
            assert_eq!(buffers.len(), if shared { 1 } else { 2 }, "bit {bit}");
        }
        for length in [0, 14, HEADERS - 1, HEADERS] {
            assert_eq!(joined(&[frame.clone(), frame[..length].to_vec()]).len(), 2, "{length}");
        }
    }

    #[test]
    fn a_buffer_holds_datagrams_of_one_job() {
        let frames: Vec<_> = [7, 7, 8, 8, 7].map(|job| datagram(1, &[job; 300])).into();
        let numbers = joined(&frames).into_iter().map(|(_, frames)| frames);
        assert_eq!(numbers.collect::<Vec<_>>(), [2, 2, 1]);
    }

    #[test]
    fn a_buffer_does_not_exceed_an_ipv4_packet() {
        let frames = vec![datagram(1, &[7; 1400]); 100];
        let buffers = joined(&frames);
        assert!(buffers.iter().all(|(buffer, _)| buffer.len() <= VNET + LONGEST));
        assert_eq!(buffers.iter().map(|(_, frames)| frames).sum::<u64>(), 100);
        assert!(buffers.len() == 3, "{}", buffers.len());
    }

    /// A super-frame of one flow with `size` bytes of payload in each frame, of UDP or TCP, as the kernel
    /// describes it.
    fn super_frame(protocol: u8, size: u16, payload: usize) -> Vec<u8> {
        let mut frame = datagram(1, &vec![7; payload]);
        frame[IP + 9] = protocol;
        let (kind, checksum, headers) = match protocol {
            PROTOCOL_TCP => (GSO_TCP_V4, tcp::CHECKSUM, UDP + 20),
            _ => (GSO_UDP_L4, UDP_CHECKSUM, HEADERS),
        };
        if protocol == PROTOCOL_TCP {
            frame.splice(HEADERS..HEADERS, [0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        }
        let words = [headers as u16, size, UDP as u16, checksum as u16];
        let words = words.iter().flat_map(|word| word.to_ne_bytes());
        [NEEDS_CHECKSUM, kind].into_iter().chain(words).chain(frame).collect()
    }

    #[test]
    fn a_buffer_becomes_no_more_frames_than_its_bytes_justify() {
        for protocol in [PROTOCOL_UDP, PROTOCOL_TCP] {
            for size in [1, 8, 28, 59] {
                // 128 datagrams are few enough for every kernel.
                for payload in [2 * usize::from(size), 128, 60_000] {
                    let mut buffer = super_frame(protocol, size, payload);
                    let length = buffer.len() - VNET;
                    let frames = payload.div_ceil(usize::from(size));
                    match cut(&mut buffer) {
                        Ok(cut) => assert_eq!(cut.len(), frames),
                        Err(Unusable) => assert!(frames * LEAST_PER_FRAME > length),
                    }
                }
                assert!(cut(&mut super_frame(protocol, size, 60_000)).is_err(), "{size}");
            }
            for size in [60, 536, 1_448] {
                let frames = cut(&mut super_frame(protocol, size, 60_000)).unwrap();
                assert_eq!(frames.len(), 60_000_usize.div_ceil(size.into()));
            }
            // One frame is one frame, whatever its length.
            assert_eq!(cut(&mut super_frame(protocol, 5, 1)).unwrap().len(), 1);
        }
        // A UDP socket gets datagrams of strangers that are joined, too.
        let joined =
            |size, payload| Cut::datagrams(&[0; HEADERS], size, HEADERS..HEADERS + payload);
        assert!(joined(1, 128).is_err() && joined(59, 60_000).is_err() && joined(0, 0).is_err());
        assert!(joined(60, 60_000).is_ok() && joined(1, 1).is_ok());
    }

    #[test]
    fn no_frame_is_longer_than_the_interface_carries() {
        let longest = 1_500 + IP;
        let cut = |buffer: &mut [u8]| {
            let (vnet, whole) = (*buffer.first_chunk().unwrap(), VNET..buffer.len());
            Cut::new(vnet, buffer, whole, 0, longest).map(drop)
        };
        for (protocol, most) in [(PROTOCOL_UDP, 1_472), (PROTOCOL_TCP, 1_460)] {
            assert_eq!(cut(&mut super_frame(protocol, most, 30_000)), Ok(()));
            assert_eq!(cut(&mut super_frame(protocol, most + 1, 30_000)), Err(Unusable));
            assert_eq!(cut(&mut super_frame(protocol, u16::MAX, 30_000)), Err(Unusable));
            assert_eq!(cut(&mut super_frame(protocol, 9_000, 1_000)), Ok(()));
        }
        let plain = |payload: usize| [&[0; VNET][..], &datagram(1, &vec![7; payload])].concat();
        assert_eq!(cut(&mut plain(1_472)), Ok(()));
        assert_eq!(cut(&mut plain(1_473)), Err(Unusable));
    }

    /// Whatever a sender writes into one byte of the description.
    #[test]
    fn no_field_of_the_description_makes_more_of_a_buffer() {
        for protocol in [PROTOCOL_UDP, PROTOCOL_TCP] {
            let valid = super_frame(protocol, 1_000, 6_000);
            for (at, value) in (0..VNET).flat_map(|at| (0..=u8::MAX).map(move |value| (at, value)))
            {
                let mut buffer = valid.clone();
                buffer[at] = value;
                let Ok(frames) = cut(&mut buffer) else { continue };
                let most = (valid.len() - VNET) / LEAST_PER_FRAME;
                assert!(frames.len() <= most, "byte {at} is {value}: {} frames", frames.len());
                let bytes: usize = frames.iter().map(Vec::len).sum();
                let headers = frames.len() * (UDP + 20);
                assert!(bytes <= valid.len() + headers, "byte {at} is {value}: {bytes} bytes");
            }
        }
    }

    #[test]
    fn unfinished_checksums_are_completed_or_removed() {
        // TCP: the words of what is covered and the sum that was in the field add up to ones.
        let mut frame = datagram(1, &[3; 33]);
        frame[IP + 9] = 6;
        frame[UDP + 16..UDP + 18].copy_from_slice(&[0x12, 0x34]);
        let vnet = |offset: u8| [NEEDS_CHECKSUM, 0, 0, 0, 0, 0, UDP as u8, 0, offset, 0];
        let mut buffer = [&vnet(16)[..], &frame].concat();
        assert_eq!(cut(&mut buffer).unwrap().len(), 1);
        assert_eq!(folded(sum(&buffer[VNET + UDP..]) + 0x1234), u16::MAX);
        // UDP: a datagram need not have one.
        let mut frame = datagram(1, &[3; 33]);
        frame[UDP + UDP_CHECKSUM] = 5;
        let mut buffer = [&vnet(6)[..], &frame].concat();
        assert_eq!(cut(&mut buffer).unwrap(), [datagram(1, &[3; 33])]);
    }

    proptest! {
        #[test]
        fn what_is_joined_is_cut_to_the_same_frames(
            kinds in prop::collection::vec((0u8..3, 0usize..4, any::<u8>()), 0..200),
        ) {
            let sizes = [1, 28, 284, 1052];
            let frame = |&(flow, size, byte): &(u8, usize, u8)| -> Vec<u8> {
                let mut frame = datagram(flow, &vec![byte; sizes[size]]);
                match byte {
                    // Padding, a checksum, a fragment, another protocol: left alone.
                    0 => frame.extend([0; 3]),
                    1 => frame[UDP + UDP_CHECKSUM] = 1,
                    2 => frame[IP + 7] = 1,
                    3 => frame[IP + 9] = 1,
                    4 => frame.truncate(20),
                    _ => {}
                }
                frame
            };
            let frames: Vec<_> = kinds.iter().map(frame).collect();
            let mut arrived = Vec::new();
            for (mut buffer, count) in joined(&frames) {
                let frames = cut(&mut buffer).unwrap();
                prop_assert_eq!(frames.len() as u64, count);
                arrived.extend(frames);
            }
            prop_assert_eq!(arrived, frames);
        }

        #[test]
        fn hostile_descriptions_never_panic(
            vnet in prop::array::uniform10(prop_oneof![0u8..50, any::<u8>()]),
            kind in prop::sample::select(vec![0u8, 1, 3, 4, 5, 0x81, 0x84, 0x85]),
            payload in prop::collection::vec(any::<u8>(), 1..3000),
            tag in prop::sample::select(vec![0usize, 4]),
            plausible in prop::option::of(prop::sample::select(vec![PROTOCOL_UDP, PROTOCOL_TCP])),
        ) {
            let mut vnet = vnet;
            vnet[0] |= u8::from(plausible.is_some());
            vnet[1] = kind;
            let mut frame = payload;
            if let Some(protocol) = plausible {
                let checksum = if protocol == PROTOCOL_UDP { UDP_CHECKSUM } else { tcp::CHECKSUM };
                vnet[6..].copy_from_slice(&[UDP as u8, 0, checksum as u8, 0]);
                frame = datagram(1, &frame);
                frame[IP + 9] = protocol;
            }
            let mut buffer = [&vnet[..], &frame].concat();
            let whole = VNET..buffer.len();
            if let Ok(mut cut) = Cut::new(vnet, &mut buffer, whole, tag, 1_522) {
                let mut total = 0;
                while let Some(frame) = cut.next(&mut buffer) {
                    prop_assert!(!frame.is_empty() && frame.end <= buffer.len());
                    prop_assert!(frame.len() <= 1_522);
                    total += 1;
                    prop_assert!(total == 1 || total * LEAST_PER_FRAME <= buffer.len() - VNET);
                }
            }
        }
    }
}

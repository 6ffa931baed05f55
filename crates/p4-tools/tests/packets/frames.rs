//! Frames, built byte by byte and independently of `tributary-wire`, so that neither hides the
//! other's mistakes. Every field can be set to a wrong value; lengths and checksum are correct by
//! default.

/// Kinds of packets, as in `docs/concepts/atp.md`, `docs/concepts/esa.md` and
/// `docs/concepts/p4inc.md`.
pub(crate) const GRADIENT: u8 = 1;
pub(crate) const PARAMETER: u8 = 2;
pub(crate) const REPLY: u8 = 3;
pub(crate) const QUERY: u8 = 4;
pub(crate) const SWEEP: u8 = 5;
pub(crate) const REMINDER: u8 = 6;
pub(crate) const ABSENT: u8 = 7;
pub(crate) const ASYNCHRONOUS: u8 = 8;

/// Flags.
pub(crate) const RESEND: u8 = 1;
pub(crate) const COLLISION: u8 = 2;
pub(crate) const OVERFLOW: u8 = 4;
pub(crate) const MARKED: u8 = 8;

/// The bit of an audience that leaves one worker out.
pub(crate) const ALL_BUT: u8 = 0x80;

/// Codepoints of ECN.
pub(crate) const NOT_CAPABLE: u8 = 0;
pub(crate) const CAPABLE: u8 = 2;
pub(crate) const CONGESTED: u8 = 3;

pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const IPV6: u16 = 0x86dd;

/// IP protocols that carry other packets, and UDP ports of such tunnels.
pub(crate) const TUNNELS: [u8; 5] = [4, 41, 47, 97, 137];
pub(crate) const TUNNEL_PORTS: [u16; 3] = [4789, 6081, 8472];

/// Length of the headers.
pub(crate) const HEADERS: usize = 14 + 20 + 8 + 28;

/// Offsets of fields of the aggregation header in a frame.
pub(crate) const EPOCH: usize = 50;
pub(crate) const SEQUENCE: usize = 54;
pub(crate) const BITMAP: usize = 58;
pub(crate) const RACK: usize = 62;
pub(crate) const AUDIENCE: usize = 63;
pub(crate) const INDEX: usize = 66;

/// The run of a job that tests admit. It is unique per job, and its bytes are all different.
pub(crate) fn epoch(job: u16) -> u32 {
    match job {
        // That of the golden frames.
        263 => tributary_wire::golden::EPOCH.get(),
        _ => 0x5a3c_0000 + u32::from(job),
    }
}

/// The address of the host at a port: 02:00:00:00:00:*port*.
pub(crate) fn mac(port: u16) -> u64 {
    0x0200_0000_0000 + u64::from(port)
}

/// The IPv4 address of the host at a port: 10.0.0.*port*.
pub(crate) fn ip(port: u16) -> u32 {
    0x0a00_0000 + u32::from(port)
}

/// An aggregation packet, possibly invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub(crate) destination: u64,
    pub(crate) source: u64,
    pub(crate) ethertype: u16,
    /// Version and header length.
    pub(crate) version: u8,
    pub(crate) options: Vec<u8>,
    pub(crate) dscp: u8,
    pub(crate) ecn: u8,
    pub(crate) total_length: Option<u16>,
    pub(crate) identification: u16,
    /// Flags and offset.
    pub(crate) fragment: u16,
    pub(crate) ttl: u8,
    pub(crate) ip_protocol: u8,
    pub(crate) checksum: Option<u16>,
    pub(crate) ip_source: u32,
    pub(crate) ip_destination: u32,
    pub(crate) udp_source: u16,
    pub(crate) udp_destination: u16,
    pub(crate) udp_length: Option<u16>,
    pub(crate) udp_checksum: u16,
    pub(crate) protocol: u8,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) priority: u8,
    pub(crate) job: u16,
    pub(crate) count: Option<u16>,
    /// By default, that of the job's [run](epoch).
    pub(crate) epoch: Option<u32>,
    pub(crate) sequence: u32,
    pub(crate) bitmap: u32,
    pub(crate) rack: u8,
    pub(crate) audience: u8,
    /// Two bytes.
    pub(crate) reserved: u16,
    pub(crate) index: u32,
    pub(crate) values: Vec<i32>,
    /// Bytes after the IPv4 packet.
    pub(crate) trailer: Vec<u8>,
}

impl Frame {
    /// A packet from the host at one port to that at another.
    pub(crate) fn new(kind: u8, from: u16, to: u16) -> Self {
        Self {
            destination: mac(to),
            source: mac(from),
            ethertype: IPV4,
            version: 0x45,
            options: Vec::new(),
            dscp: 0,
            ecn: CAPABLE,
            total_length: None,
            identification: 0,
            fragment: 0x4000,
            ttl: 64,
            ip_protocol: 17,
            checksum: None,
            ip_source: ip(from),
            ip_destination: ip(to),
            udp_source: 29810,
            udp_destination: 29810,
            udp_length: None,
            udp_checksum: 0,
            protocol: 1,
            kind,
            flags: 0,
            priority: 0,
            job: 0,
            count: None,
            epoch: None,
            sequence: 0,
            bitmap: 0,
            rack: 0,
            audience: 0,
            reserved: 0,
            index: 0,
            values: Vec::new(),
            trailer: Vec::new(),
        }
    }

    pub(crate) fn flags(mut self, flags: u8) -> Self {
        self.flags = flags;
        self
    }

    pub(crate) fn ecn(mut self, ecn: u8) -> Self {
        self.ecn = ecn;
        self
    }

    pub(crate) fn bitmap(mut self, bitmap: u32) -> Self {
        self.bitmap = bitmap;
        self
    }

    pub(crate) fn rack(mut self, rack: u8) -> Self {
        self.rack = rack;
        self
    }

    pub(crate) fn audience(mut self, audience: u8) -> Self {
        self.audience = audience;
        self
    }

    pub(crate) fn values(mut self, values: &[i32]) -> Self {
        self.values = values.to_vec();
        self
    }

    pub(crate) fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// The frame with a change.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The frame as it is on the wire.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut aggregation = vec![self.protocol, self.kind, self.flags, self.priority];
        let count = self.count.unwrap_or(self.values.len() as u16);
        aggregation.extend(self.job.to_be_bytes());
        aggregation.extend(count.to_be_bytes());
        let epoch = self.epoch.unwrap_or(epoch(self.job));
        for word in [epoch, self.sequence, self.bitmap] {
            aggregation.extend(word.to_be_bytes());
        }
        aggregation.extend([self.rack, self.audience]);
        aggregation.extend(self.reserved.to_be_bytes());
        aggregation.extend(self.index.to_be_bytes());
        aggregation.extend(self.values.iter().flat_map(|value| value.to_be_bytes()));

        let mut udp = Vec::new();
        let length = self.udp_length.unwrap_or(8 + aggregation.len() as u16);
        for half in [self.udp_source, self.udp_destination, length, self.udp_checksum] {
            udp.extend(half.to_be_bytes());
        }
        udp.extend(aggregation);
        self.wrap(&udp)
    }

    /// A frame with the Ethernet and IPv4 headers of this one and another payload.
    pub(crate) fn wrap(&self, payload: &[u8]) -> Vec<u8> {
        let mut header = vec![self.version, self.dscp << 2 | self.ecn];
        let total = 20 + self.options.len() + payload.len();
        header.extend(self.total_length.unwrap_or(total as u16).to_be_bytes());
        header.extend(self.identification.to_be_bytes());
        header.extend(self.fragment.to_be_bytes());
        header.extend([self.ttl, self.ip_protocol, 0, 0]);
        header.extend(self.ip_source.to_be_bytes());
        header.extend(self.ip_destination.to_be_bytes());
        header.extend(&self.options);
        let checksum = self.checksum.unwrap_or_else(|| internet_checksum(&header));
        header[10..12].copy_from_slice(&checksum.to_be_bytes());

        let mut frame = self.destination.to_be_bytes()[2..].to_vec();
        frame.extend(&self.source.to_be_bytes()[2..]);
        frame.extend(self.ethertype.to_be_bytes());
        frame.extend(header);
        frame.extend(payload);
        frame.extend(&self.trailer);
        frame
    }
}

/// A frame other than IPv4.
pub(crate) fn plain(destination: u64, source: u64, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = destination.to_be_bytes()[2..].to_vec();
    frame.extend(&source.to_be_bytes()[2..]);
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The checksum of RFC 1071 over an even number of bytes, whose own field must be zero.
pub(crate) fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) * 256 + u64::from(pair[1]);
    }
    // A ones' complement sum is the value modulo 65535, with 65535 instead of 0 unless the value is
    // 0.
    let folded = if sum == 0 { 0 } else { (sum - 1) % 0xffff + 1 };
    !(folded as u16)
}

/// A frame in hexadecimal, preceded by its main fields.
pub(crate) fn describe(frame: &[u8]) -> String {
    let mut text = format!("{} bytes", frame.len());
    if frame.len() >= HEADERS
        && frame[12..14] == IPV4.to_be_bytes()
        && frame[36..38] == [0x74, 0x72]
    {
        let word =
            |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().expect("four bytes"));
        let kind = [
            "?",
            "gradient",
            "parameter",
            "reply",
            "query",
            "sweep",
            "reminder",
            "absent",
            "asynchronous",
        ];
        let kind = kind.get(usize::from(frame[43])).unwrap_or(&"?");
        let letters = [(RESEND, 'R'), (COLLISION, 'C'), (OVERFLOW, 'O'), (MARKED, 'E')];
        let flags: String = letters.iter().filter(|l| frame[44] & l.0 != 0).map(|l| l.1).collect();
        let (job, count) = (word(46) >> 16, word(46) & 0xffff);
        text += &format!(
            ", {kind} [{flags}] of job {job}, fragment {}, bitmap {:#b}, cell {}, {count} values",
            word(SEQUENCE),
            word(BITMAP),
            word(INDEX),
        );
    }
    let hex: String = frame.iter().take(128).map(|byte| format!("{byte:02x}")).collect();
    format!("{text}: {hex}{}", if frame.len() > 128 { "…" } else { "" })
}

//! A capture of the links' frames in the pcapng format, for Wireshark and other analysers.
//!
//! Each end of a link is an interface of the capture. A frame is captured as outbound when its last
//! byte has left one end, and as inbound when its last byte has arrived at the other. Messages of
//! reliable channels are not captured: their TCP segments have no frames in the simulation.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness};
use tributary_crossconnect::Port;
use tributary_jobfile::{End, Topology};

use crate::trace::Fate;

/// `if_tsresol` for nanoseconds: the negative power of ten.
const NANOSECONDS: u8 = 9;

/// `epb_flags` of a received packet.
const INBOUND: u32 = 1;

/// `epb_flags` of a sent packet.
const OUTBOUND: u32 = 2;

/// The captured frames, as the contents of a pcapng file.
pub struct Capture {
    writer: PcapNgWriter<Vec<u8>>,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("bytes", &self.as_bytes().len()).finish_non_exhaustive()
    }
}

impl Capture {
    /// A capture without frames. Interface `n` is where direction `n` of the network begins.
    pub(crate) fn new(topology: &Topology) -> Self {
        let section = SectionHeaderBlock {
            // The same bytes on every machine.
            endianness: Endianness::Little,
            options: vec![SectionHeaderOption::UserApplication(Cow::Borrowed("tributary"))],
            ..SectionHeaderBlock::default()
        };
        let writer = PcapNgWriter::with_section_header(Vec::new(), section);
        let mut writer = writer.expect("a vector can be written to");
        let links = topology.links[..topology.fixed_links()].iter();
        let links = links.flat_map(|link| {
            let [a, b] = link.ends;
            [names(topology, a, b), names(topology, b, a)]
        });
        let fibres = (1..=topology.cross_connect_ports()).map(|port| {
            let (switch, number) = topology.optical_end(Port(port));
            let name = &topology.switch(switch).name;
            let end = format!("port {port} of the cross-connect");
            (format!("{name}:{number}"), format!("switch {name}, port {number}, link to {end}"))
        });
        for (name, description) in links.chain(fibres) {
            let options = vec![
                InterfaceDescriptionOption::IfName(name.into()),
                InterfaceDescriptionOption::IfDescription(description.into()),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ];
            // Frames are captured whole: a snapshot length of zero is no limit.
            let linktype = DataLink::ETHERNET;
            let interface = InterfaceDescriptionBlock { linktype, snaplen: 0, options };
            writer.write_pcapng_block(interface).expect("a vector can be written to");
        }
        Self { writer }
    }

    /// Captures a frame that has left the start of a direction. If it is lost, a comment says so,
    /// because it never arrives.
    pub(crate) fn sent(&mut self, time: u64, direction: usize, frame: &[u8], fate: Fate) {
        let mut options = vec![EnhancedPacketOption::Flags(OUTBOUND)];
        if fate == Fate::Lost {
            options.push(EnhancedPacketOption::Comment(Cow::Borrowed("lost on the link")));
        }
        self.push(time, direction, frame, options);
    }

    /// Captures a frame that has arrived where this direction begins.
    pub(crate) fn arrived(&mut self, time: u64, interface: usize, frame: &[u8]) {
        self.push(time, interface, frame, vec![EnhancedPacketOption::Flags(INBOUND)]);
    }

    fn push(
        &mut self,
        time: u64,
        interface: usize,
        frame: &[u8],
        options: Vec<EnhancedPacketOption<'_>>,
    ) {
        let packet = EnhancedPacketBlock {
            interface_id: u32::try_from(interface).expect("fewer links than 2^31"),
            timestamp: Duration::from_nanos(time),
            original_len: u32::try_from(frame.len()).expect("frames are shorter than 4 GiB"),
            data: Cow::Borrowed(frame),
            options,
        };
        self.writer.write_pcapng_block(packet).expect("the interface was described");
    }

    /// The contents of the file.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.writer.get_ref()
    }
}

/// The name and the description of an interface. A host has one interface, which has its name; two
/// switches have at most one link, so a switch and its neighbour name a port.
fn names(topology: &Topology, own: End, other: End) -> (String, String) {
    let (name, neighbour) = (topology.end_name(own), topology.end_name(other));
    match own {
        End::Host(_) => (name.into(), format!("host {name}, link to {neighbour}")),
        End::Switch(_, port) => (
            format!("{name}:{neighbour}"),
            format!("switch {name}, port {port}, link to {neighbour}"),
        ),
    }
}

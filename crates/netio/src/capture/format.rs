//! The pcapng format.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};

/// `if_tsresol` for nanoseconds: the negative power of ten.
const NANOSECONDS: u8 = 9;

/// An interface of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// What it is; may be empty.
    pub description: String,
}

/// Which way a frame passed an interface. The values are those of `epb_flags`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// It was received.
    Inbound = 1,
    /// It was sent.
    Outbound = 2,
}

/// A captured frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Since 1970, or since the start of virtual time.
    pub time: Duration,
    /// Number of the interface, from 0.
    pub interface: u32,
    /// Which way it passed.
    pub direction: Direction,
    /// From the Ethernet header to the end of the payload.
    pub bytes: &'a [u8],
    /// What is known about it.
    pub comment: Option<&'a str>,
}

/// Writes a file.
pub(crate) struct Pcapng<W: Write> {
    writer: PcapNgWriter<W>,
}

impl<W: Write> fmt::Debug for Pcapng<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pcapng")
    }
}

impl<W: Write> Pcapng<W> {
    /// Writes the beginning of a file: a comment about all of it, and the interfaces.
    pub(crate) fn new(out: W, comment: &str, interfaces: &[Interface]) -> io::Result<Self> {
        let mut options = vec![SectionHeaderOption::UserApplication(Cow::Borrowed("tributary"))];
        if !comment.is_empty() {
            options.push(SectionHeaderOption::Comment(Cow::Owned(comment.to_owned())));
        }
        // The same bytes on every machine.
        let section = SectionHeaderBlock {
            endianness: Endianness::Little,
            options,
            ..SectionHeaderBlock::default()
        };
        let mut writer = PcapNgWriter::with_section_header(out, section).map_err(io_error)?;
        for Interface { name, description } in interfaces {
            let mut options = vec![InterfaceDescriptionOption::IfName(name.into())];
            if !description.is_empty() {
                options.push(InterfaceDescriptionOption::IfDescription(description.into()));
            }
            options.push(InterfaceDescriptionOption::IfTsResol(NANOSECONDS));
            // Frames are captured whole: a snapshot length of zero is no limit.
            let linktype = DataLink::ETHERNET;
            let interface = InterfaceDescriptionBlock { linktype, snaplen: 0, options };
            writer.write_pcapng_block(interface).map_err(io_error)?;
        }
        Ok(Self { writer })
    }

    /// Writes a frame.
    pub(crate) fn frame(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let mut options = vec![EnhancedPacketOption::Flags(frame.direction as u32)];
        if let Some(comment) = frame.comment {
            options.push(EnhancedPacketOption::Comment(Cow::Borrowed(comment)));
        }
        let packet = EnhancedPacketBlock {
            interface_id: frame.interface,
            timestamp: frame.time,
            original_len: u32::try_from(frame.bytes.len()).map_err(io::Error::other)?,
            data: Cow::Borrowed(frame.bytes),
            options,
        };
        self.writer.write_pcapng_block(packet).map_err(io_error).map(drop)
    }

    /// Writes what is buffered.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.writer.get_mut().flush()
    }
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

//! The capture in pcapng, read back with another library than the one that writes it.

use std::collections::BTreeSet;

use pcap_parser::pcapng::OptionCode;
use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapNGSlice};
use tributary_netio::capture::{Recorder, Summary};
use tributary_sim::Ends;
use tributary_sim::{Fate, Options, Run, What};
use tributary_wire::agg::{Packet, Repr};

use crate::cases::{inputs, program, scenario};

/// A captured packet.
struct Captured {
    /// Nanoseconds.
    time: u64,
    interface: usize,
    /// Whether the interface received it.
    inbound: bool,
    comment: Option<String>,
    frame: Vec<u8>,
}

impl Captured {
    fn header(&self) -> Repr {
        *Packet::new_checked(&self.frame[..]).unwrap().repr()
    }
}

/// The names and descriptions of all interfaces, and the packets.
fn read(file: &[u8]) -> (Vec<[String; 2]>, Vec<Captured>) {
    let (mut interfaces, mut packets) = (Vec::new(), Vec::new());
    for block in PcapNGSlice::from_slice(file).unwrap() {
        match block.unwrap() {
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {}
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                assert_eq!(interface.linktype, Linktype::ETHERNET);
                assert_eq!(interface.ts_resolution(), Some(1_000_000_000));
                let texts = [interface.if_name(), interface.if_description()];
                interfaces.push(texts.map(|text| text.unwrap().unwrap().to_owned()));
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                assert!(!packet.truncated());
                let option = |code| packet.options.iter().find(|option| option.code == code);
                // Options have the same numbers in all blocks; 2 is `epb_flags` here.
                let flags = option(OptionCode(2)).unwrap().as_u32_le().unwrap();
                assert!(matches!(flags, 1 | 2), "{flags}");
                packets.push(Captured {
                    time: u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low),
                    interface: packet.if_id as usize,
                    inbound: flags == 1,
                    comment: option(OptionCode::Comment).map(|text| text.as_str().unwrap().into()),
                    frame: packet.packet_data().to_vec(),
                });
            }
            _ => panic!("another block"),
        }
    }
    (interfaces, packets)
}

#[test]
fn a_capture_has_every_frame_of_the_trace_at_both_ends_of_its_link() {
    let file = "[topology]\nkind = \"racks\"\nracks = 2\nhosts_per_rack = 1\nps_rack = 1\n\
                [faults]\nloss = 0.1\nduplicate = 0.1\nreorder = 0.1\n[[job]]\nworkers = 2\n";
    let scenario = scenario(file);
    let inputs = inputs(&scenario, 1, 64 * 50);
    let (recorder, buffer) =
        Recorder::in_memory("", &Ends::of(&scenario.network.topology).interfaces());
    let capture = Some(recorder.clone());
    let options = Options { trace: true, capture, ..Options::seeded(1) };
    let mut run = Run::start(&scenario, &program(&scenario), inputs, &options).unwrap();
    while run.step().unwrap() {}
    run.system.network.end_capture();
    let network = &run.system.network;
    let (summary, result) = recorder.finish();
    result.unwrap();
    let (interfaces, packets) = read(&buffer.take());
    assert_eq!(summary, Summary { written: packets.len() as u64, dropped: 0 });

    let expected = [
        ["w1", "host w1, link to rack1"],
        ["rack1:w1", "switch rack1, port 1, link to w1"],
        ["w2", "host w2, link to rack2"],
        ["rack2:w2", "switch rack2, port 1, link to w2"],
        ["ps", "host ps, link to rack1"],
        ["rack1:ps", "switch rack1, port 2, link to ps"],
        ["rack1:rack2", "switch rack1, port 3, link to rack2"],
        ["rack2:rack1", "switch rack2, port 2, link to rack1"],
    ];
    assert_eq!(interfaces, expected);
    assert!(packets.is_sorted_by_key(|packet| packet.time));

    // The trace has the same frames: those that arrived at their ends, lost ones at their starts.
    let traced = |fate: Fate| {
        let seen =
            network.trace().unwrap().sightings().iter().filter(move |seen| seen.fate == fate);
        let packets = seen.filter_map(move |seen| match (&seen.what, fate) {
            (What::Packet(header), Fate::Arrived) => {
                let outcome = seen.outcome.map(str::to_owned);
                Some((seen.time, seen.to.clone(), *header, outcome))
            }
            (What::Packet(header), Fate::Lost) => {
                Some((seen.time, seen.from.clone(), *header, Some("lost on the link".into())))
            }
            _ => None,
        });
        packets.collect::<Vec<_>>()
    };
    let captured = |wanted: fn(&Captured) -> bool| {
        let packets = packets.iter().filter(|packet| wanted(packet)).map(|packet| {
            let [name, _] = &interfaces[packet.interface];
            let place = name.split(':').next().unwrap().to_owned();
            (packet.time, place, packet.header(), packet.comment.clone())
        });
        packets.collect::<Vec<_>>()
    };
    let (arrived, lost) = (traced(Fate::Arrived), traced(Fate::Lost));
    assert!(arrived.len() > 100 && lost.len() > 10, "{} {}", arrived.len(), lost.len());
    // Not assert_eq, whose message would contain all packets.
    assert!(captured(|packet| packet.inbound) == arrived);
    let is_lost = |packet: &Captured| packet.comment.as_deref() == Some("lost on the link");
    assert!(captured(is_lost) == lost);
    // Switches comment what they received.
    let at_switch = |name: &str| name.starts_with("rack");
    assert!(arrived.iter().all(|(_, place, _, comment)| comment.is_some() == at_switch(place)));

    // What arrives was sent before, byte for byte, at the other end of the link.
    let mut sent = BTreeSet::new();
    for packet in &packets {
        if packet.inbound {
            assert!(sent.contains(&(packet.interface ^ 1, &packet.frame)), "{:?}", packet.header());
        } else if !is_lost(packet) {
            sent.insert((packet.interface, &packet.frame));
        }
    }
    let outbound = packets.iter().filter(|packet| !packet.inbound).count();
    assert_eq!(outbound as u64, network.faults().frames);
}

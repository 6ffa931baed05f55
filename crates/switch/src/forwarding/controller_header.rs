//! Headers between switch and controller.
//!
//! A program that declares headers with `@controller_header` writes or expects their bytes before
//! the frame; P4Runtime carries their fields separately.

use std::iter;

use tributary_p4runtime::p4::v1::{PacketIn, PacketMetadata, PacketOut};

use super::Forwarding;
use crate::entities::{MetadataField, Refusal, decode, numbers_used};

impl Forwarding {
    /// The frame for the program's parser from a controller's message.
    pub(crate) fn packet_out(&mut self, packet: &PacketOut) -> Result<Vec<u8>, Refusal> {
        if self.names.many() {
            let used = numbers_used(self, iter::empty());
            self.names.forget(&used);
        }
        let mut metadata = packet.metadata.clone();
        self.names.packet_out(self.objects.places(), &mut metadata)?;
        pack(&self.objects.packet_out, &metadata, &packet.payload)
    }

    /// The controller's message from the deparser's frame.
    pub(crate) fn packet_in(&self, frame: Vec<u8>) -> PacketIn {
        let (mut metadata, payload) = unpack(&self.objects.packet_in, frame);
        self.names.packet_in(self.objects.places(), &mut metadata);
        PacketIn { payload, metadata }
    }
}

/// Length in bytes of a header with these fields.
fn header_bytes(fields: &[MetadataField]) -> usize {
    fields.iter().map(|field| field.width as usize).sum::<usize>().div_ceil(8)
}

/// Builds the frame for the program's parser from a controller's message.
fn pack(
    fields: &[MetadataField],
    metadata: &[PacketMetadata],
    payload: &[u8],
) -> Result<Vec<u8>, Refusal> {
    for (i, given) in metadata.iter().enumerate() {
        let id = given.metadata_id;
        if !fields.iter().any(|field| field.id == id) {
            return Err(Refusal::invalid(format!("packet-out has no metadata with id {id}")));
        }
        if metadata[..i].iter().any(|other| other.metadata_id == id) {
            return Err(Refusal::invalid(format!("the metadata with id {id} is given twice")));
        }
    }
    let mut frame = vec![0; header_bytes(fields)];
    let mut at = 0;
    for field in fields {
        let what = format!("packet-out metadata `{}`", field.name);
        let given = metadata.iter().find(|m| m.metadata_id == field.id);
        let given = given.ok_or_else(|| Refusal::invalid(format!("{what} is missing")))?;
        let value = decode(&given.value, field.width, &what)?;
        for bit in (0..field.width as usize).rev() {
            if value.limb(bit / 64) >> (bit % 64) & 1 == 1 {
                frame[at / 8] |= 0x80 >> (at % 8);
            }
            at += 1;
        }
    }
    frame.extend_from_slice(payload);
    Ok(frame)
}

/// Builds the controller's message from the deparser's frame. A frame shorter than the header is
/// the program's fault; it is passed on unchanged, without metadata.
fn unpack(fields: &[MetadataField], mut frame: Vec<u8>) -> (Vec<PacketMetadata>, Vec<u8>) {
    let length = header_bytes(fields);
    if length == 0 || frame.len() < length {
        return (Vec::new(), frame);
    }
    let mut at = 0;
    let metadata = fields.iter().map(|field| {
        let width = field.width as usize;
        let mut value = vec![0; width.div_ceil(8)];
        for bit in (0..width).rev() {
            if frame[at / 8] & (0x80 >> (at % 8)) != 0 {
                let last = value.len() - 1;
                value[last - bit / 8] |= 1 << (bit % 8);
            }
            at += 1;
        }
        let zeros = value.iter().take(value.len() - 1).take_while(|&&byte| byte == 0).count();
        PacketMetadata { metadata_id: field.id, value: value.split_off(zeros) }
    });
    let metadata = metadata.collect();
    frame.drain(..length);
    (metadata, frame)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(widths: &[u32]) -> Vec<MetadataField> {
        let field = |(i, &width): (usize, &u32)| MetadataField {
            id: i as u32 + 1,
            name: format!("f{i}"),
            width,
        };
        widths.iter().enumerate().map(field).collect()
    }

    #[test]
    fn fields_lie_in_order_from_the_highest_bit() {
        let metadata = [
            PacketMetadata { metadata_id: 2, value: vec![0x7f] },
            PacketMetadata { metadata_id: 1, value: vec![0x01, 0x01] },
        ];
        let frame = pack(&fields(&[9, 7]), &metadata, b"rest").unwrap();
        assert_eq!(frame, [&[0b1000_0000, 0b1111_1111][..], b"rest"].concat());
    }

    #[test]
    fn missing_unknown_duplicate_and_wide_metadata_is_refused() {
        let one = |id, value: &[u8]| PacketMetadata { metadata_id: id, value: value.to_vec() };
        for metadata in
            [vec![], vec![one(2, &[1])], vec![one(1, &[1]), one(1, &[1])], vec![one(1, &[2, 0])]]
        {
            assert!(pack(&fields(&[9]), &metadata, b"").is_err(), "{metadata:?}");
        }
        assert_eq!(pack(&[], &[], b"x").unwrap(), b"x");
    }

    proptest! {
        #[test]
        fn unpacking_undoes_packing(
            parts in proptest::collection::vec((1u32..70, any::<u64>()), 1..6),
            payload in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let widths: Vec<u32> = parts.iter().map(|p| p.0).collect();
            let metadata: Vec<PacketMetadata> = parts.iter().enumerate().map(|(i, &(width, value))| {
                let value = if width < 64 { value & ((1 << width) - 1) } else { value };
                let value = tributary_dataplane::Value::from(value).to_be_bytes();
                PacketMetadata { metadata_id: i as u32 + 1, value }
            }).collect();
            let frame = pack(&fields(&widths), &metadata, &payload).unwrap();
            prop_assert_eq!(unpack(&fields(&widths), frame), (metadata, payload));
        }
    }
}

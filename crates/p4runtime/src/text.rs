//! The text format of protocol buffers, in which P4Info files are usually kept.

use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DynamicMessage};
use prost_types::{DescriptorProto, FileDescriptorSet};

/// Why a text is not the message that was asked for.
#[derive(Debug)]
pub struct TextError(String);

impl std::fmt::Display for TextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TextError {}

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let mut files = FileDescriptorSet::decode(crate::FILE_DESCRIPTOR_SET)
        .expect("the build script wrote valid descriptors");
    files.file.iter_mut().flat_map(|file| &mut file.message_type).for_each(open_maps);
    DescriptorPool::from_file_descriptor_set(files).expect("maps are lists of their entries")
});

/// A map is a list of its entries, in the encoding as in the text. As lists they keep the order of the
/// keys; as maps, the library would print them in another one each time.
fn open_maps(message: &mut DescriptorProto) {
    for inner in &mut message.nested_type {
        open_maps(inner);
        if let Some(options) = &mut inner.options {
            options.map_entry = None;
        }
    }
}

fn descriptor<M: Name>() -> prost_reflect::MessageDescriptor {
    let name = M::full_name();
    POOL.get_message_by_name(&name)
        .unwrap_or_else(|| panic!("{name} is not one of this crate's messages"))
}

/// A message in the text format, one field a line.
///
/// # Panics
/// Where `M` is not one of this crate's messages.
pub fn to_text<M: Message + Name>(message: &M) -> String {
    let mut dynamic = DynamicMessage::new(descriptor::<M>());
    dynamic.transcode_from(message).expect("the types and the descriptors have one source");
    dynamic
        .to_text_format_with_options(&prost_reflect::text_format::FormatOptions::new().pretty(true))
}

/// Reads a message from the text format.
///
/// # Errors
/// Where the text is malformed or names fields that the message does not have; the error says
/// where.
///
/// # Panics
/// Where `M` is not one of this crate's messages.
pub fn from_text<M: Message + Name + Default>(text: &str) -> Result<M, TextError> {
    let dynamic = DynamicMessage::parse_text_format(descriptor::<M>(), text)
        .map_err(|e| TextError(e.to_string()))?;
    Ok(dynamic.transcode_to().expect("the types and the descriptors have one source"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::config::v1::{P4Info, Preamble, Table};

    #[test]
    fn text_round_trip() {
        let info = P4Info {
            tables: vec![Table {
                preamble: Some(Preamble {
                    id: 0x0200_0001,
                    name: "ingress.t".into(),
                    ..Default::default()
                }),
                size: 1024,
                ..Default::default()
            }],
            ..Default::default()
        };
        let text = to_text(&info);
        assert!(text.contains("name: \"ingress.t\""), "{text}");
        assert!(text.contains("id: 33554433"), "{text}");
        assert_eq!(from_text::<P4Info>(&text).unwrap(), info);
    }

    #[test]
    fn maps_are_printed_in_order() {
        let mut info = P4Info::default();
        let types = info.type_info.get_or_insert_default();
        let names: Vec<String> = (0..40).map(|n| format!("type{n:02}")).collect();
        for name in &names {
            types.new_types.insert(name.clone(), Default::default());
        }
        let text = to_text(&info);
        let keys = text.lines().filter_map(|line| line.trim().strip_prefix("key: "));
        assert!(keys.eq(names.iter().map(|name| format!("\"{name}\""))), "{text}");
        assert_eq!(from_text::<P4Info>(&text).unwrap(), info);
    }

    #[test]
    fn errors_say_where() {
        let error = from_text::<P4Info>("tables {\n  no_such_field: 1\n}").unwrap_err().to_string();
        assert!(error.contains("no_such_field"), "{error}");
    }
}

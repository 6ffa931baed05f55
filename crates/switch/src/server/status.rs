//! Refusals as gRPC statuses.

use prost::{Message, Name};
use tonic::Status;
use tributary_p4runtime_proto::google::rpc::{self, Code};
use tributary_p4runtime_proto::p4::v1::{Error, StreamError};

use crate::entities::Refusal;
use crate::runtime::Stopped;

/// A status travels in a header field; clients refuse long ones, the widespread gRPC library above
/// 8 KiB. Bytes that are not ASCII take three.
const MESSAGE_LIMIT: usize = 4096;

/// The message, cut at the end of a line where it is too long for a header field.
fn bounded(message: &str) -> String {
    let cost = |c: char| if c == ' ' || c.is_ascii_graphic() { 1 } else { 3 * c.len_utf8() };
    if message.chars().map(cost).sum::<usize>() <= MESSAGE_LIMIT {
        return message.to_owned();
    }
    let mut left = MESSAGE_LIMIT - 32;
    let mut end = 0;
    for (at, c) in message.char_indices() {
        if cost(c) > left {
            break;
        }
        left -= cost(c);
        end = at + c.len_utf8();
    }
    let kept = &message[..end];
    let kept = kept.rfind('\n').map_or(kept, |line_end| &kept[..line_end]);
    let lost = message[kept.len()..].trim().lines().count();
    format!("{kept}\n({lost} more lines)")
}

pub(super) fn refused(refusal: &Refusal) -> Status {
    Status::new((refusal.code as i32).into(), bounded(&refusal.message))
}

pub(super) fn stopped(_: Stopped) -> Status {
    Status::unavailable("the switch has stopped")
}

/// The answer to a batch: OK, or UNKNOWN with one error an update in the details.
pub(super) fn batch(results: &[Result<(), Refusal>]) -> Result<(), Status> {
    let failed = results.iter().filter(|result| result.is_err()).count();
    let Some((index, Err(first))) = results.iter().enumerate().find(|(_, r)| r.is_err()) else {
        return Ok(());
    };
    let message = format!(
        "{failed} of {} updates refused; update {index}: {}: {}",
        results.len(),
        first.code.as_str_name(),
        first.message,
    );
    let message = bounded(&message);
    let details = results.iter().map(|result| any(&error(result))).collect();
    let status = rpc::Status { code: Code::Unknown.into(), message: message.clone(), details };
    Err(Status::with_details(tonic::Code::Unknown, message, status.encode_to_vec().into()))
}

fn error(result: &Result<(), Refusal>) -> Error {
    match result {
        Ok(()) => Error::default(),
        Err(refusal) => Error {
            canonical_code: refusal.code.into(),
            message: refusal.message.clone(),
            ..Default::default()
        },
    }
}

fn any<M: Message + Name>(message: &M) -> prost_types::Any {
    prost_types::Any {
        type_url: format!("type.googleapis.com/{}", M::full_name()),
        value: message.encode_to_vec(),
    }
}

/// What a stream is told about a message that was refused.
pub(super) fn stream_error(
    refusal: Refusal,
    details: tributary_p4runtime_proto::p4::v1::stream_error::Details,
) -> StreamError {
    StreamError {
        canonical_code: refusal.code.into(),
        message: refusal.message,
        details: Some(details),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_at_a_line_and_say_so() {
        let short = "a\nb";
        assert_eq!(bounded(short), short);
        let long: String = (0..1000).map(|i| format!("line {i} ─\n")).collect();
        let cut = bounded(&long);
        let encoded: usize =
            cut.bytes().map(|b| if b == b' ' || b.is_ascii_graphic() { 1 } else { 3 }).sum();
        assert!(encoded <= MESSAGE_LIMIT, "{encoded}");
        let kept = cut.lines().count() - 1;
        assert!(cut.starts_with("line 0 ─\nline 1 ─\n"), "{cut}");
        assert!(cut.ends_with(&format!("\n({} more lines)", 1000 - kept)), "{cut}");
    }

    #[test]
    fn a_batch_tells_about_each_update() {
        assert!(batch(&[Ok(()), Ok(())]).is_ok());
        let results = [Ok(()), Err(Refusal::not_found("no such entry"))];
        let status = batch(&results).unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unknown);
        assert!(status.message().contains("1 of 2") && status.message().contains("NOT_FOUND"));
        let details = rpc::Status::decode(status.details()).unwrap();
        let codes: Vec<i32> = details
            .details
            .iter()
            .map(|any| {
                assert_eq!(any.type_url, "type.googleapis.com/p4.v1.Error");
                Error::decode(&any.value[..]).unwrap().canonical_code
            })
            .collect();
        assert_eq!(codes, [0, Code::NotFound as i32]);
    }
}

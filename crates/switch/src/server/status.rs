//! Refusals as gRPC statuses.

use prost::{Message, Name};
use tonic::Status;
use tributary_p4runtime::google::rpc::{self, Code};
use tributary_p4runtime::p4::v1::{Error, StreamError};

use crate::entities::Refusal;
use crate::runtime::Stopped;

/// Length limit of a status message in bytes. It is a header field, and the most common gRPC
/// library refuses those above 8 KiB. Non-ASCII bytes take three.
const MESSAGE_LIMIT: usize = 4096;

/// Encoded length of a character in a status message.
fn cost(c: char) -> usize {
    if c == ' ' || c.is_ascii_graphic() { 1 } else { 3 * c.len_utf8() }
}

/// The start of a text, with an ellipsis if it was cut.
fn cut(text: &str, most: usize) -> String {
    if text.chars().map(cost).sum::<usize>() <= most {
        return text.to_owned();
    }
    let mut left = most.saturating_sub(3);
    let fits = |c: &char| left.checked_sub(cost(*c)).inspect(|&rest| left = rest).is_some();
    let kept: String = text.chars().take_while(fits).collect();
    if most < 3 { kept } else { kept + "..." }
}

/// The message, cut at the end of a line if it is too long for a header field.
fn bounded(message: &str) -> String {
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

/// Limit of a status's details: clients accept 8 KiB of header fields by default, and base64 makes
/// four bytes from three.
const DETAILS_LIMIT: usize = 5000;

/// Additional limit per item of a larger batch: the specification advises clients of such batches
/// to accept that much more.
const DETAILS_PER_ITEM: usize = 70;

/// Absolute limit. Clients close the connection if a header field is endless, so for still larger
/// batches only the message describes the error.
const DETAILS_MOST: usize = 512 << 10;

/// The answer to a batch: OK, or UNKNOWN with one error per `item` in the details.
pub(super) fn batch(results: &[Result<(), Refusal>], item: &str) -> Result<(), Status> {
    let failed = results.iter().filter(|result| result.is_err()).count();
    // The cause of a rollback is more useful than the errors of the undone updates.
    let cause = |result: &Result<(), Refusal>| {
        result.as_ref().is_err_and(|refusal| refusal.code != Code::Aborted)
    };
    let found = results.iter().position(cause).or(results.iter().position(Result::is_err));
    let Some((index, Err(first))) = found.map(|index| (index, &results[index])) else {
        return Ok(());
    };
    let message = format!(
        "{failed} of {} {item} refused; number {index}: {}: {}",
        results.len(),
        first.code.as_str_name(),
        first.message,
    );
    let message = cut(&message, DETAILS_LIMIT / 8);
    let details = details(results, DETAILS_LIMIT - message.len());
    let status = rpc::Status { code: Code::Unknown.into(), message: message.clone(), details };
    Err(Status::with_details(tonic::Code::Unknown, message, status.encode_to_vec().into()))
}

/// One error each, with as many messages as fit; all codes are included.
fn details(results: &[Result<(), Refusal>], limit: usize) -> Vec<prost_types::Any> {
    let codes: Vec<_> = results.iter().map(|result| any(&error(result, 0))).collect();
    let bare: usize = codes.iter().map(|any| any.encoded_len() + 2).sum();
    if bare > DETAILS_MOST {
        return Vec::new();
    }
    let limit = if bare < limit { limit } else { bare + DETAILS_PER_ITEM * results.len() };
    let mut left = limit - bare;
    let with_message = |(result, code): (&Result<(), Refusal>, prost_types::Any)| {
        let Err(refusal) = result else { return code };
        let most = left.min(4 * DETAILS_PER_ITEM);
        let full = any(&error(result, refusal.message.len().min(most)));
        match left.checked_sub(full.encoded_len() - code.encoded_len()) {
            Some(rest) => {
                left = rest;
                full
            }
            None => code,
        }
    };
    results.iter().zip(codes).map(with_message).collect()
}

/// The error of a result, with at most `most` bytes of its message.
fn error(result: &Result<(), Refusal>, most: usize) -> Error {
    match result {
        Ok(()) => Error::default(),
        Err(refusal) => Error {
            canonical_code: refusal.code.into(),
            message: cut(&refusal.message, most),
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

/// The error on a stream about a refused message.
pub(super) fn stream_error(
    refusal: Refusal,
    details: tributary_p4runtime::p4::v1::stream_error::Details,
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
    fn long_messages_are_cut_at_a_line_and_marked() {
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
    fn the_status_of_a_batch_has_an_error_per_update() {
        assert!(batch(&[Ok(()), Ok(())], "updates").is_ok());
        let results = [Ok(()), Err(Refusal::not_found("no such entry"))];
        let status = batch(&results, "updates").unwrap_err();
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

    #[test]
    fn details_fit_into_header_fields() {
        for (updates, limit) in [(1, 8 << 10), (100, 8 << 10), (2000, (8 << 10) + 2000 * 150)] {
            let refusal = Refusal::invalid("table `an.even.longer.name`: ¾ of it ".repeat(99));
            let results: Vec<_> = (0..updates).map(|_| Err(refusal.clone())).collect();
            let status = batch(&results, "updates").unwrap_err();
            let message: usize = status.message().chars().map(cost).sum();
            let size = message + status.details().len().div_ceil(3) * 4;
            assert!(size < limit, "{size} bytes for {updates} updates");
            let details = rpc::Status::decode(status.details()).unwrap().details;
            assert_eq!(details.len(), updates);
            let errors = details.iter().map(|any| Error::decode(&any.value[..]).unwrap());
            let code = i32::from(Code::InvalidArgument);
            assert!(errors.clone().all(|error| error.canonical_code == code));
            assert!(errors.clone().next().unwrap().message.starts_with("table `an.even"));
        }
    }
}

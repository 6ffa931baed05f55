//! What goes over the stream: packets and digests.

use std::pin::Pin;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tributary_p4runtime::p4::config::v1::Digest;
use tributary_p4runtime::p4::v1::{
    DigestEntry, DigestList, DigestListAck, PacketIn, PacketMetadata, PacketOut, digest_entry,
    entity, stream_message_request, stream_message_response::Update, update,
};

use super::{usage, wrap};
use crate::names::{self, Names, Object};
use crate::value::Type;
use crate::{Error, Report, Session, data, entry};

/// How long a command waits for an error about a packet that it has sent.
const ECHO: Duration = Duration::from_millis(100);

/// `packet-out`.
pub(super) async fn packet_out(session: &mut Session, words: &[String]) -> Result<Report, Error> {
    let Some((digits, rest)) = words.split_first() else { return Err(usage("packet-out")) };
    let payload = entry::bytes(digits).ok_or_else(|| {
        Error::input(format!("`{digits}`: write the packet as pairs of hexadecimal digits"))
    })?;
    let fields = session.names().metadata("packet_out");
    let mut values: Vec<Option<Vec<u8>>> = vec![None; fields.len()];
    for word in rest {
        let (name, value) = word.split_once('=').ok_or_else(|| usage("packet-out"))?;
        let field = names::field(&fields, "packet_out has no field", name)?;
        let at = fields.iter().position(|one| one.id == field.id).unwrap_or_default();
        values[at] = Some(field.parse(value)?);
    }
    if let Some(missing) =
        fields.iter().zip(&values).find(|(field, value)| field.ty == Type::Name && value.is_none())
    {
        let name = &missing.0.shown;
        return Err(Error::input(format!("field `{name}` is missing; add {name}=NAME")));
    }
    let metadata = fields.iter().zip(values).map(|(field, value)| PacketMetadata {
        metadata_id: field.id,
        value: value.unwrap_or_else(|| vec![0]),
    });
    let bytes = payload.len();
    let packet = PacketOut { payload, metadata: metadata.collect() };
    let stream = session.become_primary().await?;
    stream.send(stream_message_request::Update::Packet(packet)).await?;
    // The stream has errors about packets, but no confirmations.
    let answer = tokio::time::timeout(ECHO, async {
        loop {
            if let Update::Error(error) = stream.message().await? {
                return Ok::<_, Error>(error.message);
            }
        }
    });
    match answer.await {
        Ok(refusal) => Err(Error::input(format!("the switch refused the packet: {}", refusal?))),
        Err(_) => Ok(Report::new(json!({ "bytes": bytes })).line(format!("sent: {bytes} bytes"))),
    }
}

/// A request to end a command that listens.
pub(super) type Stop<'s> = Pin<&'s mut dyn Future<Output = ()>>;

/// When to stop listening.
struct Until<'s> {
    left: u64,
    deadline: Option<Instant>,
    stop: Stop<'s>,
}

impl<'s> Until<'s> {
    /// Reads `[COUNT] [seconds=N]`.
    fn new(command: &str, words: &[String], stop: Stop<'s>) -> Result<Self, Error> {
        let mut until = Self { left: u64::MAX, deadline: None, stop };
        for word in words {
            match word.strip_prefix("seconds=") {
                Some(seconds) => {
                    let seconds: u32 = seconds.parse().map_err(|_| usage(command))?;
                    until.deadline = Some(Instant::now() + Duration::from_secs(seconds.into()));
                }
                None => until.left = word.parse().map_err(|_| usage(command))?,
            }
        }
        Ok(until)
    }

    /// The next message, or nothing at the end. After the end, it must not be called again.
    async fn next(&mut self, session: &mut Session) -> Result<Option<Update>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        let deadline = self.deadline;
        let stream = session.become_primary().await?;
        let end = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.stop.as_mut() => Ok(None),
            () = end => Ok(None),
            message = stream.message() => Ok(Some(message?)),
        }
    }
}

/// `packets`.
pub(super) async fn packets(
    session: &mut Session,
    words: &[String],
    stop: Stop<'_>,
    print: &mut dyn FnMut(&Report),
) -> Result<(), Error> {
    let mut until = Until::new("packets", words, stop)?;
    let names = session.names().clone();
    while let Some(message) = until.next(session).await? {
        if let Update::Packet(packet) = message {
            print(&packet_in(&names, &packet));
            until.left -= 1;
        }
    }
    Ok(())
}

fn packet_in(names: &Names, packet: &PacketIn) -> Report {
    let fields = names.metadata("packet_in");
    let mut object = Map::new();
    let mut words = Vec::new();
    for field in &fields {
        let found = packet.metadata.iter().find(|one| one.metadata_id == field.id);
        let value = found.map(|one| field.show(&one.value)).unwrap_or_default();
        words.push(format!("{}={value}", field.shown));
        object.insert(field.name.clone(), value.into());
    }
    let payload = entry::hex(&packet.payload);
    words.insert(0, payload.clone());
    Report::new(json!({ "payload": payload, "metadata": object })).line(words.join(" "))
}

/// `digests`.
pub(super) async fn digests(
    session: &mut Session,
    words: &[String],
    stop: Stop<'_>,
    print: &mut dyn FnMut(&Report),
) -> Result<(), Error> {
    let names = session.names().clone();
    let first = words.first().filter(|word| word.parse::<u64>().is_err() && !word.contains('='));
    let wanted: Vec<&Digest> = match first {
        Some(name) => vec![names.find::<Digest>(name)?],
        None => names.all::<Digest>().iter().collect(),
    };
    if wanted.is_empty() {
        return Err(Error::input("the program has no digests"));
    }
    let mut until = Until::new("digests", &words[usize::from(first.is_some())..], stop)?;
    // Those that another controller has turned on stay as they are.
    let mut own = Vec::new();
    for digest in &wanted {
        let known = DigestEntry { digest_id: digest.id(), config: None };
        let known = wrap(entity::Entity::DigestEntry(known));
        if session.read(known.clone()).await.is_ok_and(|found| found.is_empty()) {
            own.push(digest.id());
        }
    }
    let config = digest_entry::Config { max_list_size: 1, ..digest_entry::Config::default() };
    let entries = |config: Option<digest_entry::Config>| {
        let entry =
            |&digest_id: &u32| wrap(entity::Entity::DigestEntry(DigestEntry { digest_id, config }));
        own.iter().map(entry).collect::<Vec<_>>()
    };
    session.write(update::Type::Insert, entries(Some(config))).await?;
    let outcome = listen(session, &names, &wanted, &mut until, print).await;
    let ended = session.write(update::Type::Delete, entries(None)).await;
    outcome.and(ended.map(drop))
}

async fn listen(
    session: &mut Session,
    names: &Names,
    wanted: &[&Digest],
    until: &mut Until<'_>,
    print: &mut dyn FnMut(&Report),
) -> Result<(), Error> {
    while let Some(message) = until.next(session).await? {
        let Update::Digest(list) = message else { continue };
        let ack = DigestListAck { digest_id: list.digest_id, list_id: list.list_id };
        let ack = stream_message_request::Update::DigestAck(ack);
        session.become_primary().await?.send(ack).await?;
        if let Some(digest) = wanted.iter().find(|digest| digest.id() == list.digest_id) {
            for report in digest_reports(names, digest, &list) {
                print(&report);
                until.left = until.left.saturating_sub(1);
            }
        }
    }
    Ok(())
}

fn digest_reports(names: &Names, digest: &Digest, list: &DigestList) -> Vec<Report> {
    let report = |one| {
        let text = data::show(names.types(), digest.type_spec.as_ref(), one);
        let json: Value = json!({ "digest": digest.name(), "data": text });
        Report::new(json).line(format!("{} {text}", digest.alias()))
    };
    list.data.iter().map(report).collect()
}

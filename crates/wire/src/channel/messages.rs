//! The messages in each direction.

use bytes::{BufMut, Bytes, BytesMut};

use super::code::{Reader, frame, put_values, put_workers};
use super::{Error, Message, Values};
use crate::{Sequence, WorkerSet};

const FLOAT: u8 = 1;
const URGENT: u8 = 2;
const MARKED: u8 = 4;

/// Worker → agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromWorker {
    /// The fragment's result is late (§5.3). The agent starts to recover it.
    Remind {
        /// The fragment.
        sequence: Sequence,
    },
    /// The worker's own contribution, in answer to a query.
    Values {
        /// The fragment.
        sequence: Sequence,
        /// The worker's contribution.
        values: Values,
    },
    /// The fragment's result from the worker's cache, in answer to a query.
    Result {
        /// The fragment.
        sequence: Sequence,
        /// The sum over all workers.
        values: Values,
    },
    /// In answer to a query: the worker has not sent the fragment yet.
    NotSent {
        /// The fragment.
        sequence: Sequence,
    },
    /// In answer to a query: the worker received the result, but no longer caches it.
    Over {
        /// The fragment.
        sequence: Sequence,
    },
    /// The worker has all results of the job.
    Finished {
        /// The sequence after the last fragment.
        end: Sequence,
    },
}

/// Agent → worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToWorker {
    /// Asks for the fragment: the result if the worker has it, else its contribution.
    Query {
        /// The fragment.
        sequence: Sequence,
        /// Whether to send the contribution as `f32`, because some worker's integers would
        /// overflow.
        float: bool,
    },
    /// The fragment's result.
    Result {
        /// The fragment.
        sequence: Sequence,
        /// The sum over all workers.
        values: Values,
    },
    /// All workers have all results. The agent will not query this worker again.
    Dismissed,
}

/// PS → agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromServer {
    /// The PS holds a partial sum of the fragment.
    Entry {
        /// The fragment.
        sequence: Sequence,
        /// The workers whose contributions are in the partial sum.
        merged: WorkerSet,
        /// Whether the PS collects the fragment in `f32`.
        float: bool,
        /// Whether to recover the missing contributions at once instead of after a timeout.
        urgent: bool,
    },
    /// The fragment is complete, and the PS has sent its result.
    Closed {
        /// The fragment.
        sequence: Sequence,
    },
    /// Asks the agent to deliver a result to workers that lack it.
    Deliver {
        /// The fragment.
        sequence: Sequence,
        /// The workers that lack it.
        workers: WorkerSet,
        /// The sum over all workers.
        values: Values,
    },
}

/// Agent → PS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToServer {
    /// Some workers lack the fragment's result.
    Missing {
        /// The fragment.
        sequence: Sequence,
        /// The workers that lack it.
        workers: WorkerSet,
    },
    /// A partial sum of the fragment, from a switch or a worker.
    Partial {
        /// The fragment.
        sequence: Sequence,
        /// The workers whose contributions are in the sum.
        workers: WorkerSet,
        /// Whether any of the summed packets carried a congestion mark.
        marked: bool,
        /// The sum of the contributions.
        values: Values,
    },
    /// The fragment's result, from a worker's cache.
    Known {
        /// The fragment.
        sequence: Sequence,
        /// The sum over all workers.
        values: Values,
    },
    /// All workers received the fragment's result. The PS can forget the fragment.
    Over {
        /// The fragment.
        sequence: Sequence,
    },
    /// Workers have all results of the job.
    Finished {
        /// These workers.
        workers: WorkerSet,
    },
}

/// Appends a frame that starts with a sequence, followed by the bytes that `more` appends.
fn about(out: &mut BytesMut, tag: u8, sequence: Sequence, more: impl FnOnce(&mut BytesMut)) {
    frame(out, tag, |out| {
        out.put_u32(sequence.0);
        more(out);
    });
}

const fn flag(set: bool, flag: u8) -> u8 {
    if set { flag } else { 0 }
}

impl Message for FromWorker {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Remind { sequence } => about(out, 16, *sequence, |_| {}),
            Self::Values { sequence, values } => {
                about(out, 17, *sequence, |out| put_values(out, values));
            }
            Self::Result { sequence, values } => {
                about(out, 18, *sequence, |out| put_values(out, values));
            }
            Self::NotSent { sequence } => about(out, 19, *sequence, |_| {}),
            Self::Over { sequence } => about(out, 20, *sequence, |_| {}),
            Self::Finished { end } => about(out, 21, *end, |_| {}),
        }
    }

    fn decode(body: Bytes) -> Result<Self, Error> {
        let (tag, mut reader) = Reader::open(body)?;
        let message = match tag {
            16 => Self::Remind { sequence: reader.sequence()? },
            17 => Self::Values { sequence: reader.sequence()?, values: reader.values()? },
            18 => Self::Result { sequence: reader.sequence()?, values: reader.values()? },
            19 => Self::NotSent { sequence: reader.sequence()? },
            20 => Self::Over { sequence: reader.sequence()? },
            21 => Self::Finished { end: reader.sequence()? },
            tag => return Err(Error::Tag(tag)),
        };
        reader.end(message)
    }
}

impl Message for ToWorker {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Query { sequence, float } => {
                about(out, 32, *sequence, |out| out.put_u8(flag(*float, FLOAT)));
            }
            Self::Result { sequence, values } => {
                about(out, 33, *sequence, |out| put_values(out, values));
            }
            Self::Dismissed => frame(out, 34, |_| {}),
        }
    }

    fn decode(body: Bytes) -> Result<Self, Error> {
        let (tag, mut reader) = Reader::open(body)?;
        let message = match tag {
            32 => Self::Query { sequence: reader.sequence()?, float: reader.flags(FLOAT)? != 0 },
            33 => Self::Result { sequence: reader.sequence()?, values: reader.values()? },
            34 => Self::Dismissed,
            tag => return Err(Error::Tag(tag)),
        };
        reader.end(message)
    }
}

impl Message for FromServer {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Entry { sequence, merged, float, urgent } => about(out, 48, *sequence, |out| {
                put_workers(out, *merged);
                out.put_u8(flag(*float, FLOAT) | flag(*urgent, URGENT));
            }),
            Self::Closed { sequence } => about(out, 49, *sequence, |_| {}),
            Self::Deliver { sequence, workers, values } => about(out, 50, *sequence, |out| {
                put_workers(out, *workers);
                put_values(out, values);
            }),
        }
    }

    fn decode(body: Bytes) -> Result<Self, Error> {
        let (tag, mut reader) = Reader::open(body)?;
        let message = match tag {
            48 => {
                let (sequence, merged) = (reader.sequence()?, reader.workers()?);
                let flags = reader.flags(FLOAT | URGENT)?;
                let (float, urgent) = (flags & FLOAT != 0, flags & URGENT != 0);
                Self::Entry { sequence, merged, float, urgent }
            }
            49 => Self::Closed { sequence: reader.sequence()? },
            50 => Self::Deliver {
                sequence: reader.sequence()?,
                workers: reader.workers()?,
                values: reader.values()?,
            },
            tag => return Err(Error::Tag(tag)),
        };
        reader.end(message)
    }
}

impl Message for ToServer {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Missing { sequence, workers } => {
                about(out, 64, *sequence, |out| put_workers(out, *workers));
            }
            Self::Partial { sequence, workers, marked, values } => {
                about(out, 65, *sequence, |out| {
                    put_workers(out, *workers);
                    out.put_u8(flag(*marked, MARKED));
                    put_values(out, values);
                });
            }
            Self::Known { sequence, values } => {
                about(out, 66, *sequence, |out| put_values(out, values));
            }
            Self::Over { sequence } => about(out, 67, *sequence, |_| {}),
            Self::Finished { workers } => frame(out, 68, |out| put_workers(out, *workers)),
        }
    }

    fn decode(body: Bytes) -> Result<Self, Error> {
        let (tag, mut reader) = Reader::open(body)?;
        let message = match tag {
            64 => Self::Missing { sequence: reader.sequence()?, workers: reader.workers()? },
            65 => Self::Partial {
                sequence: reader.sequence()?,
                workers: reader.workers()?,
                marked: reader.flags(MARKED)? != 0,
                values: reader.values()?,
            },
            66 => Self::Known { sequence: reader.sequence()?, values: reader.values()? },
            67 => Self::Over { sequence: reader.sequence()? },
            68 => Self::Finished { workers: reader.workers()? },
            tag => return Err(Error::Tag(tag)),
        };
        reader.end(message)
    }
}

//! Collectives of parts through a network: of a tensor that has a part for each rank, each gives or gets one.
//!
//! A fragment belongs to one part, so the parts are laid out apart from each other, in memory of their own: each with
//! zeros up to the end of its last fragment.

use tributary_protocol::buffer::Buffer;
use tributary_protocol::{Exchange as Protocol, Parts};

use crate::floats::{narrow, widen};
use crate::{Error, Values, What};

/// Where this rank is among the ranks, and how many values a packet has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) values_per_packet: usize,
}

/// How the parts of a tensor are laid out.
#[derive(Clone, Copy, Debug)]
struct Layout {
    seat: Seat,
    /// Elements of a part.
    each: usize,
    /// With the zeros that follow them.
    padded: usize,
}

/// What is left to do when the network is done.
#[derive(Debug)]
pub(crate) struct Exchange {
    layout: Layout,
    end: End,
}

#[derive(Debug)]
enum End {
    /// The sums of this rank's part go there.
    Scatter { own: Values, average: bool },
    /// The bytes of all parts go there.
    Gather { all: Buffer<u8> },
}

/// What the network exchanges.
pub(crate) enum Laid {
    /// To be summed.
    Values(Vec<f32>),
    /// To be gathered as they are.
    Words(Vec<i32>),
}

impl Layout {
    fn new(seat: Seat, each: usize) -> Self {
        Self { seat, each, padded: each.next_multiple_of(seat.values_per_packet) }
    }

    fn memory<T: Clone + Default>(&self) -> Vec<T> {
        vec![T::default(); self.padded * self.seat.ranks]
    }

    /// The elements of the part of this rank.
    fn own<'a, T>(&self, laid: &'a mut [T]) -> &'a mut [T] {
        let start = self.seat.rank * self.padded;
        &mut laid[start..start + self.each]
    }
}

impl Exchange {
    /// Lays out what a collective exchanges.
    ///
    /// # Errors
    /// If the collective is another one, or its memory has no part for each rank.
    pub(crate) fn begin(what: What, seat: Seat) -> Result<(Self, Laid), Error> {
        match what {
            What::ReduceScatter { values, own, average } => {
                let layout = Layout::new(seat, own.len());
                if values.len() != seat.ranks * own.len() || values.element() != own.element() {
                    return Err(Error::Failed("the input has no part for each rank".into()));
                }
                let mut laid = layout.memory::<f32>();
                let wide = match &values {
                    Values::Single(_) => None,
                    Values::Short(bits, element) => Some(widen(bits, *element)),
                };
                let values = match (&values, &wide) {
                    (Values::Single(values), _) => &values[..],
                    (Values::Short(..), wide) => wide.as_deref().unwrap_or_default(),
                };
                if layout.each > 0 {
                    let parts = laid.chunks_mut(layout.padded).zip(values.chunks(layout.each));
                    parts.for_each(|(to, from)| to[..layout.each].copy_from_slice(from));
                }
                Ok((Self { layout, end: End::Scatter { own, average } }, Laid::Values(laid)))
            }
            What::AllGather { own, all } => {
                let bytes = all.len() / seat.ranks;
                let layout = Layout::new(seat, bytes.div_ceil(4));
                if all.len() != bytes * seat.ranks
                    || own.as_ref().is_some_and(|own| own.len() != bytes)
                {
                    return Err(Error::Failed(
                        "the output has no room for each rank's input".into(),
                    ));
                }
                let mut laid = layout.memory::<i32>();
                let place = seat.rank * bytes..(seat.rank + 1) * bytes;
                let bytes = own.as_deref().unwrap_or(&all[place]);
                for (word, bytes) in layout.own(&mut laid).iter_mut().zip(bytes.chunks(4)) {
                    let mut four = [0; 4];
                    four[..bytes.len()].copy_from_slice(bytes);
                    *word = i32::from_ne_bytes(four);
                }
                Ok((Self { layout, end: End::Gather { all } }, Laid::Words(laid)))
            }
            What::Broadcast { .. } | What::Sum(_) => {
                Err(Error::Failed("a network does not carry out this collective".into()))
            }
        }
    }

    /// The parts of what was laid out.
    pub(crate) fn parts(&self) -> Parts {
        let exchange = match self.end {
            End::Scatter { .. } => Protocol::ReduceScatter,
            End::Gather { .. } => Protocol::AllGather,
        };
        let fragments = self.layout.padded / self.layout.seat.values_per_packet;
        // A tensor of more does not fit a run, which the worker finds.
        Parts::new(exchange, u32::try_from(fragments).unwrap_or(u32::MAX))
    }

    /// The place of an element in the caller's memory.
    pub(crate) fn place(&self, laid: usize) -> usize {
        let Layout { each, padded, .. } = self.layout;
        laid / padded.max(1) * each + laid % padded.max(1)
    }

    /// Takes this rank's part of the sums.
    pub(crate) fn end_with_sums(self, sums: &mut [f32]) {
        let End::Scatter { own, average } = self.end else { unreachable!("values were summed") };
        let sums = self.layout.own(sums);
        if average {
            let ranks = self.layout.seat.ranks as f32;
            sums.iter_mut().for_each(|sum| *sum /= ranks);
        }
        match own {
            Values::Single(mut own) => own.copy_from_slice(sums),
            Values::Short(mut own, element) => narrow(sums, element, &mut own),
        }
    }

    /// Takes the parts of all ranks.
    pub(crate) fn end_with_words(self, words: &[i32]) {
        let End::Gather { mut all } = self.end else { unreachable!("words were gathered") };
        let bytes = all.len() / self.layout.seat.ranks;
        if bytes == 0 {
            return;
        }
        let parts = all.chunks_mut(bytes).zip(words.chunks(self.layout.padded));
        for (part, words) in parts {
            for (bytes, word) in part.chunks_mut(4).zip(words) {
                bytes.copy_from_slice(&word.to_ne_bytes()[..bytes.len()]);
            }
        }
    }
}

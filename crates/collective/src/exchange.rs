//! Collectives of parts through a network: of a tensor that has a part for each rank, each gives or gets one.
//!
//! A fragment belongs to one part, and the fragments of all parts take turns. So the parts are laid out in memory of
//! their own: their first fragments, their second ones and so on, each with zeros up to the end of its last one.

use std::ops::Range;

use tributary_protocol::buffer::Buffer;
use tributary_protocol::{Exchange as Direction, Parts};

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
    fn memory<T: Clone + Default>(&self) -> Vec<T> {
        let padded = self.each.next_multiple_of(self.seat.values_per_packet);
        vec![T::default(); padded * self.seat.ranks]
    }

    /// The pieces of a rank's part: where each is in the part, and where it is laid.
    fn pieces(self, rank: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let Seat { ranks, values_per_packet: most, .. } = self.seat;
        (0..self.each.div_ceil(most)).map(move |piece| {
            let part = piece * most..self.each.min((piece + 1) * most);
            let start = (piece * ranks + rank) * most;
            (part.clone(), start..start + part.len())
        })
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
                let layout = Layout { seat, each: own.len() };
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
                for (rank, own) in values.chunks(layout.each.max(1)).enumerate() {
                    for (part, to) in layout.pieces(rank) {
                        laid[to].copy_from_slice(&own[part]);
                    }
                }
                Ok((Self { layout, end: End::Scatter { own, average } }, Laid::Values(laid)))
            }
            What::AllGather { own, all } => {
                let bytes = all.len() / seat.ranks;
                let layout = Layout { seat, each: bytes.div_ceil(4) };
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
                let mut words = bytes.chunks(4).map(|bytes| {
                    let mut four = [0; 4];
                    four[..bytes.len()].copy_from_slice(bytes);
                    i32::from_ne_bytes(four)
                });
                for (_, to) in layout.pieces(seat.rank) {
                    laid[to].iter_mut().zip(&mut words).for_each(|(place, word)| *place = word);
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
        Parts::new(match self.end {
            End::Scatter { .. } => Direction::ReduceScatter,
            End::Gather { .. } => Direction::AllGather,
        })
    }

    /// The place of an element in the caller's memory.
    pub(crate) fn place(&self, laid: usize) -> usize {
        let Layout { seat: Seat { ranks, values_per_packet, .. }, each } = self.layout;
        let (fragment, within) = (laid / values_per_packet, laid % values_per_packet);
        fragment % ranks * each + fragment / ranks * values_per_packet + within
    }

    /// Takes this rank's part of the sums.
    pub(crate) fn end_with_sums(self, sums: &[f32]) {
        let End::Scatter { own, average } = self.end else { unreachable!("values were summed") };
        let Seat { rank, ranks, .. } = self.layout.seat;
        let mut part = vec![0.0; self.layout.each];
        for (to, laid) in self.layout.pieces(rank) {
            part[to].copy_from_slice(&sums[laid]);
        }
        if average {
            part.iter_mut().for_each(|sum| *sum /= ranks as f32);
        }
        match own {
            Values::Single(mut own) => own.copy_from_slice(&part),
            Values::Short(mut own, element) => narrow(&part, element, &mut own),
        }
    }

    /// Takes the parts of all ranks.
    pub(crate) fn end_with_words(self, words: &[i32]) {
        let End::Gather { mut all } = self.end else { unreachable!("words were gathered") };
        let bytes = all.len() / self.layout.seat.ranks;
        if bytes == 0 {
            return;
        }
        for (rank, part) in all.chunks_mut(bytes).enumerate() {
            let mut places = part.chunks_mut(4);
            for (_, laid) in self.layout.pieces(rank) {
                for (word, place) in words[laid].iter().zip(&mut places) {
                    place.copy_from_slice(&word.to_ne_bytes()[..place.len()]);
                }
            }
        }
    }
}

//! What ranks that are all on one host do in memory beside sums that all get.

use super::sums::{Element, How, Number, capacity};
use super::{Claim, Place, Shared, claim};
use crate::outcome::Outcome;
use crate::{Collective, Error, Numbers, Values, What};

impl Shared {
    /// The memory of the collective is the caller's again when this returns.
    pub(super) fn carry_out_collective(
        &self,
        collective: Collective,
        outcome: &Outcome,
        place: &mut Place,
    ) -> Result<(), Error> {
        let (operation, elements, element) = collective.claim;
        let claim = claim(&operation, elements, &element, None);
        let mut turn = Turn { shared: self, outcome, claim: &claim, place, begun: false };
        match collective.what {
            What::AllGather { own, mut all } => turn.all_gather(own.as_deref(), &mut all)?,
            What::Broadcast { mut bytes, root } => turn.broadcast(&mut bytes, root)?,
            What::ReduceScatter { values, own, average } => {
                let divisor = average.then_some(self.ranks);
                let how = How { element: values.element(), divisor };
                match (values, own) {
                    (Values::Single(values), Values::Single(mut own)) => {
                        turn.reduce_scatter(&values, &mut own, how)?;
                    }
                    (Values::Short(values, _), Values::Short(mut own, element))
                        if element == how.element =>
                    {
                        turn.reduce_scatter(&values, &mut own, how)?;
                    }
                    _ => return Err(Error::Failed("sums have another type than values".into())),
                }
            }
            What::Sum(Numbers::F64(mut numbers)) => turn.sum(&mut numbers)?,
            What::Sum(Numbers::I64(mut numbers)) => turn.sum(&mut numbers)?,
            What::Sum(Numbers::I32(mut numbers)) => turn.sum(&mut numbers)?,
        }
        turn.finish()
    }
}

/// A collective that a rank carries out.
struct Turn<'a> {
    shared: &'a Shared,
    outcome: &'a Outcome,
    claim: &'a Claim,
    place: &'a mut Place,
    /// Whether the ranks have found that they call the same.
    begun: bool,
}

impl Turn<'_> {
    /// Waits until all ranks have written a part. Before the first one is read, they compare what they call.
    fn step(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.begun, true) {
            return self.shared.step(self.outcome, self.place);
        }
        self.shared.agree(self.outcome, self.claim, self.place)
    }

    /// The comparison, if there was nothing to write.
    fn finish(mut self) -> Result<(), Error> {
        if self.begun { Ok(()) } else { self.step() }
    }

    fn all_gather(&mut self, own: Option<&[u8]>, all: &mut [u8]) -> Result<(), Error> {
        let Shared { rank, ranks, .. } = *self.shared;
        let each = all.len() / ranks;
        if all.len() != each * ranks || own.is_some_and(|own| own.len() != each) {
            return Err(Error::Failed("the output has no room for each rank's input".into()));
        }
        for start in (0..each).step_by(capacity::<u8>()) {
            let length = (each - start).min(capacity::<u8>());
            let buffers = self.shared.buffers(self.place);
            let of = |rank: usize| rank * each + start..rank * each + start + length;
            let source = own.map_or(&all[of(rank)], |own| &own[start..start + length]);
            buffers.write(rank, source);
            self.step()?;
            for other in (0..ranks).filter(|other| own.is_some() || *other != rank) {
                all[of(other)].copy_from_slice(buffers.read(other, 0..length));
            }
        }
        Ok(())
    }

    fn broadcast(&mut self, bytes: &mut [u8], root: usize) -> Result<(), Error> {
        if root >= self.shared.ranks {
            return Err(Error::Failed(format!("the group has no rank {root}")));
        }
        for part in bytes.chunks_mut(capacity::<u8>()) {
            let buffers = self.shared.buffers(self.place);
            if self.shared.rank == root {
                buffers.write(root, part);
            }
            self.step()?;
            if self.shared.rank != root {
                part.copy_from_slice(buffers.read(root, 0..part.len()));
            }
        }
        Ok(())
    }

    fn reduce_scatter<T: Element>(
        &mut self,
        values: &[T],
        own: &mut [T],
        how: How,
    ) -> Result<(), Error> {
        let Shared { rank, ranks, .. } = *self.shared;
        let each = own.len();
        if values.len() != each * ranks {
            return Err(Error::Failed("the input has no part for each rank".into()));
        }
        // Of each rank's part so many at a time.
        let most = capacity::<T>() / ranks;
        for (at, sums) in own.chunks_mut(most).enumerate() {
            let buffers = self.shared.buffers(self.place);
            for other in 0..ranks {
                let start = other * each + at * most;
                buffers.write_at(rank, other * sums.len(), &values[start..start + sums.len()]);
            }
            self.step()?;
            buffers.add_up(rank * sums.len()..(rank + 1) * sums.len(), how, sums);
        }
        Ok(())
    }

    fn sum<T: Number>(&mut self, numbers: &mut [T]) -> Result<(), Error> {
        for part in numbers.chunks_mut(capacity::<T>()) {
            let buffers = self.shared.buffers(self.place);
            buffers.write(self.shared.rank, part);
            self.step()?;
            buffers.add_numbers(part);
        }
        Ok(())
    }
}

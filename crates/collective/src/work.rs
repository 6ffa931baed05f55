//! A call, and what is left to do for it.

use std::sync::Arc;
use std::thread;

use tributary_protocol::Tensor;
use tributary_protocol::buffer::Buffer;
use tributary_protocol::fixed::Rounding;
use tributary_protocol::priority::Priority;

use crate::ElementType;
use crate::Error;
use crate::agreement::{self, Claim};
use crate::exchange::{Exchange, Laid};
use crate::floats::{narrow, widen};
use crate::magnitudes::{Blocks, Magnitudes};
use crate::meter::UnderWay;
use crate::outcome::Outcome;
use crate::scales::{self, Plan};
use crate::values::Values;

/// The names of operations, as PyTorch has them.
pub(crate) const SUM: &str = "all_reduce (SUM)";
pub(crate) const AVERAGE: &str = "all_reduce (AVG)";

/// A call.
#[derive(Debug)]
pub enum Call {
    /// Sum values over all ranks.
    Reduce {
        /// The values.
        values: Values,
        /// Whether to divide the sums by the number of ranks.
        average: bool,
        /// Index of the bucket among so many: the next iteration needs the first one first. It decides
        /// the priority in ESA.
        layer: Option<(usize, usize)>,
    },
    /// Sum what the first ranks of all hosts have, for all ranks. Their values are the sums of their hosts' ranks, which
    /// have been added elsewhere, as by their devices. Those of other ranks are only written.
    ReduceHosts {
        /// The values, or at other ranks than the first of a host, where the sums go.
        values: Values,
        /// Whether to divide the sums by the number of ranks.
        average: bool,
        /// As for [`Reduce`](Self::Reduce).
        layer: Option<(usize, usize)>,
    },
    /// Only check that all ranks call the same.
    Announce {
        /// The operation.
        operation: String,
        /// Number of its elements.
        elements: u64,
        /// Their type.
        element: String,
    },
}

/// A call, and what is left to do for it.
pub(crate) struct Work {
    pub(crate) claim: Claim,
    /// What is called, in words.
    pub(crate) text: String,
    pub(crate) outcome: Arc<Outcome>,
    /// What is to be summed. It is empty while the worker has it.
    pub(crate) values: Option<Values>,
    /// Whether the values are part of the agreement.
    pub(crate) is_small: bool,
    /// The division of the values into blocks, unless they are part of the agreement.
    pub(crate) blocks: Option<Blocks>,
    /// This rank's magnitudes of each.
    pub(crate) magnitudes: Vec<Magnitudes>,
    /// What ranks exchange parts of, if they do.
    pub(crate) exchange: Option<Exchange>,
    /// What is gathered, until the worker has it.
    pub(crate) words: Option<Vec<i32>>,
    /// How the values are summed, once that is known.
    pub(crate) plan: Option<Plan>,
    pub(crate) average: bool,
    pub(crate) priority: Priority,
    layer: Option<(usize, usize)>,
    _under_way: Option<UnderWay>,
}

impl Drop for Work {
    fn drop(&mut self) {
        // Whatever the thread that has this call was doing with it.
        if thread::panicking() {
            self.outcome.set(Err(Error::Failed("its thread has panicked".into())));
        }
    }
}

impl Work {
    /// A call of a group of so many ranks, whose packets have so many values. `enter` begins the sum of a layer and
    /// returns its priority.
    pub(crate) fn new(
        call: Call,
        outcome: Arc<Outcome>,
        (ranks, values_per_packet): (u16, u16),
        enter: impl Fn((usize, usize)) -> (Priority, UnderWay),
    ) -> Self {
        let mut work = Self::empty(outcome);
        let (operation, elements, element) = match call {
            Call::Announce { operation, elements, element } => (operation, elements, element),
            Call::Reduce { values, average, layer }
            | Call::ReduceHosts { values, average, layer } => {
                (work.average, work.layer) = (average, layer);
                if let Some((priority, under_way)) = layer.map(enter) {
                    (work.priority, work._under_way) = (priority, Some(under_way));
                }
                let elements = values.len();
                work.is_small = agreement::fits(elements, ranks, values_per_packet);
                if !work.is_small {
                    work.measure(&values.floats(), (ranks, values_per_packet));
                }
                let element = values.element().name();
                work.values = Some(values);
                let operation = if average { AVERAGE } else { SUM };
                (operation.into(), elements as u64, element.into())
            }
        };
        work.claims(&operation, elements, &element);
        work
    }

    /// A collective that exchanges parts. The ranks compare the claim before.
    pub(crate) fn exchange(
        (operation, elements, element): (String, u64, String),
        (exchange, laid): (Exchange, Laid),
        outcome: Arc<Outcome>,
        packet: (u16, u16),
    ) -> Self {
        let mut work = Self::empty(outcome);
        work.claims(&operation, elements, &element);
        match laid {
            // All ranks see that there is nothing to do.
            Laid::Values(values) if values.is_empty() => return work,
            Laid::Words(words) if words.is_empty() => return work,
            Laid::Values(values) => {
                work.measure(&values, packet);
                work.values = Some(Values::Single(values.into()));
            }
            Laid::Words(words) => work.words = Some(words),
        }
        work.exchange = Some(exchange);
        work
    }

    fn empty(outcome: Arc<Outcome>) -> Self {
        Self {
            claim: Claim::new("", 0, ""),
            text: String::new(),
            outcome,
            is_small: false,
            blocks: None,
            magnitudes: Vec::new(),
            exchange: None,
            words: None,
            plan: None,
            values: None,
            average: false,
            priority: Priority::LOWEST,
            layer: None,
            _under_way: None,
        }
    }

    fn measure(&mut self, values: &[f32], (ranks, values_per_packet): (u16, u16)) {
        let blocks = Blocks::new(values.len(), ranks, values_per_packet);
        self.magnitudes = blocks.measure(values, scales::precise(ranks));
        self.blocks = Some(blocks);
    }

    fn claims(&mut self, operation: &str, elements: u64, element: &str) {
        self.claim = Claim::new(operation, elements, element);
        self.text = agreement::describe(operation, elements, element);
    }

    /// The values are sums of ranks that have values of this type, and divide what is added up here themselves.
    pub(crate) fn on_behalf_of(&mut self, element: ElementType) {
        let average = std::mem::take(&mut self.average);
        let operation = if average { AVERAGE } else { SUM };
        self.claims(operation, self.claim.elements, element.name());
    }

    /// What is called, with the place of its bucket, by which a user finds it in the model.
    pub(crate) fn name(&self) -> String {
        match self.layer {
            Some((index, count)) => format!(
                "{}, bucket {} of {count} from the input of the model",
                self.text,
                index.saturating_add(1)
            ),
            None => self.text.clone(),
        }
    }

    /// The rounding of the values at the planned scales.
    pub(crate) fn rounding(&self, values_per_packet: u16) -> Rounding {
        let mut rounding = Rounding::default();
        if let (Some(values), Some(plan)) = (&self.values, &self.plan) {
            let values = values.floats();
            for (place, point) in plan.fragments(values_per_packet.into()) {
                rounding += point.rounding(&values[place]);
            }
        }
        rounding
    }

    pub(crate) fn number(&self) -> u64 {
        self.outcome.number
    }

    /// What the worker sums: the memory itself, or a wider copy.
    pub(crate) fn take_tensor(&mut self) -> Tensor {
        match self.values.as_mut().expect("a sum has values") {
            Values::Single(values) => Tensor::F32(values.split_off(0)),
            Values::Short(bits, element) => widen(bits, *element).into(),
        }
    }

    /// Where this rank's values cannot be summed, in words.
    pub(crate) fn not_finite(&self) -> String {
        let floats = self.values.as_ref().map(Values::floats).unwrap_or_default();
        let found = floats.iter().enumerate().find(|(_, value)| !value.is_finite());
        let place = |at| self.exchange.as_ref().map_or(at, |exchange| exchange.place(at));
        found.map(|(at, value)| format!("value {} is {value}", place(at))).unwrap_or_default()
    }

    /// Ends the call with sums that are in place.
    pub(crate) fn end(self: Box<Self>, sums: Buffer<f32>) {
        let outcome = Arc::clone(&self.outcome);
        // The memory is the caller's again before it learns of the result.
        drop(self);
        outcome.set_sums(sums);
        outcome.set(Ok(()));
    }

    /// Puts the sums where the values were, completed with those of the integers beside them.
    pub(crate) fn finish(mut self: Box<Self>, sums: Tensor, extras: &[i32], ranks: usize) {
        let mut sums = match sums {
            Tensor::F32(sums) => sums,
            Tensor::I32(words) => {
                if let Some(exchange) = self.exchange.take() {
                    exchange.end_with_words(&words);
                }
                return self.end(Vec::new().into());
            }
        };
        if let Some(plan) = self.plan.as_ref().filter(|_| !extras.is_empty()) {
            plan.complete(&mut sums, extras);
        }
        if let Some(exchange) = self.exchange.take() {
            exchange.end_with_sums(&sums);
            return self.end(sums);
        }
        if self.average {
            let ranks = ranks as f32;
            sums.iter_mut().for_each(|sum| *sum /= ranks);
        }
        match self.values.take() {
            Some(Values::Short(mut bits, element)) => narrow(&sums, element, &mut bits),
            // If it is empty, the sums are in place.
            Some(Values::Single(mut values)) if !values.is_empty() => {
                values.copy_from_slice(&sums);
                sums = values;
            }
            // The sums are in place.
            _ => {}
        }
        self.end(sums);
    }
}

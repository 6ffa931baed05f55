//! A call, and what is left to do for it.

use std::borrow::Cow;
use std::sync::Arc;

use tributary_protocol::buffer::Buffer;
use tributary_protocol::fixed::{Rounding, Scale};
use tributary_protocol::priority::Priority;
use tributary_protocol::{Tensor, fixed};

use crate::ElementType;
use crate::agreement::{self, Claim, Magnitude};
use crate::floats::{narrow, widen};
use crate::meter::UnderWay;
use crate::outcome::Outcome;

/// The names of operations, as PyTorch has them.
const SUM: &str = "all_reduce (SUM)";
const AVERAGE: &str = "all_reduce (AVG)";

/// Numbers that are summed in place.
#[derive(Debug)]
pub enum Values {
    /// Of type [`ElementType::F32`].
    Single(Buffer<f32>),
    /// Of a 16-bit type, as bits. They are summed as `f32`, and the sum is rounded.
    Short(Buffer<u16>, ElementType),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Single(values) => values.len(),
            Self::Short(values, _) => values.len(),
        }
    }

    pub(crate) fn floats(&self) -> Cow<'_, [f32]> {
        match self {
            Self::Single(values) => Cow::Borrowed(values),
            Self::Short(bits, element) => Cow::Owned(widen(bits, *element)),
        }
    }

    fn element(&self) -> ElementType {
        match self {
            Self::Single(_) => ElementType::F32,
            Self::Short(_, element) => *element,
        }
    }
}

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
    pub(crate) greatest: f32,
    pub(crate) average: bool,
    pub(crate) priority: Priority,
    layer: Option<(usize, usize)>,
    /// At which the values are summed, once that is known.
    pub(crate) scale: Option<Scale>,
    _under_way: Option<UnderWay>,
}

impl Work {
    /// `fits` tells whether so many elements travel with the agreement, and `enter` begins the sum of a
    /// layer and returns its priority.
    pub(crate) fn new(
        call: Call,
        outcome: Arc<Outcome>,
        fits: impl Fn(u64) -> bool,
        enter: impl Fn((usize, usize)) -> (Priority, UnderWay),
    ) -> Self {
        let mut under_way = None;
        let layer = match &call {
            Call::Reduce { layer, .. } => *layer,
            Call::Announce { .. } => None,
        };
        let (operation, elements, element, values, priority) = match call {
            Call::Announce { operation, elements, element } => {
                (operation, elements, element, None, Priority::LOWEST)
            }
            Call::Reduce { values, average, .. } => {
                let (priority, begun) = layer.map(enter).unzip();
                let priority = priority.unwrap_or(Priority::LOWEST);
                under_way = begun;
                let operation = if average { AVERAGE } else { SUM };
                let (elements, element) = (values.len() as u64, values.element().name());
                let greatest = fixed::greatest(&values.floats());
                (operation.into(), elements, element.into(), Some((values, greatest)), priority)
            }
        };
        let average = values.is_some() && operation == AVERAGE;
        let magnitude = values.as_ref().map_or(Magnitude::Zero, |(_, most)| Magnitude::of(*most));
        let claim = Claim::new(&operation, elements, &element, magnitude);
        let text = agreement::describe(&operation, elements, &element);
        let (values, greatest) = values.unzip();
        Self {
            claim,
            text,
            outcome,
            is_small: values.is_some() && fits(elements),
            values,
            greatest: greatest.unwrap_or_default(),
            average,
            priority,
            layer,
            scale: None,
            _under_way: under_way,
        }
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

    /// The rounding of the values at a scale.
    pub(crate) fn rounding(&self, scale: Scale) -> Rounding {
        let mut rounding = Rounding::default();
        if let Some(values) = &self.values {
            rounding.count(&values.floats(), scale, false);
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
        found.map(|(at, value)| format!("value {at} is {value}")).unwrap_or_default()
    }

    /// Puts the sums where the values were.
    pub(crate) fn finish(mut self: Box<Self>, sums: Tensor, ranks: u16) {
        let outcome = Arc::clone(&self.outcome);
        let Tensor::F32(mut sums) = sums else { unreachable!("floats were summed") };
        if self.average {
            let ranks = f32::from(ranks);
            sums.iter_mut().for_each(|sum| *sum /= ranks);
        }
        match self.values.take() {
            Some(Values::Short(mut bits, element)) => narrow(&sums, element, &mut bits),
            // If it is empty, the sums are in place.
            Some(Values::Single(mut values)) if !values.is_empty() => values.copy_from_slice(&sums),
            _ => {}
        }
        // The memory is the caller's again before it learns of the result.
        drop((self, sums));
        outcome.set(Ok(()));
    }
}

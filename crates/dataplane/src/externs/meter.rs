//! Meters: two rates, three colours (RFC 2698), with BMv2's arithmetic.

/// The configuration of a meter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MeterConfig {
    /// Committed rate, in packets or bytes per second.
    pub cir: u64,
    /// Size of the committed bucket, in packets or bytes.
    pub cburst: u64,
    /// Peak rate, no less than the committed one.
    pub pir: u64,
    /// Size of the peak bucket, in packets or bytes.
    pub pburst: u64,
}

/// The colour of a packet, numbered as in programs for v1model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Color {
    /// Within the committed rate, or the meter is not configured.
    #[default]
    Green = 0,
    /// Above the committed rate.
    Yellow = 1,
    /// Above the peak rate.
    Red = 2,
}

impl Color {
    /// The number of a colour that a program names.
    pub(crate) fn number_of(member: &str, numbers: &[u8; 3]) -> u64 {
        numbers[match member {
            "GREEN" => 0,
            "YELLOW" => 1,
            _ => 2,
        }]
        .into()
    }

    /// The colour with this number, among those of green, yellow and red; red for others.
    pub(crate) fn of(number: u64, numbers: &[u8; 3]) -> Self {
        match numbers.iter().position(|&its| u64::from(its) == number) {
            Some(0) => Self::Green,
            Some(1) => Self::Yellow,
            _ => Self::Red,
        }
    }
}

/// The unit of a meter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Packets,
    Bytes,
}

/// Tokens added since time zero, and available tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Bucket {
    tokens: u64,
    brought: u64,
}

impl Bucket {
    /// Fills up, then removes `input` tokens if there are enough.
    fn take(&mut self, rate: u64, burst: u64, now_us: u64, input: u64) -> bool {
        // Counted from time zero instead of from the last packet, to avoid accumulating errors.
        let brought = u128::from(now_us) * u128::from(rate) / 1_000_000;
        let brought = u64::try_from(brought).unwrap_or(u64::MAX);
        let new = brought.saturating_sub(self.brought);
        self.brought = self.brought.max(brought);
        self.tokens = self.tokens.saturating_add(new).min(burst);
        match self.tokens.checked_sub(input) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }
}

/// One meter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Meter {
    config: Option<MeterConfig>,
    committed: Bucket,
    peak: Bucket,
}

impl Meter {
    /// The configuration; `None` if every packet is green.
    pub(crate) fn config(&self) -> Option<MeterConfig> {
        self.config
    }

    /// Sets the configuration and fills the buckets.
    pub(crate) fn configure(&mut self, config: Option<MeterConfig>) {
        *self = Self { config, ..Self::default() };
        if let Some(config) = config {
            self.committed.tokens = config.cburst;
            self.peak.tokens = config.pburst;
        }
    }

    /// The colour of a packet, whose tokens are removed.
    pub(crate) fn execute(&mut self, unit: Unit, bytes: u32, now_us: u64) -> Color {
        self.execute_after(Color::Green, unit, bytes, now_us)
    }

    /// The same for a packet that has a colour already, which does not improve (RFC 2698).
    pub(crate) fn execute_after(
        &mut self,
        before: Color,
        unit: Unit,
        bytes: u32,
        now_us: u64,
    ) -> Color {
        let Some(config) = self.config else { return before };
        let input = match unit {
            Unit::Packets => 1,
            Unit::Bytes => u64::from(bytes),
        };
        // A packet above the peak rate does not use the committed bucket (RFC 2698).
        if before == Color::Red || !self.peak.take(config.pir, config.pburst, now_us, input) {
            Color::Red
        } else if before == Color::Yellow
            || !self.committed.take(config.cir, config.cburst, now_us, input)
        {
            Color::Yellow
        } else {
            Color::Green
        }
    }
}

/// A meter array.
#[derive(Clone, Debug)]
pub(crate) struct Meters {
    pub(crate) unit: Unit,
    pub(crate) cells: Vec<Meter>,
}

impl Meters {
    pub(crate) fn new(unit: Unit, size: usize) -> Self {
        Self { unit, cells: vec![Meter::default(); size] }
    }

    /// The meter at an index; `None` if the index is out of range.
    pub(crate) fn cell(&mut self, index: u64) -> Option<&mut Meter> {
        self.cells.get_mut(usize::try_from(index).ok()?)
    }

    /// The colour of a packet; `None` if the index is out of range.
    pub(crate) fn execute(&mut self, index: u64, bytes: u32, now_us: u64) -> Option<Color> {
        let unit = self.unit;
        Some(self.cell(index)?.execute(unit, bytes, now_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(cir: u64, cburst: u64, pir: u64, pburst: u64) -> Meter {
        let mut meter = Meter::default();
        meter.configure(Some(MeterConfig { cir, cburst, pir, pburst }));
        meter
    }

    #[test]
    fn an_unset_meter_is_green() {
        let mut meter = Meter::default();
        assert_eq!(meter.execute(Unit::Packets, 100, 0), Color::Green);
        assert_eq!(meter.config(), None);
    }

    #[test]
    fn a_burst_turns_yellow_and_then_red_and_time_brings_tokens_back() {
        let mut meter = meter(1_000, 2, 2_000, 3);
        let mut colours = |times: &[u64]| -> Vec<Color> {
            times.iter().map(|&now| meter.execute(Unit::Packets, 64, now)).collect()
        };
        use Color::{Green, Red, Yellow};
        assert_eq!(colours(&[0, 0, 0, 0, 0]), [Green, Green, Yellow, Red, Red]);
        // Half a millisecond adds a peak token, a whole one also a committed token.
        assert_eq!(colours(&[499, 500, 500]), [Red, Yellow, Red]);
        assert_eq!(colours(&[1_000, 1_000]), [Green, Red]);
        assert_eq!(colours(&[1_000_000; 5]), [Green, Green, Yellow, Red, Red]);
    }

    #[test]
    fn a_packets_own_colour_does_not_improve_and_saves_tokens() {
        use Color::{Green, Red, Yellow};
        let mut meter = meter(0, 1, 0, 3);
        let mut colour = |before| meter.execute_after(before, Unit::Packets, 64, 0);
        // Red ones take nothing, yellow ones no committed token.
        assert_eq!(
            [Red, Yellow, Green, Green, Green].map(&mut colour),
            [Red, Yellow, Green, Yellow, Red]
        );
        assert_eq!(Meter::default().execute_after(Yellow, Unit::Packets, 64, 0), Yellow);
    }

    #[test]
    fn bytes_are_taken_whole_or_not_at_all() {
        let mut meter = meter(0, 100, 0, 150);
        assert_eq!(meter.execute(Unit::Bytes, 151, 0), Color::Red);
        assert_eq!(meter.execute(Unit::Bytes, 90, 0), Color::Green);
        // Ten committed and sixty peak bytes are left; a bucket with too few tokens is unchanged.
        assert_eq!(meter.execute(Unit::Bytes, 20, 0), Color::Yellow);
        assert_eq!(meter.execute(Unit::Bytes, 50, 0), Color::Red);
        assert_eq!(meter.execute(Unit::Bytes, 10, 0), Color::Green);
    }

    #[test]
    fn colours_have_the_numbers_of_the_architecture() {
        use Color::{Green, Red, Yellow};
        // TNA's, and PSA's.
        for (numbers, found) in
            [([0, 1, 3], [Green, Yellow, Red, Red]), ([1, 2, 0], [Red, Green, Yellow, Red])]
        {
            assert_eq!([0, 1, 2, 3].map(|number| Color::of(number, &numbers)), found);
        }
    }

    #[test]
    fn large_rates_and_times_do_not_overflow() {
        let mut meter = meter(u64::MAX, u64::MAX, u64::MAX, u64::MAX);
        for now in [0, 1, u64::MAX / 2, u64::MAX] {
            assert_eq!(meter.execute(Unit::Bytes, u32::MAX, now), Color::Green);
        }
    }
}

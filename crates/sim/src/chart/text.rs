//! Charts as text.

use std::fmt;

use super::{Chart, Row, Style};

/// Characters from one lifeline to the next.
const SPACING: usize = 8;

impl fmt::Display for Chart {
    /// The chart as lines of text:
    ///
    /// ```text
    ///         µs      w1      s1      ps
    ///        1.6       ├──────▶│       │     gradient j1 s0 {0} p=9 (absorbed)
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.title.is_empty() {
            writeln!(f, "{}", self.title)?;
        }
        let names = self.columns.iter().map(|name| format!("{name:^SPACING$}"));
        writeln!(f, "{:>12}  {}", "µs", names.collect::<String>().trim_end())?;
        for row in &self.rows {
            write!(f, "{:>12}  {}  ", row.microseconds(), row.lines(self.columns.len()))?;
            f.write_str(&row.label)?;
            if row.lost {
                f.write_str(", lost")?;
            }
            match row.outcome {
                Some(outcome) => writeln!(f, " ({outcome})")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

impl Row {
    /// The lifelines overlaid with this row's arrow.
    fn lines(&self, columns: usize) -> String {
        let middle = |column: usize| column * SPACING + SPACING / 2;
        let mut line = vec![' '; columns * SPACING];
        for column in 0..columns {
            line[middle(column)] = '│';
        }
        if self.style == Style::Event {
            line[middle(self.from)] = '●';
            return line.into_iter().collect();
        }
        let (left, right) = (middle(self.from.min(self.to)), middle(self.from.max(self.to)));
        let dash = if self.style == Style::Message { '╌' } else { '─' };
        for place in &mut line[left + 1..right] {
            *place = if *place == '│' { '┼' } else { dash };
        }
        let tip = if self.from < self.to {
            line[left] = '├';
            right - 1
        } else {
            line[right] = '┤';
            left + 1
        };
        if self.lost {
            line[tip] = ' ';
            line[if self.from < self.to { tip - 1 } else { tip + 1 }] = '✗';
        } else {
            line[tip] = if self.from < self.to { '▶' } else { '◀' };
        }
        line.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chart;
    use super::super::tests::trace;

    #[test]
    fn is_drawn_with_arrows_and_losses() {
        let drawn = Chart::new("A title", &["w1", "w2", "s1"], &trace()).to_string();
        let expected = "A title\n\
            \x20         µs     w1      w2      s1      ps\n\
            \x20        1.0      ├───────┼──────▶│       │     another frame (absorbed)\n\
            \x20        2.5      │       │ ✗─────┤       │     another frame, lost\n\
            \x20     1002.0      │       ├╌╌╌╌╌╌╌┼╌╌╌╌╌╌▶│     remind j1 s0\n\
            \x20     1003.0      │       │       │       ●     stops & starts\n";
        assert_eq!(drawn, expected, "\n{drawn}");
    }
}

//! Charts as SVG, in the colours of the other figures of the documentation.

use std::fmt::Display;

use tributary_base::Svg;

use super::{Chart, Row, Style};

/// Position of the first lifeline, right of the times.
const FIRST: usize = 110;
/// Distance between lifelines.
const SPACING: usize = 92;
/// Height of a row.
const ROW: usize = 24;
/// Position of the first row.
const TOP: usize = 92;
/// Approximate width of a character in labels.
const CHARACTER: usize = 7;
/// Distance between a lost frame's arrow and its target.
const SHORT: usize = 24;

const INK: &str = "#1c2329";
const GREY: &str = "#5b6770";
const LOSS: &str = "#c2372e";

/// Colours of jobs, by number; the first is for rows of no job.
const JOBS: [&str; 6] = [GREY, "#1f6fb2", "#b2471f", "#2c8a4b", "#7a4fa3", "#8a6d1a"];

impl Chart {
    /// The chart as an SVG image.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let labels = FIRST + SPACING * self.columns.len().saturating_sub(1) + 40;
        let texts = self.rows.iter().map(|row| row.beside().chars().count() * CHARACTER);
        let widest =
            (labels + texts.max().unwrap_or(0)).max(self.title.chars().count() * CHARACTER * 5 / 4);
        let (width, bottom) = (widest + 40, TOP + ROW * self.rows.len());
        let mut svg = Svg::new(&[
            ("viewBox", &format!("0 0 {width} {}", bottom + 20)),
            ("font-family", &"sans-serif"),
            ("font-size", &13),
        ]);
        svg.text("title", &[], &self.title);
        svg.shape("rect", &[("width", &"100%"), ("height", &"100%"), ("fill", &"#ffffff")]);
        svg.text(
            "text",
            &[("x", &20), ("y", &26), ("font-size", &15), ("font-weight", &600), ("fill", &INK)],
            &self.title,
        );
        for (column, name) in self.columns.iter().enumerate() {
            let x = x(column);
            let lifeline = format!("M{x} 70 V{bottom}");
            svg.shape("path", &[("d", &lifeline), ("stroke", &"#c3ccd3")]);
            svg.shape(
                "rect",
                &[
                    ("x", &(x - 36)),
                    ("y", &42),
                    ("width", &72),
                    ("height", &28),
                    ("rx", &6),
                    ("fill", &"#f4f6f8"),
                    ("stroke", &GREY),
                ],
            );
            svg.text(
                "text",
                &[
                    ("x", &x),
                    ("y", &61),
                    ("text-anchor", &"middle"),
                    ("font-weight", &600),
                    ("fill", &INK),
                ],
                name,
            );
        }
        for (at, row) in self.rows.iter().enumerate() {
            row.draw(&mut svg, TOP + ROW * at, labels);
        }
        svg.finish()
    }
}

impl Row {
    fn draw(&self, svg: &mut Svg, y: usize, labels: usize) {
        let colour = JOBS[usize::from(self.job) % JOBS.len()];
        svg.text(
            "text",
            &[
                ("x", &66),
                ("y", &(y + 4)),
                ("text-anchor", &"end"),
                ("font-size", &11),
                ("fill", &GREY),
            ],
            &format!("{} µs", self.microseconds()),
        );
        if self.style == Style::Event {
            svg.shape("circle", &[("cx", &x(self.from)), ("cy", &y), ("r", &5), ("fill", &INK)]);
        } else {
            self.draw_arrow(svg, y, colour);
        }
        let fill = match self.style {
            Style::Event => INK,
            _ if self.lost => LOSS,
            _ => colour,
        };
        svg.text("text", &[("x", &labels), ("y", &(y + 4)), ("fill", &fill)], &self.beside());
    }

    /// The label of the arrow.
    fn beside(&self) -> String {
        match (self.lost, self.outcome) {
            (true, _) => format!("{}, lost", self.label),
            (false, Some(outcome)) => format!("{} → {outcome}", self.label),
            (false, None) => self.label.clone(),
        }
    }

    /// A line with a head, or with a cross before its end; dashed if it is not a frame.
    fn draw_arrow(&self, svg: &mut Svg, y: usize, colour: &str) {
        let (from, to) = (x(self.from), x(self.to));
        let line = |svg: &mut Svg, end: usize, colour: &str| {
            let line = format!("M{from} {y} H{end}");
            let mut attributes: Vec<(&str, &dyn Display)> =
                vec![("d", &line), ("stroke", &colour), ("stroke-width", &2)];
            if self.style == Style::Message {
                attributes.push(("stroke-dasharray", &"5 4"));
            }
            svg.shape("path", &attributes);
        };
        if self.lost {
            let end = if from < to { to - SHORT } else { to + SHORT };
            line(svg, end, LOSS);
            let (l, r, t, b) = (end - 5, end + 5, y - 5, y + 5);
            let cross = format!("M{l} {t} L{r} {b} M{l} {b} L{r} {t}");
            svg.shape("path", &[("d", &cross), ("stroke", &LOSS), ("stroke-width", &2)]);
            return;
        }
        let (end, tip) = if from < to { (to - 8, to - 1) } else { (to + 8, to + 1) };
        line(svg, end, colour);
        let head = format!("M{tip} {y} L{end} {} L{end} {} z", y - 4, y + 4);
        svg.shape("path", &[("d", &head), ("fill", &colour)]);
    }
}

/// Position of a lifeline.
fn x(column: usize) -> usize {
    FIRST + SPACING * column
}

#[cfg(test)]
mod tests {
    use super::super::Chart;
    use super::super::tests::trace;

    #[test]
    fn every_row_is_drawn_and_text_is_escaped() {
        let svg = Chart::new("<Title>", &["w1", "w2", "s1"], &trace()).to_svg();
        assert!(svg.contains("<title>&lt;Title&gt;</title>"));
        assert!(svg.contains("stops &amp; starts</text>"));
        assert!(svg.contains(">another frame → absorbed</text>"));
        assert!(svg.contains(">another frame, lost</text>"));
        assert_eq!(svg.matches(" µs</text>").count(), 4);
        // Two arrows with a head, one of them dashed; one cross, one dot.
        assert_eq!(svg.matches(" z\"").count(), 2);
        assert_eq!(svg.matches("stroke-dasharray").count(), 1);
        assert_eq!(svg.matches("<circle").count(), 1);
    }
}

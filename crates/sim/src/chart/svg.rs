//! Charts as SVG, in the colours of the other figures of the documentation.

use std::fmt::Write as _;

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
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n<title>{title}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"20\" y=\"26\" font-size=\"15\" font-weight=\"600\" fill=\"{INK}\">{title}</text>\n",
            bottom + 20,
            title = escape(&self.title),
        );
        for (column, name) in self.columns.iter().enumerate() {
            let x = x(column);
            let _ = writeln!(
                svg,
                "<path d=\"M{x} 70 V{bottom}\" stroke=\"#c3ccd3\"/>\n\
                 <rect x=\"{}\" y=\"42\" width=\"72\" height=\"28\" rx=\"6\" fill=\"#f4f6f8\" \
                 stroke=\"{GREY}\"/>\n\
                 <text x=\"{x}\" y=\"61\" text-anchor=\"middle\" font-weight=\"600\" \
                 fill=\"{INK}\">{}</text>",
                x - 36,
                escape(name),
            );
        }
        for (at, row) in self.rows.iter().enumerate() {
            row.draw(&mut svg, TOP + ROW * at, labels);
        }
        svg += "</svg>\n";
        svg
    }
}

impl Row {
    fn draw(&self, svg: &mut String, y: usize, labels: usize) {
        let colour = JOBS[usize::from(self.job) % JOBS.len()];
        let _ = writeln!(
            svg,
            "<text x=\"66\" y=\"{}\" text-anchor=\"end\" font-size=\"11\" fill=\"{GREY}\">{} µs</text>",
            y + 4,
            self.microseconds(),
        );
        if self.style == Style::Event {
            let _ = writeln!(
                svg,
                "<circle cx=\"{}\" cy=\"{y}\" r=\"5\" fill=\"{INK}\"/>",
                x(self.from)
            );
        } else {
            self.draw_arrow(svg, y, colour);
        }
        let fill = match self.style {
            Style::Event => INK,
            _ if self.lost => LOSS,
            _ => colour,
        };
        let _ = writeln!(
            svg,
            "<text x=\"{labels}\" y=\"{}\" fill=\"{fill}\">{}</text>",
            y + 4,
            escape(&self.beside()),
        );
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
    fn draw_arrow(&self, svg: &mut String, y: usize, colour: &str) {
        let (from, to) = (x(self.from), x(self.to));
        let dashes = if self.style == Style::Message { " stroke-dasharray=\"5 4\"" } else { "" };
        if self.lost {
            let end = if from < to { to - SHORT } else { to + SHORT };
            let _ = writeln!(
                svg,
                "<path d=\"M{from} {y} H{end}\" stroke=\"{LOSS}\" stroke-width=\"2\"{dashes}/>\n\
                 <path d=\"M{l} {t} L{r} {b} M{l} {b} L{r} {t}\" stroke=\"{LOSS}\" stroke-width=\"2\"/>",
                l = end - 5,
                r = end + 5,
                t = y - 5,
                b = y + 5,
            );
            return;
        }
        let (end, tip) = if from < to { (to - 8, to - 1) } else { (to + 8, to + 1) };
        let _ = writeln!(
            svg,
            "<path d=\"M{from} {y} H{end}\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>\n\
             <path d=\"M{tip} {y} L{end} {} L{end} {} z\" fill=\"{colour}\"/>",
            y - 4,
            y + 4,
        );
    }
}

/// Position of a lifeline.
fn x(column: usize) -> usize {
    FIRST + SPACING * column
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
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

//! Heat maps: ratios over two settings, with a colour on each side of 1.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Area, Chart, FONT, describe};

/// Colours of ratios far above and far below 1, which are distinguishable with red-green colour
/// blindness.
const ABOVE: RGBColor = RGBColor(0, 90, 160);
const BELOW: RGBColor = RGBColor(200, 90, 0);
/// Colour of a cell without a value.
const MISSING: RGBColor = RGBColor(225, 225, 225);

/// The ratio, and one divided by it, from which on colours are the same.
const STRONGEST: f64 = 2.0;

/// Height of a cell and of a line of text, and least width of a cell, in units of the picture.
const CELL: i32 = 34;
const LINE: i32 = 22;
const NARROWEST: i32 = 58;
/// Width of a letter, roughly.
const LETTER: i32 = 8;
/// Free space around panels.
const GAP: i32 = 14;
/// Space for the chart's title.
const TITLE: i32 = 34;
/// Number and width of the steps of the scale.
const STEPS: i32 = 40;
const STEP: i32 = 6;

/// Ratios over two settings, in panels side by side.
#[derive(Clone, PartialEq, Debug)]
pub struct Heat {
    /// Label of the columns. That of the rows is the chart's vertical label.
    pub x: String,
    /// Labels of the columns.
    pub columns: Vec<String>,
    /// Labels of the rows, from the top.
    pub rows: Vec<String>,
    /// The panels.
    pub panels: Vec<HeatPanel>,
    /// Number of panels side by side.
    pub across: usize,
}

/// A panel of a heat map.
#[derive(Clone, PartialEq, Debug)]
pub struct HeatPanel {
    /// Its name.
    pub name: String,
    /// Ratios by row, then column; `None` where there is none.
    pub ratios: Vec<Vec<Option<f64>>>,
}

/// The colour of a ratio: white at 1.
fn color(ratio: f64) -> RGBColor {
    let strength = (ratio.ln() / STRONGEST.ln()).clamp(-1.0, 1.0);
    let RGBColor(red, green, blue) = if strength > 0.0 { ABOVE } else { BELOW };
    let mixed = |channel: u8| {
        let white = 255.0 - strength.abs() * (255.0 - f64::from(channel));
        white.round() as u8
    };
    RGBColor(mixed(red), mixed(green), mixed(blue))
}

/// Black on light colours, white on dark ones.
fn ink(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    let light = 0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue);
    if light > 140.0 { BLACK } else { WHITE }
}

impl Heat {
    /// Width of a cell.
    fn cell(&self) -> i32 {
        widest(&self.columns).max(NARROWEST)
    }

    /// Width of what is left of the cells: the label of the rows, and their names.
    fn left(&self) -> i32 {
        LINE + widest(&self.rows)
    }

    /// Width and height of a panel, with its labels and the space after it.
    fn panel(&self) -> (i32, i32) {
        let (columns, rows) = (self.columns.len() as i32, self.rows.len() as i32);
        (self.left() + columns * self.cell() + GAP, rows * CELL + 3 * LINE + GAP)
    }

    /// Number of panels side by side.
    fn across(&self) -> usize {
        self.across.clamp(1, self.panels.len().max(1))
    }

    /// Size of the chart.
    pub(super) fn size(&self) -> (u32, u32) {
        let (width, height) = self.panel();
        let lines = self.panels.len().div_ceil(self.across()) as i32;
        // At least the width of a line of text, for the title.
        let width = (GAP + self.across() as i32 * width).max(560);
        (width.unsigned_abs(), (TITLE + lines * height + 2 * LINE).unsigned_abs())
    }
}

/// Width of the longest text.
fn widest(texts: &[String]) -> i32 {
    LETTER * texts.iter().map(|text| text.chars().count() as i32).max().unwrap_or(0) + LETTER
}

impl Chart {
    pub(super) fn draw_heat<S: DrawingBackend>(
        &self,
        root: &Area<S>,
        heat: &Heat,
    ) -> Result<(), String> {
        if heat.panels.is_empty() || heat.rows.is_empty() || heat.columns.is_empty() {
            return Err("there is nothing to draw".to_owned());
        }
        let (width, height) = heat.panel();
        for (at, panel) in heat.panels.iter().enumerate() {
            let (column, row) = (at % heat.across(), at / heat.across());
            let corner = (GAP + column as i32 * width, row as i32 * height);
            self.draw_panel(root, heat, panel, corner)?;
        }
        let lines = heat.panels.len().div_ceil(heat.across()) as i32;
        draw_scale(root, (GAP, lines * height))
    }

    fn draw_panel<S: DrawingBackend>(
        &self,
        root: &Area<S>,
        heat: &Heat,
        panel: &HeatPanel,
        (left, top): (i32, i32),
    ) -> Result<(), String> {
        let cells = (left + heat.left(), top + LINE);
        let width = heat.columns.len() as i32 * heat.cell();
        let below = cells.1 + heat.rows.len() as i32 * CELL;
        let middle = cells.0 + width / 2;
        write(root, &panel.name, (15, BLACK), HPos::Center, (middle, top + LINE / 2))?;
        write(root, &heat.x, (13, BLACK), HPos::Center, (middle, below + LINE + LINE / 2))?;
        let upright = (FONT, 13).into_font().transform(FontTransform::Rotate270).color(&BLACK);
        let upright = upright.pos(Pos::new(HPos::Center, VPos::Center));
        let beside = (left + LINE / 2, (cells.1 + below) / 2);
        root.draw_text(&self.y, &upright, beside).map_err(describe)?;
        for (at, name) in heat.columns.iter().enumerate() {
            let x = cells.0 + at as i32 * heat.cell() + heat.cell() / 2;
            write(root, name, (13, BLACK), HPos::Center, (x, below + LINE / 2))?;
        }
        for (row, (name, ratios)) in heat.rows.iter().zip(&panel.ratios).enumerate() {
            let y = cells.1 + row as i32 * CELL;
            write(root, name, (13, BLACK), HPos::Right, (cells.0 - 6, y + CELL / 2))?;
            for (column, ratio) in ratios.iter().enumerate() {
                let x = cells.0 + column as i32 * heat.cell();
                if let Some(wrong) = ratio.filter(|ratio| !(ratio.is_finite() && *ratio > 0.0)) {
                    return Err(format!("{wrong} has no colour: ratios are above zero"));
                }
                let (fill, shown) = match ratio {
                    Some(ratio) => (color(*ratio), format!("{ratio:.2}")),
                    None => (MISSING, "–".to_owned()),
                };
                let corners = [(x, y), (x + heat.cell() - 2, y + CELL - 2)];
                root.draw(&Rectangle::new(corners, fill.filled())).map_err(describe)?;
                let middle = (x + heat.cell() / 2 - 1, y + CELL / 2 - 1);
                write(root, &shown, (15, ink(fill)), HPos::Center, middle)?;
            }
        }
        Ok(())
    }
}

/// The scale of colours.
fn draw_scale<S: DrawingBackend>(root: &Area<S>, (left, top): (i32, i32)) -> Result<(), String> {
    let of = |step: i32| STRONGEST.powf(2.0 * f64::from(step) / f64::from(STEPS - 1) - 1.0);
    let begin = left + 13 * LETTER;
    for step in 0..STEPS {
        let corners = [(begin + step * STEP, top + 4), (begin + (step + 1) * STEP, top + LINE - 4)];
        root.draw(&Rectangle::new(corners, color(of(step)).filled())).map_err(describe)?;
    }
    let y = top + LINE / 2;
    let end = begin + STEPS * STEP;
    let least = format!("{:.1} or less", 1.0 / STRONGEST);
    write(root, &least, (13, BLACK), HPos::Right, (begin - 6, y))?;
    write(root, &format!("{STRONGEST:.1} or more"), (13, BLACK), HPos::Left, (end + 6, y))?;
    write(root, "1", (13, BLACK), HPos::Center, (begin + STEPS * STEP / 2, y + LINE - 4))
}

/// A line of text, with its size and colour; its middle has this height.
fn write<S: DrawingBackend>(
    root: &Area<S>,
    text: &str,
    (size, color): (i32, RGBColor),
    side: HPos,
    at: (i32, i32),
) -> Result<(), String> {
    let style = (FONT, size).into_font().color(&color).pos(Pos::new(side, VPos::Center));
    root.draw_text(text, &style, at).map_err(describe)
}

#[cfg(test)]
mod tests {
    use tiny_skia::Pixmap;

    use super::super::{Marks, SCALE};
    use super::*;

    fn chart(ratios: [[Option<f64>; 3]; 2], panels: usize) -> Chart {
        let names = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let ratios: Vec<Vec<_>> = ratios.iter().map(|row| row.to_vec()).collect();
        let panel = |at| HeatPanel { name: format!("panel {at}"), ratios: ratios.clone() };
        Chart {
            title: "ESA / ATP".to_owned(),
            y: "memory, MB".to_owned(),
            marks: Marks::Heat(Heat {
                x: "largest window".to_owned(),
                columns: names(&["256", "1024", "4096"]),
                rows: names(&["1 MB", "5 MB"]),
                panels: (1..=panels).map(panel).collect(),
                across: 2,
            }),
        }
    }

    const RATIOS: [[Option<f64>; 3]; 2] =
        [[Some(0.25), Some(1.0), Some(1.26)], [Some(4.0), Some(0.8), None]];

    #[test]
    fn each_cell_has_its_value_and_its_colour() {
        let svg = chart(RATIOS, 1).to_svg().unwrap();
        let words = ["0.25", "1.00", "1.26", "4.00", "0.80", "–", "256", "1 MB", "panel 1"];
        for word in words.into_iter().chain(["ESA / ATP", "memory, MB", "largest window"]) {
            assert_eq!(svg.matches(&format!(">\n{word}\n<")).count(), 1, "{word}\n{svg}");
        }
        let cells = |color: &str| {
            let of = |line: &&str| line.starts_with("<rect") && line.contains(color);
            svg.lines().filter(of).count()
        };
        // The strongest colours: a cell, and the last step of the scale.
        assert_eq!((cells("#005AA0"), cells("#C85A00")), (2, 2), "{svg}");
        assert_eq!(cells("#E1E1E1"), 1, "the cell without a value\n{svg}");
    }

    #[test]
    fn colours_diverge_from_one_and_the_text_stays_legible() {
        assert_eq!(color(1.0), WHITE);
        assert_eq!([color(2.0), color(100.0)], [ABOVE; 2]);
        assert_eq!([color(0.5), color(0.01)], [BELOW; 2]);
        let RGBColor(red, _, blue) = color(1.3);
        assert!(red < blue, "above 1 is blue");
        assert_eq!([ink(color(1.1)), ink(ABOVE), ink(BELOW)], [BLACK, WHITE, WHITE]);
    }

    #[test]
    fn panels_are_side_by_side_and_then_below() {
        let [one, two, three] = [1, 2, 3].map(|panels| chart(RATIOS, panels).size());
        assert_eq!(two.0, three.0);
        assert!(two.1 == one.1 && three.1 > two.1, "{one:?} {two:?} {three:?}");
        let picture = Pixmap::decode_png(&chart(RATIOS, 3).to_png().unwrap()).unwrap();
        assert_eq!((picture.width(), picture.height()), (SCALE * three.0, SCALE * three.1));
        let blue = |pixel: &&tiny_skia::PremultipliedColorU8| {
            (pixel.red(), pixel.green(), pixel.blue()) == (ABOVE.0, ABOVE.1, ABOVE.2)
        };
        // The strongest cell of each of three panels, without the text in it.
        let least = 3 * (NARROWEST * CELL) as usize;
        assert!(picture.pixels().iter().filter(blue).count() > least, "cells are filled");
    }

    #[test]
    fn ratios_that_have_no_colour_are_rejected() {
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = chart([[Some(wrong); 3]; 2], 1).to_svg().unwrap_err().to_string();
            assert!(error.contains("has no colour"), "{error}");
        }
        let error = chart(RATIOS, 0).to_svg().unwrap_err().to_string();
        assert!(error.ends_with("there is nothing to draw"), "{error}");
    }
}

//! Charts as PNG: a drawing surface for plotters, with a font of its own, so that pictures are the
//! same on every machine. It draws each element as plotters' surface for SVG describes it.

use std::convert::Infallible;

use notosans::REGULAR_TTF;
use plotters::prelude::{DrawingBackend, FontTransform};
use plotters::style::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind,
};
use tiny_skia::{Color, FillRule, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, Transform};
use ttf_parser::{Face, OutlineBuilder};

/// Pixels per unit of a chart's size.
pub(crate) const SCALE: u32 = 2;

/// A font's size in plotters, divided by that in SVG.
const SIZE_RATIO: f64 = 1.24;

type Result<T = ()> = std::result::Result<T, DrawingErrorKind<Infallible>>;

/// A surface that draws on pixels, [`SCALE`] of them per unit.
pub(crate) struct Raster<'a> {
    pixels: &'a mut Pixmap,
    face: Face<'static>,
}

impl<'a> Raster<'a> {
    /// A surface on these pixels.
    pub(crate) fn new(pixels: &'a mut Pixmap) -> Self {
        Self { pixels, face: Face::parse(REGULAR_TTF, 0).expect("a valid font") }
    }

    fn fill(&mut self, path: Option<Path>, color: BackendColor, transform: Transform) {
        if let Some(path) = path {
            let scaled = transform.post_scale(SCALE as f32, SCALE as f32);
            self.pixels.fill_path(&path, &paint(color), FillRule::Winding, scaled, None);
        }
    }

    fn stroke(&mut self, path: Option<Path>, color: BackendColor, width: u32) {
        // A path of no length, such as an error bar of one run, has no outline.
        let has_length = |path: &Path| path.bounds().width() > 0.0 || path.bounds().height() > 0.0;
        if let Some(path) = path.filter(has_length) {
            let stroke = Stroke { width: width as f32, ..Stroke::default() };
            let scaled = Transform::from_scale(SCALE as f32, SCALE as f32);
            self.pixels.stroke_path(&path, &paint(color), &stroke, scaled, None);
        }
    }

    /// The outline of a line of text that starts at the origin, and its width.
    fn outline(&self, text: &str, size: f32) -> (Option<Path>, f32) {
        let scale = size / f32::from(self.face.units_per_em());
        let mut pen = Pen { path: PathBuilder::new(), scale, x: 0.0 };
        for letter in text.chars() {
            // Glyph 0 stands for what the font lacks.
            let glyph = self.face.glyph_index(letter).unwrap_or_default();
            self.face.outline_glyph(glyph, &mut pen);
            pen.x += scale * f32::from(self.face.glyph_hor_advance(glyph).unwrap_or_default());
        }
        (pen.path.finish(), pen.x)
    }
}

fn paint(color: BackendColor) -> Paint<'static> {
    let (red, green, blue) = color.rgb;
    let alpha = (color.alpha * 255.0).round() as u8;
    let mut paint = Paint::default();
    paint.set_color(Color::from_rgba8(red, green, blue, alpha));
    paint
}

fn polyline(points: impl IntoIterator<Item = BackendCoord>) -> PathBuilder {
    let mut path = PathBuilder::new();
    for (x, y) in points {
        if path.is_empty() {
            path.move_to(x as f32, y as f32);
        } else {
            path.line_to(x as f32, y as f32);
        }
    }
    path
}

/// Draws glyphs side by side, with the vertical axis downwards.
struct Pen {
    path: PathBuilder,
    scale: f32,
    /// Position of the current glyph.
    x: f32,
}

impl Pen {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + self.scale * x, -self.scale * y)
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

impl DrawingBackend for Raster<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (self.pixels.width() / SCALE, self.pixels.height() / SCALE)
    }

    fn ensure_prepared(&mut self) -> Result {
        Ok(())
    }

    fn present(&mut self) -> Result {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Result {
        let path = Rect::from_xywh(x as f32, y as f32, 1.0, 1.0).map(PathBuilder::from_rect);
        self.fill(path, color, Transform::identity());
        Ok(())
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Result {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        (left, top): BackendCoord,
        (right, bottom): BackendCoord,
        style: &S,
        fill: bool,
    ) -> Result {
        let corners = [(left, top), (right, top), (right, bottom), (left, bottom)];
        if fill {
            return self.fill_polygon(corners, style);
        }
        let mut path = polyline(corners);
        path.close();
        self.stroke(path.finish(), style.color(), 1);
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Result {
        self.stroke(polyline(path).finish(), style.color(), style.stroke_width());
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        (x, y): BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Result {
        let path = PathBuilder::from_circle(x as f32, y as f32, radius as f32);
        if fill {
            self.fill(path, style.color(), Transform::identity());
        } else {
            self.stroke(path, style.color(), style.stroke_width());
        }
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Result {
        let mut path = polyline(path);
        path.close();
        self.fill(path.finish(), style.color(), Transform::identity());
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Result {
        let size = (style.size() / SIZE_RATIO) as f32;
        let (path, width) = self.outline(text, size);
        let anchor = style.anchor();
        let dx = match anchor.h_pos {
            HPos::Left => 0.0,
            HPos::Center => -width / 2.0,
            HPos::Right => -width,
        };
        let units = f32::from(self.face.units_per_em());
        let half_x_height =
            size / 2.0 * f32::from(self.face.x_height().unwrap_or_default()) / units;
        let dy = match anchor.v_pos {
            VPos::Top => 0.76 * size,
            VPos::Center => half_x_height,
            VPos::Bottom => -half_x_height,
        };
        let angle = match style.transform() {
            FontTransform::None => 0.0,
            FontTransform::Rotate90 => 90.0,
            FontTransform::Rotate180 => 180.0,
            FontTransform::Rotate270 => 270.0,
        };
        let place = Transform::from_translate(x as f32, y as f32);
        self.fill(path, style.color(), place.pre_rotate(angle).pre_translate(dx, dy));
        Ok(())
    }
}

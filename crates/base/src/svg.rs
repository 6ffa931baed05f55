//! Pictures in SVG: one element per line, with escaped text.

use std::fmt::{Display, Write as _};

/// The attributes of an element, in the order of the text.
type Attributes<'a> = [(&'a str, &'a dyn Display)];

/// A picture that is being written.
pub struct Svg(String);

impl Svg {
    /// An empty picture; the attributes are those of the `svg` element.
    #[must_use]
    pub fn new(attributes: &Attributes<'_>) -> Self {
        let mut svg = Self(String::new());
        svg.open("svg", &[("xmlns", &"http://www.w3.org/2000/svg")]);
        svg.attributes(attributes);
        svg.0 += ">\n";
        svg
    }

    /// An element without content.
    pub fn shape(&mut self, name: &str, attributes: &Attributes<'_>) {
        self.open(name, attributes);
        self.0 += "/>\n";
    }

    /// An element with text.
    pub fn text(&mut self, name: &str, attributes: &Attributes<'_>, text: &str) {
        self.open(name, attributes);
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, ">{}</{name}>", escaped(text));
    }

    /// A shape with a tooltip.
    pub fn with_title(&mut self, name: &str, attributes: &Attributes<'_>, title: &str) {
        self.open(name, attributes);
        let _ = writeln!(self.0, "><title>{}</title></{name}>", escaped(title));
    }

    /// The text of the picture.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.0 += "</svg>\n";
        self.0
    }

    fn open(&mut self, name: &str, attributes: &Attributes<'_>) {
        self.0.push('<');
        self.0 += name;
        self.attributes(attributes);
    }

    fn attributes(&mut self, attributes: &Attributes<'_>) {
        for (name, value) in attributes {
            let value = escaped(&value.to_string()).replace('"', "&quot;");
            let _ = write!(self.0, " {name}=\"{value}\"");
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::Svg;

    #[test]
    fn texts_and_values_are_escaped() {
        let mut svg = Svg::new(&[("width", &20)]);
        svg.text("title", &[], "a < b & \"c\"");
        svg.shape("path", &[("d", &"M0 0"), ("fill", &"\"<")]);
        svg.with_title("rect", &[("x", &1)], "1 > 0");
        assert_eq!(
            svg.finish(),
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"20\">\n\
             <title>a &lt; b &amp; \"c\"</title>\n\
             <path d=\"M0 0\" fill=\"&quot;&lt;\"/>\n\
             <rect x=\"1\"><title>1 &gt; 0</title></rect>\n\
             </svg>\n"
        );
    }
}

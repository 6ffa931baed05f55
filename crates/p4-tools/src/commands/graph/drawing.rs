//! Graphs drawn in layers, as SVG.

use std::fmt::Write;

use rust_sugiyama::configure::{Config, RankingType};
use tributary_p4::graph::{Graph, NodeKind};

/// Pixels: width of a character, height of a line, padding of boxes, space between them, and
/// margin.
const CHARACTER: f64 = 7.4;
const LINE: f64 = 17.0;
const PADDING: f64 = 10.0;
const SPACING: f64 = 26.0;
const MARGIN: f64 = 16.0;

/// Relative width of bold characters.
const BOLD: f64 = 1.12;

/// The graph as an SVG document.
pub(crate) fn to_svg(graph: &Graph) -> String {
    Drawing::of(graph).to_svg(graph)
}

/// A box with its centre, in pixels.
#[derive(Clone, Copy, Default)]
struct Place {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// The path of an edge, through points of its own, one of which may have its label.
struct Way {
    /// Index of the edge.
    edge: usize,
    from: usize,
    to: usize,
    label: Option<usize>,
    /// Indices of places, from node to node.
    points: Vec<usize>,
    /// Whether it leads upwards, so that it is drawn from its end to its start.
    reversed: bool,
}

struct Drawing {
    /// The text of each node.
    boxes: Vec<Vec<String>>,
    /// Nodes first, then points of edges.
    places: Vec<Place>,
    ways: Vec<Way>,
}

impl Drawing {
    fn of(graph: &Graph) -> Self {
        let backward = backward(graph);
        let ends = graph.edges.iter().zip(&backward).map(|(edge, back)| match back {
            true => (edge.to, edge.from),
            false => (edge.from, edge.to),
        });
        let ends: Vec<(usize, usize)> = ends.collect();
        let layer = layers(graph, &ends);
        let boxes: Vec<Vec<String>> = (0..graph.nodes.len()).map(|n| lines(graph, n)).collect();
        let mut places: Vec<Place> = boxes.iter().map(|lines| size(lines)).collect();
        let mut ways = Vec::new();
        for (number, (&(from, to), &reversed)) in ends.iter().zip(&backward).enumerate() {
            if from == to {
                continue;
            }
            let edge = &graph.edges[number];
            let between = layer[to] - layer[from] - 1;
            let mut points = vec![from];
            let mut label = None;
            for distance in 0..between {
                let here = !edge.label.is_empty() && distance == 0;
                let width = if here { text_width(&edge.label) + PADDING } else { 1.0 };
                let height = if here { LINE } else { 1.0 };
                places.push(Place { width, height, ..Place::default() });
                points.push(places.len() - 1);
                label = label.or(here.then_some(places.len() - 1));
            }
            points.push(to);
            ways.push(Way { edge: number, from, to, label, points, reversed });
        }
        let mut drawing = Self { boxes, places, ways };
        drawing.arrange(&layer);
        drawing
    }

    /// Sets the centre of every place.
    fn arrange(&mut self, layer: &[usize]) {
        let vertices: Vec<(u32, (f64, f64))> =
            self.places.iter().zip(0..).map(|(p, number)| (number, (p.width, p.height))).collect();
        let pairs = self.ways.iter().flat_map(|way| way.points.windows(2));
        let mut edges: Vec<(u32, u32)> = pairs.map(|p| (p[0] as u32, p[1] as u32)).collect();
        edges.sort_unstable();
        edges.dedup();
        let config = Config {
            vertex_spacing: SPACING,
            dummy_vertices: false,
            ranking_type: RankingType::Up,
            transpose: self.places.len() < 400,
            ..Config::default()
        };
        let layouts = rust_sugiyama::from_vertices_and_edges(&vertices, &edges, &config);
        for (vertex, (x, _)) in layouts.into_iter().flat_map(|(layout, ..)| layout) {
            self.places[vertex].x = x;
        }
        // The height of a layer is that of its highest box.
        let mut of = vec![0; self.places.len()];
        of[..layer.len()].copy_from_slice(layer);
        for way in &self.ways {
            for (distance, &point) in way.points.iter().enumerate() {
                of[point] = layer[way.from] + distance;
            }
        }
        let count = of.iter().max().map_or(0, |last| last + 1);
        let mut heights = vec![0.0_f64; count];
        for (place, &layer) in self.places.iter().zip(&of) {
            heights[layer] = heights[layer].max(place.height);
        }
        let tops: Vec<f64> = heights
            .iter()
            .scan(MARGIN, |next, height| {
                let top = *next;
                *next += height + SPACING;
                Some(top)
            })
            .collect();
        let left = self.places.iter().map(|p| p.x - p.width / 2.0).fold(f64::MAX, f64::min);
        for (place, &layer) in self.places.iter_mut().zip(&of) {
            place.x += MARGIN - left;
            place.y = tops[layer] + heights[layer] / 2.0;
        }
    }

    fn to_svg(&self, graph: &Graph) -> String {
        let right = self.places.iter().map(|p| p.x + p.width / 2.0).fold(0.0, f64::max) + MARGIN;
        let bottom = self.places.iter().map(|p| p.y + p.height / 2.0).fold(0.0, f64::max) + MARGIN;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{right:.0}\" height=\"{bottom:.0}\" \
             viewBox=\"0 0 {right:.0} {bottom:.0}\" font-family=\"Helvetica, Arial, sans-serif\" \
             font-size=\"13\">\n<title>{}</title>\n\
             <defs><marker id=\"end\" markerWidth=\"9\" markerHeight=\"7\" refX=\"9\" refY=\"3.5\" \
             orient=\"auto\"><path d=\"M0 0L9 3.5L0 7z\"/></marker></defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            escape(&graph.name)
        );
        for way in &self.ways {
            self.way(&mut svg, way);
        }
        for way in &self.ways {
            if let Some(label) = way.label {
                let place = self.places[label];
                rectangle(&mut svg, place, "fill=\"white\"");
                text(&mut svg, place.x, place.y, "middle", &graph.edges[way.edge].label);
            }
        }
        for ((node, lines), place) in graph.nodes.iter().zip(&self.boxes).zip(&self.places) {
            draw_node(&mut svg, node.kind, lines, *place);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// A smooth line through all points, vertical at each.
    fn way(&self, svg: &mut String, way: &Way) {
        let (from, to) = (self.places[way.from], self.places[way.to]);
        let inner = &way.points[1..way.points.len() - 1];
        let mut points = vec![(from.x, from.y + from.height / 2.0)];
        points.extend(inner.iter().map(|&point| (self.places[point].x, self.places[point].y)));
        points.push((to.x, to.y - to.height / 2.0));
        let dashes = if way.reversed { " stroke-dasharray=\"5 3\"" } else { "" };
        if way.reversed {
            points.reverse();
        }
        let mut path = format!("M{:.1} {:.1}", points[0].0, points[0].1);
        for pair in points.windows(2) {
            let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
            let half = (y0 + y1) / 2.0;
            // Writing to a string cannot fail.
            let _ = write!(path, "C{x0:.1} {half:.1} {x1:.1} {half:.1} {x1:.1} {y1:.1}");
        }
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"#555\"{dashes} marker-end=\"url(#end)\"/>"
        );
    }
}

fn draw_node(svg: &mut String, kind: NodeKind, lines: &[String], place: Place) {
    let (colour, round) = match kind {
        NodeKind::Terminal => ("#dddddd", 10),
        NodeKind::State => ("#dcebfa", 8),
        NodeKind::Statements => ("#ffffff", 0),
        NodeKind::Decision => ("#fff3c4", 10),
        NodeKind::Table => ("#dff2dc", 0),
    };
    rectangle(svg, place, &format!("rx=\"{round}\" fill=\"{colour}\" stroke=\"#333\""));
    let titled = matches!(kind, NodeKind::Table | NodeKind::State);
    let first = place.y - (lines.len() as f64 - 1.0) * LINE / 2.0;
    for (number, line) in lines.iter().enumerate() {
        let y = first + number as f64 * LINE;
        match number {
            0 if titled => {
                let bold = format!("<tspan font-weight=\"bold\">{}</tspan>", escape(line));
                marked_text(svg, place.x, y, "middle", &bold);
            }
            _ if titled => text(svg, place.x - place.width / 2.0 + PADDING, y, "start", line),
            _ => text(svg, place.x, y, "middle", line),
        }
    }
}

/// The text of a node, including its edges to itself, which are not drawn.
fn lines(graph: &Graph, node: usize) -> Vec<String> {
    let mut lines = graph.nodes[node].lines.clone();
    let own = graph.edges.iter().filter(|edge| edge.from == node && edge.to == node);
    lines.extend(own.map(|edge| format!("↺ {}", edge.label)));
    lines
}

/// The edges that close cycles: the others are acyclic.
fn backward(graph: &Graph) -> Vec<bool> {
    let mut backward = vec![false; graph.edges.len()];
    let (mut seen, mut open) = (vec![false; graph.nodes.len()], vec![false; graph.nodes.len()]);
    let leaving = |node: usize| {
        let edges = graph.edges.iter().enumerate().filter(move |(_, edge)| edge.from == node);
        edges.map(|(number, edge)| (number, edge.to)).collect::<Vec<_>>().into_iter()
    };
    for start in 0..graph.nodes.len() {
        if seen[start] {
            continue;
        }
        seen[start] = true;
        open[start] = true;
        let mut path = vec![(start, leaving(start))];
        while let Some((node, edges)) = path.last_mut() {
            let node = *node;
            match edges.next() {
                Some((number, to)) if open[to] => backward[number] = true,
                Some((_, to)) if !seen[to] => {
                    seen[to] = true;
                    open[to] = true;
                    path.push((to, leaving(to)));
                }
                Some(_) => {}
                None => {
                    open[node] = false;
                    path.pop();
                }
            }
        }
    }
    backward
}

/// Places nodes as high as their predecessors allow; a label takes a layer of its own.
fn layers(graph: &Graph, ends: &[(usize, usize)]) -> Vec<usize> {
    let mut layer = vec![0; graph.nodes.len()];
    // Without cycles the longest path has fewer edges than there are nodes.
    for _ in 0..graph.nodes.len() {
        let mut settled = true;
        for (edge, &(from, to)) in graph.edges.iter().zip(ends) {
            let least = layer[from] + 1 + usize::from(!edge.label.is_empty());
            if from != to && layer[to] < least {
                layer[to] = least;
                settled = false;
            }
        }
        if settled {
            break;
        }
    }
    layer
}

fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

fn size(lines: &[String]) -> Place {
    // Titles are bold, and come first.
    let widths = lines.iter().enumerate().map(|(number, line)| match number {
        0 => text_width(line) * BOLD,
        _ => text_width(line),
    });
    let widest = widths.fold(0.0, f64::max);
    let height = lines.len().max(1) as f64 * LINE + PADDING;
    Place { width: widest + 2.0 * PADDING, height, ..Place::default() }
}

fn rectangle(svg: &mut String, place: Place, look: &str) {
    let Place { x, y, width, height } = place;
    let (left, top) = (x - width / 2.0, y - height / 2.0);
    let _ = writeln!(
        svg,
        "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {look}/>"
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, line: &str) {
    marked_text(svg, x, y, anchor, &escape(line));
}

fn marked_text(svg: &mut String, x: f64, y: f64, anchor: &str, content: &str) {
    // SVG places text by its baseline; its centre is a third of the font's size above.
    let y = y + 4.5;
    let _ =
        writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{content}</text>");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use tributary_p4::graph::{Edge, Node};

    use super::*;

    fn graph(nodes: usize, edges: &[(usize, usize, &str)]) -> Graph {
        let node = |n| Node { kind: NodeKind::State, lines: vec![format!("<{n}>")] };
        let edge =
            |&(from, to, label): &(usize, usize, &str)| Edge { from, to, label: label.to_owned() };
        let edges = edges.iter().map(edge).collect();
        Graph { name: "a & b".to_owned(), nodes: (0..nodes).map(node).collect(), edges }
    }

    /// Checks that boxes do not overlap, edges lead downwards, and all is inside the picture.
    fn check(graph: &Graph) {
        let drawing = Drawing::of(graph);
        for (number, a) in drawing.places.iter().enumerate() {
            for b in &drawing.places[..number] {
                let apart = (a.x - b.x).abs() >= (a.width + b.width) / 2.0 - 0.1
                    || (a.y - b.y).abs() >= (a.height + b.height) / 2.0 - 0.1;
                assert!(apart, "({}, {}) overlaps ({}, {})", a.x, a.y, b.x, b.y);
            }
            assert!(a.x - a.width / 2.0 > 0.0 && a.y - a.height / 2.0 > 0.0);
        }
        for way in &drawing.ways {
            for pair in way.points.windows(2) {
                assert!(drawing.places[pair[0]].y < drawing.places[pair[1]].y);
            }
        }
    }

    #[test]
    fn cycles_are_drawn_once() {
        let graph =
            graph(4, &[(0, 1, ""), (1, 2, "x"), (2, 1, "back"), (2, 2, "self"), (2, 3, "")]);
        check(&graph);
        let svg = Drawing::of(&graph).to_svg(&graph);
        assert_eq!(svg.matches("marker-end").count(), 4, "all edges but that of a node to itself");
        assert_eq!(svg.matches("stroke-dasharray").count(), 1, "one leads back");
        assert!(svg.contains("↺ self") && svg.contains("a &amp; b") && svg.contains("&lt;0&gt;"));
    }

    #[test]
    fn random_graphs_are_drawn() {
        use rand::{Rng, SeedableRng};
        for seed in 0..60 {
            let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let nodes = random.random_range(1..40);
            let mut edges: Vec<(usize, usize, &str)> =
                (1..nodes).map(|to| (random.random_range(0..to), to, "")).collect();
            for _ in 0..random.random_range(0..nodes) {
                let (from, to) = (random.random_range(0..nodes), random.random_range(0..nodes));
                if !edges.iter().any(|edge| (edge.0, edge.1) == (from, to)) {
                    edges.push((from, to, "a label"));
                }
            }
            check(&graph(nodes, &edges));
        }
    }
}

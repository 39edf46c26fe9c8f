//! A graph, laid out and drawn in the colours and letters of the page.

use super::graph::Graph;
use super::label::{broken, height, spans, width};
use figures::escape;
use layout::core::base::Orientation;
use layout::core::color::Color;
use layout::core::format::{ClipHandle, RenderBackend};
use layout::core::geometry::{Point, Position};
use layout::core::style::{LineStyleKind, StyleAttr};
use layout::std_shapes::shapes::{Arrow, Element, LineEndKind, ShapeKind};
use layout::topo::layout::VisualGraph;
use std::fmt::Write;

const NODE_SIZE: f64 = 15.0;
const EDGE_SIZE: f64 = 13.0;
const LINE_HEIGHT: f64 = 1.3;
/// The space around the picture.
const MARGIN: f64 = 4.0;
/// The space that two neighbours keep between them, and that the arrows get.
const GAP: Point = Point { x: 20.0, y: 36.0 };
/// The layout takes a letter of an edge's label to be as wide as it is high. Told that it is half
/// as high it comes out right; and by this size the labels of edges are known from the others.
const EDGE_MARK: usize = 7;
const NODE_MARK: usize = 15;
const HEAD: f64 = 8.0;

/// The widths that labels are broken at, one after the other, until the picture fits a phone.
const LABEL_WIDTHS: [f64; 6] = [f64::INFINITY, 200.0, 170.0, 145.0, 120.0, 100.0];
/// What fits a phone when it is drawn a sixth smaller, which can still be read.
const PHONE: f64 = 420.0;

/// The graph as one line of SVG.
pub(super) fn svg(graph: &Graph, id: &str) -> String {
    let mut narrowest: Option<Canvas> = None;
    for limit in LABEL_WIDTHS {
        let canvas = lay_out(graph, limit);
        if narrowest
            .as_ref()
            .is_none_or(|best| canvas.width() < best.width())
        {
            let fits = canvas.width() <= PHONE;
            narrowest = Some(canvas);
            if fits {
                break;
            }
        }
    }
    narrowest.unwrap_or_default().finish(id, &graph.describe())
}

fn lay_out(graph: &Graph, limit: f64) -> Canvas {
    let mut layout = VisualGraph::new(Orientation::TopToBottom);
    let mut handles = Vec::new();
    for node in &graph.nodes {
        let label = broken(&node.label, NODE_SIZE, limit);
        let size = Point::new(
            width(&label, NODE_SIZE) + 20.0,
            height(&label) as f64 * NODE_SIZE * LINE_HEIGHT + 14.0,
        );
        let mut element = Element::create_with_properties(
            ShapeKind::new_box(&label),
            look(NODE_MARK),
            Orientation::TopToBottom,
            size,
            properties(node.color, node.dashed, node.plain),
        );
        element.pos = Position::new(Point::zero(), size, Point::zero(), GAP);
        handles.push(layout.add_node(element));
    }
    for edge in &graph.edges {
        let end = if edge.arrow {
            LineEndKind::Arrow
        } else {
            LineEndKind::None
        };
        let arrow = Arrow::with_properties(
            LineEndKind::None,
            end,
            LineStyleKind::Normal,
            &edge.label,
            &look(EDGE_MARK),
            properties(edge.color, edge.dashed, false),
            &None,
            &None,
        );
        layout.add_edge(arrow, handles[edge.from], handles[edge.to]);
    }
    let mut canvas = Canvas::default();
    layout.do_it(false, false, false, &mut canvas);
    canvas
}

fn look(mark: usize) -> StyleAttr {
    StyleAttr::new(Color::new(0xff), 1, None, 0, mark)
}

/// What the layout hands through to the canvas about a box or an arrow.
fn properties(color: Option<char>, dashed: bool, plain: bool) -> String {
    let mut words = Vec::new();
    words.extend(color.map(String::from));
    words.extend(dashed.then(|| "dashed".to_owned()));
    words.extend(plain.then(|| "plain".to_owned()));
    words.join(" ")
}

fn color_of(properties: &str) -> Option<char> {
    let word = properties.split(' ').find(|word| word.len() == 1)?;
    word.chars().next()
}

/// The drawing, in the order in which its layers cover each other.
#[derive(Default)]
struct Canvas {
    boxes: String,
    arrows: String,
    texts: String,
    corners: Option<(Point, Point)>,
}

impl Canvas {
    fn grow(&mut self, x: f64, y: f64) {
        let (low, high) = self
            .corners
            .get_or_insert((Point::new(x, y), Point::new(x, y)));
        (low.x, low.y) = (low.x.min(x), low.y.min(y));
        (high.x, high.y) = (high.x.max(x), high.y.max(y));
    }

    fn width(&self) -> f64 {
        self.corners.map_or(0.0, |(low, high)| high.x - low.x) + 2.0 * MARGIN
    }

    fn finish(self, id: &str, alternative: &str) -> String {
        let (low, high) = self.corners.unwrap_or((Point::zero(), Point::zero()));
        let (w, h) = (high.x - low.x + 2.0 * MARGIN, high.y - low.y + 2.0 * MARGIN);
        format!(
            "<svg viewBox=\"{:.1} {:.1} {w:.1} {h:.1}\" role=\"img\" aria-labelledby=\"{id}-title\" \
             style=\"display:block;margin:0 auto;width:100%;max-width:{w:.0}px;min-width:{:.0}px\" \
             font-family=\"inherit\" text-anchor=\"middle\">\
             <title id=\"{id}-title\">{}</title>{}{}{}</svg>",
            low.x - MARGIN,
            low.y - MARGIN,
            0.8 * w,
            escape(alternative),
            self.boxes,
            self.arrows,
            self.texts
        )
    }
}

impl RenderBackend for Canvas {
    fn draw_rect(
        &mut self,
        xy: Point,
        size: Point,
        _look: &StyleAttr,
        properties: Option<String>,
        _clip: Option<ClipHandle>,
    ) {
        self.grow(xy.x, xy.y);
        self.grow(xy.x + size.x, xy.y + size.y);
        let properties = properties.unwrap_or_default();
        if properties.contains("plain") {
            return;
        }
        let style = match color_of(&properties) {
            Some(color) => format!(
                "fill=\"var(--fig-{color})\" fill-opacity=\"0.18\" stroke=\"var(--fig-{color})\" \
                 stroke-width=\"1.5\""
            ),
            None => "fill=\"var(--fig-soft)\" stroke=\"var(--fig-line)\"".to_owned(),
        };
        let dash = dash(&properties);
        let _ = write!(
            self.boxes,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"7\" {style}{dash}/>",
            xy.x, xy.y, size.x, size.y
        );
    }

    fn draw_text(&mut self, xy: Point, text: &str, look: &StyleAttr) {
        let of_edge = look.font_size == EDGE_MARK;
        let size = if of_edge { EDGE_SIZE } else { NODE_SIZE };
        let halo = if of_edge {
            " stroke=\"var(--fig-paper)\" stroke-width=\"5\" stroke-linejoin=\"round\" \
             paint-order=\"stroke\""
        } else {
            ""
        };
        let (half, lines) = (width(text, size) / 2.0, height(text) as f64);
        self.grow(xy.x - half, xy.y);
        self.grow(xy.x + half, xy.y);
        for (index, line) in text.lines().enumerate() {
            let middle = xy.y + (index as f64 - (lines - 1.0) / 2.0) * size * LINE_HEIGHT;
            // The middle of the small letters and that of the capitals, halfway.
            let baseline = middle + 0.34 * size;
            let _ = write!(
                self.texts,
                "<text x=\"{:.1}\" y=\"{baseline:.1}\" font-size=\"{size}\" \
                 fill=\"var(--fig-ink)\"{halo}>{}</text>",
                xy.x,
                spans(line, size)
            );
        }
    }

    fn draw_arrow(
        &mut self,
        path: &[(Point, Point)],
        _dashed: bool,
        head: (bool, bool),
        _look: &StyleAttr,
        properties: Option<String>,
        _text: &str,
    ) {
        let Some(path) = upright(path) else {
            return;
        };
        let (first, last) = (path[0], path[path.len() - 1]);
        for point in path.iter().skip(1).map(|step| step.1).chain([first.0]) {
            self.grow(point.x, point.y);
        }
        let properties = properties.unwrap_or_default();
        let color = color_of(&properties).map_or("line".to_owned(), String::from);
        // The line ends where the head begins, so that a broad line does not blunt it.
        let (end, at_end) = arrowhead(last.0, last.1, head.1);
        let (start, at_start) = arrowhead(first.1, first.0, head.0);
        let mut steps: Vec<(Point, Point)> = path[1..].to_vec();
        if let Some(step) = steps.last_mut() {
            step.1 = end;
        }
        let mut line = format!(
            "M{:.1} {:.1}C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}",
            start.x,
            start.y,
            first.1.x,
            first.1.y,
            steps[0].0.x,
            steps[0].0.y,
            steps[0].1.x,
            steps[0].1.y
        );
        for (control, point) in &steps[1..] {
            let _ = write!(
                line,
                "S{:.1} {:.1} {:.1} {:.1}",
                control.x, control.y, point.x, point.y
            );
        }
        let _ = write!(
            self.arrows,
            "<path d=\"{line}\" fill=\"none\" stroke=\"var(--fig-{color})\" \
             stroke-width=\"1.5\"{}/>",
            dash(&properties)
        );
        for head in [at_start, at_end].into_iter().flatten() {
            let _ = write!(
                self.arrows,
                "<path d=\"{head}\" fill=\"var(--fig-{color})\"/>"
            );
        }
    }

    fn draw_line(&mut self, _: Point, _: Point, _: &StyleAttr, _: Option<String>) {}

    fn draw_circle(&mut self, _: Point, _: Point, _: &StyleAttr, _: Option<String>) {}

    fn create_clip(&mut self, _: Point, _: Point, _: usize) -> ClipHandle {
        0
    }
}

/// The same path, leaving and arriving straight up and down where it has the room to turn.
fn upright(path: &[(Point, Point)]) -> Option<Vec<(Point, Point)>> {
    let ([first, second, ..], [.., before, last]) = (path, path) else {
        return None;
    };
    let mut upright = path.to_vec();
    let fall = second.1.y - first.0.y;
    if fall.abs() > HEAD {
        upright[0].1 = Point::new(first.0.x, first.0.y + 0.45 * fall);
    }
    let start = if path.len() == 2 { first.0 } else { before.1 };
    let fall = last.1.y - start.y;
    if fall.abs() > HEAD {
        let end = path.len() - 1;
        upright[end].0 = Point::new(last.1.x, last.1.y - 0.45 * fall);
    }
    Some(upright)
}

fn dash(properties: &str) -> &'static str {
    if properties.contains("dashed") {
        " stroke-dasharray=\"5 4\""
    } else {
        ""
    }
}

/// Where the line ends that comes from `from` and points to `tip`, and the head that stands there.
fn arrowhead(from: Point, tip: Point, wanted: bool) -> (Point, Option<String>) {
    let length = from.distance_to(tip);
    if !wanted || length == 0.0 {
        return (tip, None);
    }
    let along = tip.sub(from).scale(1.0 / length);
    let across = Point::new(-along.y, along.x).scale(HEAD * 0.42);
    let base = tip.sub(along.scale(HEAD));
    let (left, right) = (base.add(across), base.sub(across));
    let head = format!(
        "M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}Z",
        tip.x, tip.y, left.x, left.y, right.x, right.y
    );
    (base, Some(head))
}

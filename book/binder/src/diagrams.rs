//! Flow charts: a fenced block ` ```dot "Caption" ` in Graphviz's language becomes an inline SVG.
//!
//! The vocabulary is small. The graph is a `digraph { … }` and flows from the top down.
//!
//! | what | attributes |
//! |---|---|
//! | node | `label`, `color` (`a` to `d`, the palette of the figures), `shape` (`box` or `plain`), `style` (`dashed`) |
//! | edge | `label`, `color`, `style` (`dashed`), `dir` (`none`: no arrowhead) |
//!
//! `node [ … ]` and `edge [ … ]` set the attributes of what follows. In a label `\n` breaks the
//! line, and `d_k`, `d_{model}`, `W^O` are set as subscript and superscript behind a single letter.

mod draw;
mod graph;
mod label;

pub use graph::{Edge, Graph, Node};

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A diagram as one line of HTML, its text alternative included. `id` makes its ids unique.
///
/// # Errors
/// With the line of the source, counted from 0, and a message for the author.
pub fn render(source: &str, id: &str) -> Result<String, (usize, String)> {
    let graph = Graph::parse(source)?;
    // The layout asserts what it believes of a graph; a graph that proves it wrong is a problem
    // for the author to avoid.
    let svg = catch_unwind(AssertUnwindSafe(|| draw::svg(&graph, id)))
        .map_err(|_| (0, "this graph cannot be laid out".to_owned()))?;
    Ok(format!(
        "<div class=\"diagram\" style=\"overflow-x:auto\">{svg}</div>"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: &str = r#"digraph {
  queries -> scores
  keys -> scores [label="Kᵀ"]
  scores -> weights [label="softmax"]
  weights -> output; values -> output
  output [color=a label="output\nA V"]
}"#;

    #[test]
    fn a_diagram_is_one_line_and_always_the_same() {
        let html = render(FLOW, "x").unwrap();
        assert_eq!(html, render(FLOW, "x").unwrap());
        assert!(!html.contains('\n'));
        assert!(html.contains("aria-labelledby=\"x-title\""));
        assert!(
            html.contains("queries → scores; keys → scores (Kᵀ)"),
            "{html}"
        );
        assert!(html.contains("var(--fig-a)"));
    }

    #[test]
    fn hard_graphs_are_drawn_or_refused_but_never_panic() {
        for source in [
            "digraph { a }",
            "digraph { a -> a }",
            "digraph { a -> b -> a }",
            "digraph { a -> b -> c -> d; a -> d [label=\"skip\"]; d -> a [style=dashed] }",
            "digraph { a -> b [label=\"1\"]; a -> b [label=\"2\"] }",
            "digraph { }",
            "digraph { a -> b; c -> d; e }",
        ] {
            let _ = render(source, "x");
        }
    }
}

//! Graphviz text, read.

use layout::gv::{Lexer, Token};

/// A graph: what there is, and what leads where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The nodes, in the order in which they are first named.
    pub nodes: Vec<Node>,
    /// The edges, in the order of the text.
    pub edges: Vec<Edge>,
}

/// A node of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The name by which edges know it.
    pub name: String,
    /// What it says.
    pub label: String,
    /// Its colour in the figures' palette.
    pub color: Option<char>,
    /// Whether it is text without a box.
    pub plain: bool,
    /// Whether its border is dashed.
    pub dashed: bool,
}

/// An edge of a graph, from one node to another, both by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Where it begins.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
    /// What it says; may be empty.
    pub label: String,
    /// Its colour in the figures' palette.
    pub color: Option<char>,
    /// Whether it is dashed.
    pub dashed: bool,
    /// Whether it ends in an arrowhead.
    pub arrow: bool,
}

/// A line of the source, counted from 0, and what is wrong there.
type Fault = (usize, String);

type Attributes = Vec<(String, String)>;

impl Graph {
    /// Reads the vocabulary that [the module](super) describes.
    ///
    /// # Errors
    /// If the text is not a graph, or uses what diagrams do not have.
    pub fn parse(source: &str) -> Result<Self, Fault> {
        let mut reader = Reader::new(source)?;
        let graph = reader.graph()?;
        if graph.nodes.is_empty() {
            return Err((0, "the graph is empty".to_owned()));
        }
        Ok(graph)
    }

    /// The graph in words, for those who cannot see it.
    pub fn describe(&self) -> String {
        let name = |index: usize| one_line(&self.nodes[index].label);
        let mut parts: Vec<String> = self
            .edges
            .iter()
            .map(|edge| {
                let sign = if edge.arrow { '→' } else { '—' };
                let label = match one_line(&edge.label) {
                    label if label.is_empty() => label,
                    label => format!(" ({label})"),
                };
                format!("{} {sign} {}{label}", name(edge.from), name(edge.to))
            })
            .collect();
        for (index, _) in self.nodes.iter().enumerate() {
            if !self.edges.iter().any(|e| e.from == index || e.to == index) {
                parts.push(name(index));
            }
        }
        format!("Flow chart: {}.", parts.join("; "))
    }

    fn node(&mut self, name: &str, defaults: &Attributes) -> Result<usize, String> {
        if let Some(index) = self.nodes.iter().position(|node| node.name == name) {
            return Ok(index);
        }
        let mut node = Node {
            name: name.to_owned(),
            label: name.to_owned(),
            color: None,
            plain: false,
            dashed: false,
        };
        node.set(defaults)?;
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }
}

fn one_line(label: &str) -> String {
    label.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Node {
    fn set(&mut self, attributes: &Attributes) -> Result<(), String> {
        for (name, value) in attributes {
            match (name.as_str(), value.as_str()) {
                ("label", label) => self.label = label.to_owned(),
                ("color", value) => self.color = Some(color(value)?),
                ("shape", "box") => self.plain = false,
                ("shape", "plain") => self.plain = true,
                ("style", "dashed") => self.dashed = true,
                ("style", "solid") => self.dashed = false,
                _ => {
                    return Err(format!(
                        "a node has no {name}={value}; known: label, color=a to d, \
                         shape=box or plain, style=solid or dashed"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Edge {
    fn set(&mut self, attributes: &Attributes) -> Result<(), String> {
        for (name, value) in attributes {
            match (name.as_str(), value.as_str()) {
                ("label", label) => self.label = label.to_owned(),
                ("color", value) => self.color = Some(color(value)?),
                ("style", "dashed") => self.dashed = true,
                ("style", "solid") => self.dashed = false,
                ("dir", "none") => self.arrow = false,
                ("dir", "forward") => self.arrow = true,
                _ => {
                    return Err(format!(
                        "an edge has no {name}={value}; known: label, color=a to d, \
                         style=solid or dashed, dir=forward or none"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn color(value: &str) -> Result<char, String> {
    match value.as_bytes() {
        [letter @ b'a'..=b'd'] => Ok(char::from(*letter)),
        _ => Err(format!("there is no color {value}; known: a, b, c, d")),
    }
}

/// The tokens of a text with their lines, read one statement at a time.
struct Reader {
    tokens: Vec<(Token, usize)>,
    at: usize,
}

impl Reader {
    fn new(source: &str) -> Result<Self, Fault> {
        let mut lexer = Lexer::from_string(source);
        let line_at =
            |position: usize| source.chars().take(position).filter(|&c| c == '\n').count();
        let mut tokens = Vec::new();
        loop {
            let token = lexer.next_token();
            // The lexer has read one character beyond the token.
            let line = line_at(lexer.pos.saturating_sub(1));
            match token {
                Token::Error(position) => {
                    let line = line_at(position.saturating_sub(1));
                    return Err((line, "a character that no graph has; quote it".to_owned()));
                }
                Token::EOF => {
                    tokens.push((Token::EOF, line));
                    return Ok(Reader { tokens, at: 0 });
                }
                token => tokens.push((token, line)),
            }
        }
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn fault<T>(&self, message: impl Into<String>) -> Result<T, Fault> {
        Err((self.tokens[self.at].1, message.into()))
    }

    fn located<T>(&self, result: Result<T, String>) -> Result<T, Fault> {
        let line = self.tokens[self.at.saturating_sub(1)].1;
        result.map_err(|message| (line, message))
    }

    fn graph(&mut self) -> Result<Graph, Fault> {
        if !matches!(self.next(), Token::DigraphKW) {
            return Err((0, "a diagram is written digraph { … }".to_owned()));
        }
        if matches!(self.peek(), Token::Identifier(_)) {
            self.next();
        }
        if !matches!(self.next(), Token::OpenBrace) {
            return Err((0, "a diagram is written digraph { … }".to_owned()));
        }
        let mut graph = Graph::default();
        let (mut node_defaults, mut edge_defaults) = (Attributes::new(), Attributes::new());
        loop {
            match self.peek().clone() {
                Token::CloseBrace => break,
                Token::Semicolon => {
                    self.next();
                }
                Token::NodeKW => {
                    self.next();
                    node_defaults.extend(self.attributes()?);
                }
                Token::EdgeKW => {
                    self.next();
                    edge_defaults.extend(self.attributes()?);
                }
                Token::Identifier(name) => {
                    self.next();
                    self.chain(&mut graph, name, &node_defaults, &edge_defaults)?;
                }
                Token::EOF => return self.fault("the graph is never closed"),
                Token::SubgraphKW | Token::GraphKW | Token::OpenBrace => {
                    return self.fault("diagrams have neither subgraphs nor graph attributes");
                }
                _ => return self.fault("here a node, an edge or } is expected"),
            }
        }
        self.next();
        if !matches!(self.peek(), Token::EOF) {
            return self.fault("the graph goes on behind its end");
        }
        Ok(graph)
    }

    /// `a`, `a [ … ]`, `a -> b -> c`, `a -> b [ … ]`
    fn chain(
        &mut self,
        graph: &mut Graph,
        first: String,
        node_defaults: &Attributes,
        edge_defaults: &Attributes,
    ) -> Result<(), Fault> {
        let mut from = self.located(graph.node(&first, node_defaults))?;
        let first_edge = graph.edges.len();
        while let Token::ArrowRight | Token::ArrowLine = self.peek() {
            let arrow = matches!(self.next(), Token::ArrowRight);
            let Token::Identifier(name) = self.peek().clone() else {
                return self.fault("an edge leads to a node");
            };
            self.next();
            let to = self.located(graph.node(&name, node_defaults))?;
            if graph.edges.iter().any(|e| (e.from, e.to) == (from, to)) {
                return self.fault(format!("there are two edges to {name} from the same node"));
            }
            let mut edge = Edge {
                from,
                to,
                label: String::new(),
                color: None,
                dashed: false,
                arrow,
            };
            self.located(edge.set(edge_defaults))?;
            graph.edges.push(edge);
            from = to;
        }
        match self.peek() {
            Token::Colon => return self.fault("nodes have no ports"),
            Token::Equal => return self.fault("a graph has no attributes of its own"),
            Token::OpenBracket => {}
            _ => return Ok(()),
        }
        let attributes = self.attributes()?;
        if graph.edges.len() == first_edge {
            let set = graph.nodes[from].set(&attributes);
            return self.located(set);
        }
        for edge in &mut graph.edges[first_edge..] {
            let set = edge.set(&attributes);
            self.located(set)?;
        }
        Ok(())
    }

    fn attributes(&mut self) -> Result<Attributes, Fault> {
        if !matches!(self.next(), Token::OpenBracket) {
            return self.fault("attributes are written [name=value]");
        }
        let mut attributes = Attributes::new();
        loop {
            match self.next() {
                Token::CloseBracket => return Ok(attributes),
                Token::Comma | Token::Semicolon => {}
                Token::Identifier(name) => {
                    let (Token::Equal, Token::Identifier(value)) = (self.next(), self.next())
                    else {
                        return self.fault("attributes are written [name=value]");
                    };
                    attributes.push((name, value));
                }
                _ => return self.fault("attributes are written [name=value]"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_edges_are_read() {
        let graph = Graph::parse(
            "digraph flow {\n node [color=b]\n a -> b -> \"c d\" [label=\"x\", style=dashed];\n \
             a [label=\"A\\nB\" shape=plain]\n a -- e [dir=none]\n}",
        )
        .unwrap();
        assert_eq!(graph.nodes.len(), 4);
        assert_eq!(graph.nodes[0].label, "A\nB");
        assert!(graph.nodes[0].plain && graph.nodes[0].color == Some('b'));
        assert!(graph.edges[..2].iter().all(|e| e.dashed && e.label == "x"));
        assert!(!graph.edges[2].arrow);
        assert_eq!(
            graph.describe(),
            "Flow chart: A B → b (x); b → c d (x); A B — e."
        );
    }

    #[test]
    fn every_fault_has_its_line() {
        let fault = |source: &str| Graph::parse(source).unwrap_err();
        assert_eq!(fault("graph { a -- b }").0, 0);
        assert_eq!(fault("digraph {\n a -> ü\n}").0, 1);
        assert_eq!(fault("digraph {\n a ->\n}").0, 2);
        assert_eq!(fault("digraph {\n\n a [hue=3]\n}").0, 2);
        assert_eq!(fault("digraph {\n a\n b [color=e]\n}").0, 2);
        assert_eq!(fault("digraph {\n a -> b\n").1, "the graph is never closed");
        assert_eq!(fault("digraph { }").1, "the graph is empty");
        assert!(
            fault("digraph {\n a -> b\n a -> b\n}")
                .1
                .contains("two edges")
        );
        assert!(fault("digraph { \"a }").1.contains("quote"));
        assert!(fault("").1.contains("digraph"));
    }
}

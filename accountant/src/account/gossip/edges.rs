//! EDGES.txt: one `u v` a line, `#` comments, undirected; a repeated edge counts once
//! (node/guide/formats.md).

use undertone_protocol::topology::graph::Graph;

/// The reasons why an edge list is refused. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EdgesError {
    /// Something that is not a node.
    #[error("edge list, line {line}: \"{found}\" is not a node: whole numbers from 0")]
    Word {
        /// The line at fault.
        line: usize,
        /// The text in place of a node, cut short.
        found: String,
    },
    /// A line with one number, or with three.
    #[error("edge list, line {line}: found {found} entries, expected two nodes \"u v\"")]
    Entries {
        /// The line at fault.
        line: usize,
        /// How many entries the line has.
        found: usize,
    },
    /// An edge from a node to itself.
    #[error("edge list, line {line}: node {node} is joined to itself; self-loops come with the weights")]
    SelfLoop {
        /// The line at fault.
        line: usize,
        /// The node that is joined to itself.
        node: usize,
    },
    /// A node beyond those that there may be.
    #[error("edge list, line {line}: node {node} is beyond the {nodes} that there {}", if *given { "are" } else { "may be" })]
    Beyond {
        /// The line at fault.
        line: usize,
        /// The node that there is not.
        node: usize,
        /// How many nodes there may be.
        nodes: usize,
        /// Whether their number was given, or is the most that this question takes.
        given: bool,
    },
    /// No edge at all.
    #[error("edge list: there is no edge in it")]
    Empty,
    /// A node between 0 and the largest that has no edge.
    #[error(
        "edge list: node {node} has no edge, so the graph is not connected: nodes count from 0 to {largest} (line {line})"
    )]
    Isolated {
        /// The first node without an edge.
        node: usize,
        /// The largest node of the list.
        largest: usize,
        /// The line in which the largest node stands first.
        line: usize,
    },
    /// Two parts without an edge between them.
    #[error("edge list, line {line}: the graph is not connected: node {node} cannot be reached from node 0")]
    Disconnected {
        /// The line in which that node stands first.
        line: usize,
        /// The smallest node that cannot be reached from node 0.
        node: usize,
    },
}

/// Reads a connected graph from an edge list.
pub fn connected(text: &str) -> Result<Graph, EdgesError> {
    let listed = read(text)?;
    let mut lines: Vec<(usize, usize)> = listed
        .iter()
        .flat_map(|&(line, u, v)| [(u, line), (v, line)])
        .collect();
    lines.sort_unstable();
    lines.dedup_by_key(|&mut (node, _)| node);
    let &(largest, line) = lines.last().ok_or(EdgesError::Empty)?;
    // Every node is there, so the largest is no larger than the file.
    if let Some((node, _)) = lines
        .iter()
        .enumerate()
        .find(|&(expected, &(node, _))| node != expected)
    {
        return Err(EdgesError::Isolated { node, largest, line });
    }
    let graph = joined(lines.len(), &listed);
    match graph.unreached() {
        Some(node) => Err(EdgesError::Disconnected {
            line: lines[node].1,
            node,
        }),
        None => Ok(graph),
    }
}

/// Reads a graph from an edge list, in one piece or several: of `nodes` nodes, or, if that is not
/// given, of as many as the largest of the list says, at most `most`.
pub fn any(text: &str, nodes: Option<usize>, most: usize) -> Result<Graph, EdgesError> {
    let listed = read(text)?;
    let bound = nodes.unwrap_or(most);
    let mut count = nodes.unwrap_or(0);
    for &(line, u, v) in &listed {
        let node = u.max(v);
        if node >= bound {
            return Err(EdgesError::Beyond {
                line,
                node,
                nodes: bound,
                given: nodes.is_some(),
            });
        }
        count = count.max(node + 1);
    }
    if count == 0 {
        return Err(EdgesError::Empty);
    }
    Ok(joined(count, &listed))
}

/// The graph of the lines read, whose ends are below `nodes`.
fn joined(nodes: usize, listed: &[(usize, usize, usize)]) -> Graph {
    let mut edges: Vec<(usize, usize)> = listed.iter().map(|&(_, u, v)| (u.min(v), u.max(v))).collect();
    edges.sort_unstable();
    edges.dedup();
    Graph::from_edges(nodes, &edges).expect("ends are nodes, no loops, no repetitions")
}

/// (line, u, v) of every line that is not empty.
fn read(text: &str) -> Result<Vec<(usize, usize, usize)>, EdgesError> {
    let mut edges = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.split('#').next().unwrap_or_default();
        let mut nodes = Vec::with_capacity(2);
        for entry in content.split_whitespace() {
            let node: usize = entry.parse().map_err(|_| EdgesError::Word {
                line,
                found: entry.chars().take(40).collect(),
            })?;
            nodes.push(node);
        }
        match nodes[..] {
            [] => {}
            [u, v] if u == v => return Err(EdgesError::SelfLoop { line, node: u }),
            [u, v] => edges.push((line, u, v)),
            _ => {
                return Err(EdgesError::Entries {
                    line,
                    found: nodes.len(),
                });
            }
        }
    }
    Ok(edges)
}

//! How many parameters functions take.

use crate::house::tokens::{Token, closing, lex};

/// No function takes more, `self` apart.
pub const MOST_PARAMETERS: usize = 5;

/// Functions with too many parameters: line, name, how many.
pub fn crowded(source: &str) -> Vec<(usize, String, usize)> {
    let tokens = lex(source).tokens;
    let functions = (0..tokens.len()).filter(|&at| tokens[at].text == "fn");
    let counted = functions.filter_map(|at| {
        let name = tokens.get(at + 1).filter(|token| token.is_word())?;
        let open = parenthesis(&tokens, at + 2)?;
        let count = parameters(&tokens[open + 1..closing(&tokens, open)]);
        Some((name.line, name.text.clone(), count))
    });
    counted.filter(|(_, _, count)| *count > MOST_PARAMETERS).collect()
}

/// Where the list begins, behind generics if there are any.
fn parenthesis(tokens: &[Token], from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.text.as_str() {
            "<" => depth += 1,
            ">" if tokens[at - 1].text != "-" => depth -= 1,
            "(" if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

/// Counts the parameters between commas, without `self`.
fn parameters(list: &[Token]) -> usize {
    let (mut depth, mut count, mut empty, mut own) = (0usize, 0, true, false);
    for (at, token) in list.iter().enumerate() {
        match token.text.as_str() {
            "(" | "[" | "{" | "<" => depth += 1,
            ">" if at > 0 && list[at - 1].text == "-" => {}
            ")" | "]" | "}" | ">" => depth -= 1,
            "," if depth == 0 => {
                count += usize::from(!empty);
                empty = true;
                continue;
            }
            "self" if depth == 0 => own = true,
            _ => {}
        }
        empty = false;
    }
    count + usize::from(!empty) - usize::from(own)
}

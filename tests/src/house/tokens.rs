//! Rust source as tokens, without comments and strings.

/// A word, a number or one character of punctuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The token as it stands; `"` for any string or character.
    pub text: String,
    /// The line where it stands, from 1.
    pub line: usize,
}

impl Token {
    /// Whether it is a name or a keyword.
    pub fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// A comment, from its first character to its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// The comment with its slashes.
    pub text: String,
    /// The line where it begins, from 1.
    pub line: usize,
}

/// A string literal, on one line or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Literal {
    /// The line where it begins, from 1.
    pub line: usize,
    /// The line where it ends, from 1.
    pub last_line: usize,
    /// Characters, with its quotes.
    pub length: usize,
}

/// A source text taken apart.
#[derive(Clone, Debug, Default)]
pub struct Lexed {
    /// The tokens that the compiler sees.
    pub tokens: Vec<Token>,
    /// The comments, which only people see, documentation included.
    pub comments: Vec<Comment>,
    /// The strings, with where they stand.
    pub literals: Vec<Literal>,
}

/// Takes a source text apart.
pub fn lex(source: &str) -> Lexed {
    let mut lexer = Lexer {
        chars: source.chars().collect(),
        at: 0,
        line: 1,
        lexed: Lexed::default(),
    };
    while lexer.at < lexer.chars.len() {
        lexer.step();
    }
    lexer.lexed
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    lexed: Lexed,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn next(&mut self) -> char {
        let c = self.peek(0);
        self.at += 1;
        self.line += usize::from(c == '\n');
        c
    }

    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.line_comment(),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(0),
            ('\'', _) => self.quote(),
            (c, _) if c.is_whitespace() => {
                self.next();
            }
            (c, _) if c.is_alphanumeric() || c == '_' => self.word(),
            _ => {
                let c = self.next();
                self.push(c.to_string(), self.line);
            }
        }
    }

    fn push(&mut self, text: String, line: usize) {
        self.lexed.tokens.push(Token { text, line });
    }

    fn line_comment(&mut self) {
        let (start, line) = (self.at, self.line);
        while self.at < self.chars.len() && self.peek(0) != '\n' {
            self.at += 1;
        }
        let text = self.chars[start..self.at].iter().collect();
        self.lexed.comments.push(Comment { text, line });
    }

    fn block_comment(&mut self) {
        let (start, line) = (self.at, self.line);
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.next();
                    if self.at >= self.chars.len() {
                        break;
                    }
                    continue;
                }
            }
            self.at += 2;
            if depth == 0 {
                break;
            }
        }
        let end = self.at.min(self.chars.len());
        let text = self.chars[start..end].iter().collect();
        self.lexed.comments.push(Comment { text, line });
    }

    /// A word; or, if it is the prefix of a string, that string.
    fn word(&mut self) {
        let start = self.at;
        while self.peek(0).is_alphanumeric() || self.peek(0) == '_' {
            self.at += 1;
        }
        let text: String = self.chars[start..self.at].iter().collect();
        let hashes = self.chars[self.at..].iter().take_while(|c| **c == '#').count();
        let raw = matches!(text.as_str(), "r" | "br" | "cr");
        if raw && self.peek(hashes) == '"' {
            self.at += hashes;
            return self.raw_string(hashes);
        }
        match (text.as_str(), self.peek(0)) {
            ("b" | "c", '"') => self.string(1),
            ("b", '\'') => self.quote(),
            _ => self.push(text, self.line),
        }
    }

    fn raw_string(&mut self, hashes: usize) {
        let (start, line) = (self.at, self.line);
        self.next();
        while self.at < self.chars.len() {
            if self.next() == '"' && (0..hashes).all(|i| self.peek(i) == '#') {
                self.at += hashes;
                break;
            }
        }
        self.literal(start, line);
    }

    fn string(&mut self, prefix: usize) {
        let (start, line) = (self.at - prefix, self.line);
        self.next();
        while self.at < self.chars.len() {
            match self.next() {
                '\\' => {
                    self.next();
                }
                '"' => break,
                _ => {}
            }
        }
        self.literal(start, line);
    }

    fn literal(&mut self, start: usize, line: usize) {
        self.push("\"".into(), line);
        self.lexed.literals.push(Literal {
            line,
            last_line: self.line,
            length: self.at - start,
        });
    }

    /// A character, or a lifetime, which says nothing here.
    fn quote(&mut self) {
        if self.peek(1) == '\\' {
            self.at += 3;
            while self.at < self.chars.len() && self.next() != '\'' {}
        } else if self.peek(2) == '\'' {
            self.at += 3;
        } else {
            self.at += 1;
            while self.peek(0).is_alphanumeric() || self.peek(0) == '_' {
                self.at += 1;
            }
            return;
        }
        self.push("\"".into(), self.line);
    }
}

/// The tokens without items that only tests see, and the names of modules among those.
pub fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>) {
    let (mut kept, mut modules) = (vec![], vec![]);
    let mut at = 0;
    while at < tokens.len() {
        let end = attribute_end(tokens, at);
        let Some(end) = end.filter(|&end| is_test(&tokens[at..end])) else {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        };
        if tokens[at + 1].text == "!" {
            // The whole file is for tests.
            return (vec![], modules);
        }
        let (after, name) = item_end(tokens, end);
        modules.extend(name);
        at = after;
    }
    (kept, modules)
}

/// Behind the `]` of an attribute that begins here.
fn attribute_end(tokens: &[Token], at: usize) -> Option<usize> {
    let text = |i: usize| tokens.get(i).map_or("", |token| token.text.as_str());
    let open = if text(at + 1) == "!" { at + 2 } else { at + 1 };
    (text(at) == "#" && text(open) == "[").then(|| closing(tokens, open) + 1)
}

/// `cfg(test)` and the like; not `cfg(not(test))`.
fn is_test(attribute: &[Token]) -> bool {
    let has = |word: &str| attribute.iter().any(|token| token.text == word);
    has("cfg") && has("test") && !has("not")
}

/// Where the bracket that opens here is closed.
pub fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len().saturating_sub(1)
}

/// Behind the item that begins here with any more attributes; its name if it is a module.
fn item_end(tokens: &[Token], mut at: usize) -> (usize, Option<String>) {
    while let Some(end) = attribute_end(tokens, at) {
        at = end;
    }
    let mut name = None;
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "mod" => name = tokens.get(at + 1).map(|token| token.text.clone()),
            ";" => return (at + 1, name),
            "{" => return (closing(tokens, at) + 1, name),
            "(" | "[" => at = closing(tokens, at),
            _ => {}
        }
        at += 1;
    }
    (at, name)
}

//! The imports within a crate, read from its sources.

use std::collections::{BTreeMap, BTreeSet};

use crate::house::tokens::{Token, closing, lex, without_tests};

/// A file of a crate without what only its tests see.
#[derive(Debug, Default)]
pub struct File {
    /// Names of the types and traits that it defines.
    pub types: BTreeSet<String>,
    /// Whether it defines anything, beside declaring and re-exporting.
    pub defines: bool,
    /// Names that follow `impl`: whose methods it may hold.
    pub implements: BTreeSet<String>,
    /// The files that it imports, with the first line that does.
    pub imports: BTreeMap<String, usize>,
}

/// A crate's files with their arrows, by path relative to `src`. Test files are left out.
#[derive(Debug)]
pub struct Arrows(pub BTreeMap<String, File>);

/// A module's path from the crate's root.
type Module = Vec<String>;

fn module_of(path: &str) -> Module {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    if stem == "lib" {
        return vec![];
    }
    stem.split('/').map(String::from).collect()
}

impl Arrows {
    /// Reads a crate's sources.
    pub fn of(sources: &BTreeMap<String, String>) -> Self {
        let mut kept: BTreeMap<Module, (&str, Vec<Token>)> = BTreeMap::new();
        let mut tests: Vec<Module> = vec![];
        for (path, source) in sources.iter().filter(|(path, _)| *path != "main.rs") {
            let module = module_of(path);
            let (tokens, names) = without_tests(&lex(source).tokens);
            tests.extend(
                names
                    .into_iter()
                    .map(|name| [module.clone(), vec![name]].concat()),
            );
            kept.insert(module, (path, tokens));
        }
        kept.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        let modules: BTreeMap<Module, &str> = kept
            .iter()
            .map(|(module, (path, _))| (module.clone(), *path))
            .collect();
        let file = |(module, (path, tokens)): (&Module, &(&str, Vec<Token>))| {
            ((*path).to_owned(), Reader::read(module, tokens, &modules))
        };
        Arrows(kept.iter().map(file).collect())
    }
}

struct Reader<'a> {
    module: &'a Module,
    modules: &'a BTreeMap<Module, &'a str>,
    /// Modules that `use` has given a name here.
    names: BTreeMap<String, Module>,
    file: File,
}

impl<'a> Reader<'a> {
    fn read(module: &'a Module, tokens: &[Token], modules: &'a BTreeMap<Module, &'a str>) -> File {
        let mut reader = Reader {
            module,
            modules,
            names: BTreeMap::new(),
            file: File::default(),
        };
        let rest = reader.uses(tokens);
        reader.paths(&rest);
        reader.definitions(&rest);
        let own = modules.get(module).copied().unwrap_or_default();
        reader.file.imports.remove(own);
        reader.file
    }

    /// Reads the `use` lines, wherever they stand; gives what is left.
    fn uses(&mut self, tokens: &[Token]) -> Vec<Token> {
        let (mut rest, mut at) = (vec![], 0);
        while at < tokens.len() {
            if tokens[at].text != "use" {
                rest.push(tokens[at].clone());
                at += 1;
                continue;
            }
            let tree: Vec<Token> = tokens[at + 1..]
                .iter()
                .take_while(|token| token.text != ";")
                .cloned()
                .collect();
            at += tree.len() + 2;
            // `use<'a>` in a bound imports nothing.
            if tree.first().is_some_and(Token::is_word) {
                self.tree(&[], &tree);
            }
        }
        rest
    }

    /// Follows a `use` tree whose path so far is `prefix`.
    fn tree(&mut self, prefix: &[String], tree: &[Token]) {
        let mut path = prefix.to_vec();
        let mut at = 0;
        while at < tree.len() {
            match tree[at].text.as_str() {
                ":" => {}
                "{" => {
                    let inner = &tree[at + 1..closing(tree, at)];
                    branches(inner).iter().for_each(|branch| self.tree(&path, branch));
                    return;
                }
                "as" => {
                    let alias = tree.get(at + 1).map(|token| token.text.clone());
                    return self.import(&path, alias, tree[0].line);
                }
                "*" => break,
                "self" if !path.is_empty() => break,
                word => path.push(word.to_owned()),
            }
            at += 1;
        }
        if let Some(token) = tree.first() {
            let alias = path.last().cloned();
            self.import(&path, alias, token.line);
        }
    }

    fn import(&mut self, path: &[String], alias: Option<String>, line: usize) {
        let Some((module, whole)) = self.resolve(path) else {
            return;
        };
        self.arrow(&module, line);
        if let Some(alias) = alias.filter(|_| whole) {
            self.names.insert(alias, module);
        }
    }

    fn arrow(&mut self, module: &Module, line: usize) {
        if let Some(path) = self.modules.get(module) {
            self.file.imports.entry((*path).to_owned()).or_insert(line);
        }
    }

    /// The module that a path leads to or into; whether it names the module itself. None for other
    /// crates.
    fn resolve(&self, path: &[String]) -> Option<(Module, bool)> {
        let (first, mut rest) = path.split_first()?;
        let mut module = match first.as_str() {
            "crate" => vec![],
            "self" => self.module.clone(),
            "super" => self.module[..self.module.len().checked_sub(1)?].to_vec(),
            name => {
                let child = [self.module.as_slice(), &[name.to_owned()]].concat();
                if self.modules.contains_key(&child) {
                    child
                } else {
                    self.names.get(name)?.clone()
                }
            }
        };
        while let Some((next, after)) = rest.split_first() {
            if next == "super" {
                module.pop()?;
            } else {
                module.push(next.clone());
                if !self.modules.contains_key(&module) {
                    module.pop();
                    return Some((module, false));
                }
            }
            rest = after;
        }
        Some((module, true))
    }

    /// Reads the paths in bodies.
    fn paths(&mut self, tokens: &[Token]) {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
        let separated = |at: usize| text(at) == ":" && text(at + 1) == ":";
        let mut at = 0;
        while at < tokens.len() {
            let begins = tokens[at].is_word() && separated(at + 1);
            let continues = at >= 2 && separated(at - 2) || at >= 1 && text(at - 1) == ".";
            if !begins || continues {
                at += 1;
                continue;
            }
            let line = tokens[at].line;
            let mut path = vec![tokens[at].text.clone()];
            at += 1;
            while separated(at) && tokens.get(at + 2).is_some_and(Token::is_word) {
                path.push(tokens[at + 2].text.clone());
                at += 3;
            }
            if let Some((module, _)) = self.resolve(&path) {
                self.arrow(&module, line);
            }
        }
    }

    fn definitions(&mut self, tokens: &[Token]) {
        const ITEMS: [&str; 10] = [
            "fn",
            "struct",
            "enum",
            "trait",
            "const",
            "static",
            "type",
            "impl",
            "union",
            "macro_rules",
        ];
        let mut at = 0;
        while at < tokens.len() {
            let word = tokens[at].text.as_str();
            self.file.defines |= ITEMS.contains(&word);
            if matches!(word, "struct" | "enum" | "trait" | "type" | "union") {
                self.file
                    .types
                    .extend(tokens.get(at + 1).map(|token| token.text.clone()));
            }
            if word == "impl" {
                let head = tokens[at + 1..].iter().take_while(|token| token.text != "{");
                let words = head
                    .filter(|token| token.is_word())
                    .map(|token| token.text.clone());
                self.file.implements.extend(words);
            }
            // Bodies define nothing for others.
            at = if word == "{" { closing(tokens, at) } else { at } + 1;
        }
    }
}

/// Splits the tokens of a group at its commas.
fn branches(tokens: &[Token]) -> Vec<Vec<Token>> {
    let (mut branches, mut branch, mut depth) = (vec![], vec![], 0usize);
    for token in tokens {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => {
                branches.push(std::mem::take(&mut branch));
                continue;
            }
            _ => {}
        }
        branch.push(token.clone());
    }
    branches.push(branch);
    branches.retain(|branch| !branch.is_empty());
    branches
}

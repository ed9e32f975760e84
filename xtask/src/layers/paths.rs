//! Finding paths in a source file by its tokens.
//!
//! Tokens instead of a syntax tree: paths inside macro calls and macro definitions, which a tree keeps as tokens, are found like
//! all others, and comments and strings cannot be mistaken for paths.

use std::path::Path;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Where a path starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// At the root of the crate: `crate`, `super` or `self`, resolved.
    Crate,
    /// At the root of the crate, from wherever a macro of it is expanded: `$crate`.
    MacroCrate,
    /// In the module that a `use` without a keyword stands in, if that has a child of this name; else in another crate.
    Child,
    /// In `core` or `std`.
    Standard,
}

/// A path, with everything before its first segment resolved.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) line: usize,
    pub(super) start: Start,
    /// The names after the start; ends early at a glob.
    pub(super) segments: Vec<String>,
    /// As written, with the braces taken apart.
    pub(super) text: String,
    /// The module that it is written in.
    pub(super) module: Vec<String>,
    /// The name that a `use` gives it there.
    pub(super) name: Option<String>,
    /// Compiled for tests only.
    pub(super) test: bool,
    glob: bool,
}

impl Found {
    /// Whether a path into `core` or `std` reaches the atomics.
    pub(super) fn names_atomics(&self) -> bool {
        let mut segments = self.segments.iter().map(String::as_str);
        match (segments.next(), segments.next()) {
            (Some("sync"), Some("atomic")) => true,
            (Some("sync"), None) => self.glob,
            (None, _) => self.glob,
            _ => false,
        }
    }
}

/// A source file, as far as the rules care.
#[derive(Debug)]
pub(super) struct Source {
    /// The module that the file is.
    pub(super) path: Vec<String>,
    /// The module that is being read: `path`, then those written out around the current token.
    modules: Vec<String>,
    /// Whether what is being read is compiled for tests only.
    test: bool,
    /// Whether what is being read stands in a `use`.
    importing: bool,
    /// Modules in files of their own that are compiled for tests only.
    pub(super) test_modules: Vec<String>,
    pub(super) found: Vec<Found>,
    /// Names of exported macros.
    pub(super) macros: Vec<String>,
    /// Names of modules that are written out in this file.
    pub(super) inline_modules: Vec<String>,
}

impl Source {
    /// Reads the file at the path `inside` the folder `src`.
    pub(super) fn parse(inside: &Path, text: &str) -> Result<Self> {
        let tokens: TokenStream = text.parse().map_err(|error| anyhow!("not Rust: {error}"))?;
        let mut source = Self {
            path: modules_of(inside),
            modules: modules_of(inside),
            test: false,
            importing: false,
            test_modules: Vec::new(),
            found: Vec::new(),
            macros: Vec::new(),
            inline_modules: Vec::new(),
        };
        source.read(&tokens.into_iter().collect::<Vec<_>>());
        Ok(source)
    }

    /// The module of the crate's root that the file belongs to; `None` for the root itself.
    pub(super) fn module(&self) -> Option<&str> {
        self.path.first().map(String::as_str)
    }

    fn read(&mut self, tokens: &[TokenTree]) {
        let mut place = 0;
        let mut exported = false;
        let around = self.test;
        while place < tokens.len() {
            match &tokens[place] {
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    // `#[macro_export]`, perhaps with other attributes around it, precedes its macro.
                    exported |= group.delimiter() == Delimiter::Bracket
                        && is_word(inner.first(), "macro_export");
                    self.test |= is_test_only(tokens, place, &inner);
                    if let Some(name) = inline_module(tokens, place) {
                        self.inline_modules.push(name.clone());
                        self.modules.push(name);
                        self.read(&inner);
                        self.modules.pop();
                    } else {
                        self.read(&inner);
                    }
                    // The item that an attribute belongs to ends with its body.
                    if group.delimiter() == Delimiter::Brace {
                        self.test = around;
                    }
                    place += 1;
                }
                TokenTree::Ident(word) if word == "macro_rules" => {
                    // macro_rules ! name { … }
                    if let Some(TokenTree::Ident(name)) = tokens.get(place + 2)
                        && std::mem::take(&mut exported)
                    {
                        self.macros.push(name.to_string());
                    }
                    place += 1;
                }
                TokenTree::Ident(word) if word == "mod" => {
                    if let (true, Some(TokenTree::Ident(name)), Some(end)) =
                        (self.test, tokens.get(place + 1), tokens.get(place + 2))
                        && is_mark(end, ';')
                    {
                        self.test_modules.push(name.to_string());
                    }
                    place += 1;
                }
                TokenTree::Ident(_) if !continues_a_path(tokens, place) => {
                    self.importing = begins_an_import(tokens, place);
                    place = self.read_path(tokens, place);
                    self.importing = false;
                }
                // … or with a semicolon.
                mark if is_mark(mark, ';') => {
                    self.test = around;
                    place += 1;
                }
                _ => place += 1,
            }
        }
        self.test = around;
    }

    /// Reads the path that may start at `place`, and returns the place behind what it has consumed.
    fn read_path(&mut self, tokens: &[TokenTree], place: usize) -> usize {
        let mut at = place;
        let start = match tokens[at].to_string().as_str() {
            "crate" if place > 0 && is_mark(&tokens[place - 1], '$') => Start::MacroCrate,
            "crate" => Start::Crate,
            "core" | "std" => Start::Standard,
            "super" | "self" => {
                if !is_separator(tokens, at + 1) {
                    // `self` the value, or `pub(super)`.
                    return at + 1;
                }
                let mut module = self.modules.as_slice();
                loop {
                    match tokens.get(at) {
                        Some(TokenTree::Ident(word)) if word == "super" => {
                            module = module.split_last().map_or(module, |(_, outer)| outer);
                        }
                        Some(TokenTree::Ident(word)) if word == "self" => {}
                        _ => break,
                    }
                    if !is_separator(tokens, at + 1) {
                        at += 1;
                        break;
                    }
                    at += 3;
                }
                // `at` is now at the first name after the chain.
                let prefix: String = tokens[place..at].iter().map(ToString::to_string).collect();
                let module = module.to_vec();
                return self.read_tree(
                    tokens,
                    at,
                    Start::Crate,
                    &module,
                    prefix.trim_end_matches("::"),
                );
            }
            name if self.importing => {
                let name = name.to_owned();
                let mut segments = self.modules.clone();
                segments.push(name.clone());
                if is_separator(tokens, at + 1) {
                    return self.read_tree(tokens, at + 3, Start::Child, &segments, &name);
                }
                return at + 1;
            }
            _ => return place + 1,
        };
        let word = tokens[at].to_string();
        at += 1;
        if is_separator(tokens, at) {
            return self.read_tree(tokens, at + 2, start, &[], &word);
        }
        // `use crate as …` takes everything; any other lone word (`crate` in `pub(crate)`, a variable `core`) is not a path.
        if is_word(tokens.get(at), "as") && place > 0 && is_word(tokens.get(place - 1), "use") {
            self.push(&tokens[place], start, &[], &word, None, true);
        }
        at
    }

    /// Reads the rest of a path, which in a `use` may branch: `a::{b, c::d}`.
    fn read_tree(
        &mut self,
        tokens: &[TokenTree],
        place: usize,
        start: Start,
        before: &[String],
        prefix: &str,
    ) -> usize {
        match tokens.get(place) {
            Some(TokenTree::Ident(word)) => {
                let mut segments = before.to_vec();
                // `{self}` means what stands before the braces.
                if word != "self" {
                    segments.push(word.to_string());
                }
                let text = format!("{prefix}::{word}");
                if is_separator(tokens, place + 1) {
                    return self.read_tree(tokens, place + 3, start, &segments, &text);
                }
                // `use a::b`, `use a::b as c`, `use a::{self}`.
                let name = match (tokens.get(place + 1), tokens.get(place + 2)) {
                    (Some(word), Some(TokenTree::Ident(name))) if is_word(Some(word), "as") => {
                        Some(name.to_string())
                    }
                    _ => segments.last().cloned(),
                };
                self.push(&tokens[place], start, &segments, &text, name, false);
                place + 1
            }
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let mut at = 0;
                while at < inner.len() {
                    at = self.read_tree(&inner, at, start, before, prefix);
                    // To behind the comma: past an `as name`.
                    while at < inner.len() && !is_mark(&inner[at], ',') {
                        at += 1;
                    }
                    at += 1;
                }
                place + 1
            }
            Some(mark) if is_mark(mark, '*') => {
                self.push(mark, start, before, &format!("{prefix}::*"), None, true);
                place + 1
            }
            // `::<` of a generic call, or the end of a macro's pattern.
            _ => {
                if let (Some(last), false) =
                    (tokens.get(place.saturating_sub(1)), before.is_empty())
                {
                    self.push(last, start, before, prefix, None, false);
                }
                place
            }
        }
    }

    fn push(
        &mut self,
        at: &TokenTree,
        start: Start,
        segments: &[String],
        text: &str,
        name: Option<String>,
        glob: bool,
    ) {
        let line = at.span().start().line;
        self.found.push(Found {
            line,
            start,
            segments: segments.to_vec(),
            text: text.to_owned(),
            module: self.modules.clone(),
            name: name.filter(|_| self.importing),
            test: self.test,
            glob,
        });
    }
}

/// The module that a file's path inside its crate's folder stands for.
fn modules_of(inside: &Path) -> Vec<String> {
    let mut modules: Vec<String> = inside
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    if modules.last().is_some_and(|last| last == "mod") || modules == ["lib"] || modules == ["main"]
    {
        modules.pop();
    }
    modules
}

/// The name of the module whose body is the group at `place`: `mod name { … }`.
fn inline_module(tokens: &[TokenTree], place: usize) -> Option<String> {
    let [.., keyword, TokenTree::Ident(name), TokenTree::Group(body)] = &tokens[..=place] else {
        return None;
    };
    (is_word(Some(keyword), "mod") && body.delimiter() == Delimiter::Brace)
        .then(|| name.to_string())
}

/// Whether the word at `place` is the first of a `use`.
fn begins_an_import(tokens: &[TokenTree], place: usize) -> bool {
    let before = if place >= 2 && is_separator(tokens, place - 2) {
        place - 2
    } else {
        place
    };
    before > 0 && is_word(tokens.get(before - 1), "use")
}

/// Whether the brackets at `place`, with that in them, are an attribute `cfg` that asks for tests.
fn is_test_only(tokens: &[TokenTree], place: usize, inner: &[TokenTree]) -> bool {
    let attribute = place > 0 && is_mark(&tokens[place - 1], '#');
    let [word, TokenTree::Group(condition)] = inner else {
        return false;
    };
    attribute && is_word(Some(word), "cfg") && asks_for_tests(condition.stream())
}

/// Whether a condition names `test`, and not what it is `not`.
fn asks_for_tests(condition: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = condition.into_iter().collect();
    tokens.iter().enumerate().any(|(place, token)| match token {
        TokenTree::Ident(word) => word == "test",
        TokenTree::Group(group) => {
            let negated = place > 0 && is_word(tokens.get(place - 1), "not");
            !negated && asks_for_tests(group.stream())
        }
        _ => false,
    })
}

/// Whether the word at `place` follows `name::`: then it is not where a path starts. (`use ::std` starts one.)
fn continues_a_path(tokens: &[TokenTree], place: usize) -> bool {
    place >= 3
        && is_separator(tokens, place - 2)
        && match &tokens[place - 3] {
            TokenTree::Ident(word) => ![
                "use", "return", "in", "as", "else", "match", "if", "mut", "dyn", "impl",
            ]
            .iter()
            .any(|keyword| word == keyword),
            // `<T as Trait>::name`
            before => is_mark(before, '>'),
        }
}

fn is_separator(tokens: &[TokenTree], place: usize) -> bool {
    matches!((tokens.get(place), tokens.get(place + 1)), (Some(first), Some(second)) if is_mark(first, ':') && is_mark(second, ':'))
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == mark)
}

fn is_word(token: Option<&TokenTree>, expected: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(found)) if found == expected)
}

//! Which lines of a source file are code.
//!
//! A line is code if a token that is not part of a comment, of documentation or of a test lies on it. So blank lines do
//! not count, and a brace alone on its line does.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};

/// The lines of code, in order, without their indentation and the comments behind them: no blank lines, comments or
/// documentation, and nothing that only tests have.
pub(super) fn lines(text: &str) -> Result<Vec<String>> {
    let tokens: TokenStream = text.parse().map_err(|error| anyhow!("not Rust: {error}"))?;
    let mut ends = BTreeMap::new();
    collect(tokens, &mut ends);
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(&end) = ends.get(&number) {
            let code: String = line.chars().take(end).collect();
            lines.push(code.trim().to_owned());
        }
    }
    Ok(lines)
}

/// How many lines of `new` are not in `old`, when as many as can be are left where they are (a longest common
/// subsequence).
pub(super) fn changed(old: &[String], new: &[String]) -> usize {
    // How many lines can stay, of those of `new` so far and each beginning of `old`.
    let mut stay = vec![0; old.len() + 1];
    for line in new {
        let mut diagonal = 0;
        for (at, other) in old.iter().enumerate() {
            let above = stay[at + 1];
            stay[at + 1] = if line == other {
                diagonal + 1
            } else {
                above.max(stay[at])
            };
            diagonal = above;
        }
    }
    new.len() - stay[old.len()]
}

/// Where the code ends on each line that has any.
type Ends = BTreeMap<usize, usize>;

fn collect(tokens: TokenStream, ends: &mut Ends) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if let Some((attribute, behind)) = attribute(&tokens, at) {
            if is_documentation(attribute) {
                at = behind;
                continue;
            }
            if is_for_tests(attribute) {
                at = behind_item(&tokens, behind);
                continue;
            }
        }
        match token {
            TokenTree::Group(group) => {
                add(group.span_open(), ends);
                collect(group.stream(), ends);
                add(group.span_close(), ends);
            }
            token => add(token.span(), ends),
        }
        at += 1;
    }
}

fn add(span: Span, ends: &mut Ends) {
    let (start, last) = (span.start(), span.end());
    // A string can go over several lines, all of it code.
    for line in start.line..last.line {
        ends.insert(line, usize::MAX);
    }
    let end = ends.entry(last.line).or_default();
    *end = last.column.max(*end);
}

/// The brackets of the attribute that begins here, if one does, and where it ends.
fn attribute(tokens: &[TokenTree], at: usize) -> Option<(&Group, usize)> {
    let is = |at: usize, wanted: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == wanted);
    if !is(at, '#') {
        return None;
    }
    let brackets = if is(at + 1, '!') { at + 2 } else { at + 1 };
    match tokens.get(brackets) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
            Some((group, brackets + 1))
        }
        _ => None,
    }
}

/// Comments for documentation come as attributes too.
fn is_documentation(attribute: &Group) -> bool {
    attribute
        .stream()
        .into_iter()
        .next()
        .is_some_and(|first| first.to_string() == "doc")
}

/// Exactly `cfg(test)`.
fn is_for_tests(attribute: &Group) -> bool {
    let mut tokens = attribute.stream().into_iter();
    let cfg = tokens
        .next()
        .is_some_and(|first| first.to_string() == "cfg");
    cfg && matches!(
        tokens.next(),
        Some(TokenTree::Group(group)) if group.stream().to_string() == "test"
    )
}

/// Where the item that begins here ends: behind its first braces, or its semicolon.
fn behind_item(tokens: &[TokenTree], mut at: usize) -> usize {
    while let Some((_, behind)) = attribute(tokens, at) {
        at = behind;
    }
    // These have braces that are not their end.
    let to_semicolon = tokens[at..]
        .iter()
        .find_map(|token| match token {
            TokenTree::Ident(word) if word == "pub" => None,
            TokenTree::Ident(word) => Some(
                ["use", "const", "static", "type", "let"]
                    .iter()
                    .any(|w| word == w),
            ),
            _ => None,
        })
        .unwrap_or(false);
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ';' => return index + 1,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && !to_semicolon => {
                return index + 1;
            }
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::{changed, lines};

    fn count(text: &str) -> usize {
        lines(text).expect("it is Rust").len()
    }

    #[test]
    fn changes_are_what_is_not_where_it_was() {
        let old = lines("fn f() {\n    a();\n    b();\n}\n").expect("it is Rust");
        assert_eq!(old, ["fn f() {", "a();", "b();", "}"]);
        assert_eq!(changed(&old, &old), 0);
        // Neither indentation nor comments are changes; a line that has gone is none either.
        let new = lines("fn f() {\n  b(); // so\n}\n").expect("it is Rust");
        assert_eq!(changed(&old, &new), 0);
        let new = lines("fn f() {\n    b();\n    a();\n    c();\n}\n").expect("it is Rust");
        assert_eq!(changed(&old, &new), 2);
        assert_eq!(changed(&[], &new), 5);
    }

    #[test]
    fn code_counts_and_nothing_else_does() {
        assert_eq!(count(""), 0);
        assert_eq!(count("\n\n// a comment\n/* another\n one */\n"), 0);
        assert_eq!(
            count(
                "//! What it is.\n\n/// What this is.\nfn f() {\n    // why\n\n    g(); // so\n}\n"
            ),
            3
        );
        assert_eq!(count("#![doc = \"text\"]\n#[inline]\nfn f() {}\n"), 2);
        assert_eq!(count("fn f() { g(); h() }"), 1);
        assert_eq!(count("const TEXT: &str = \"one\n// two\nthree\";\n"), 3);
        assert_eq!(
            count(
                "macro_rules! m {\n    () => {\n        /// Documentation.\n        fn f() {}\n    };\n}\n"
            ),
            5
        );
    }

    #[test]
    fn what_only_tests_have_does_not_count() {
        assert_eq!(
            count("fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\nfn h() {}\n"),
            2
        );
        assert_eq!(count("#[cfg(test)]\nmod tests;\nfn h() {}\n"), 1);
        assert_eq!(
            count("#[cfg(test)]\nuse a::{\n    b,\n    c,\n};\nuse d::e;\n"),
            1
        );
        assert_eq!(
            count(
                "#[cfg(test)]\n#[allow(dead_code)]\npub(crate) fn g() -> u8 {\n    1\n}\nfn h() {}\n"
            ),
            1
        );
        assert_eq!(
            count("impl T {\n    #[cfg(test)]\n    fn g() {\n    }\n\n    fn h() {}\n}\n"),
            3
        );
        // Not only tests have these.
        assert_eq!(
            count("#[cfg(not(test))]\nfn f() {}\n#[cfg(any(test, unix))]\nfn g() {}\n"),
            4
        );
    }

    #[test]
    fn what_is_not_rust_is_refused() {
        assert!(lines("fn f( {").is_err());
    }
}

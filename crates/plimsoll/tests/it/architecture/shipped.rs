//! The code of a source file that is built without tests: without comments and without the items of tests.

/// Attributes of items that only builds of tests have.
const TEST_ATTRIBUTES: [&str; 3] = [
    "#[cfg(test)]",
    "#[cfg(all(test, not(loom)))]",
    "#[cfg(all(test, loom))]",
];

/// Words that an item or statement begins with that ends at `;`, after whatever braces.
const TO_SEMICOLON: [&str; 5] = ["use", "let", "static", "type", "return"];

/// Words that an item or statement begins with that ends at `;` or with its block, after whatever commas.
const TO_BLOCK: [&str; 16] = [
    "mod",
    "fn",
    "impl",
    "struct",
    "enum",
    "union",
    "trait",
    "extern",
    "unsafe",
    "async",
    "macro_rules",
    "if",
    "for",
    "while",
    "loop",
    "match",
];

/// The text that continues an arm, a field or an expression after a closing brace.
const GO_ON: [&str; 7] = ["else", "=>", "|", ".", "?", ",", ";"];

/// The source without comments, and without each item, field, arm or statement that has one of [`TEST_ATTRIBUTES`].
pub(super) fn code(source: &str) -> String {
    let mut left = without_comments(source);
    let mut from = 0;
    while let Some((start, attribute)) = next_test(&left, from) {
        let end = start + attribute.len();
        let end = end + item_length(&left[end..]);
        left.replace_range(start..end, "");
        from = start;
    }
    left
}

/// The first attribute of tests from `from` on that begins its line, as each does after rustfmt.
fn next_test(code: &str, from: usize) -> Option<(usize, &'static str)> {
    let begins_line = |at: usize| {
        code[..at]
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .trim()
            .is_empty()
    };
    TEST_ATTRIBUTES
        .into_iter()
        .flat_map(|attribute| {
            code[from..]
                .match_indices(attribute)
                .map(move |(at, _)| (from + at, attribute))
        })
        .filter(|(at, _)| begins_line(*at))
        .min()
}

/// The bytes of the item at the start of `code`, with its other attributes; a list that it ends is not part of it.
fn item_length(code: &str) -> usize {
    let attributes = attributes_length(code);
    let item = &code[attributes..];
    let (semicolon_only, commas_inside) = kind(item);
    let (mut depth, mut angles, mut at) = (0_usize, 0_usize, 0);
    while at < item.len() {
        let literal = literal_length(&item[at..]);
        if literal > 0 {
            at += literal;
            continue;
        }
        let byte = item.as_bytes()[at];
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => return attributes + at,
            b')' | b']' | b'}' => depth -= 1,
            b'<' => angles += 1,
            b'>' if !matches!(item.as_bytes()[at - 1], b'-' | b'=') => angles = angles.saturating_sub(1),
            _ => {}
        }
        at += 1;
        let goes_on = |word: &&str| item[at..].trim_start().starts_with(*word);
        let ends_none: &[&str] = if commas_inside { &["else"] } else { &GO_ON };
        let block_ends = byte == b'}' && !semicolon_only && !ends_none.iter().any(goes_on);
        let list_ends = byte == b',' && !commas_inside && angles == 0;
        if depth == 0 && (byte == b';' || block_ends || list_ends) {
            return attributes + at;
        }
    }
    attributes + at
}

/// The bytes of the attributes at the start of `code`.
fn attributes_length(code: &str) -> usize {
    let mut length = 0;
    loop {
        let rest = &code[length..];
        let space = rest.len() - rest.trim_start().len();
        if !rest.trim_start().starts_with("#[") {
            return length + space;
        }
        let (mut depth, mut at) = (0_usize, space + 1);
        loop {
            at += literal_length(&rest[at..]);
            match rest.as_bytes()[at] {
                b'[' => depth += 1,
                b']' => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                break;
            }
        }
        length += at;
    }
}

/// Of the item at the start of `item`: whether only `;` ends it, and whether commas do not end it.
fn kind(item: &str) -> (bool, bool) {
    let mut rest = item;
    if word(rest) == "pub" {
        rest = item["pub".len()..].trim_start();
        if rest.starts_with('(') {
            rest = rest.split_once(')').map_or("", |(_, rest)| rest).trim_start();
        }
    }
    let first = word(rest);
    // `const fn` has a block, and a `const` is as a `static`.
    if first == "const" {
        let second = word(rest["const".len()..].trim_start());
        return (!["fn", "unsafe", "extern", "async"].contains(&second), true);
    }
    let semicolon_only = TO_SEMICOLON.contains(&first);
    (semicolon_only, semicolon_only || TO_BLOCK.contains(&first))
}

fn word(code: &str) -> &str {
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_');
    &code[..end.unwrap_or(code.len())]
}

/// The bytes of the literal of text or of a character at the start of `code`; 0 if it starts with none.
fn literal_length(code: &str) -> usize {
    let bytes = code.as_bytes();
    match bytes.first() {
        Some(b'"') => quoted_length(bytes, b'"'),
        // Not a lifetime.
        Some(b'\'') if bytes.get(1) == Some(&b'\\') => quoted_length(bytes, b'\''),
        Some(b'\'') => {
            let mut characters = code[1..].chars();
            let inside = characters.next().map_or(0, char::len_utf8);
            if characters.next() == Some('\'') {
                inside + 2
            } else {
                0
            }
        }
        Some(b'r') => {
            let hashes = bytes[1..].iter().take_while(|&&byte| byte == b'#').count();
            if bytes.get(1 + hashes) != Some(&b'"') {
                return 0;
            }
            let end = format!("\"{}", "#".repeat(hashes));
            let inside = &code[hashes + 2..];
            hashes + 2 + inside.find(&end).map_or(inside.len(), |at| at + end.len())
        }
        _ => 0,
    }
}

fn quoted_length(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// The source without comments; lines remain lines.
fn without_comments(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < source.len() {
        let rest = &source[at..];
        let after_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let literal = if after_word && rest.starts_with('r') {
            0
        } else {
            literal_length(rest)
        };
        if literal > 0 {
            code.push_str(&rest[..literal]);
            at += literal;
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else {
            let next = rest.chars().next().expect("text is left");
            code.push(next);
            at += next.len_utf8();
        }
    }
    code
}

/// The code of `source` in one line, as tests compare it.
fn line(source: &str) -> String {
    code(source).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The rest of a file after its first item of tests was never read: of 13 files up to nine tenths.
#[test]
fn only_the_item_of_tests_is_left_out() {
    for item in [
        "mod tests;",
        "mod tests { use super::*; fn f() { \"}\"; '}'; } }",
        "use crate::{a::{b, c}, d};",
        "pub(crate) use crate::{a, b};",
        "pub fn f<A, B>(a: A) -> Result<A, B> where A: Copy, B: Copy { if a { b } else { c } }",
        "const fn f() -> [u8; 2] { [0, 1] }",
        "pub(super) const X: [u8; 2] = { [0, 1] };",
        "unsafe extern \"C\" { fn f(); }",
        "impl<'a> A<'a> for B<'a> { const C: char = '{'; }",
        "#[allow(unsafe_code, reason = \"]\")] #[derive(Debug)] struct A { b: u8, }",
        "struct A(u8, u8);",
        "thread_local! { static A: u8 = const { 0 }; }",
        "static A: Mutex<Vec<u8>> = Mutex::new(Vec::new());",
    ] {
        let source = format!("use a::b;\n#[cfg(test)]\n{item}\nfn kept() {{}}\n");
        assert_eq!(line(&source), "use a::b; fn kept() {}", "{item}");
        let source = source.replace("(test)", "(all(test, not(loom)))");
        assert_eq!(line(&source), "use a::b; fn kept() {}", "{item}");
    }
}

#[test]
fn only_the_field_arm_or_statement_of_tests_is_left_out() {
    for (before, inside, after) in [
        ("struct A { a: u8,", "pub(super) b: Map<u8, Vec<u8>>,", "c: u8, }"),
        ("struct A { a: u8,", "b: fn(u8) -> u8,", "}"),
        ("struct A { a: u8,", "b: u8", "}"),
        ("struct A { a: u8,", "public: u8,", "r: u8, }"),
        ("A { a,", "b: [1, 2],", "c: 1, }"),
        ("A { a,", "b,", "c: 1, }"),
        (
            "match a { A => 1,",
            "B(c, d) | E { c, d } => f(c, d),",
            "_ => 3, }",
        ),
        ("enum A { B,", "C(u8, u8),", "D, }"),
        (
            "fn f() {",
            "let A { b } = c(d, |e| { e }) else { return };",
            "g(); }",
        ),
        ("fn f() {", "self.seen.push(A { b, c });", "g(); }"),
        (
            "fn f() {",
            "if a { b(); } else if c { d(); } else { e(); }",
            "g(); }",
        ),
        ("fn f() {", "{ a(); b(); }", "g(); }"),
    ] {
        let source = format!("{before}\n    #[cfg(test)]\n    {inside}\n{after}");
        assert_eq!(line(&source), format!("{before} {after}"), "{inside}");
    }
}

#[test]
fn comments_are_no_code_and_literals_are_none() {
    let source =
        "//! crate::a\nfn f() { /* crate::b */ g(\"// crate::c\", '\"', b'/', r#\"\"//\"#); } // crate::d\n";
    assert_eq!(
        line(source),
        "fn f() { g(\"// crate::c\", '\"', b'/', r#\"\"//\"#); }"
    );
    let named = "let a = \"#[cfg(test)]\"; fn f<'a>(b: &'a str) {} // '\nfn g() {}";
    assert_eq!(
        line(named),
        "let a = \"#[cfg(test)]\"; fn f<'a>(b: &'a str) {} fn g() {}"
    );
    // Code for tests and for others.
    let both = "#[cfg(any(test, loom))]\nfn f() {}";
    assert_eq!(line(both), "#[cfg(any(test, loom))] fn f() {}");
}

//! `/proc/crypto`: the algorithms that are loaded.

use super::Tree;

pub fn compressors(tree: &Tree) -> Vec<String> {
    parse(&tree.read("proc/crypto").unwrap_or_default())
}

fn parse(text: &str) -> Vec<String> {
    let mut names: Vec<String> = text
        .split("\n\n")
        .filter_map(|block| {
            let field = |key: &str| {
                block.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    (name.trim() == key).then(|| value.trim().to_owned())
                })
            };
            let kind = field("type")?;
            matches!(kind.as_str(), "scomp" | "acomp" | "compression").then(|| field("name"))?
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn compressors_of_proc_crypto() {
        let text = "name         : lzo\ndriver       : lzo-scomp\ntype         : scomp\n\n\
                    name         : crc32c\ntype         : shash\n\n\
                    name         : lz4\ntype         : compression\n\nname         : lzo\ntype         : acomp\n";
        assert_eq!(parse(text), ["lz4", "lzo"]);
        assert!(parse("").is_empty());
    }
}

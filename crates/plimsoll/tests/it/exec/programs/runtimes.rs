//! Virtual machines with memory of their own: Node and Java.

use super::{Case, as_without_a_limit, installed};

#[test]
fn node_with_buffers_and_children() {
    if !installed(&["node"]) {
        return;
    }
    let case = Case {
        name: "node",
        arguments: &["node", "everything.js"],
        sources: &["everything.js"],
        ..Case::default()
    };
    let output = as_without_a_limit(&case, [96, 48]);
    assert!(output.ends_with("true\n"), "{output}");
}

#[test]
fn java_with_threads_and_collections() {
    if !installed(&["java", "javac"]) {
        return;
    }
    let case = Case {
        name: "java",
        arguments: &["java", "-Xmx256m", "Everything"],
        sources: &["Everything.java"],
        before: "javac Everything.java",
        ..Case::default()
    };
    let output = as_without_a_limit(&case, [96, 48]);
    assert!(output.ends_with("child 0\n"), "{output}");
}

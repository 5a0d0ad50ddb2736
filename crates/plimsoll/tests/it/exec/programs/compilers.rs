//! Compilers write the same code.

use super::{Case, as_without_a_limit, installed};

#[test]
fn a_compiler_writes_the_same_object() {
    if !installed(&["g++"]) {
        return;
    }
    let case = Case {
        name: "g++",
        arguments: &["g++", "-std=c++17", "-c", "-o", "regex.o", "regex.cc"],
        sources: &["regex.cc"],
        after: "sha256sum regex.o",
        ..Case::default()
    };
    let output = as_without_a_limit(&case, [128, 64]);
    assert!(output.ends_with("regex.o\n"), "{output}");
}

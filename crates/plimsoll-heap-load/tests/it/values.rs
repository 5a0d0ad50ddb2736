//! The line of JSON.

use plimsoll_heap_load::{Value, Values, allocator_name, to_json};

#[test]
fn a_line_is_json_whatever_it_holds() {
    let parameters = Values(vec![(
        "sizes".to_owned(),
        Value::Text("a \"quoted\"\n\\ size".to_owned()),
    )]);
    let group = Values(vec![("live_bytes".to_owned(), Value::Count(u64::MAX))]);
    let values = Values(vec![
        ("ns".to_owned(), Value::Real(1.5)),
        ("nothing".to_owned(), Value::Real(f64::NAN)),
        ("phases".to_owned(), Value::Groups(vec![group.clone(), group])),
    ]);
    assert_eq!(
        to_json("load", "libc.so.6", &parameters, &values),
        r#"{"load":"load","allocator":"libc.so.6","parameters":{"sizes":"a \"quoted\"\u000a\\ size"},"values":{"ns":1.5000,"nothing":null,"phases":[{"live_bytes":18446744073709551615},{"live_bytes":18446744073709551615}]}}"#
    );
    assert_eq!(values.get("ns"), Some(&Value::Real(1.5)));
    assert_eq!(values.get("other"), None);
}

/// The tests are not preloaded with anything, and linked to the C library.
#[test]
fn the_allocator_is_known_by_its_library() {
    let name = allocator_name();
    assert!(name.starts_with("libc") || name.starts_with("ld-musl"), "{name}");
}

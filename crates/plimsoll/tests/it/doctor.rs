//! Tests of the `doctor` room.
#[test]
fn shows() {
    let e = plimsoll::doctor::examine(std::path::Path::new("/var/tmp"));
    println!("{}", plimsoll::doctor::render(&e, 120, false));
    println!("{}", plimsoll::doctor::render(&e, 60, true));
}

//! Writes the table of ports.

use std::path::PathBuf;
use std::{env, fs};

const NAMES: [&str; 5] = ["Archangel", "Bergen", "Cadiz", "Danzig", "Elsinore"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let row = |number: usize| {
        let name = NAMES[number % NAMES.len()];
        format!("    (\"{name} {number}\", {}),\n", number * 7919 % 10007)
    };
    let rows: String = (0..400).map(row).collect();
    let table = format!("/// Names and positions.\npub static PORTS: [(&str, u64); 400] = [\n{rows}];\n");
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(folder.join("ports.rs"), table).expect("written");
}

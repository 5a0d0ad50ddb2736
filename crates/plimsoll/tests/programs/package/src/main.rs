//! Prints a line of each module; equal on each run.

use fleet::kinds::{Anchor, League};
use fleet::ports::{PORTS, longest_way};

fn main() {
    println!("{} ports, ways of at most {}", PORTS.len(), longest_way());
    println!("{:?}", Anchor::counted(&vec![Anchor::default(); 3]));
    println!("{:?}", League::sorted(vec![League::default(); 2]));
}

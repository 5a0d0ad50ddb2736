//! The `plimsoll` command.

fn main() -> std::io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("worker") => plimsoll::workload::serve(std::io::stdin().lock(), std::io::stdout().lock()),
        _ => Ok(()),
    }
}

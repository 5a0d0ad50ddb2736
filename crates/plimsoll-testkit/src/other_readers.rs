//! Readers of recordings that share no code with this repository.

use std::path::Path;

/// Has pyarrow and DuckDB read the recording in `folder`: they must find the values of `csv`, and columns that are
/// described. Returns what they say of it; nothing where neither is there.
pub fn read_by_others(folder: &Path, csv: &[u8]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/open_recording.py");
    let expected = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(expected.path(), csv).unwrap();
    let mut answers = String::new();
    for module in ["pyarrow", "duckdb"] {
        let import = ["-c", &format!("import {module}")];
        let there = crate::command("python3").args(import).output();
        let there = there.is_ok_and(|output| output.status.success());
        if !crate::capability(module, there, "python3 cannot import it") {
            continue;
        }
        let output = crate::command("python3")
            .arg(&script)
            .args(["--with", module, "--csv"])
            .args([expected.path(), folder])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{module}: {said}");
        answers.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    answers
}

//! The data set in DuckDB, with `views.sql`, and in pyarrow.

use super::{MadeSet, RESTORE, hosts};
use crate::views;

/// Runs a Python program in a data set and returns its output as JSON; `None` if the module is missing.
fn python(module: &str, set: &MadeSet, program: &str) -> Option<serde_json::Value> {
    let there = plimsoll_testkit::command("python3")
        .args(["-c", &format!("import {module}")])
        .output();
    let there = there.is_ok_and(|output| output.status.success());
    if !plimsoll_testkit::capability(module, there, "python3 cannot import it") {
        return None;
    }
    let output = plimsoll_testkit::command("python3")
        .args(["-c", program])
        .current_dir(set.data())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn set() -> MadeSet {
    let mut hosts = hosts(12, 1.0);
    hosts[3].algorithm = "lzo";
    hosts[3].restore.iter_mut().for_each(|seconds| *seconds *= 1.4);
    hosts[7].state = "failed";
    let set = MadeSet::new("march", &hosts);
    std::fs::write(set.data().join(views::FILE), views::SQL).unwrap();
    set
}

#[test]
fn views_have_the_values_of_the_report() {
    let program = r#"
import duckdb, json
connection = duckdb.connect()
views = [statement for statement in duckdb.extract_statements(open("views.sql").read())]
# The data set of this test has no samples.
for statement in views[:-1]:
    connection.execute(statement)
assert "samples.parquet" in views[-1].query
rows = lambda query: connection.sql(query).fetchall()
print(json.dumps({
    "classes": rows("SELECT class, trial_group, metric, hosts, min, p10, p25, median, p75, p90, max FROM class_metrics WHERE headline ORDER BY metric DESC"),
    "outliers": rows("SELECT host, metric, value, median FROM outliers"),
    "settings": rows("SELECT host, setting, value, majority FROM setting_differences"),
    "tasks": rows("SELECT state, count(*) FROM tasks GROUP BY state ORDER BY state"),
    "ids": rows("SELECT DISTINCT task FROM metrics ORDER BY task LIMIT 2"),
    "trials": rows("SELECT count(*), count(DISTINCT trial_group) FROM trials"),
}))
"#;
    let set = set();
    let Some(found) = python("duckdb", &set, program) else {
        return;
    };
    let (outcome, _) = set.report();
    let classes = found["classes"].as_array().unwrap();
    assert_eq!(classes.len(), outcome.distributions.len());
    for (row, ours) in classes.iter().zip(&outcome.distributions) {
        assert_eq!(row[0], ours.class.as_str());
        assert_eq!(
            (&row[1], &row[2]),
            (&ours.group.as_str().into(), &ours.metric.as_str().into())
        );
        assert_eq!(row[3], ours.hosts.len());
        let q = ours.quantiles.unwrap();
        let values = [q.min, q.p10, q.p25, q.median, q.p75, q.p90, q.max];
        for (index, value) in values.into_iter().enumerate() {
            let theirs = row[4 + index].as_f64().unwrap();
            assert!((theirs - value).abs() < 1e-9, "{row}: {value}");
        }
    }
    let [outlier] = outcome.outliers.as_slice() else {
        panic!("{:?}", outcome.outliers)
    };
    let theirs = &found["outliers"];
    assert_eq!(theirs.as_array().unwrap().len(), 1);
    assert_eq!(
        (&theirs[0][0], &theirs[0][1]),
        (&outlier.host.as_str().into(), &RESTORE.into())
    );
    assert_eq!(theirs[0][2].as_f64().unwrap(), outlier.value);
    assert_eq!(theirs[0][3].as_f64().unwrap(), outlier.median);
    assert_eq!(found["settings"].as_array().unwrap().len(), 1);
    assert_eq!(found["settings"][0][1], "zram algorithm");
    assert_eq!(
        (&found["settings"][0][2], &found["settings"][0][3]),
        (&"lzo".into(), &"lz4".into())
    );
    assert_eq!(found["tasks"], serde_json::json!([["done", 11], ["failed", 1]]));
    assert_eq!(found["ids"], serde_json::json!([["0000"], ["0001"]]));
    assert_eq!(found["trials"], serde_json::json!([[33, 1]]));
}

#[test]
fn pyarrow_reads_the_same_files() {
    let program = r#"
import json, pyarrow as pa, pyarrow.dataset as ds, pyarrow.parquet as pq, statistics, glob
names = pa.schema([(name, pa.string()) for name in ("run", "host", "task")])
partitioning = ds.partitioning(names, flavor="hive")
files = sorted(glob.glob("run=*/host=*/task=*/metrics.parquet"))
table = ds.dataset(files, format="parquet", partitioning=partitioning).to_table().to_pylist()
values = {}
for row in table:
    if row["phase"] == "restore" and row["trusted"]:
        values.setdefault(row["host"], []).append(row["value"])
tasks = pq.read_table("tasks.parquet").to_pylist()
print(json.dumps({
    "rows": len(table),
    "hosts": {host: statistics.median(seconds) for host, seconds in values.items()},
    "tasks": [[row["task"], row["state"], row["reason"]] for row in tasks],
    "unit": json.loads(pq.read_metadata(files[0]).metadata[b"plimsoll.columns"])[0]["name"],
}))
"#;
    let set = set();
    let Some(found) = python("pyarrow", &set, program) else {
        return;
    };
    let (outcome, _) = set.report();
    assert_eq!(found["rows"], 11 * 3 * 3);
    assert_eq!(found["unit"], "trial");
    let restore = outcome
        .distributions
        .iter()
        .find(|one| one.metric == RESTORE)
        .unwrap();
    assert_eq!(found["hosts"].as_object().unwrap().len(), restore.hosts.len());
    for host in &restore.hosts {
        assert_eq!(
            found["hosts"][&host.host].as_f64().unwrap(),
            host.value,
            "{}",
            host.host
        );
    }
    assert_eq!(found["tasks"][3], serde_json::json!(["0003", "done", null]));
    assert_eq!(found["tasks"][7][1], "failed");
    assert!(found["tasks"][7][2].is_string());
}

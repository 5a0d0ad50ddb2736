"""Reads a data set of `plimsoll fleet collect` without any code of plimsoll's: `python3 tests/open_data_set.py MODULE DATA`.

MODULE is `pyarrow` or `duckdb`. Prints a JSON document of facts, which must be the same for both.
"""

import json
import pathlib
import sys


def duckdb_facts(data: pathlib.Path) -> dict:
    import duckdb

    def rows(query: str) -> list:
        return [list(row) for row in duckdb.connect().execute(query).fetchall()]

    def files(name: str) -> str:
        options = "hive_partitioning = true, hive_types_autocast = false"
        return f"read_parquet('{data}/run=*/host=*/task=*/{name}.parquet', {options})"

    return {
        "tasks": rows(f"SELECT task, host, state FROM '{data}/tasks.parquet' ORDER BY task"),
        "samples": rows(
            f"SELECT run, host, task, count(*), max(t_ns), max(mem_free) FROM {files('samples')} GROUP BY ALL ORDER BY task"
        ),
        "trials": rows(f"SELECT task, trial, status FROM {files('trials')} ORDER BY task, trial"),
        "metrics": rows(f"SELECT task, count(*), max(value) FROM {files('metrics')} GROUP BY ALL ORDER BY task"),
        "untrusted": rows(
            f"SELECT DISTINCT task, metric, unit, why FROM {files('metrics')} WHERE NOT trusted ORDER BY task, metric"
        ),
    }


def pyarrow_facts(data: pathlib.Path) -> dict:
    import pyarrow
    import pyarrow.dataset as dataset
    import pyarrow.parquet

    names = pyarrow.schema([(name, pyarrow.string()) for name in ["run", "host", "task"]])
    hive = dataset.partitioning(names, flavor="hive")

    def rows(name: str, columns: list) -> list:
        files = sorted(str(path) for path in data.glob(f"run=*/host=*/task=*/{name}.parquet"))
        table = dataset.dataset(files, partitioning=hive, partition_base_dir=str(data)).to_table()
        return [[row[column] for column in columns] for row in table.to_pylist()]

    def grouped(rows: list, keys: int) -> dict:
        groups = {}
        for row in rows:
            groups.setdefault(tuple(row[:keys]), []).append(row[keys:])
        return groups

    tasks = pyarrow.parquet.read_table(data / "tasks.parquet").to_pylist()
    samples = grouped(rows("samples", ["task", "run", "host", "t_ns", "mem_free"]), 3)
    metrics = grouped(rows("metrics", ["task", "value"]), 1)
    untrusted = rows("metrics", ["task", "metric", "unit", "why", "trusted"])
    return {
        "tasks": sorted([row["task"], row["host"], row["state"]] for row in tasks),
        "samples": [
            [run, host, task, len(values), max(t for t, _ in values), max(free for _, free in values if free is not None)]
            for (task, run, host), values in sorted(samples.items())
        ],
        "trials": sorted(rows("trials", ["task", "trial", "status"])),
        "metrics": [[task, len(values), max(value for (value,) in values)] for (task,), values in sorted(metrics.items())],
        "untrusted": [list(row) for row in sorted({tuple(row[:4]) for row in untrusted if not row[4]})],
    }


if __name__ == "__main__":
    _, module, folder = sys.argv
    facts = {"duckdb": duckdb_facts, "pyarrow": pyarrow_facts}[module]
    print(json.dumps(facts(pathlib.Path(folder))))

"""Opens a recording without any code of plimsoll's: `python3 tests/open_recording.py RUN...`.

Needs pyarrow or duckdb (`pip install pyarrow duckdb`); checks with each that is there, and fails when none is.
With `--csv FILE`, as `plimsoll export RUN --format csv` prints it, each value must be the one of that file.
"""

import argparse
import csv
import json
import pathlib
import sys


def rows_of_csv(path: pathlib.Path) -> list:
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    return [{name: int(text) if text else None for name, text in zip(header, line)} for line in lines]


def check_pyarrow(run: pathlib.Path, expected: list | None) -> str:
    import pyarrow.ipc
    import pyarrow.parquet

    finished = run / "samples.parquet"
    if finished.exists():
        table = pyarrow.parquet.read_table(finished)
        parts = f"{pyarrow.parquet.read_metadata(finished).num_row_groups} groups"
        described = json.loads(pyarrow.parquet.read_metadata(finished).metadata[b"plimsoll.columns"])
        assert [column["name"] for column in described] == table.column_names
    else:
        batches = []
        with pyarrow.ipc.open_stream(run / "samples.arrows") as stream:
            schema = stream.schema
            try:
                batches.extend(stream)
            except (pyarrow.ArrowInvalid, OSError):
                pass  # The last batch is torn, as a kill may leave it.
        table = pyarrow.Table.from_batches(batches, schema)
        parts = f"{len(batches)} batches"
    assert table.schema.metadata[b"plimsoll.schema"] == b"5"
    assert table.column_names[0] == "t_ns" and str(table.schema.types[0]) == "uint64"
    for field in table.schema:
        assert field.metadata[b"unit"] and field.metadata[b"meaning"], field.name
    times = table.column("t_ns").to_pylist()
    assert times == sorted(times)
    assert expected is None or table.to_pylist() == expected, "pyarrow reads other values"
    return f"pyarrow: {table.num_rows} samples of {table.num_columns} columns in {parts}"


def check_duckdb(run: pathlib.Path, expected: list | None) -> str:
    import duckdb

    def ask(query: str) -> tuple:
        return duckdb.connect().execute(query).fetchall()[0]

    def rows(query: str) -> list:
        answer = duckdb.connect().execute(query)
        names = [column[0] for column in answer.description]
        return [dict(zip(names, row)) for row in answer.fetchall()]

    said = []
    finished = run / "samples.parquet"
    if finished.exists():
        count, first, last = ask(f"SELECT count(*), min(t_ns), max(t_ns) FROM '{finished}'")
        said.append(f"{count} samples from {first} to {last} ns")
        read = rows(f"SELECT * FROM '{finished}'") if expected is not None else None
        assert read == expected, "duckdb reads other values"
        # What a column is known to lie within, by its statistics, decides which groups of rows are read at all.
        for row in (expected or [])[:1]:
            for name, value in row.items():
                if value is not None:
                    found = ask(f"SELECT count(*) FROM '{finished}' WHERE {name} = {value}")[0]
                    assert found == sum(other[name] == value for other in expected), f"{name} = {value}"
    for name in ["events", "trials"]:
        lines = run / f"{name}.jsonl"
        if lines.stat().st_size > 0:
            (count,) = ask(
                f"SELECT count(*) FROM read_json('{lines}', format='newline_delimited', ignore_errors=true)"
            )
            said.append(f"{count} {name}")
    return "duckdb: " + ", ".join(said)


def check_json(run: pathlib.Path, _expected: list | None) -> str:
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["schema"] == 5
    results = run / "results.json"
    if not results.exists():
        return f"json: {manifest['run']}, cut short"
    return f"json: {manifest['run']}, {json.loads(results.read_text())['status']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="+", type=pathlib.Path, help="the folder of a recording")
    parser.add_argument("--csv", type=pathlib.Path, help="the values that must be read")
    parser.add_argument("--with", dest="module", choices=["pyarrow", "duckdb"], help="check with this one alone")
    asked = parser.parse_args()
    expected = rows_of_csv(asked.csv) if asked.csv else None
    checks = {"pyarrow": check_pyarrow, "duckdb": check_duckdb}
    checks = {name: check for name, check in checks.items() if asked.module in (None, name)}
    opened = 0
    for run in asked.run:
        print(f"{run}: {check_json(run, expected)}")
        for name, check in checks.items():
            try:
                print(f"{run}: {check(run, expected)}")
                opened += 1
            except ImportError as missing:
                print(f"{run}: skipped, {missing}", file=sys.stderr)
    if opened == 0:
        print("neither pyarrow nor duckdb is there: pip install pyarrow duckdb", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())

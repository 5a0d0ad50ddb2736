"""Opens a recording without any code of plimsoll's: `python3 tests/open_recording.py RUN...`.

Needs pyarrow or duckdb (`pip install pyarrow duckdb`); checks with each that is there, and fails when none is.
"""

import json
import pathlib
import sys


def check_pyarrow(run: pathlib.Path) -> str:
    import pyarrow.ipc
    import pyarrow.parquet

    finished = run / "samples.parquet"
    if finished.exists():
        table = pyarrow.parquet.read_table(finished)
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
    assert table.schema.metadata[b"plimsoll.schema"] == b"4"
    assert table.column_names[0] == "t_ns" and str(table.schema.types[0]) == "uint64"
    for field in table.schema:
        assert field.metadata[b"unit"] and field.metadata[b"meaning"], field.name
    times = table.column("t_ns").to_pylist()
    assert times == sorted(times)
    return f"pyarrow: {table.num_rows} samples of {table.num_columns} columns"


def check_duckdb(run: pathlib.Path) -> str:
    import duckdb

    def ask(query: str) -> tuple:
        return duckdb.connect().execute(query).fetchall()[0]

    said = []
    finished = run / "samples.parquet"
    if finished.exists():
        rows, first, last = ask(f"SELECT count(*), min(t_ns), max(t_ns) FROM '{finished}'")
        said.append(f"{rows} samples from {first} to {last} ns")
    for name in ["events", "trials"]:
        lines = run / f"{name}.jsonl"
        if lines.stat().st_size > 0:
            (count,) = ask(
                f"SELECT count(*) FROM read_json('{lines}', format='newline_delimited', ignore_errors=true)"
            )
            said.append(f"{count} {name}")
    return "duckdb: " + ", ".join(said)


def check_json(run: pathlib.Path) -> str:
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["schema"] == 4
    results = run / "results.json"
    if not results.exists():
        return f"json: {manifest['run']}, cut short"
    return f"json: {manifest['run']}, {json.loads(results.read_text())['status']}"


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 1
    opened = 0
    for run in map(pathlib.Path, sys.argv[1:]):
        for check in [check_json, check_pyarrow, check_duckdb]:
            try:
                print(f"{run}: {check(run)}")
                opened += check is not check_json
            except ImportError as missing:
                print(f"{run}: skipped, {missing}", file=sys.stderr)
    if opened == 0:
        print("neither pyarrow nor duckdb is there: pip install pyarrow duckdb", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Prints the licences of everything that a release contains besides this repository: the linked crates, uPlot in the
reports, and Rust's standard library. Reads `cargo metadata` and the sources of the crates, without the network.

    packaging/third_party.py check    prints nothing; exit code 1 if a crate has no licence to print
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What the program contains: itself, and the library that it embeds.
CONTAINED = ["plimsoll", "plimsoll-malloc"]
LICENCE = re.compile(r"^(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|UNLICENSE)", re.I)
UPLOT = ROOT / "crates/plimsoll-report/assets/uplot/LICENSE"
STANDARD_LIBRARY = """Rust's standard library (https://www.rust-lang.org): MIT OR Apache-2.0
Copyright (c) The Rust Project Contributors. The texts of both licences are in LICENSE-MIT and LICENSE-APACHE."""
# A crate without a file of its licence: the text of the same licence in this repository.
TEXTS = [("Apache-2.0", "LICENSE-APACHE"), ("MIT", "LICENSE-MIT")]


def metadata():
    host = re.search(r"host: (\S+)", subprocess.run(["rustc", "-vV"], capture_output=True, check=True, text=True).stdout)[1]
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout)


def is_macro(package):
    return any("proc-macro" in target["kind"] for target in package["targets"])


def linked(data):
    """The crates of other authors that are linked into the release."""
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    left = [key for key, package in packages.items() if package["name"] in CONTAINED and package["source"] is None]
    seen = set()
    while left:
        key = left.pop()
        # A macro runs in the compiler; the release does not contain it.
        if key in seen or is_macro(packages[key]):
            continue
        seen.add(key)
        for edge in nodes[key]["deps"]:
            if any(kind["kind"] is None for kind in edge["dep_kinds"]):
                left.append(edge["pkg"])
    found = [packages[key] for key in seen if packages[key]["source"] is not None]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def texts(package):
    """The licence files of a crate, or those of this repository with the licences that its manifest names."""
    folder = pathlib.Path(package["manifest_path"]).parent
    own = sorted(path for path in folder.iterdir() if path.is_file() and LICENCE.match(path.name))
    # Where MIT is a choice, it is the choice.
    words = (package["license"] or "").replace("/", " OR ").split()
    mit = [path for path in own if "MIT" in path.name.upper()]
    if mit and "MIT" in words and "AND" not in words:
        own = mit
    if own:
        return [(path.name, path.read_text(errors="replace").strip()) for path in own]
    expression = package["license"] or ""
    for name, file in TEXTS:
        if name in expression.replace("/", " ").split():
            authors = ", ".join(package["authors"]) or f"the authors of {package['name']}"
            return [(None, f"Copyright: {authors}. The text of {name} is in {file}.")]
    return []


def main(arguments):
    if arguments not in ([], ["check"]):
        print(__doc__, file=sys.stderr)
        return 2
    crates = linked(metadata())
    bare = [package["name"] for package in crates if not texts(package)]
    if bare or len(crates) < 20:
        print(f"packaging/third_party.py: {len(crates)} crates; without a licence text: {bare}", file=sys.stderr)
        return 1
    if arguments == ["check"]:
        return 0
    rule = "=" * 100
    print("The program contains the following works of others.\n")
    # Crates share texts: each text stands once, below the crates that have it.
    by_text = {}
    for package in crates:
        head = f"{package['name']} {package['version']}: {package['license']}"
        key = tuple(text for _, text in texts(package))
        by_text.setdefault(key, []).append(head)
    for key, heads in sorted(by_text.items(), key=lambda item: item[1]):
        print(rule, *heads, "", *key, sep="\n", end="\n\n")
    print(rule, "uPlot (https://github.com/leeoniya/uPlot): MIT", "", UPLOT.read_text().strip(), "", sep="\n")
    print(rule, STANDARD_LIBRARY, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

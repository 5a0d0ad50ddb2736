#!/usr/bin/env python3
"""Puts standard input as a block of text between the marks `<!-- MARK: begin -->` and `<!-- MARK: end -->` of a document.
Usage: insert.py DOCUMENT MARK"""
import sys

document, mark = sys.argv[1:]
begin, end = f"<!-- {mark}: begin -->\n", f"<!-- {mark}: end -->"
head, rest = open(document).read().split(begin)
tail = rest.split(end)[1]
text = "\n".join(line.rstrip() for line in sys.stdin.read().rstrip().splitlines())
open(document, "w").write(f"{head}{begin}```text\n{text}\n```\n{end}{tail}")

#!/usr/bin/env python3
"""Puts standard input as a block of text between the marks `<!-- MARK: begin -->` and `<!-- MARK: end -->` of a document, with
paragraphs before and after it. Usage: insert.py DOCUMENT MARK [BEFORE AFTER]"""
import sys
import textwrap

document, mark = sys.argv[1:3]
before, after = sys.argv[3:] or ("", "")
begin, end = f"<!-- {mark}: begin -->\n", f"<!-- {mark}: end -->"
head, rest = open(document).read().split(begin)
tail = rest.split(end)[1]
text = "\n".join(line.rstrip() for line in sys.stdin.read().rstrip().splitlines())
if before:
    before = textwrap.fill(before, 120, break_on_hyphens=False) + "\n\n"
if after:
    after = f"\n\n{after}"
open(document, "w").write(f"{head}{begin}{before}```text\n{text}\n```{after}\n{end}{tail}")

#!/usr/bin/env python3
"""Draws a captured terminal screen as SVG. Usage: tmux capture-pane -e -p | terminal_to_svg.py TITLE > FILE

Reads text with SGR sequences, as `tmux capture-pane -e` prints it. Block elements become rectangles, so that stacked
layers have no gaps whatever font the viewer has."""
import re
import sys
from xml.sax.saxutils import escape, quoteattr

CELL_WIDTH, CELL_HEIGHT, BASELINE, MARGIN = 8.0, 17.0, 13.0, 10.0
FOREGROUND, BACKGROUND = "#d5dae0", "#14171b"
BASIC = ["#2b3036", "#e0605e", "#74d6a0", "#f5c763", "#6fa3e8", "#dd77b0", "#56c2d6", "#d5dae0"]
BRIGHT = ["#7d8791", "#ff9a90", "#9be8bf", "#ffdf95", "#9cc4ff", "#f0a3cf", "#8fe1f0", "#ffffff"]
LEVELS = [0, 95, 135, 175, 215, 255]


def indexed(number):
    """The colour of a 256-colour palette entry."""
    if number < 16:
        return (BASIC + BRIGHT)[number]
    if number >= 232:
        return "#" + f"{8 + 10 * (number - 232):02x}" * 3
    number -= 16
    return "#" + "".join(f"{LEVELS[part]:02x}" for part in (number // 36, number // 6 % 6, number % 6))


def extended(codes):
    """The colour after code 38 or 48; takes its codes off the list."""
    if codes.pop(0) == 5:
        return indexed(codes.pop(0))
    return "#" + "".join(f"{codes.pop(0):02x}" for _ in range(3))


def apply(style, codes):
    """The style (foreground, background, bold, dim, reverse) after SGR codes."""
    foreground, background, bold, dim, reverse = style
    while codes:
        code = codes.pop(0)
        if code == 0:
            foreground, background, bold, dim, reverse = None, None, False, False, False
        elif code in (1, 2, 7):
            bold, dim, reverse = bold or code == 1, dim or code == 2, reverse or code == 7
        elif code == 22:
            bold, dim = False, False
        elif code == 27:
            reverse = False
        elif code == 38:
            foreground = extended(codes)
        elif code == 48:
            background = extended(codes)
        elif code == 39:
            foreground = None
        elif code == 49:
            background = None
        elif 30 <= code < 38 or 90 <= code < 98:
            foreground = (BASIC if code < 90 else BRIGHT)[code % 10]
        elif 40 <= code < 48 or 100 <= code < 108:
            background = (BASIC if code < 100 else BRIGHT)[code % 10]
    return foreground, background, bold, dim, reverse


def cells(line, style):
    """The characters of a line with their styles, and the style at its end."""
    found = []
    for piece in re.split(r"(\x1b\[[0-9;:]*m)", line):
        if piece.startswith("\x1b["):
            style = apply(style, [int(code or 0) for code in re.split("[;:]", piece[2:-1])])
        else:
            found += [(letter, style) for letter in piece]
    return found, style


def rectangle(x, y, width, height, colour):
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{colour}"/>'


def block(letter):
    """The part of a cell that a block element fills: left, top, width, height, each 0 to 1."""
    number = ord(letter)
    if 0x2581 <= number <= 0x2588:
        share = (number - 0x2580) / 8
        return 0, 1 - share, 1, share
    if 0x2589 <= number <= 0x258F:
        return 0, 0, (0x2590 - number) / 8, 1
    return {"\u2580": (0, 0, 1, 0.5), "\u2590": (0.5, 0, 0.5, 1)}.get(letter)


def draw(title, lines):
    width = max((len(row) for row in lines), default=0) * CELL_WIDTH + 2 * MARGIN
    height = len(lines) * CELL_HEIGHT + 2 * MARGIN
    shapes, texts = [], []
    for line, row in enumerate(lines):
        at = 0
        while at < len(row):
            letter, style = row[at]
            end = at + 1
            while end < len(row) and row[end][1] == style and (row[end][0] == letter or not (block(letter) or block(row[end][0]))):
                end += 1
            foreground, background, bold, dim, reverse = style
            ink, paper = foreground or FOREGROUND, background
            if reverse:
                ink, paper = background or BACKGROUND, foreground or FOREGROUND
            x, y, wide = MARGIN + at * CELL_WIDTH, MARGIN + line * CELL_HEIGHT, (end - at) * CELL_WIDTH
            if paper:
                shapes.append(rectangle(x, y, wide, CELL_HEIGHT, paper))
            text = "".join(letter for letter, _ in row[at:end])
            part = block(letter)
            if part:
                left, top, part_width, part_height = part
                wide = wide if part_width == 1 else CELL_WIDTH * part_width
                shapes.append(rectangle(x + left * CELL_WIDTH, y + top * CELL_HEIGHT, wide, part_height * CELL_HEIGHT, ink))
            else:
                looks = (' font-weight="700"' if bold else "") + (' opacity=".6"' if dim else "")
                # Viewers collapse spaces, so each group of words has a place of its own.
                for words in re.finditer(r"\S+(?: \S+)*", text):
                    left, wide = x + words.start() * CELL_WIDTH, len(words[0]) * CELL_WIDTH
                    texts.append(
                        f'<text x="{left:g}" y="{y + BASELINE:g}" textLength="{wide:g}" fill="{ink}"{looks}>{escape(words[0])}</text>'
                    )
            at = end
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label={quoteattr(title)} width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="ui-monospace, \'DejaVu Sans Mono\', Menlo, Consolas, monospace" '
        f'font-size="13px" shape-rendering="crispEdges">{rectangle(0, 0, width, height, BACKGROUND)}'
        + "".join(shapes + texts)
        + "</svg>\n"
    )


def main():
    style, lines = (None, None, False, False, False), []
    for line in sys.stdin.read().rstrip("\n").split("\n"):
        row, style = cells(line, style)
        lines.append(row)
    sys.stdout.write(draw(sys.argv[1], lines))


if __name__ == "__main__":
    main()

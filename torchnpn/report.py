"""One HTML page that stands on its own: figures inside, no script, nothing fetched, light and dark, wide or narrow."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from html import escape as html_escape
from typing import NamedTuple

_CONTROL = re.compile(  # C0, C1, line separators, marks that turn the direction of writing, halves of characters
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)


class Variants(NamedTuple):
    """A picture for light and for dark pages, as PNG bytes."""

    light: bytes
    dark: bytes


class Picture(NamedTuple):
    """A figure for wide and for narrow pages, with words for those who cannot see it."""

    alt: str
    caption: str
    wide: Variants
    narrow: Variants
    width: float = 1.0  # share of a wide page's width that it takes; two halves stand side by side


class Table(NamedTuple):
    """A table; the first column names the row, the others hold figures or words.

    `best` has the number of the cell to set in bold for each row, or None.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: bool = False
    best: Sequence[int | None] = ()


class Fact(NamedTuple):
    """A figure worth a second look, and what it is."""

    value: str
    meaning: str


class Section(NamedTuple):
    """A chapter of the page, from question to figures; what is empty is not shown."""

    title: str
    lead: str
    facts: Sequence[Fact] = ()
    pictures: Sequence[Picture] = ()
    table: Table | None = None
    note: str = ""
    warning: str = ""  # in a colour of its own, before all else


def html(title: str, lead: str, sections: Sequence[Section], footer: str) -> str:
    """The page as text."""
    parts = "\n".join(_section(i, section) for i, section in enumerate(sections, 1))
    contents = "".join(f'<li><a href="#s{i}">{escape(s.title)}</a></li>' for i, s in enumerate(sections, 1))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{_CSS}</style>
</head>
<body>
<main>
<header>
<h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
<nav aria-label="Contents"><ol>{contents}</ol></nav>
</header>
{parts}
<footer><p>{escape(footer)}</p></footer>
</main>
</body>
</html>
"""


def _section(number: int, section: Section) -> str:
    facts = "".join(
        f"<div><dd>{escape(fact.value)}</dd><dt>{escape(fact.meaning)}</dt></div>" for fact in section.facts
    )
    parts = [
        f"<h2>{escape(section.title)}</h2>",
        f'<p class="warning" role="alert">{escape(section.warning)}</p>' if section.warning else "",
        f'<p class="lead">{escape(section.lead)}</p>',
        f'<dl class="facts">{facts}</dl>' if section.facts else "",
        '<div class="pictures">' + "\n".join(map(_picture, section.pictures)) + "</div>" if section.pictures else "",
        _table(section.table) if section.table else "",
        f'<p class="note">{escape(section.note)}</p>' if section.note else "",
    ]
    return "\n".join([f'<section id="s{number}">', *filter(None, parts), "</section>"])


def _picture(picture: Picture) -> str:
    """The first source that fits is taken; nothing but the chosen one is decoded."""
    narrow, dark = "(max-width: 640px)", "(prefers-color-scheme: dark)"
    return f"""<figure style="width: {picture.width:.0%}">
<picture>
<source media="{narrow} and {dark}" srcset="{_data(picture.narrow.dark)}">
<source media="{narrow}" srcset="{_data(picture.narrow.light)}">
<source media="{dark}" srcset="{_data(picture.wide.dark)}">
<img src="{_data(picture.wide.light)}" alt="{escape(picture.alt)}">
</picture>
<figcaption>{escape(picture.caption)}</figcaption>
</figure>"""


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.header)
    wide = table.words and len(table.header) > 3  # on a phone it becomes a list, and each cell says its column
    columns = [f' data-column="{escape(cell)}"' if wide else "" for cell in table.header]
    best = [*table.best, *[None] * (len(table.rows) - len(table.best))]
    rows = "".join(_row(row, columns, bold) for row, bold in zip(table.rows, best, strict=True))
    kind = ' class="words wide"' if wide else ' class="words"' if table.words else ""
    return f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _row(cells: Sequence[str], columns: Sequence[str], best: int | None) -> str:
    marks = [' class="best"' if i == best else "" for i in range(len(cells))]
    whole = zip(('th scope="row"', *["td"] * (len(cells) - 1)), marks, columns, map(escape, cells), strict=True)
    made = [f"<{tag}{mark}{column}>{cell}</{tag[:2]}>" for tag, mark, column, cell in whole]
    return f"<tr>{''.join(made)}</tr>"


def printable(text: str) -> str:
    """Text whose control characters are shown, not obeyed: a cell of a table may hold codes that a terminal acts on."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def escape(text: str) -> str:
    """Text for an HTML page."""
    return html_escape(printable(text))


def _data(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


_CSS = """
:root {
  --page: #f5f6f8; --card: #ffffff; --ink: #1d2430; --muted: #5f6977; --line: #e3e6eb; --accent: #2f6aa8;
  --alarm: #a8321f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1217; --card: #171b22; --ink: #e8eaee; --muted: #9ba5b3; --line: #2b313b; --accent: #7db3ec;
    --alarm: #f2917f;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body {
  margin: 0; background: var(--page); color: var(--ink); overflow-wrap: break-word;
  font: 17px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 960px; margin: 0 auto; padding: 56px 20px 40px; }
h1 { font-size: clamp(1.9rem, 5vw, 2.6rem); line-height: 1.15; letter-spacing: -0.02em; margin: 0 0 .6rem; }
h2 { font-size: clamp(1.35rem, 3.4vw, 1.65rem); line-height: 1.25; letter-spacing: -0.01em; margin: 0 0 .5rem; }
.lead { margin: 0; max-width: 44em; }
header .lead { color: var(--muted); font-size: 1.1rem; }
nav ol { display: flex; flex-wrap: wrap; gap: 4px 28px; margin: 1.3rem 0 0; padding: 0; counter-reset: n; }
nav li { list-style: none; counter-increment: n; }
nav li::before { content: counter(n) "  "; color: var(--muted); white-space: pre; }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
section {
  margin-top: 36px; padding: 32px 36px 26px;
  background: var(--card); border: 1px solid var(--line); border-radius: 14px;
}
.facts { display: grid; grid-template-columns: repeat(3, 1fr); gap: 18px 28px; margin: 26px 0 8px; }
.facts div { border-left: 3px solid var(--accent); padding-left: 14px; }
.facts dd { margin: 0; font-size: 1.7rem; line-height: 1.2; font-weight: 650; letter-spacing: -0.01em; }
.facts dt { color: var(--muted); font-size: .9rem; line-height: 1.4; margin-top: 3px; }
.pictures { display: flex; flex-wrap: wrap; }
figure { margin: 26px 0 0; }
img { display: block; width: 100%; height: auto; }
figcaption { color: var(--muted); font-size: .92rem; line-height: 1.5; margin-top: 8px; max-width: 48em; }
.scroll { overflow-x: auto; margin-top: 26px; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; font-variant-numeric: tabular-nums; }
th, td { padding: 8px 0 8px 18px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child { text-align: left; padding-left: 0; font-weight: 400; white-space: normal; min-width: 11em; }
thead th { color: var(--muted); font-weight: 600; font-size: .85rem; }
tbody tr:last-child > * { border-bottom: 0; }
td.best { color: var(--accent); font-weight: 650; }
.warning {
  margin: 0 0 14px; padding: 12px 16px; max-width: 48em; color: var(--alarm); font-weight: 600;
  border: 1px solid var(--alarm); border-radius: 10px;
}
.words td { color: inherit; font-weight: 400; text-align: left; white-space: normal; }
.words tbody > tr > * { overflow-wrap: anywhere; vertical-align: top; min-width: 6.5em; }
.words th { text-align: left; }
.note { color: var(--muted); font-size: .92rem; line-height: 1.5; margin: 14px 0 0; max-width: 48em; }
footer { color: var(--muted); font-size: .85rem; margin-top: 28px; }
@media (max-width: 640px) {
  body { font-size: 16px; }
  main { padding: 32px 12px 24px; }
  section { padding: 22px 18px 18px; margin-top: 22px; border-radius: 12px; }
  header { padding: 0 6px; }
  nav ol { flex-direction: column; }
  th, td { padding-left: 12px; }
  thead th { white-space: normal; }
  th:first-child { min-width: 7em; }
  .wide thead { position: absolute; clip-path: inset(50%); }
  .wide tbody > tr { display: block; padding: 10px 0; border-bottom: 1px solid var(--line); }
  .wide tbody > tr > * { display: block; padding: 0 0 2px; border: 0; }
  .wide tbody > tr > *::before { content: attr(data-column) ": "; color: var(--muted); }
  .facts { grid-template-columns: 1fr; gap: 14px; }
  figure { width: 100% !important; }
}
@media print { section { break-inside: avoid; } nav { display: none; } }
"""

"""The page in a real browser: it fits a phone, says nothing on the console, and follows the colour scheme."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from test_plots import assert_stands_alone

from torchnpn import plots, report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--enable-logging=stderr",
    "--virtual-time-budget=5000",
    "--dump-dom",
]
DARK, LIGHT = 0, 1  # the browser's numbers

# The page stands in a frame of the width of a screen; what is found there becomes the text of the page around it.
FRAME = """<!doctype html><body>
<iframe id="f" style="width: {width}px; height: 900px; border: 0" srcdoc="{page}"></iframe>
<script>onload = () => {{
  const inner = document.getElementById("f").contentDocument, root = inner.documentElement
  const figures = {{
    width: root.clientWidth, reach: root.scrollWidth,
    background: getComputedStyle(inner.body).backgroundColor,
    images: [...inner.images].map(image => [image.complete && image.naturalWidth, image.clientWidth]),
  }}
  document.body.outerHTML = "<body><pre>" + JSON.stringify(figures) + "</pre>"
}}</script>"""


def looked_at(page: str, folder: Path, width: int, scheme: int) -> dict:
    """What a browser makes of a page on a screen of that width."""
    (path := folder / "frame.html").write_text(FRAME.format(width=width, page=html.escape(page)), encoding="utf-8")
    command = [BROWSER, *FLAGS, f"--blink-settings=preferredColorScheme={scheme}", f"--user-data-dir={folder / 'user'}"]
    shown = subprocess.run([*command, path.as_uri()], capture_output=True, text=True)
    assert "CONSOLE" not in shown.stderr
    return json.loads(html.unescape(shown.stdout).partition("<pre>")[2].partition("</pre>")[0])


def page() -> str:
    words, pngs = "a_very_long_name_of_a_column_" * 4, {}
    for theme in (plots.LIGHT, plots.DARK):
        for columns in (1, 2):
            figure = plots.bars(["one", "two"], np.array([1.0, 2.0]), columns=columns, theme=theme)
            pngs[columns, theme] = plots.png(figure)
    variants = [report.Variants(pngs[columns, plots.LIGHT], pngs[columns, plots.DARK]) for columns in (2, 1)]
    return report.html(
        words,
        "A lead.",
        [
            report.Section(
                "All of it", words, [report.Fact("95%", "of all")], [report.Picture("alt", "cap", *variants)]
            ),
            report.Section("Half", "Half as wide.", pictures=[report.Picture("alt", "caption", *variants, width=0.5)]),
            report.Section("Figures", "Many.", table=report.Table(["", *"abcdefgh"], [["row", *["123.45"] * 8]])),
            report.Section("Words", "", table=report.Table(["column", "holds"], [[words, words]] * 3, words=True)),
        ],
        "footer",
    )


def test_empty_parts_are_not_shown():
    text = report.html("t", "l", [report.Section("One", "lead")], "f")
    assert_stands_alone(text)
    body = text.partition("</style>")[2]
    assert not any(tag in body for tag in ("<dl", "<figure", "<table", 'class="note"'))


@pytest.mark.skipif(BROWSER is None, reason="no browser")
@pytest.mark.parametrize(
    ("width", "scheme", "background"), [(390, LIGHT, "rgb(245, 246, 248)"), (1280, DARK, "rgb(15, 18, 23)")]
)
def test_page_in_a_browser(tmp_path, width, scheme, background):
    assert_stands_alone(text := page())
    seen = looked_at(text, tmp_path, width, scheme)
    assert seen["width"] == width
    assert seen["reach"] <= width, "the page scrolls sideways"
    assert seen["background"] == background
    (whole, shown), (half, shown_half) = seen["images"]
    assert whole == half == (660 if width == 390 else 1320)  # pixels of the picture chosen
    assert shown_half == (shown if width == 390 else pytest.approx(shown / 2, abs=2))

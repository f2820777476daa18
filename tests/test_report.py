"""The page in a real browser: it fits a phone, says nothing on the console, and follows the colour scheme."""

from __future__ import annotations

import numpy as np
import pytest
from support.pages import BROWSER, DARK, LIGHT, assert_stands_alone, looked_at

from torchnpn import plots, report


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

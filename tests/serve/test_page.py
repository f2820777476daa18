"""The page of `npn serve` in a headless Chromium: real drags, clicks and keys."""

from __future__ import annotations

import json
import time

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("prometheus_client", reason="the extra `serve` is not installed")

from support.browser import PATIENCE, Browser
from support.pages import BROWSER
from support.serving import Client, frame, model, server

pytestmark = [pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here"), pytest.mark.slow]

SHOWN = "document.querySelector('#cells table') !== null"
NUMBERS = {"slider", "spinbutton", "switch", "radio", "combobox", "button", "textbox", "Date", "image", "link"}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    one = Browser(tmp_path_factory.mktemp("browser"))
    yield one
    one.close()


@pytest.fixture(scope="module")
def models():
    return {target: model(target) for target in ("y", "count", "kind")}


@pytest.fixture(scope="module")
def ports(models):
    with server(models["y"]) as y, server(models["count"]) as count, server(models["kind"]) as kind:
        yield {"y": y, "count": count, "kind": kind}


@pytest.fixture
def page(browser, ports):
    """A function that opens the page of a model, and in the end checks that nothing went wrong on it."""

    def opened(target: str, width: int = 1280, height: int = 900, dark: bool = False) -> Browser:
        browser.look(width, height, dark)
        browser.open(f"http://127.0.0.1:{ports[target]}/")
        browser.wait(f"document.readyState === 'complete' && {SHOWN}")
        return browser

    browser.said.clear()
    yield opened
    assert browser.said == []


def row(page: Browser) -> dict:
    """What the page would send, from the command that it shows."""
    return json.loads(page.run("document.querySelector('#curl').textContent").split("'")[1])


def interval(page: Browser) -> tuple[float, float]:
    """Ends of the interval, as it is drawn."""
    return tuple(page.run("['x1', 'x2'].map(name => +document.querySelector('#interval').getAttribute(name))"))


def settle(page: Browser) -> None:
    """Until the page shows the answer for the row of its controls."""
    page.wait("document.querySelector('#view').ariaBusy === 'false'")


def test_a_dragged_slider_moves_the_interval(page, ports):
    shown = page("y")
    before, sent = interval(shown), row(shown)
    x, y = shown.middle("#c0-slider")
    width = shown.run("document.querySelector('#c0-slider').clientWidth")
    shown.mouse("mousePressed", x, y)
    for step in range(1, 11):
        shown.mouse("mouseMoved", x + step * width / 24, y)
    shown.mouse("mouseReleased", x + 10 * width / 24, y)
    settle(shown)
    after, changed = interval(shown), row(shown)
    assert changed["x"] > sent["x"] and {**changed, "x": 0} == {**sent, "x": 0}
    assert after[0] > before[0] + 20 and after[1] > before[1] + 20  # y grows with x
    answer = Client(ports["y"]).post("/predict", changed).json
    low, high = map(float, shown.run("document.querySelector('#ends').textContent").replace("−", "-").split(" to "))
    np.testing.assert_allclose((low, high), (answer["y_low"], answer["y_high"]), rtol=1e-3)
    assert "90% interval" in shown.wait("document.querySelector('#spoken').textContent")  # a screen reader hears it


def test_levels_choices_and_missing_by_mouse_and_keys(page):
    shown = page("y")
    width = np.ptp(interval(shown))
    shown.click("#levels input[value='0.5']")
    shown.wait("document.querySelector('#range').textContent.includes('50%')")
    assert np.ptp(interval(shown)) < 0.6 * width
    shown.click(".chips.field input[value='green']")
    shown.wait("document.querySelector('#curl').textContent.includes('green')")
    shown.run("document.querySelector('#c0-missing').focus()")
    shown.press(" ", 32)
    shown.wait("document.querySelector('#curl').textContent.includes('\"x\":null')")
    assert shown.run("document.querySelector('#c0-slider').disabled")
    assert "missing" in shown.run("document.querySelector('#cells').textContent")
    shown.run("document.querySelector('#c2-slider').focus()")
    day = row(shown)["day"]
    shown.press("ArrowRight", 39)
    shown.wait(f"!document.querySelector('#curl').textContent.includes('{day}')")
    assert pd.Timestamp(row(shown)["day"]) == pd.Timestamp(day) + pd.Timedelta(days=1)
    shown.click("button[type=reset]")
    shown.wait("!document.querySelector('#curl').textContent.includes('null')")


def test_a_table_comes_back_with_predictions(page, models, tmp_path):
    shown, table = page("count"), frame(40)[["x", "colour", "day"]]
    table.to_csv(tmp_path / "new.csv", index=False)
    node = shown.send("DOM.querySelector", nodeId=shown.send("DOM.getDocument")["root"]["nodeId"], selector="#file")
    shown.send("DOM.setFileInputFiles", nodeId=node["nodeId"], files=[str(tmp_path / "new.csv")])
    shown.wait("!document.querySelector('#download').hidden")
    assert shown.run("document.querySelector('#download').download") == "new-predicted.csv"
    shown.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    shown.click("#download")
    file, end = tmp_path / "new-predicted.csv", time.monotonic() + PATIENCE
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.05)
    found = pd.read_csv(file)
    np.testing.assert_allclose(found.count_mean, models["count"].predict(table)["count_mean"], rtol=1e-6)
    (tmp_path / "wrong.csv").write_text("a,b\n1,2\n")
    shown.send("DOM.setFileInputFiles", nodeId=node["nodeId"], files=[str(tmp_path / "wrong.csv")])
    assert "missing from the file" in shown.wait("document.querySelector('#file-says.problem')?.textContent")
    shown.said[:] = [one for one in shown.said if one["entry"]["source"] != "network"]  # the browser's note of the 422


@pytest.mark.parametrize("target", ["y", "count", "kind"])
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_it_fits_and_everything_has_a_name(page, target, width, dark):
    shown = page(target, width, 844, dark)
    assert shown.run("document.documentElement.scrollWidth") == width
    light = shown.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")
    assert (light < 100) == dark
    tree = shown.send("Accessibility.getFullAXTree")["nodes"]
    named = [(node["role"]["value"], node.get("name", {}).get("value")) for node in tree if not node["ignored"]]
    assert {"slider", "switch", "radio"} <= {role for role, _ in named}
    assert all(name for role, name in named if role in NUMBERS), named

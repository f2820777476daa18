"""HTML pages and pictures as tests look at them: links, sizes, and what a browser makes of a page."""

from __future__ import annotations

import html
import json
import shutil
import struct
import subprocess
from html.parser import HTMLParser
from pathlib import Path

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


class Links(HTMLParser):
    """Everything that a browser would fetch or follow, and the tags that are open."""

    def __init__(self):
        super().__init__()
        self.links, self.tags, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "srcset", "href", "action", "data")]
        if tag not in ("meta", "link", "img", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def assert_stands_alone(text: str) -> None:
    page = Links()
    page.feed(text)
    assert page.open == []
    assert all(link.startswith(("data:", "#")) for link in page.links)
    assert not {"script", "iframe", "object", "embed"} & set(page.tags)
    assert "@import" not in text and "url(" not in text


def png_size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])

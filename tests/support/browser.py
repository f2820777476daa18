"""A headless Chromium that tests drive by its own protocol, over a pipe: real clicks and drags, and screenshots.

The browser reads commands on its file 3 and answers on its file 4, each message ended by a zero byte.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import subprocess
import time
from pathlib import Path

from support.pages import BROWSER

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
]
PATIENCE = 60  # seconds, on a busy machine


class Browser:
    """One page of a browser."""

    def __init__(self, folder: Path):
        to_browser, self._commands = os.pipe()
        self._answers, from_browser = os.pipe()

        def as_three_and_four():
            high = [fcntl.fcntl(one, fcntl.F_DUPFD, 10) for one in (to_browser, from_browser)]
            for one, number in zip(high, (3, 4), strict=True):
                os.dup2(one, number)

        self._process = subprocess.Popen(
            [BROWSER, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
            close_fds=False,
            preexec_fn=as_three_and_four,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser), os.close(from_browser)
        self._numbers, self._buffer, self._session, self.said = itertools.count(1), b"", None, []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def close(self):
        with contextlib.suppress(OSError):
            self.send("Browser.close")
        os.close(self._commands), os.close(self._answers)
        self._process.wait(PATIENCE)

    def send(self, method: str, **params):
        """A command's answer; what the page says meanwhile is kept in `said`."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']}")
                return found["result"]
            if found.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.said.append(found["params"])

    def _read(self):
        while b"\0" not in self._buffer:
            part = os.read(self._answers, 1 << 16)
            if not part:
                raise OSError("the browser has ended")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def look(self, width: int, height: int, dark: bool = False):
        """The size of the screen, and the colours that its owner prefers."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str):
        self.send("Page.navigate", url=address)

    def run(self, script: str):
        """What an expression of the page is worth."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"]["description"])
        return found["result"].get("value")

    def wait(self, script: str):
        """Until an expression is true, and what it then is."""
        end = time.monotonic() + PATIENCE
        while not (value := self.run(script)):
            if time.monotonic() > end:
                raise TimeoutError(script)
            time.sleep(0.05)
        return value

    def middle(self, selector: str) -> tuple[float, float]:
        """Where an element is on the screen, once it is scrolled to."""
        return tuple(
            self.run(
                f"(() => {{ const one = document.querySelector({json.dumps(selector)}); "
                "one.scrollIntoView({block: 'end', behavior: 'instant'}); const box = one.getBoundingClientRect(); "
                "return [box.x + box.width / 2, box.y + box.height / 2] })()"
            )
        )

    def mouse(self, kind: str, x: float, y: float):
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def click(self, selector: str):
        x, y = self.middle(selector)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def press(self, key: str, code: int):
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path, whole: bool = False):
        found = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

"""A browser in tests: Chromium, driven by the W3C WebDriver protocol of its ChromeDriver."""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name of a reference
KEYS = {"Down": "\ue015", "Up": "\ue013", "Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004"}


class Browser:
    """One window."""

    def __init__(self, port: int, profile: Path) -> None:
        self.base = f"http://127.0.0.1:{port}"
        options = {"binary": find("chromium"), "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {
            "alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        }
        session = self._call("POST", "/session", {"capabilities": wanted})
        self.base += f"/session/{session['sessionId']}"

    def open(self, page: Path, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.chrome("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.chrome("Emulation.setDeviceMetricsOverride", **size)
        self._call("POST", "/url", {"url": page.as_uri()})

    def run(self, script: str) -> Any:
        """What a script returns, such as `return document.title`."""
        return self._call("POST", "/execute/sync", {"script": script, "args": []})

    def click(self, selector: str) -> None:
        self._call("POST", f"/element/{self._find(selector)}/click", {})

    def press(self, *keys: str) -> None:
        """Keys by name, or text, wherever the focus is."""
        strokes = [
            {"type": kind, "value": key}
            for name in keys
            for key in (KEYS.get(name) or name)
            for kind in ("keyDown", "keyUp")
        ]
        board = {"type": "key", "id": "keyboard", "actions": strokes}
        self._call("POST", "/actions", {"actions": [board]})

    def chrome(self, command: str, **parameters: Any) -> Any:
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def picture(self, path: Path) -> None:
        found = self.chrome("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def complaints(self) -> list[str]:
        """What the console has shown since it was last asked."""
        entries = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries]

    def close(self) -> None:
        self._call("DELETE", "")

    def _find(self, selector: str) -> str:
        found = self._call("POST", "/element", {"using": "css selector", "value": selector})
        return str(found[_ELEMENT])

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        with urlopen(Request(self.base + path, data, headers, method=method), timeout=60) as answer:
            return json.load(answer)["value"]


def find(name: str) -> str | None:
    """A program of this name, or of another that it has."""
    return shutil.which(name) or shutil.which({"chromium": "chromium-browser"}.get(name, name))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A headless Chromium; the test is skipped where there is none."""
    if not find("chromium") or not find("chromedriver"):
        pytest.skip("needs chromium and chromedriver (Debian: chromium-driver)")
    log = folder / "driver.log"
    driver = subprocess.Popen(
        ["chromedriver", "--port=0", f"--log-path={log}"], stdout=subprocess.PIPE, text=True
    )
    try:
        window = Browser(_port(driver), folder / "profile")
        try:
            yield window
        finally:
            window.close()
    finally:
        driver.terminate()
        driver.wait(10)


def _port(driver: "subprocess.Popen[str]") -> int:
    deadline = time.monotonic() + 30
    assert driver.stdout is not None
    for line in driver.stdout:
        if "on port " in line and "successfully" in line:
            return int(line.rsplit("port ", 1)[1].strip(" .\n"))
        assert time.monotonic() < deadline
    raise AssertionError("chromedriver did not start")

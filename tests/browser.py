"""A headless browser for tests, driven by its debugging protocol over two pipes, without driver or port."""

import base64
import fcntl
import json
import os
import shutil
import subprocess

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")


def installed():
    """Return the path of a browser, or None if there is none (`python tools/install_browser.py`
    gets one)."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Page:
    """One page of a browser that the page starts itself; ``events`` lists all events that the
    browser sent."""

    def __init__(self, folder):
        to_read, self.write_end = os.pipe()
        self.read_end, to_write = os.pipe()
        program = [installed(), *FLAGS, f"--user-data-dir={folder}", "--remote-debugging-pipe"]

        def place_ends():  # the browser expects the pipes at these descriptors
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, to_write)]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            program, preexec_fn=place_ends, close_fds=False, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        self.events, self.buffer, self.asked, self.session = [], b"", 0, None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        found = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **params):
        """Send a command and return the browser's answer."""
        self.asked += 1
        message = {"id": self.asked, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next_message()
            if answer.get("id") == self.asked:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def next_message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.read_end, 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def show(self, path, width=1000, height=800, scheme="light"):
        """Open a file in a window of the given size and colour scheme."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
        self.ask("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": scheme}])  # fmt: skip
        self.events.clear()
        self.ask("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.next_message())

    def value(self, expression):
        """Return the value of an expression on the page."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def complaints(self):
        """Return what a page should not cause: errors, console lines, requests beyond its own file."""
        self.value("1")  # by now the browser has reported all earlier events
        bad = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        found = [event for event in self.events if event["method"] in bad]
        asked = [e["params"]["request"]["url"] for e in self.events
                 if e["method"] == "Network.requestWillBeSent"]  # fmt: skip
        return found + [url for url in asked[1:] if not url.startswith("data:")]

    def screenshot(self, path):
        """Write a picture of the whole page."""
        data = self.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self):
        os.close(self.write_end)  # the browser ends when its pipe is closed
        self.process.wait()
        os.close(self.read_end)

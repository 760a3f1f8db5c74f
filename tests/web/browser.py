"""Chromium, without a window, and a server of its own: what the tests of the page stand on."""

import socket
import subprocess
import urllib.request

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE = 300  # Seconds that anything may take on a machine that is busy.


class Server:
    """`paceline serve` on a port that stays the same when it is started again."""

    def __init__(self, program, *options, environment=None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.command = [
            program,
            "serve",
            "--port",
            str(self.port),
            "--log-level",
            "error",
            *options,
        ]
        self.environment = environment
        self.url = f"http://127.0.0.1:{self.port}/"
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, env=self.environment)
        if not self.process.stdout.readline():  # Its address, once it is ready.
            raise SystemExit("the server did not start")

    def metric(self, name):
        with urllib.request.urlopen(self.url + "metrics") as page:
            lines = page.read().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(name))

    def die(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Browser(webdriver.Chrome):
    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        super().__init__(options=options, service=Service("/usr/bin/chromedriver"))
        self.size(1280, 800)
        self.colours("light")

    def size(self, width, height, scale=1):
        self.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False},
        )

    def colours(self, scheme):
        self.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )

    def open_fresh(self, url):
        """Opens the page as somebody does who never was here."""
        self.get(url)
        self.execute_script("localStorage.clear(); sessionStorage.clear();")
        self.get("about:blank")
        self.get(url)
        self.until(lambda: self.text("#link") == "Connected")

    def all(self, selector):
        return self.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        """The text as the page has it, shown or not; empty where there is no such element."""
        return self.script(
            "return document.querySelector(arguments[0])?.textContent ?? ''", selector
        )

    def script(self, source, *arguments):
        return self.execute_script(source, *arguments)

    def until(self, condition):
        WebDriverWait(self, PATIENCE, poll_frequency=0.05).until(lambda _: condition())

    def keys(self, *keys):
        """Types into whatever has the focus."""
        self.switch_to.active_element.send_keys(*keys)

    def writing(self):
        return self.text("#send") == "Stop"

    def send(self, text):
        self.one("#input").send_keys(text, Keys.ENTER)

    def answered(self):
        self.until(lambda: not self.writing() and self.all(".answer footer button"))

    def answer(self):
        return self.script(
            "return [...document.querySelectorAll('.answer .text')].at(-1)?.textContent ?? ''"
        )

    def button(self, text, within="body"):
        return next(one for one in self.all(f"{within} button") if one.text == text)

    def set(self, label, value):
        """Gives a field of the open dialog a value."""
        self.script(
            """const input = [...document.querySelectorAll('dialog .field')]
                .find((field) => field.firstChild.textContent === arguments[0])
                .querySelector('input, select');
            input.value = arguments[1]; input.dispatchEvent(new Event('change'))""",
            label,
            value,
        )

    def complaints(self):
        """What the console says, but for requests that failed, which a test may want."""
        return [
            one["message"]
            for one in self.get_log("browser")
            if "Failed to load resource" not in one["message"]
        ]

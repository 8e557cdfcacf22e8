"""A real browser, Debian's Chromium without a window, and pages in it as a reader sees them."""

import re
import shutil

import numpy as np
import pytest

from tests.helpers.forking import LONGEST

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

_FLAGS = """
    --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
    --disable-background-networking --disable-component-update --window-size=1280,900
"""
# Text that a browser would run, or take for the end of the data, if it read it as markup.
MARKUP = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>&lt;"


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """Starts the browser; one module has all tests that need it."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*_FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


class Page:
    def __init__(self, driver, address: str):
        driver.get(address)
        self.driver = driver

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)"
        return self.run(script, selector)

    def text(self, selector: str) -> str:
        return self.texts(selector)[0]

    def content(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def find(self, selector: str):
        return self.driver.find_element("css selector", selector)

    def type(self, selector: str, text: str) -> None:
        self.find(selector).clear()
        self.find(selector).send_keys(text)

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def until(self, holds) -> None:
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.driver, LONGEST).until(lambda _: holds())

    def console(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]


def emulate(driver, width=None, height=844, **media) -> None:
    """Sets the width of the page and the media features for its style, and resets all others."""
    features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
    kind = media.pop("type", "")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": features})
    if width is None:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    else:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def contrast(*colours: str) -> float:
    """Returns the contrast of two colors "rgb(...)", see https://www.w3.org/TR/WCAG22."""
    shares = [np.array(re.findall(r"\d+", colour)[:3], float) / 255 for colour in colours]
    linear = [np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) for c in shares]
    low, high = sorted(c @ [0.2126, 0.7152, 0.0722] for c in linear)
    return (high + 0.05) / (low + 0.05)

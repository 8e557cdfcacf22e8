"""Makes the pictures of the documentation in Chromium: `make pictures`.

They show the pages of a run on `examples/tickets` and of the demo, and that of a server with the
demo's model.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import albert
from albert.inference import load_model
from albert.serving.services import service_of
from benchmarks.parts import weights
from tests.helpers import browser
from tests.helpers.forking import ROOT
from tests.helpers.serving import Served, until

DEMO, TICKETS = ROOT / "demo_output/run-1", ROOT / "out/tickets"
LIGHT, DARK = "light", "dark"


class Picture(NamedTuple):
    """A picture: its name, the address of the page, and the size in pixels and the colors."""

    name: str
    address: str
    width: int = 1280
    height: int = 640
    colors: str = LIGHT


def pictures(server: str) -> Iterator[Picture]:
    """Yields the pictures; `server` is the address of a server."""
    tickets, demo = (f"file://{run}/predictions.html" for run in (TICKETS, DEMO))
    yield Picture("tickets.png", tickets, height=560)
    yield Picture("predictions-wide.png", demo)
    yield Picture("predictions-dark.png", demo, colors=DARK)
    yield Picture("predictions-narrow.png", demo, 390, 844)
    yield Picture("server.png", server, height=680)


def make(driver: Any, picture: Picture) -> None:
    """Opens a page, asks its question if it is that of a server, and writes the picture."""
    browser.emulate(driver, picture.width, picture.height, prefers_color_scheme=picture.colors)
    driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    driver.get(picture.address)
    for send in driver.find_elements("css selector", "#send"):
        send.click()
        until(driver.find_element("css selector", "#answer").is_displayed)
    # Until the plots have their sizes.
    time.sleep(1)
    driver.save_screenshot(ROOT / "docs/images" / picture.name)


def main() -> None:
    """Trains on the tickets unless that is done, and makes all pictures."""
    model = weights.fetch("out/weights")
    albert.train("classify", TICKETS, data=ROOT / "examples/tickets", model=model, verbose=False)
    served = Served(service_of(load_model(str(DEMO))))
    with browser.started() as driver:
        for picture in pictures(served.url):
            make(driver, picture)
            print(picture.name)
    served.stop()


if __name__ == "__main__":
    main()

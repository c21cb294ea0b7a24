"""Pages in Chromium: at two widths, light and dark, with what axe finds wrong for people who use other means."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
_FLAGS = ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run")
_QUIET = ("disable-background-networking", "disable-component-update")

needs_browser = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver")


@contextmanager
def open_browser(folder: Path, *, size: str = "desktop", dark: bool = False) -> Iterator[Any]:
    """Give a driver of selenium that logs requests.

    Args:
        folder: an empty one for its profile.
        size: of `SIZES`.
    """
    selenium = pytest.importorskip("selenium.webdriver")
    options = selenium.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for word in (*_FLAGS, *_QUIET, f"user-data-dir={folder}"):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    driver = selenium.Chrome(options=options, service=selenium.ChromeService(str(DRIVER)))
    width, height = SIZES[size]
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    try:
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        yield driver
    finally:
        driver.quit()


def serious_findings(driver: Any) -> list[str]:
    """Rules of axe that the open page breaks, serious and critical ones, each with the first element."""
    axe = pytest.importorskip("axe_core_python.selenium")
    found = axe.Axe().run(driver)["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']} ({len(one['nodes'])}): {one['nodes'][0]['html'][:300]}" for one in serious]


def page_findings(page: Path, folder: Path) -> list[str]:
    """What is wrong with a file, at each size, light and dark; parts beyond the edge of the screen, too."""
    found = []
    for size, (width, _) in SIZES.items():
        for dark in (False, True):
            with open_browser(folder / f"{size}-{dark}", size=size, dark=dark) as driver:
                driver.get(page.resolve().as_uri())
                found += serious_findings(driver)
                wide = driver.execute_script("return document.documentElement.scrollWidth")
                if wide > width:
                    found.append(f"it is {wide} wide on a screen of {width}")
    return found

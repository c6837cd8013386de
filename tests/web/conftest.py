"""The page in a real browser: Debian's Chromium, driven by its chromedriver."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tailrace.settings.load import load
from tailrace.web.details import Details
from tailrace.web.model import Model
from tailrace.web.pages.pipelines import Pipelines
from tailrace.web.site import Site
from tailrace_service.http.access import Address
from tailrace_service.http.service import HttpService

PICTURES = os.environ.get("TAILRACE_PICTURES")
"""Folder that the pictures of docs are written to; they are renewed by setting it."""
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--force-device-scale-factor=1", "--hide-scrollbars"),
)
_OPTIONS = {
    "prefix": "shop",
    "kafka.start_timeout_s": "1",
    "kafka.bootstrap": "127.0.0.1:1",
    "registry.url": "http://127.0.0.1:1",
    "publisher.source.host": "sql1",
    "publisher.source.database": "Shop",
    "publisher.source.user": "cdc",
    "publisher.source.password": "secret",
}


class Shown:
    """Stands where the collector does: gives the model of a test.

    Attributes:
        seen: what the page shows from its next renewal on.
    """

    def __init__(self, seen: Model) -> None:
        self.seen = seen

    def model(self, _wait_s: float = 0.0) -> Model:
        """What is seen now: it is as old as the look that just ended."""
        fresh = self.seen.freshness
        later_ms = time.time_ns() // 1_000_000 - fresh.at_ms
        published_ms = None if fresh.published_ms is None else fresh.published_ms + later_ms
        now = replace(fresh, at_ms=fresh.at_ms + later_ms, published_ms=published_ms)
        since_ms = None if self.seen.since_ms is None else self.seen.since_ms + later_ms
        return replace(self.seen, freshness=now, since_ms=since_ms)


def start(folder: Path, *, scripts: bool = True) -> webdriver.Chrome:
    """Start a browser of its own profile."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs chromium and chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*_FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    if not scripts:
        forbidden = {"profile.managed_default_content_settings.javascript": 2}
        options.add_experimental_option("prefs", forbidden)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options, Service(driver))


@pytest.fixture(scope="session")
def one_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """One browser for all tests of a process."""
    started = start(tmp_path_factory.mktemp("chromium"))
    yield started
    started.quit()


@pytest.fixture
def browser(one_browser: webdriver.Chrome) -> webdriver.Chrome:
    """The browser, without what other tests left in its log."""
    one_browser.get("about:blank")
    one_browser.get_log("browser")
    return one_browser


@pytest.fixture
def site() -> Iterator[Callable[..., str]]:
    """Serve a model, or several as pipelines of their own; gives the address of the page."""
    services: list[HttpService] = []

    def serve(*seen: Model | Shown) -> str:
        sites = {f"Shop {n}": _site(each, len(seen)) for n, each in enumerate(seen, 1)}
        served = next(iter(sites.values())) if len(seen) == 1 else Pipelines(sites)
        service = HttpService(Address(0), served.routes())
        service.__enter__()
        services.append(service)
        return f"http://127.0.0.1:{service.port}/"

    yield serve
    for service in services:
        service.__exit__(None, None, None)


def _site(seen: Model | Shown, count: int) -> Site:
    shown = seen if isinstance(seen, Shown) else Shown(seen)
    settings = load(None, {}, [f"{name}={value}" for name, value in _OPTIONS.items()])
    home = "./" if count == 1 else "../../"
    return Site(settings, shown, Details(settings), home)  # type: ignore[arg-type]


@contextmanager
def width(browser: webdriver.Chrome, pixels: int, height: int = 1000) -> Iterator[None]:
    """A window of some width, also narrower than a window can be."""
    size = {"width": pixels, "height": height, "deviceScaleFactor": 1, "mobile": pixels < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def picture(browser: webdriver.Chrome, name: str) -> None:
    """Write what the browser shows, if pictures are wanted."""
    if PICTURES:
        browser.save_screenshot(str(Path(PICTURES) / f"{name}.png"))

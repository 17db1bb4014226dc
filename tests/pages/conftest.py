"""A real browser at the real pages: Debian's Chromium, driven by playwright.

With BERTH_SCREENSHOTS=DIR every page that is looked at is kept there as a picture. Where there is no Chromium the tests
are skipped, unless BERTH_NEED_BROWSER says that there must be one.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Page, sync_playwright

PASSWORD = "an operator's password"
PATIENCE_MS = 10_000
WIDTHS = {"wide": 1400, "narrow": 400}
# Its connections to the outside would only be refused, many at a time.
QUIET = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
QUIET += ["--disable-sync", "--disable-quic"]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One for these tests alone: its driver keeps an event loop in this thread, which others could not do with."""
    found = os.environ.get("BERTH_CHROMIUM") or shutil.which("chromium")
    if found is None:
        if os.environ.get("BERTH_NEED_BROWSER"):
            pytest.fail("there is no Chromium (Debian: apt-get install chromium), and BERTH_NEED_BROWSER is set")
        pytest.skip("there is no Chromium; Debian: apt-get install chromium")
    # Root may not use the sandbox of Chromium; what it opens here is our own.
    arguments = [*QUIET, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=arguments)
        # Django takes that loop for a reason to refuse the database.
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
        yield running
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
        running.close()


class Operator:
    """An operator at a screen of one width. Every page must fit it, and no script may fail."""

    def __init__(self, page: Page, address: str, size: str) -> None:
        self.page, self.address, self.size = page, address, size
        self.faults: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda said: self.faults.append(said.text) if said.type == "error" else None)

    def log_in(self, password: str = PASSWORD) -> None:
        self.page.goto(f"{self.address}/admin/")
        self.page.fill("#id_username", "root")
        self.page.fill("#id_password", password)
        self.page.click("button[type=submit]")

    def choose(self, entry: str) -> None:
        """An entry of the menu, which a narrow screen hides behind a button."""
        link = self.page.locator(f"#nav-sidebar-apps a:has(span:text-is('{entry}'))")
        if not link.is_visible():
            self.page.locator("span[x-on\\:click*=sidebarMobileOpen]").locator("visible=true").first.click()
        link.click()
        self.page.wait_for_load_state()

    def press(self, name: str) -> None:
        """A button, or a link that looks like one."""
        self.page.locator(".berth-button", has_text=name).first.click()
        self.page.wait_for_load_state()

    def sees(self, text: str) -> None:
        self.page.get_by_text(text).locator("visible=true").first.wait_for()

    def looks(self, name: str) -> None:
        """The page fits the screen; a picture of it is kept when asked for."""
        fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert self.page.evaluate(fits), f"{self.page.url} is wider than {WIDTHS[self.size]} px"
        if folder := os.environ.get("BERTH_SCREENSHOTS"):
            self.page.screenshot(path=Path(folder) / f"{name}-{self.size}.png")


@pytest.fixture(params=list(WIDTHS))
def operator(request: Any, browser: Browser, live_server: Any) -> Iterator[Operator]:
    """One who may do everything, before the login."""
    User.objects.create_superuser("root", password=PASSWORD)
    context = browser.new_context(viewport={"width": WIDTHS[request.param], "height": 900})
    operator = Operator(context.new_page(), live_server.url, request.param)
    yield operator
    context.close()
    assert not operator.faults, operator.faults

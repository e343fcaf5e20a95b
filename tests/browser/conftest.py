"""A real browser, Chromium of the system, driven by playwright; pages by hand and of small runs."""

import shutil

import pytest
from tests.unit.report.hand_made_results import comparison

from lightloom.report.page import render

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: a slow moment of the machine is no failure
PATIENCE_MS = 300_000
HOW = "install Chromium, for instance with apt-get install chromium"


@pytest.fixture(scope="module")
def browser():
    """Chromium; without it, or without playwright, tests are skipped.

    The driver holds the event loop of its thread, in which other tests have theirs: it ends with
    each file.
    """
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no Chromium to look at pages with: {HOW}")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as driver:
        # containers run as root, which the sandbox refuses
        running = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox"], timeout=PATIENCE_MS
        )
        yield running
        running.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open the text of a page; whatever it complains of, or asks the network for, is an error."""
    problems, contexts = [], []

    def opened(text, *, width=1280, scheme="light", at="", scripts=True):
        file = tmp_path / "page.html"
        file.write_text(text, encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme,
            java_script_enabled=scripts, accept_downloads=True,
        )  # fmt: skip
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: said.type == "error" and problems.append(said.text))
        page.on("request", lambda r: r.url.startswith("http") and problems.append(r.url))
        page.goto(f"{file.as_uri()}{at}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not problems


@pytest.fixture(scope="session")
def hand_made():
    """The page of the comparison made by hand."""
    return render(comparison())

"""What the tests of the console share: a busy shop, its console as a process, and a real Chromium.

The console has a Kafka of its own, because one test takes it away. Everything ends with the last of these tests: a
browser that runs has an event loop in this thread, beside which nobody else can have one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect, sync_playwright
from tests.console.picture import smaller
from tests.console.stage import Stage, Traffic

from headrace.log.connection import Connection
from headrace.parts.embedded import Parts
from headrace.settings import Settings

COMMAND = [sys.executable, "-c", "from headrace.cli import main; main()"]
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-background-networking", "--force-color-profile=srgb"]
VIEWPORT = ViewportSize(width=1440, height=900)
expect.set_options(timeout=20_000)


@dataclass
class Site:
    """A console that runs: its link opens once."""

    link: str
    process: subprocess.Popen[str] = field(repr=False)
    directory: Path = field(repr=False)

    @property
    def url(self) -> str:
        return self.link.partition("?")[0].rstrip("/")

    @property
    def token(self) -> str:
        return (self.directory / ".headrace" / "token").read_text(encoding="utf-8").strip()


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "the tests of the console need Chromium: make browser"
    return found


@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield running
        running.close()


class Broker:
    """A Kafka that only these tests use; it may be killed, and started again on its port."""

    def __init__(self, home: Path) -> None:
        self._settings = Settings.load(home, bootstrap=None).model_copy(update={"bootstrap": None})
        self._parts = Parts.start(self._settings)
        self.bootstrap = self._parts.bootstrap

    def kill(self) -> None:
        os.kill(self._parts.started[0].record.server.pid, signal.SIGKILL)
        self._parts.stop()

    def start_again(self) -> None:
        self._parts = Parts.start(self._settings)
        assert self._parts.bootstrap == self.bootstrap

    def stop(self) -> None:
        self._parts.stop()


@contextmanager
def broker_of_its_own() -> Iterator[Broker]:
    """One that nobody else uses."""
    home = Path(tempfile.mkdtemp(prefix="headrace-console-"))
    home.chmod(0o755)
    running = Broker(home)
    yield running
    running.stop()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="package")
def broker() -> Iterator[Broker]:
    with broker_of_its_own() as running:
        yield running


@pytest.fixture(scope="package")
def connection(broker: Broker) -> Connection:
    return Connection(broker.bootstrap)


@pytest.fixture(scope="package")
def stage(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    made = Stage(tmp_path_factory.mktemp("shop"), connection)
    made.history()
    made.letters()
    made.late()
    return made


@pytest.fixture(scope="package")
def traffic(stage: Stage) -> Iterator[Traffic]:
    busy = Traffic(stage)
    busy.start()
    yield busy
    busy.stop()


@contextmanager
def running(
    file: Path,
    bootstrap: str,
    *options: str,
    command: str = "console",
    says: str = "the console of",
    **environment: str,
) -> Iterator[Site]:
    """A command with a console as a process of its own, which `says` its link in the last word of a line."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_") or k == "HEADRACE_CACHE"}
    process = subprocess.Popen(
        [*COMMAND, command, file.name, "--port", "0", "--bootstrap", bootstrap, *options],
        cwd=file.parent,
        env=inherited | environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = next((line for line in process.stdout if says in line), "")
        assert line, "the console did not start"
        yield Site(line.split()[-1], process, file.parent)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)
    assert process.returncode == 0


@pytest.fixture(scope="package")
def site(stage: Stage, broker: Broker, traffic: Traffic) -> Iterator[Site]:
    with running(stage.file, broker.bootstrap) as started:
        yield started


@pytest.fixture(scope="package")
def signed_in(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    """A browser that has opened the link; what a page says wrong on its console fails the run."""
    context = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    page = context.new_page()
    page.goto(site.link)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.close()
    yield context
    context.close()


@pytest.fixture
def page(signed_in: BrowserContext) -> Iterator[Page]:
    opened = signed_in.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    opened.close()
    assert errors == []


Snap = Callable[..., None]


@pytest.fixture
def snap(tmp_path: Path) -> Snap:
    """Take a picture of a page. With HEADRACE_PICTURES, which renews those of the docs, the page first settles."""
    named = os.environ.get("HEADRACE_PICTURES")

    def take(page: Page, name: str, settle_ms: int, *, full_page: bool = False) -> None:
        if named:
            page.wait_for_timeout(settle_ms)
        taken = page.screenshot(full_page=full_page)
        (Path(named or tmp_path) / name).write_bytes(smaller(taken) if named else taken)

    return take


Go = Callable[[str], Page]


@pytest.fixture
def go(page: Page, site: Site) -> Go:
    """Open a page of the console."""

    def open_page(path: str) -> Page:
        page.goto(f"{site.url}{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        return page

    return open_page

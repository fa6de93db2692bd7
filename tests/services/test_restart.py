"""What is started, and what a changed app starts again: told by a development that starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.app import App
from headrace.capture.table import Captured
from headrace.errors import RunError
from headrace.graph.graph import Graph
from headrace.services import development
from headrace.services.development import Development
from headrace.services.followers import Planned
from headrace.services.loading import load_app
from headrace.settings import Settings

APP = """
import headrace as hr

app = hr.App("shop")
orders = app.stream("orders", schema="id string, amount double")
cards = app.table("cards", hr.postgres("public.cards"), key="id")

@app.stream(key="id")
def large(orders):
    return orders.where("amount > 100")

@app.view(key="id")
def owners(cards):
    return cards.select("id")

app.follow(large, hr.webhook("https://example.com/"))
board = app.dashboard("sales")
"""
EVERYTHING = ["capture", "queries", "followers", "site"]


class Recorded(Development):
    """It says what it would start; `refuses` is an app whose queries cannot start."""

    refuses: str | None = None

    def __init__(self, file: Path, **options: Any) -> None:
        super().__init__(file, Settings.load(file.parent), **options)
        self.started: list[str] = []
        self.followed: list[str] = []

    def begin(self, text: str | None = None) -> list[str]:
        """What the text of an app starts."""
        if text is not None:
            assert self._file is not None
            self._file.write_text(text)
        self.started = []
        self._begin(load_app(self._file) if self._file else self._app)
        return self.started

    def take(self, text: str) -> list[str]:
        """The same, as a saved file does it."""
        assert self._file is not None
        assert self._saved is not None
        self._file.write_text(text)
        self.started = []
        self._take(self._saved, load_app(self._file))
        return self.started

    def _find_servers(self, graph: Graph) -> None:
        pass

    def _start_capture(self, graph: Graph, tables: tuple[Captured, ...]) -> None:
        self.started.append("capture")

    def _start_run(self, app: App) -> None:
        if self.refuses is not None and self.refuses in app.graph().names:
            raise RunError("HR-307", "It does not fit.", fix="another name")
        self.started.append("queries")

    def _start_followers(self, graph: Graph, followers: Sequence[Planned]) -> None:
        self.started.append("followers")
        self.followed = [one.name for one in followers]

    def _start_site(self, graph: Graph) -> None:
        self.started.append("site")


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Recorded]:
    def made(**options: Any) -> Recorded:
        (tmp_path / "app.py").write_text(APP)
        return Recorded(tmp_path / "app.py", **options)

    return made


def test_everything_is_started_once(make: Callable[..., Recorded]):
    running = make()
    assert running.begin() == EVERYTHING
    assert running.followed == ["owners.postgres", "large.webhook"]
    assert running.begin() == []
    assert running.begin(f"# a comment\n{APP}") == []


@pytest.mark.parametrize(
    ("before", "after", "started"),
    [
        ("amount > 100", "amount > 200", ["queries", "site"]),
        ('dashboard("sales")', 'dashboard("money")', ["site"]),
        ("https://example.com/", "https://example.org/", ["followers", "site"]),
        ("public.cards", "public.plastic", ["capture", "queries", "site"]),
        ("def owners", "def people", ["queries", "followers", "site"]),
        ('hr.App("shop")', 'hr.App("store")', EVERYTHING),
    ],
    ids=["function", "dashboard", "webhook", "table", "view", "app"],
)
def test_what_has_changed_is_started_again(make: Callable[..., Recorded], before: str, after: str, started: list[str]):
    running = make()
    running.begin()
    assert running.begin(APP.replace(before, after)) == started
    assert running.begin(APP) == started


def test_what_does_not_start_leaves_the_app_as_it_was(make: Callable[..., Recorded]):
    running = make()
    running.begin()
    running.refuses = "huge"
    changed = APP.replace("def large", "def huge").replace("follow(large", "follow(huge")
    assert running.take(changed.replace("public.cards", "public.plastic")) == ["capture", "capture", "queries"]
    assert running.take(APP) == []
    running.refuses = "large"
    with pytest.raises(RunError, match="HR-307"):
        running.take(APP.replace("amount > 100", "amount > 200"))


def test_no_webhook_is_called(make: Callable[..., Recorded]):
    running = make(webhooks=False)
    running.begin()
    assert running.followed == ["owners.postgres"]


def test_no_file_is_watched(make: Callable[..., Recorded]):
    assert make()._saved is not None
    assert make(watch=False)._saved is None


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, {"views": True, "console": True}),
        ({"serve": False}, {"views": False, "console": True}),
        ({"console": False}, {"views": True, "console": False}),
        ({"serve": False, "console": False}, None),
    ],
    ids=["both", "console", "views", "neither"],
)
def test_what_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], wanted: dict[str, bool] | None
):
    asked: list[dict[str, Any]] = []

    class Server:
        failure = None

        def __init__(self, app: Path, **given: Any) -> None:
            asked.append(given)

        def wait(self) -> str:
            return "http://127.0.0.1:8611/views"

    monkeypatch.setattr(development, "Beside", Server)
    (tmp_path / "app.py").write_text(APP)
    settings = Settings.load(tmp_path, postgres="postgresql://db/shop")
    running = Development(tmp_path / "app.py", settings, **options)
    running._start_site(load_app(tmp_path / "app.py").graph())
    running._start_site(load_app(tmp_path / "app.py").graph())
    if wanted is None:
        assert asked == []
        return
    assert [one["port"] for one in asked] == [None, 8611]
    assert {name: asked[0][name] for name in wanted} == wanted
    assert asked[0]["environment"] == {"HEADRACE_POSTGRES": "postgresql://db/shop"}

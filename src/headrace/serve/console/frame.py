"""What every page has: the way to the others, a heading, what is wrong with the backend, light and dark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib.resources import files

from nicegui import ui
from starlette.requests import Request

from headrace.serve.console.backend import Backend
from headrace.serve.console.element import box, text
from headrace.serve.guard import CONSOLE

REFRESH_S = 1.0
THEME_COOKIE = "headrace_theme"
_STYLE = (files("headrace.serve.console") / "style.css").read_text(encoding="utf-8")
_MARK = (
    '<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" '
    'aria-hidden="true"><circle cx="15" cy="14" r="6.2"/><path d="M15 7.8v12.4M8.8 14h12.4M10.6 9.6l8.8 8.8'
    'M19.4 9.6l-8.8 8.8" stroke-width="1.3"/><path d="M1.5 4.5h9.5c2 0 3 .8 4 2.2"/></svg>'
)
_THEME = f"""() => {{
  const dark = !document.body.classList.contains('body--dark');
  document.cookie = '{THEME_COOKIE}=' + (dark ? 'dark' : 'light') + ';path={CONSOLE};max-age=31536000;samesite=strict';
  emit(dark);
}}"""
_PAGES = (
    ("Overview", "/", "space_dashboard"),
    ("Lineage", "/lineage", "account_tree"),
    ("Queries", "/queries", "memory"),
    ("Letters", "/letters", "mark_email_unread"),
)


def theme(request: Request) -> bool | None:
    """Whether the page is dark: as chosen, or as the browser is."""
    return {"dark": True, "light": False}.get(request.cookies.get(THEME_COOKIE, ""))


@contextmanager
def frame(backend: Backend, request: Request, title: str, active: str, *, about: str = "") -> Iterator[ui.element]:
    """A page with its heading; gives the place at the right of the heading."""
    drawn = backend.graph
    dark = ui.dark_mode(theme(request))
    ui.page_title(f"{title} · {backend.graph.app}")
    ui.add_css(_STYLE)
    with box("hr-app"):
        _side(backend, active)
        with box("hr-main"):
            with box("hr-top", "header"):
                text(title, tag="h1")
                text(about, "hr-note")
                box("hr-grow")
                right = box("hr-row")
                toggle = box("hr-icon", "button", type="button", aria_label="Light or dark", title="Light or dark")
                toggle.on("click", lambda event: dark.set_value(bool(event.args)), js_handler=_THEME)
                with toggle:
                    ui.icon("contrast")
            _banner(backend)
            with box():
                yield right
    # Another version of a view has become current: what the page reads is elsewhere by now.
    refreshing(lambda: None if backend.graph is drawn else ui.navigate.reload())


def refreshing(refresh: Callable[[], None], every: float = REFRESH_S) -> None:
    """Call it now and again and again, while the page is open."""
    ui.timer(every, refresh)


def _side(backend: Backend, active: str) -> None:
    with box("hr-side", "nav", aria_label="Pages"):
        with box("hr-brand", "a", href=f"{CONSOLE}/"):
            ui.html(_MARK, sanitize=False, tag="span")
            text("Headrace")
        *_, last = [_nav(title, path, icon, active) for title, path, icon in _PAGES]
        with last:
            letters = text("", "hr-count")
        graph = backend.graph
        if graph.dashboards:
            text("Dashboards", tag="h2")
            for board in graph.dashboards:
                _nav(board.title, f"/dashboard/{board.name}", "bar_chart", active)
        text("Streams and views", tag="h2")
        for node in graph.nodes:
            icon = {"table": "table_rows", "view": "grid_on"}.get(node.kind, "waves")
            _nav(node.name, f"/node/{node.name}", icon, active)

    def refresh() -> None:
        dead = sum(one.dead for one in backend.observer.summaries())
        letters.set_text(f"{dead:,}" if dead else "")
        letters.set_visibility(dead > 0)

    refreshing(refresh)


def _nav(title: str, path: str, icon: str, active: str) -> ui.element:
    with box("hr-nav", "a", href=f"{CONSOLE}{path}") as made:
        if path == active:
            made._props["aria-current"] = "page"
        ui.icon(icon).props("aria-hidden=true")
        text(title)
    return made


def _banner(backend: Backend) -> None:
    """What is wrong with what this page reads from."""
    banner = box("hr-banner", role="status")
    with banner:
        ui.icon("cloud_off").props("aria-hidden=true")
        told = text()

    def refresh() -> None:
        away, failing = backend.observer.topics.away, backend.observer.failing
        banner.set_visibility(away is not None or failing is not None)
        if away is None and failing is not None:
            told.set_text(f"The console cannot look at everything: {failing}. It tries again; numbers stand still.")
        if away is not None:
            since = datetime.fromtimestamp(away).astimezone()
            told.set_text(
                f"The log does not answer since {since:%H:%M:%S} ({int(time.time() - away)} s). "
                "Numbers of topics stand still until it does; nothing is lost."
            )

    refreshing(refresh)

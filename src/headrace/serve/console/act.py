"""Doing something from a page: asked for once more, written down, done beside the page, and told how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nicegui import ui
from starlette.requests import Request

from headrace.errors import HeadraceError
from headrace.serve.console.backend import Backend
from headrace.serve.console.element import box, button, text


def ask(
    backend: Backend,
    request: Request,
    *,
    action: str,
    of: str,
    title: str,
    about: str,
    do: Callable[[], str],
    after: Callable[[], None] = lambda: None,
) -> None:
    """Ask whether to do it; `do` runs in a thread and says in a sentence what it did."""
    with ui.dialog() as dialog, box("hr-dialog", role="alertdialog", aria_label=title):
        text(title, tag="h2")
        text(about, "hr-note", "div")
        trouble = text("", "hr-banner", "div", role="alert")
        trouble.set_visibility(False)
        with box("hr-row"):
            cancel = button("Cancel", dialog.close)

            async def confirmed() -> None:
                confirm._props["disabled"] = True
                confirm.update()
                try:
                    told = await asyncio.to_thread(_noted, backend, request, action, of, do)
                except HeadraceError as error:
                    trouble.set_text(f"{error.code}: {error.what}")
                    trouble.set_visibility(True)
                    cancel.set_text("Close")
                    return
                dialog.close()
                ui.notify(told, position="top", type="positive")
                after()

            confirm = button(action.capitalize(), confirmed, "is-main")
    dialog.on("hide", dialog.delete)
    dialog.open()


def _noted(backend: Backend, request: Request, action: str, of: str, do: Callable[[], str]) -> str:
    with backend.audit.noted(request, action, of):
        return do()

"""The building blocks of the pages: elements with a class, inert text, cards, links, buttons.

Text is set as text and never as HTML, so a value from the log shows as it is and does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from headrace.engine.health import Health
from headrace.serve.guard import CONSOLE

_STATES = {"keeping-up": "is-ok", "failed": "is-bad", "lost": "is-bad", "still": "is-bad", "stopped": ""}
TONES = ("is-ok", "is-warn", "is-bad")


def box(classes: str = "", tag: str = "div", **props: str) -> ui.element:
    """An element; underscores in the names of its attributes stand for dashes."""
    made = ui.element(tag).classes(classes)
    for name, value in props.items():
        made._props[name.rstrip("_").replace("_", "-")] = value
    return made


def text(content: object = "", classes: str = "", tag: str = "span", **props: str) -> TextElement:
    """Inert text; `set_text` changes it."""
    made = TextElement(tag=tag, text=str(content)).classes(classes)
    for name, value in props.items():
        made._props[name.rstrip("_").replace("_", "-")] = value
    return made


def link(content: str, path: str, classes: str = "hr-link") -> TextElement:
    """A link to another page of the console."""
    return text(content, classes, "a", href=f"{CONSOLE}{path}")


def button(content: str, action: Callable[..., Any], classes: str = "", label: str | None = None) -> TextElement:
    """A plain button; `label` is what a screen reader says of it, where the text is not enough."""
    made = text(content, f"hr-button {classes}", "button", type="button", **({"aria_label": label} if label else {}))
    made.on("click", action)
    return made


@contextmanager
def card(title: str, note: str = "", classes: str = "") -> Iterator[ui.element]:
    """A card with a heading; gives its header, for what stands at the right."""
    with box(f"hr-card {classes}", "section"):
        with box("", "header") as header:
            text(title, tag="h2")
            text(note, "hr-note")
        with box("hr-body"):
            yield header


def tone(health: Health) -> str:
    """The class that colours a health."""
    return _STATES.get(health.word, "is-warn")


def set_tone(element: ui.element, chosen: str) -> None:
    """Colour an element by one tone, and by no other."""
    element.classes(add=chosen, remove=" ".join(one for one in TONES if one != chosen))

"""What `dev` asks for and refuses before anything starts; tests/services shows what it then does."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import COMMAND
from typer.testing import Result

from headrace.cli import dev

Call = Callable[..., Result]
APP = 'import headrace as hr\n\napp = hr.App("shop")\n'


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APP)
    return file


def test_a_fresh_start_is_refused_beside_servers_of_the_settings(call: Call, app: Path):
    for name in ("HEADRACE_BOOTSTRAP", "HEADRACE_POSTGRES", "HEADRACE_SOURCE", "HEADRACE_CHECKPOINTS"):
        result = call("dev", app, "--fresh", **{name: "somewhere"})
        assert (result.exit_code, result.stdout) == (1, "")
        assert "HR-351" in result.stderr
        assert name.removeprefix("HEADRACE_").lower() in result.stderr


def test_a_fresh_start_asks_on_a_terminal(app: Path):
    kept = app.parent / ".headrace" / "checkpoints" / "shop" / "large" / "metadata"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    leader, follower = pty.openpty()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_") or k == "HEADRACE_CACHE"}
    with os.fdopen(leader, "w") as person:
        person.write("n\n")
        person.flush()
        asked = subprocess.run(
            [*COMMAND, "dev", "app.py", "--fresh"],
            cwd=app.parent,
            env=inherited,
            stdin=follower,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    os.close(follower)
    assert asked.returncode == 1
    assert "- the checkpoints of shop: " in asked.stderr
    assert "Remove all of this? [y/N]" in asked.stderr
    assert kept.exists()


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("--no-reload", {"watch": False}),
        ("--no-webhooks", {"webhooks": False}),
        ("--no-serve", {"serve": False}),
        ("--no-console", {"console": False}),
        ("--port=8700", {"port": 8700}),
        ("--only=large", {"only": ["large"]}),
    ],
)
def test_what_the_options_mean(
    call: Call, app: Path, monkeypatch: pytest.MonkeyPatch, option: str, given: dict[str, Any]
):
    asked: list[dict[str, Any]] = []

    class Recorded:
        is_in_trouble = False

        def __init__(self, file: Path, settings: object, **options: Any) -> None:
            asked.append(options)

        def __enter__(self) -> Recorded:
            raise KeyboardInterrupt

        def __exit__(self, *error: object) -> None: ...

    monkeypatch.setattr(dev, "Development", Recorded)
    for options in ((), (option,)):
        result = call("dev", app, *options)
        assert result.exit_code == 0
        assert "stopped before anything ran" in result.stderr
    usual, changed = asked
    assert usual == {
        "only": (), "webhooks": True, "serve": True, "console": True, "port": None, "fresh": False, "watch": True,
    }  # fmt: skip
    assert changed == usual | given

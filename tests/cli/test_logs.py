"""The form of what long-running commands tell: for people on a terminal, for programs elsewhere."""

from __future__ import annotations

import json
import os
import pty
import re
import sys
from collections.abc import Iterator

import pytest
import structlog
import typer

from headrace.cli import logs
from headrace.errors import FollowError

ERROR = FollowError("HR-412", "The secret of `x` is not there.", found="NO_SUCH", fix="set it")


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(logs.VARIABLE, raising=False)
    yield
    structlog.reset_defaults()


def test_programs_get_an_object_a_line(capsys: pytest.CaptureFixture[str]):
    logs.configure()
    log = structlog.get_logger()
    log.info("starting \x1b[2J\x7f Spark\nand more")
    log.error(ERROR.what, error=ERROR)
    log.debug("nobody hears this")
    printed = capsys.readouterr().err.splitlines()
    assert all(line.isprintable() for line in printed)
    first, second = map(json.loads, printed)
    assert (first["level"], first["event"]) == ("info", "starting \x1b[2J\x7f Spark\nand more")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", first["at"])
    assert (second["level"], second["event"], second["errors"]) == ("error", ERROR.what, [ERROR.as_dict()])


def test_people_get_the_time_and_the_level(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(logs.VARIABLE, "text")
    logs.configure()
    log = structlog.get_logger()
    log.info("starting \x1b[2J Spark")
    log.warning("the server is away")
    log.error(ERROR.what, error=ERROR)
    first, second, third, *rest = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d info    starting \\x1b\[2J Spark", first)
    assert second.endswith(" warning the server is away")
    assert re.fullmatch(r"\d\d:\d\d:\d\d error   HR-412  .+", third)
    assert all(line.startswith("    ") or not line.strip() for line in rest)
    assert "fix: set it" in rest[-2]


def test_a_terminal_is_for_people_and_has_colours(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        logs.configure()
        structlog.get_logger().warning("the server is away")
        said = os.read(leader, 1000).decode()
    os.close(leader)
    assert re.fullmatch(r"\d\d:\d\d:\d\d \x1b\[33mwarning\x1b\[0m the server is away\r\n", said)


def test_another_form_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(logs.VARIABLE, "xml")
    with pytest.raises(typer.BadParameter, match="xml"):
        logs.configure()

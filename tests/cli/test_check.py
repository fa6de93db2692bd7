"""`check`, and the helper that keeps Spark warm for it: one helper answers most of these tests."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import Result

from headrace.cli.check import CHECKED
from headrace.engine import checker
from headrace.errors import HeadraceError

Call = Callable[..., Result]
Process = Callable[..., subprocess.Popen[str]]
BROKEN = Path(__file__).parents[1] / "broken_apps"
APP = """
import headrace as hr

print("the app says hello")
app = hr.App("shop")
orders = app.stream("orders", schema="id string, amount double")

@app.stream
def large(orders):
    return orders.where("amount > 100")
"""
WITHIN_S = 180.0


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APP)
    return file


def asked(app: Path, within_s: float = WITHIN_S) -> list[HeadraceError]:
    """What the helper finds wrong; nothing is left unchecked."""
    answer = checker.ask(app, CHECKED, within_s)
    assert answer is not None
    errors, unchecked = checker.heard(answer)
    assert unchecked == {}
    return errors


def helpers() -> list[psutil.Process]:
    """The process that has the socket's lock, if there is one."""
    directory = checker.place()
    assert directory is not None
    text = (directory / "check.lock").read_text() if (directory / "check.lock").exists() else ""
    return [psutil.Process(int(text))] if text and psutil.pid_exists(int(text)) else []


def is_over(process: psutil.Process) -> bool:
    """Whether it has ended; one that this process has started is a zombie then."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def test_check_is_silent_when_all_is_well(call: Call, app: Path):
    result = call("check", app)
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize("file", sorted(BROKEN.glob("*.py")), ids=lambda file: file.stem)
def test_check_prints_what_is_wrong(call: Call, file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(BROKEN)
    result = call("check", file.name)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == file.with_suffix(".txt").read_text(encoding="utf-8")


def test_an_expression_at_the_top_of_the_file_needs_spark(process: Callable[..., subprocess.Popen[str]], app: Path):
    """In a process of its own, because in this one Spark may run."""
    app.write_text(f'{APP}\nfrom pyspark.sql import functions as F\nLARGE = F.col("amount") > 100\n')
    checked = process("check", app)
    _, said = checked.communicate(timeout=120)
    assert checked.returncode == 1
    assert "HR-027" in said
    assert "app.py:13" in said
    assert 'found: LARGE = F.col("amount") > 100' in said


def test_check_as_json(call: Call, app: Path):
    wrong = json.loads(call("check", BROKEN / "many_mistakes.py", "--json").stdout)
    assert [error["code"] for error in wrong] == ["HR-002", "HR-022"]
    assert all(error["fix"] and error["where"] for error in wrong)
    fine = call("check", app, "--json")
    assert (fine.exit_code, json.loads(fine.stdout)) == (0, [])


def test_a_mistake_in_a_function_is_told_with_its_line(call: Call, app: Path):
    app.write_text(APP.replace("amount > 100", "amonut > 100"))
    result = call("check", app)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "HR-302" in result.stderr
    assert "app.py:10" in result.stderr
    assert "did you mean `amount`?" in result.stderr
    assert not (app.parent / ".headrace").exists()


def test_each_check_sees_the_file_and_its_neighbours_as_they_are(app: Path):
    (app.parent / "limit.py").write_text("LIMIT = 'amount > 100'\n")
    app.write_text(
        APP.replace("import headrace as hr", "import headrace as hr\nimport limit").replace(
            '"amount > 100"', "limit.LIMIT"
        )
    )
    assert asked(app) == []
    (app.parent / "limit.py").write_text("LIMIT = 'amonut > 100'\n")
    (error,) = asked(app)
    assert error.code == "HR-302"
    (app.parent / "limit.py").write_text("LIMIT = 'amount > 200'\n")
    assert asked(app) == []


def test_the_mode_is_told_and_chosen(call: Call, app: Path):
    app.write_text(APP.replace("orders.where", "orders.coalesce(1).where"))
    both, exact = call("check", app), call("check", app, "--mode", "exact")
    assert "In live mode: `large` cannot run live" in both.stderr
    assert (exact.exit_code, exact.stderr) == (0, "")
    alone = json.loads(call("check", app, "--mode", "live", "--json").stdout)
    assert [(error["code"], error["where"]) for error in alone] == [("HR-308", "app.py:10")]


def test_what_was_not_checked_is_said(call: Call, app: Path):
    app.write_text(
        APP
        + """
cards = app.table("cards", hr.postgres("public.cards"), key="card")

@app.view(key="card")
def named(cards):
    return cards
"""
    )
    result = call("check", app)
    assert result.exit_code == 0
    assert result.stderr.startswith("not checked: named: only the database knows the columns of the table `cards`")


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("import sys; sys.exit(0)", "HR-022", 13),
        ("import os; os._exit(0)", "HR-349", None),
        ("import os; os.kill(os.getpid(), 9)", "HR-349", None),
        ("while True: pass", "HR-348", 13),
        ("@app.stream\ndef endless(orders):\n    while True: pass", "HR-348", 15),
    ],
)
def test_what_a_file_does_to_its_process_harms_nobody(app: Path, text: str, code: str, line: int | None):
    assert asked(app) == []
    before = helpers()
    app.write_text(f"{APP}\n\n{text}\n")
    (error,) = asked(app, within_s=2)
    assert error.code == code
    assert (error.where.line if error.where else None) == line
    app.write_text(APP)
    assert asked(app) == []
    assert helpers() == before


def test_two_checks_at_once(app: Path, tmp_path: Path):
    other = tmp_path / "other" / "app.py"
    other.parent.mkdir()
    other.write_text(APP.replace("amount > 100", "amonut > 100"))
    found: dict[Path, list[list[str]]] = {app: [], other: []}

    def ask(file: Path) -> None:
        for _ in range(3):
            found[file].append([error.code for error in asked(file)])

    threads = [threading.Thread(target=ask, args=(file,)) for file in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {app: [[]] * 3, other: [["HR-302"]] * 3}


def test_who_leaves_does_not_keep_a_child_busy(app: Path):
    assert asked(app) == []
    (helper,) = helpers()
    directory = checker.place()
    assert directory is not None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.connect(str(directory / checker.SOCKET))
    assert asked(app) == []
    assert helpers() == [helper]
    app.write_text(f"{APP}\n\nwhile True: pass\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(directory / checker.SOCKET))
        request = {"key": checker.key(), "app": str(app), "modes": ["exact"], "within_s": 600}
        data = json.dumps(request | {"directory": str(app.parent), "environment": dict(os.environ)}).encode()
        socket.send_fds(connection, [len(data).to_bytes(4, "big")], [2])
        connection.sendall(data)
        (child,) = until(lambda: [one for one in helper.children() if "java" not in one.name()])
    until(lambda: is_over(child))


def test_only_the_user_can_ask(app: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert asked(app) == []
    directory = checker.place()
    assert directory is not None
    assert stat.S_IMODE((directory / checker.SOCKET).stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "headrace").mkdir(mode=0o755)
    assert checker.place() is None
    (tmp_path / "headrace").rmdir()
    (tmp_path / "headrace").symlink_to(directory)
    assert checker.place() is None
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("long" * 30)))
    (tmp_path / ("long" * 30)).mkdir()
    assert checker.place() is None


def test_another_headrace_and_a_socket_that_was_left_behind(app: Path):
    """Each time another helper is started."""
    assert asked(app) == []
    (first,) = helpers()
    directory = checker.place()
    assert directory is not None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(directory / checker.SOCKET))
        data = json.dumps({"key": "that of another release"}).encode()
        socket.send_fds(connection, [len(data).to_bytes(4, "big")], [2])
        connection.sendall(data)
        assert json.loads(connection.recv(1000)) == {"other": True}
    assert asked(app) == []
    (second,) = helpers()
    assert second != first
    until(lambda: is_over(first))
    java = [one for one in second.children() if "java" in one.name()]
    assert len(java) == 1
    os.kill(second.pid, signal.SIGKILL)
    until(lambda: is_over(second))
    assert (directory / checker.SOCKET).is_socket()
    with (directory / "check.lock").open() as held:  # as by a thread of the killed one that has not ended
        fcntl.flock(held, fcntl.LOCK_EX)
        release = threading.Timer(3, fcntl.flock, (held, fcntl.LOCK_UN))
        release.start()
        assert asked(app) == []
        release.join()
    assert helpers() not in ([], [second])
    until(lambda: is_over(java[0]))


@pytest.mark.deep
def test_a_helper_whose_spark_has_ended_is_replaced(app: Path):
    assert asked(app) == []
    (first,) = helpers()
    for child in first.children():
        os.kill(child.pid, signal.SIGKILL)
    until(lambda: is_over(first))
    assert asked(app) == []
    assert helpers() != [first]


def test_without_a_helper_nothing_is_left_running(process: Process, app: Path, tmp_path: Path):
    app.write_text(APP.replace("amount > 100", "amonut > 100"))
    checked = process("check", app, "--no-helper", XDG_RUNTIME_DIR=str(tmp_path))
    out, said = checked.communicate(timeout=240)
    assert (checked.returncode, out) == (1, "")
    assert said.startswith("the app says hello\nHR-302")
    assert "app.py:10" in said
    assert not (tmp_path / "headrace" / checker.SOCKET).exists()


def test_a_check_loads_little(process: Process):
    """It is asked for while one writes; PySpark alone takes longer to load than the rest of a check."""
    code = "import sys, headrace.cli.check; print([one for one in ('pyspark', 'pydantic') if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_unknown_duration_is_not_taken(call: Call, app: Path):
    assert call("check", app, "--within", "a while").exit_code == 2

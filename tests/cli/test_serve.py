"""`serve` as a process: it starts without Spark, says how to use it, and stops cleanly."""

from __future__ import annotations

import json
import re
import signal
import socket
import stat
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Call = Callable[..., Result]
Start = Callable[..., subprocess.Popen[str]]
APP = """
import headrace as hr

app = hr.App("{name}")
orders = app.stream("orders", schema="id string, amount double")
"""


@pytest.fixture
def app(tmp_path: Path, topic: Callable[[str], str]) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APP.format(name=topic("shop")))
    return file


def test_it_serves_until_it_is_told_to_stop(
    process: Start, app: Path, tmp_path: Path, bootstrap: str, postgres_url: str
):
    started = process("serve", app, "--port", 0, HEADRACE_BOOTSTRAP=bootstrap, HEADRACE_POSTGRES=postgres_url)
    try:
        assert started.stdout is not None
        said = started.stdout.readline()
        address = re.search(r"(http://127\.0\.0\.1:\d+)/views", said)
        assert address, started.communicate()
        file = tmp_path / ".headrace" / "token"
        token = file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        request = urllib.request.Request(f"{address[1]}/views", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["views"] == []
        started.send_signal(signal.SIGTERM)
        out, err = started.communicate(timeout=60)
    finally:
        started.kill()
        started.wait()
    assert started.returncode == 0, err
    assert "curl -H" in err
    assert token not in said + out + err
    assert "stopped" in err


def test_a_port_in_use_is_said_at_once(call: Call, app: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = call("serve", app, "--port", taken.getsockname()[1])
    assert result.exit_code == 1
    assert "HR-516" in result.stderr
    assert "--port" in result.stderr
    assert call("serve", app, "--host", "192.0.2.1", "--port", 0).exit_code == 1


def test_a_broken_app_is_not_served(call: Call, tmp_path: Path):
    (tmp_path / "app.py").write_text("import headrace as hr\n")
    assert call("serve", tmp_path / "app.py").exit_code == 1

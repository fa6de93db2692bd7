"""`headrace console`: where it may listen, and who a proxy lets in."""

from __future__ import annotations

import http.client
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import Result

Call = Callable[..., Result]
APP = """
import headrace as hr

app = hr.App("shop")
app.stream("orders", schema="id string")


@app.view(key="id")
def large(orders):
    return orders
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APP)
    return file


def test_others_are_let_in_only_with_a_token_or_a_proxy(call: Call, app: Path):
    for command in ("console", "serve"):
        refused = call(command, app, "--host", "0.0.0.0", "--port", 0)
        assert refused.exit_code == 1
        assert "HR-541" in refused.stderr
    # With either of them it goes on, to an address that this machine does not have.
    for allowed in (
        {"HEADRACE_TOKEN": "chosen"},
        {"HEADRACE_PROXY_HEADER": "X-Forwarded-User"},
    ):
        answer = call("console", app, "--host", "192.0.2.1", "--port", 0, **allowed)
        assert "HR-516" in answer.stderr
    assert "HR-516" in call("serve", app, "--host", "192.0.2.1", "--port", 0, "--no-console").stderr


def ask(url: str, path: str, **headers: str) -> tuple[int, str]:
    split = urlsplit(url)
    connection = http.client.HTTPConnection(split.hostname or "", split.port, timeout=60)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.read().decode("utf-8", "replace")


def test_behind_a_proxy(process: Callable[..., subprocess.Popen[str]], app: Path, bootstrap: str):
    server = process(
        "console", app, "--port", 0, HEADRACE_BOOTSTRAP=bootstrap, HEADRACE_PROXY_HEADER="X-Forwarded-User"
    )
    assert server.stdout
    link = server.stdout.readline().rsplit(maxsplit=1)[-1]
    assert link.endswith("/console/")
    status, text = ask(link, "/console/")
    assert (status, "HR-542" in text) == (401, True)
    assert ask(link, "/console/", X_Forwarded_User=" ")[0] == 401
    assert ask(link, "/console/", X_Forwarded_User="anna")[0] == 200
    assert ask(link, "/metrics", X_Forwarded_User="anna")[0] == 401
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 0

"""Finding, starting and ending a part, with a server of a few lines in the place of Kafka and PostgreSQL."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from headrace.errors import PartError
from headrace.parts import part
from headrace.parts.part import LOOPBACK, Launch, Part

SERVER = """\
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
while True:
    server.accept()[0].close()
"""

OWNER = f"""\
import os, sys, time
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_part
started = test_part.obtain(Path(sys.argv[1]))
if sys.argv[2:] == ["fork"]:
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    print(child, flush=True)
print("up", flush=True)
time.sleep(60)
"""


def answers(_: Path, address: str) -> bool:
    host, _colon, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def launch(directory: Path, ports: list[int]) -> Launch:
    address = f"{LOOPBACK}:{ports[0]}"
    return Launch(
        arguments=[sys.executable, "-c", SERVER, str(ports[0])],
        address=address,
        directory=directory,
        data=directory,
        logs=[],
        answers=lambda: answers(directory, address),
        stop_signal=signal.SIGTERM,
        death_signal=signal.SIGKILL,
    )


def obtain(state: Path, start: Callable[[Path, list[int]], Launch] = launch, *, detached: bool = False) -> Part:
    return part.obtain("echo", state, 1, start, detached=detached, answers=answers)


def children() -> set[int]:
    """The processes that this one started; servers that run anyway have children of their own, which come and go."""
    return {process.pid for process in psutil.Process().children()}


def gone(record: part.Record) -> bool:
    """Whether guard and server end, given some time to do so."""
    deadline = time.monotonic() + 30
    while record.server.alive or record.guard.alive:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def owner_process(state: Path, *arguments: str) -> tuple[subprocess.Popen[str], list[str], part.Record]:
    """Another process that has started the part; what it printed, and the part's record."""
    process = subprocess.Popen([sys.executable, "-c", OWNER, state, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said: list[str] = []
    while not said or said[-1] != "up":
        line = process.stdout.readline()
        assert line, "the owner ended"
        said.append(line.strip())
    process.stdout.close()
    record = part.read(state / "echo")
    assert record is not None
    assert record.server.alive
    return process, said, record


def test_it_is_found_again_and_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    started = obtain(tmp_path)
    found = obtain(tmp_path)
    assert found.record == started.record
    found.stop()
    assert started.record.server.alive
    started.stop()
    assert not started.record.server.alive
    assert not started.record.guard.alive
    assert part.read(tmp_path / "echo") is None
    started.stop()


def test_its_port_stays_the_same_unless_another_took_it(tmp_path: Path) -> None:
    first = obtain(tmp_path)
    first.stop()
    again = obtain(tmp_path)
    again.stop()
    assert again.address == first.address
    with socket.create_server((LOOPBACK, int(first.address.rpartition(":")[2]))):
        other = obtain(tmp_path)
        other.stop()
        assert other.address != first.address


def test_a_port_taken_between_choice_and_start_is_replaced(tmp_path: Path) -> None:
    tried: list[int] = []
    with socket.create_server((LOOPBACK, 0)) as rival:

        def late(directory: Path, ports: list[int]) -> Launch:
            tried.append(ports[0])
            return launch(directory, [rival.getsockname()[1]] if len(tried) == 1 else ports)

        def unfooled(directory: Path, ports: list[int]) -> Launch:
            plan = late(directory, ports)
            return Launch(**{**vars(plan), "answers": lambda: (directory / "server.out").read_text() == "ready\n"})

        started = obtain(tmp_path, unfooled)
        started.stop()
    assert len(tried) == 2
    assert started.address == f"{LOOPBACK}:{tried[1]}"


def test_no_port_at_all_is_an_error(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as rival:
        taken = rival.getsockname()[1]
        with pytest.raises(PartError, match="HR-108"):
            obtain(tmp_path, lambda directory, _: Launch(**{**vars(launch(directory, [taken])), "answers": bool}))


def test_a_server_that_dies_at_its_start_shows_its_log_and_leaves_nothing(tmp_path: Path) -> None:
    before = children()

    def broken(directory: Path, ports: list[int]) -> Launch:
        code = "import sys; sys.exit('the flux capacitor is missing')"
        return Launch(**{**vars(launch(directory, ports)), "arguments": [sys.executable, "-c", code]})

    with pytest.raises(PartError, match="HR-107") as caught:
        obtain(tmp_path, broken)
    assert "the flux capacitor is missing" in str(caught.value)
    assert not (tmp_path / "echo" / part.RECORD).exists()
    assert children() == before


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    before = children()

    def missing(directory: Path, ports: list[int]) -> Launch:
        return Launch(**{**vars(launch(directory, ports)), "arguments": ["/no/such/program"]})

    with pytest.raises(PartError, match="HR-107") as caught:
        obtain(tmp_path, missing)
    assert "/no/such/program" in str(caught.value)
    assert children() == before


def test_an_interrupted_start_leaves_nothing(tmp_path: Path) -> None:
    before = children()

    def interrupted(directory: Path, ports: list[int]) -> Launch:
        def interrupt() -> bool:
            raise KeyboardInterrupt

        return Launch(**{**vars(launch(directory, ports)), "answers": interrupt})

    with pytest.raises(KeyboardInterrupt):
        obtain(tmp_path, interrupted)
    assert not (tmp_path / "echo" / part.RECORD).exists()
    assert children() == before


def test_a_record_of_a_dead_process_is_replaced_and_its_pid_is_left_alone(tmp_path: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        reused = {"pid": bystander.pid, "started": psutil.Process(bystander.pid).create_time() - 1000}
        (tmp_path / "echo").mkdir()
        (tmp_path / "echo" / part.RECORD).write_text(
            json.dumps(
                {"name": "echo", "server": reused, "guard": reused, "owner": reused, "address": "x:1", "data": "/"}
            )
        )
        started = obtain(tmp_path)
        started.stop()
        assert started.address != "x:1"
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("text", ["", "[]", '{"server": 3}', "\0"])
def test_a_record_that_cannot_be_read_is_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / "echo").mkdir()
    (tmp_path / "echo" / part.RECORD).write_text(text)
    assert part.read(tmp_path / "echo") is None


def test_kill_9_of_the_owner_ends_the_server_and_the_next_start_works(tmp_path: Path) -> None:
    process, _, record = owner_process(tmp_path)
    process.kill()
    process.wait()
    started = obtain(tmp_path)  # at once: it waits until the old one is gone
    assert not record.server.alive
    assert started.record.server != record.server
    started.stop()
    assert gone(record)


def test_a_child_of_the_owner_does_not_keep_the_server_alive(tmp_path: Path) -> None:
    process, said, record = owner_process(tmp_path, "fork")
    try:
        process.kill()
        process.wait()
        assert gone(record)
    finally:
        os.kill(int(said[0]), signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_kill_9_of_owner_and_guard_ends_the_server(tmp_path: Path) -> None:
    process, _, record = owner_process(tmp_path)
    os.kill(record.guard.pid, signal.SIGSTOP)  # so that it cannot do its work before it is killed
    process.kill()
    os.kill(record.guard.pid, signal.SIGKILL)
    process.wait()
    assert gone(record)


def test_a_server_that_ends_takes_its_guard_along(tmp_path: Path) -> None:
    started = obtain(tmp_path)
    os.kill(started.record.server.pid, signal.SIGKILL)
    assert gone(started.record)
    started.stop()
    assert part.find(tmp_path / "echo") is None


def test_a_detached_part_outlives_its_starter(tmp_path: Path) -> None:
    code = OWNER.replace("Path(sys.argv[1])", "Path(sys.argv[1]), detached=True").replace("time.sleep(60)", "")
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True, capture_output=True, timeout=60)
    found = obtain(tmp_path)
    assert found.process is None
    assert found.record.owner is None
    part.end(tmp_path / "echo", found.record)
    assert not found.record.server.alive


def test_a_state_directory_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PartError, match="HR-106") as caught:
        obtain(tmp_path / "file")
    assert str(tmp_path / "file") in caught.value.what
    monkeypatch.setattr(part, "LEAST_FREE_BYTES", 10**18)
    with pytest.raises(PartError, match="HR-106") as caught:
        obtain(tmp_path)
    assert "MB are free" in caught.value.what

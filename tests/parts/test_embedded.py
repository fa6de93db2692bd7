"""The real Kafka and PostgreSQL: started, found, killed, and not started when there is an address."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace.errors import PartError
from headrace.parts import address, part, postgres
from headrace.parts.embedded import Parts, PartStatus
from headrace.settings import Settings

OWNER = """\
import sys, time
from pathlib import Path
from headrace.parts.embedded import Parts
from headrace.settings import Settings
with Parts.start(Settings.load(Path(sys.argv[1])), kafka="kafka" in sys.argv, postgres="postgres" in sys.argv) as parts:
    print(parts.kafka_address, parts.postgres_address, flush=True)
    time.sleep(60 if "wait" in sys.argv else 0)
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """An app directory that the user who runs PostgreSQL for root can reach, without addresses in the environment."""
    directory = Path(tempfile.mkdtemp(prefix="headrace-tests-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_addresses(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "home" in request.fixturenames:
        monkeypatch.delenv("HEADRACE_BOOTSTRAP", raising=False)
        monkeypatch.delenv("HEADRACE_POSTGRES", raising=False)


def children() -> set[int]:
    """The processes that this one started; servers that run anyway have children of their own, which come and go."""
    return {process.pid for process in psutil.Process().children()}


def test_a_second_process_finds_kafka_and_leaves_it_running(bootstrap: str, parts_home: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", OWNER, parts_home, "kafka"], check=True, capture_output=True, text=True, timeout=60
    )
    assert found.stdout.split()[0] == bootstrap
    assert AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).brokers


def test_topics_are_made_only_on_request(bootstrap: str, topic: Callable[[], str]) -> None:
    client, name = AdminClient({"bootstrap.servers": bootstrap}), topic()
    assert client.list_topics(name, timeout=10).topics[name].error is not None
    client.create_topics([NewTopic(name, 3, 1)])[name].result(10)
    assert len(client.list_topics(name, timeout=10).topics[name].partitions) == 3


def test_postgres_can_be_captured_and_asks_for_its_password(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        row = connection.execute("select current_setting('wal_level'), current_setting('listen_addresses')").fetchone()
    assert row == ("logical", "127.0.0.1")
    password = postgres_url.split(":")[2].partition("@")[0]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres_url.replace(password, "wrong"))


def test_kill_9_of_the_owner_leaves_no_server_and_no_data_is_lost(home: Path) -> None:
    before = children()
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, home, "kafka", "postgres", "wait"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    bootstrap, url = process.stdout.readline().split()
    process.stdout.close()
    started = psutil.Process(process.pid).children(recursive=True)
    try:
        assert {"java", "postgres"} <= {child.name() for child in started}
        client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        client.create_topics([NewTopic("kept", 2, 1)])["kept"].result(10)
        with psycopg.connect(url) as connection:
            connection.execute("create table kept as select 42 as answer")
    finally:
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(started, timeout=30)
    assert alive == []
    with Parts.start(Settings.load(home), postgres=True) as parts:
        assert "kept" in AdminClient({"bootstrap.servers": parts.bootstrap}).list_topics(timeout=10).topics
        with psycopg.connect(parts.postgres_url) as connection:
            assert connection.execute("select answer from kept").fetchone() == (42,)
    assert children() == before


def test_up_status_down(home: Path) -> None:
    settings = Settings.load(home)
    assert Parts.status(settings) == [PartStatus("kafka", True, False), PartStatus("postgres", True, False)]
    assert Parts.down(settings) == []
    with Parts.start(settings, kafka=False, postgres=True, detached=True) as parts:
        at = parts.postgres_url.partition("@")[2].partition("/")[0]
    status = Parts.status(settings)[1]
    assert (status.running, status.address, status.owner) == (True, at, None)
    assert Parts.down(settings) == ["postgres"]
    assert not Parts.status(settings)[1].running
    assert status.pid is not None
    assert not psutil.pid_exists(status.pid) or psutil.Process(status.pid).status() == psutil.STATUS_ZOMBIE


def test_down_refuses_a_part_that_an_app_owns(home: Path) -> None:
    settings = Settings.load(home)
    with Parts.start(settings, kafka=False, postgres=True) as parts:
        with pytest.raises(PartError, match="HR-114") as caught:
            Parts.down(settings)
        assert f"owner pid {os.getpid()}" in str(caught.value.found)
        assert parts.started[0].record.server.alive


def test_postgres_does_not_run_as_root(home: Path) -> None:
    with Parts.start(Settings.load(home), kafka=False, postgres=True) as parts:
        server = psutil.Process(parts.started[0].record.server.pid)
        assert server.uids().effective != 0
        assert (home / ".headrace" / "postgres" / "password").stat().st_mode & 0o777 == 0o600
        server.send_signal(signal.SIGKILL)  # its lock file stays behind
        server.wait(10)
    with Parts.start(Settings.load(home), kafka=False, postgres=True):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")
def test_data_that_the_other_user_cannot_reach_is_put_elsewhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(postgres, "_ELSEWHERE", str(elsewhere))
    closed = home / "closed"
    closed.mkdir(mode=0o700)
    said: list[str] = []
    for _ in range(2):
        with Parts.start(Settings.load(closed), kafka=False, postgres=True, report=said.append) as parts:
            data = Path(parts.started[0].record.data)
            assert data.is_relative_to(elsewhere)
    assert len([line for line in said if str(elsewhere) in line]) == 1
    assert len(list(elsewhere.iterdir())) == 1


def test_data_of_another_version_is_refused_and_kept(home: Path) -> None:
    settings = Settings.load(home)
    with Parts.start(settings, kafka=False, postgres=True):
        pass
    version = settings.state / "postgres" / "data" / "PG_VERSION"
    version.write_text("9.6\n")
    with pytest.raises(PartError, match="HR-111") as caught:
        Parts.start(settings, kafka=False, postgres=True)
    assert "PostgreSQL 9.6" in caught.value.what
    assert version.read_text() == "9.6\n"


def test_addresses_in_the_settings_start_nothing(home: Path, bootstrap: str, postgres_url: str) -> None:
    before = children()
    settings = Settings.load(home, bootstrap=bootstrap, postgres=postgres_url)
    with Parts.start(settings, postgres=True) as parts:
        assert (parts.bootstrap, parts.postgres_url, parts.started) == (bootstrap, postgres_url, ())
    assert children() == before
    assert not settings.state.exists()
    shown = Parts.status(settings)
    assert [(status.embedded, status.running) for status in shown] == [(False, True), (False, True)]
    assert postgres_url.split(":")[2].partition("@")[0] not in str(shown)


def test_a_kafka_that_does_not_answer_is_named() -> None:
    with pytest.raises(PartError, match="HR-109") as caught:
        address.require_kafka("127.0.0.1:9", {}, seconds=1)
    assert "127.0.0.1:9" in caught.value.what
    assert "refused" in str(caught.value.found)


def test_a_kafka_option_that_does_not_exist_is_named() -> None:
    with pytest.raises(PartError, match="HR-113") as caught:
        address.require_kafka("127.0.0.1:9", {"sasl.mecanism": "PLAIN"})
    assert "sasl.mecanism" in str(caught.value.found)


@pytest.mark.parametrize(
    "url", ["postgresql://app:s3cret@127.0.0.1:9/shop", "host=127.0.0.1 port=9 user=app password=s3cret dbname=shop"]
)
def test_a_postgres_that_is_not_there_is_named_without_its_password(url: str) -> None:
    with pytest.raises(PartError, match="HR-110") as caught:
        address.require_postgres(url)
    assert "app@127.0.0.1:9/shop" in caught.value.what
    assert "s3cret" not in str(caught.value)


def test_a_postgres_address_that_cannot_be_read_is_not_shown() -> None:
    with pytest.raises(PartError, match="HR-110") as caught:
        address.require_postgres("postgres//app:s3cret")
    assert "s3cret" not in str(caught.value)


def test_kafka_that_cannot_start_stops_with_its_log(home: Path) -> None:
    settings = Settings.load(home)
    place = settings.state / "kafka"
    place.mkdir(parents=True)
    (place / "formatted").touch()  # so that the broker finds a data directory that was never formatted
    before = children()
    with pytest.raises(PartError, match="HR-107") as caught:
        Parts.start(settings)
    assert "No readable meta.properties" in str(caught.value)
    assert part.read(place) is None
    assert children() == before

"""What a fresh start removes, what it leaves, and when it is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.errors import RunError
from headrace.parts import part
from headrace.parts.part import Process, Record
from headrace.services import fresh
from headrace.settings import Settings


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        monkeypatch.delenv(name)
    state = tmp_path / "app" / ".headrace"
    for place in ("kafka/data", "postgres", "checkpoints/shop/large", "checkpoints/bank", "runs/shop"):
        (state / place).mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "data").mkdir(parents=True)
    (state / "postgres" / "location").write_text(str(elsewhere))
    for file in ("kafka/ports", "kafka/formatted", "postgres/password", "token", "spark.log"):
        (state / file).write_text("x")
    return Settings.load(tmp_path / "app")


def test_what_goes_and_what_stays(settings: Settings, tmp_path: Path):
    told = fresh.held(settings)
    assert [one.partition(":")[0] for one in told] == [
        "all topics of the embedded kafka",
        "all tables of the embedded postgres",
        "the checkpoints of bank, shop",
        "the progress of shop",
    ]
    assert str(tmp_path / "elsewhere") in told[1]
    fresh.remove(settings)
    assert not (tmp_path / "elsewhere").exists()
    left = {str(one.relative_to(settings.state)) for one in settings.state.rglob("*") if one.is_file()}
    assert left == {"kafka/ports", "kafka/start.lock", "postgres/start.lock", "token", "spark.log"}
    assert fresh.held(settings) == []
    fresh.remove(settings)


@pytest.mark.parametrize(
    "given",
    [
        {"bootstrap": "broker:9092"},
        {"postgres": "postgresql://db/shop"},
        {"source": "postgresql://db/shop"},
        {"checkpoints": "/mnt/shared"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_servers_of_the_settings_are_not_emptied(settings: Settings, given: dict[str, str]):
    named = settings.model_copy(update=given)
    for refused in (fresh.held, fresh.remove):
        with pytest.raises(RunError, match="HR-351") as raised:
            refused(named)
        assert f"`{next(iter(given))}`" in str(raised.value.found)
    assert (settings.state / "kafka" / "data").is_dir()


def test_a_server_that_runs_is_not_emptied(settings: Settings):
    this = Process.of(os.getpid())
    for owner, fix in ((this, f"stop process {this.pid}"), (None, "headrace parts down")):
        part._write(settings.state / "kafka", Record("kafka", this, this, owner, "127.0.0.1:1", ""))
        with pytest.raises(RunError, match="HR-351") as raised:
            fresh.remove(settings)
        assert fix in raised.value.fix
    assert (settings.state / "checkpoints" / "shop").is_dir()

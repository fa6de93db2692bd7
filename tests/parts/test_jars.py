"""The pinned sets, resolved for real, what happens without a network, and with files that are not the pinned ones."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from headrace.errors import PartError
from headrace.parts import jars, java


def _artifact(jar: Path) -> str:
    return re.sub(r"-\d[\w.-]*\.jar$", "", jar.name)


def test_the_connector_adds_no_second_version_of_a_jar_of_spark() -> None:
    shipped = {_artifact(jar) for jar in jars.pyspark_jars().glob("*.jar")}
    added = [_artifact(jar) for jar in jars.files(jars.CONNECTOR, print)]
    assert len(added) == len(jars.CONNECTOR.coordinates)
    assert "scala-library" in shipped
    assert not [name for name in added if any(name == old or name.endswith(f"_{old}") for old in shipped)]


def test_a_cached_set_starts_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    jars.directory(jars.CONNECTOR, print)
    monkeypatch.setattr(java, "find", lambda: pytest.fail("Java was looked for"))
    assert jars.is_cached(jars.CONNECTOR)
    assert jars.files(jars.CONNECTOR, pytest.fail)


def test_a_coordinate_that_cannot_be_had_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    # Every repository is out of reach, so that the test does not depend on what one of them answers.
    unreachable = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9 -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=9"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", unreachable)
    wanted = jars.JarSet("unknown", "a set", ("com.example.nothing:nothing-at-all:1.2.3",), transitive=False)
    with pytest.raises(PartError, match="HR-104") as caught:
        jars.directory(wanted, lambda line: None)
    assert "com.example.nothing:nothing-at-all:1.2.3" in caught.value.what
    assert not jars.is_cached(wanted)


@pytest.mark.parametrize("one", [jars.CONNECTOR, jars.BROKER, jars.ECJ, jars.LINTER], ids=lambda one: one.name)
def test_every_coordinate_is_pinned_by_checksum(one: jars.JarSet) -> None:
    files = {f"{group}_{artifact}-{version}.jar" for group, artifact, version in map(_split, one.coordinates)}
    assert files <= set(one.pins)
    assert one.transitive or files == set(one.pins)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in one.pins.values())


def _split(coordinate: str) -> list[str]:
    return coordinate.split(":")


@pytest.mark.parametrize("fault", ["changed", "missing", "another"])
def test_a_set_that_is_not_the_pinned_one_is_refused(
    fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    came = [Path(shutil.copy(file, tmp_path)) for file in jars.files(jars.CONNECTOR, print)]
    odd = came[0]
    if fault == "changed":
        odd.write_bytes(odd.read_bytes() + b"\0")
    elif fault == "missing":
        del came[0]
    else:
        came.append(Path(shutil.copy(odd, tmp_path / "another.jar")))
        odd = came[-1]
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "_resolve", lambda wanted, report: came)
    with pytest.raises(PartError, match="HR-104") as caught:
        jars.directory(jars.CONNECTOR, lambda line: None)
    assert odd.name in str(caught.value)
    assert not jars.is_cached(jars.CONNECTOR)

"""Compiling: with javac, with the Eclipse compiler, with an error in the source; and the packed jar of a wheel."""

from __future__ import annotations

import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import PartError
from headrace.parts import cache, jars, java, kernel_jar

SOURCE = """\
package probe;
import org.apache.spark.sql.Row;
public class Probe {
  record Pair(int left, int right) {}
  public static void main(String[] arguments) { System.out.println("ü" + new Pair(1, 2).right()); }
  static Object first(Row row) { return row.get(0); }
}
"""


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source directory, and a cache for the compiled jars only: the downloaded sets stay shared."""
    shared, own = cache.entry, tmp_path / "cache"
    monkeypatch.setattr(cache, "entry", lambda kind, key: own / key if kind == "kernel" else shared(kind, key))
    monkeypatch.setattr(kernel_jar, "entry", cache.entry)
    source = tmp_path / "a source" / "probe" / "Probe.java"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE, encoding="utf-8")
    return source.parent.parent


@pytest.mark.parametrize("compiler", ["javac", "ecj"])
def test_compiled_classes_run(sources: Path, compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = java.find()
    if compiler == "javac" and found.javac is None:
        pytest.skip("this Java has no javac")
    if compiler == "ecj":
        monkeypatch.setattr(java, "find", lambda: replace(found, javac=None))
    assert not kernel_jar.is_cached(sources)
    jar = kernel_jar.kernel_jar(lambda line: None, sources)
    assert kernel_jar.is_cached(sources)
    assert zipfile.ZipFile(jar).namelist()[0] == "META-INF/MANIFEST.MF"
    run = [found.executable, "-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8", "-cp", jar, "probe.Probe"]
    done = subprocess.run(run, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.strip() == "ü2"
    monkeypatch.setattr(java, "find", lambda: pytest.fail("compiled a second time"))
    assert kernel_jar.kernel_jar(pytest.fail, sources) == jar
    (sources / "probe" / "Probe.java").write_text(SOURCE.replace("ü", "u"), encoding="utf-8")
    assert not kernel_jar.is_cached(sources)


def test_a_compile_error_is_shown_in_full(sources: Path) -> None:
    (sources / "probe" / "Wrong.java").write_text("package probe;\nclass Wrong { Nothing a; Nowhere b; }\n")
    with pytest.raises(PartError, match="HR-105") as caught:
        kernel_jar.kernel_jar(lambda line: None, sources)
    assert "Wrong.java" in str(caught.value)
    assert "Nothing" in str(caught.value)
    assert "Nowhere" in str(caught.value)


def test_a_packed_jar_is_taken_and_nothing_is_compiled(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find", lambda: pytest.fail("Java was looked for"))
    packed = sources.parent / kernel_jar.packed_name(sources)
    packed.touch()
    assert kernel_jar.kernel_jar(pytest.fail, sources) == packed


@pytest.mark.parametrize("changed", ["sources", "spark"])
def test_a_packed_jar_that_does_not_fit_is_refused(
    sources: Path, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = sources.parent / kernel_jar.packed_name(sources)
    packed.touch()
    if changed == "spark":
        monkeypatch.setattr(kernel_jar, "version", lambda package: "4.4.0")
    else:
        (sources / "probe" / "Probe.java").write_text(SOURCE.replace("ü", "u"), encoding="utf-8")
    with pytest.raises(PartError, match="HR-105") as caught:
        kernel_jar.kernel_jar(pytest.fail, sources)
    assert packed.name in str(caught.value)
    assert kernel_jar.packed_name(sources) in str(caught.value)


def test_the_kernel_itself_compiles_without_a_jdk(monkeypatch: pytest.MonkeyPatch, sources: Path) -> None:
    found = java.find()
    monkeypatch.setattr(java, "find", lambda: replace(found, javac=None))
    assert kernel_jar.kernel_jar(lambda line: None).is_file()
    assert jars.is_cached(jars.ECJ)

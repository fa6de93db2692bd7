"""What is published: the wheel holds the whole package with the compiled kernel, an sdist builds the same wheel, and
installed into a clean environment it runs what README begins with.

The clean environment holds the wheel and the packages that it asks for, in the versions of this environment, as hard
links: pip would take minutes to unpack them. `make test-deep` lets pip do all of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.template import answer

from headrace.parts import cache, kernel_jar

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "headrace"


def build(target: str, source: Path, place: Path) -> Path:
    """Build a package as pip does, with the tools of this environment."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(place)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = place.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_every_file_of_the_package(wheel: Path):
    packed = set(zipfile.ZipFile(wheel).namelist())
    present = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    ours = {name for name in packed if name.startswith("headrace/")}
    assert ours - present == {f"headrace/kernel/{kernel_jar.packed_name()}"}
    assert present - ours == set()
    assert {"headrace/py.typed", "headrace/engine/log4j2-file.properties", "headrace/explain/HR-102.md"} <= packed
    assert [name for name in packed if name.endswith(".dist-info/licenses/LICENSE")] != []


def test_the_jar_of_the_wheel_has_a_class_of_every_source(wheel: Path):
    with zipfile.ZipFile(wheel).open(f"headrace/kernel/{kernel_jar.packed_name()}") as jar:
        compiled = set(zipfile.ZipFile(jar).namelist())
    sources = [path for path in kernel_jar.SOURCES.rglob("*.java") if path.stem != "package-info"]
    wanted = {path.relative_to(kernel_jar.SOURCES).with_suffix(".class").as_posix() for path in sources}
    assert len(wanted) > 50
    assert wanted - compiled == set()


def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path):
    with tarfile.open(build("sdist", ROOT, tmp_path)) as sdist:
        sdist.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    again = build("wheel", source, tmp_path / "again")
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


# Installed


@pytest.fixture
def clean(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of a machine with an empty virtual environment, an empty home and no cache of ours."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (tmp_path / "home").mkdir()
    ours = ("HEADRACE_", "PYTHON", "XDG_", "SPARK_", "PYSPARK_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    path = f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{os.defpath}"
    yield kept | {"HOME": str(tmp_path / "home"), "PATH": path}
    shutil.rmtree(tmp_path, ignore_errors=True)


def pip(environment: dict[str, str], *arguments: str | Path) -> None:
    """The pip of this environment, for the clean one."""
    command = [sys.executable, "-m", "pip", "--python", shutil.which("python", path=environment["PATH"]), *arguments]
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def needed(requirements: Iterable[str]) -> dict[str, Distribution]:
    """The distributions of this environment that the requirements ask for, and what those ask for, by their names."""
    found: dict[str, Distribution] = {}
    asked = [(Requirement(text), "") for text in requirements]
    for one, extra in asked:
        if one.marker is None or one.marker.evaluate({"extra": extra}):
            wanted = found.setdefault(canonicalize_name(one.name), distribution(one.name))
            further = [(Requirement(text), name) for text in wanted.requires or () for name in ("", *one.extras)]
            asked += [pair for pair in further if pair not in asked]
    return found


def link(installed: Distribution, place: Path) -> None:
    """Put the files of a distribution into another environment; those outside of the packages are left out."""
    here = Path(sysconfig.get_path("purelib"))
    for file in installed.files or ():
        source = Path(os.path.normpath(str(installed.locate_file(file))))
        if source.is_relative_to(here) and source.is_file():
            target = place / source.relative_to(here)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                target.hardlink_to(source)
            except OSError:
                shutil.copy2(source, target)


def test_installed_into_a_clean_environment_it_answers(wheel: Path, clean: dict[str, str], tmp_path: Path):
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "venv")}))
    pip(clean, "install", "--quiet", "--no-index", "--no-deps", wheel)
    (ours,) = distributions(name="headrace", path=[str(packages)])
    for one in needed(ours.requires or ()).values():
        link(one, packages)
    pip(clean, "check")
    # What was downloaded once is not downloaded again; the resolver and the checksums have the last word.
    kept = tmp_path / "home" / ".cache" / "headrace"
    if (cache.root() / "ivy").is_dir():
        shutil.copytree(cache.root() / "ivy", kept / "ivy")
    work = tmp_path / "work"
    work.mkdir()
    assert '"amount":' in answer("events", work, clean)
    assert sorted(path.name for path in kept.iterdir() if path.name != "ivy") == ["jars"], "the kernel was compiled"


@pytest.mark.deep
def test_pip_installs_it_with_all_that_it_needs(wheel: Path, clean: dict[str, str]):
    pip(clean, "install", "--quiet", wheel)
    pip(clean, "check")
    told = subprocess.run(["headrace", "--version"], env=clean, capture_output=True, text=True, check=True)
    assert told.stdout.startswith("headrace ")

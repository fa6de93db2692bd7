"""The jars Headrace needs beside pyspark's own, pinned here and nowhere else.

A set is resolved through the Ivy inside pyspark, so that no Maven is needed, and copied flat into one directory of the
per-user cache, named by the hash of its pins: a changed pin is another directory. Every file is pinned by its SHA-256
in jars.lock, also what comes along because another needs it; a set that is not exactly those files is refused. A set
that is there is returned without starting a JVM. Spark's class path must not hold two versions of a jar, so the
connector names exactly the jars it adds to `pyspark/jars`, without what those depend on; the broker runs in a JVM of
its own, and takes everything.

`python -m headrace.parts.jars` prints jars.lock as it has to be after a change of the coordinates.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headrace.errors import PartError
from headrace.parts import java
from headrace.parts.cache import entry, made_once, root

Report = Callable[[str], None]
LOCK = Path(__file__).with_name("jars.lock")


@dataclass(frozen=True)
class JarSet:
    """Jars that are used together; `transitive` adds what they depend on. `name` is their section of jars.lock; a set
    without a name, such as that of a bench's peer, is not ours, and taken as it comes."""

    name: str
    title: str
    coordinates: tuple[str, ...]
    transitive: bool

    @property
    def key(self) -> str:
        """The name of the set's directory in the cache."""
        pins = sorted(self.pins.items())
        return hashlib.sha256(repr((self.coordinates, self.transitive, pins)).encode()).hexdigest()[:16]

    @property
    def pins(self) -> Mapping[str, str]:
        """The SHA-256 of each of its files, by their names."""
        return _locked().get(self.name, {})


CONNECTOR = JarSet(
    "connector",
    "Spark's Kafka connector",
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
    transitive=False,
)
BROKER = JarSet(
    "broker",
    "the Kafka broker",
    ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.1"),
    transitive=True,
)
ECJ = JarSet("compiler", "the Eclipse compiler", ("org.eclipse.jdt:ecj:3.44.0",), transitive=False)
LINTER = JarSet(
    "linter",
    "the linter of the Java sources, which brings their formatter",
    ("com.google.errorprone:error_prone_core:2.42.0",),
    transitive=True,
)


def is_cached(jars: JarSet) -> bool:
    """Whether the set is there, so that `directory` will neither download nor start anything."""
    return entry("jars", jars.key).is_dir()


def directory(jars: JarSet, report: Report) -> Path:
    """The directory that holds the jar files of the set; downloads them once."""
    return made_once("jars", jars.key, lambda place: _download(jars, place, report))


def files(jars: JarSet, report: Report) -> list[Path]:
    """The jar files of the set, in order of their names; downloads them once."""
    return sorted(directory(jars, report).glob("*.jar"))


@cache
def pyspark_jars() -> Path:
    """The directory of the jars that pyspark ships."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise PartError(
            "HR-104",
            "The jars of pyspark are missing.",
            found=f"no pyspark in {sys.prefix}",
            fix="pip install headrace",
        )
    return Path(spec.origin).parent / "jars"


def spark_files() -> list[Path]:
    """The jar files that pyspark ships, in order of their names."""
    return sorted(pyspark_jars().glob("*.jar"))


@cache
def _locked() -> dict[str, dict[str, str]]:
    return tomllib.loads(LOCK.read_text(encoding="utf-8"))


def _download(jars: JarSet, place: Path, report: Report) -> None:
    report(f"downloading {jars.title} ({', '.join(jars.coordinates)})")
    for path in _resolve(jars, report):
        shutil.copy(path, place)
    found = sorted(place.iterdir())
    if jars.name:
        _verify(jars, found)
    report(f"  {len(found)} jars are ready")


def _resolve(jars: JarSet, report: Report) -> list[Path]:
    home = java.find()
    with tempfile.TemporaryDirectory() as scratch:
        request, answer = Path(scratch, "request.json"), Path(scratch, "answer.json")
        request.write_text(
            json.dumps(
                {
                    "coordinates": ",".join(jars.coordinates),
                    "transitive": jars.transitive,
                    "downloads": str(_downloads()),
                }
            ),
            encoding="utf-8",
        )
        said: list[str] = []
        with subprocess.Popen(
            [sys.executable, "-P", Path(__file__).with_name("resolver.py"), request, answer],
            env=home.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line.rstrip())
                if jar := re.search(r"downloading .*/([^/ ]+\.jar) ", line):
                    report(f"  {jar.group(1)}")
        if process.returncode != 0:
            raise _failure(jars, said)
        return [Path(path) for path in json.loads(answer.read_text(encoding="utf-8"))]


def _downloads() -> Path:
    return root() / "ivy"


def _sums(files: Iterable[Path]) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files)}


def _verify(jars: JarSet, files: Iterable[Path]) -> None:
    """Refuse what is not exactly the files that are pinned."""
    pins, came = jars.pins, _sums(files)
    wrong = [
        f"{name} has the SHA-256 {came.get(name, 'of no file')}, and {pins.get(name, 'none')} is pinned"
        for name in sorted({*pins, *came})
        if came.get(name) != pins.get(name)
    ]
    if wrong or not came:
        raise PartError(
            "HR-104",
            f"The jars of {jars.title} came, but are not those that Headrace was built and tested with.",
            found="; ".join(wrong) or "no file",
            fix=f"delete {_downloads()}, and fetch them again from a repository that you trust (a mirror is named with"
            " DEFAULT_ARTIFACT_REPOSITORY)",
        )


def _failure(jars: JarSet, said: list[str]) -> PartError:
    text = "\n".join(said)
    missing = sorted(
        set(re.findall(r"(?:unresolved dependency: |not found: |FAILED\s*\] +)([\w.-]+#[\w.-]+;[\w.-]+)", text))
    )
    named = [re.sub("[#;]", ":", name).partition("!")[0] for name in missing] or list(jars.coordinates)
    reasons = re.findall(r"(?:Exception|Error): (.+)", text)
    return PartError(
        "HR-104",
        f"The jars of {jars.title} cannot be resolved: {', '.join(named)}.",
        found=reasons[0] if reasons else (said[-1] if said else "no answer from the resolver"),
        fix="check the network (a proxy is set through JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=… -Dhttps.proxyPort=…;"
        " a mirror through DEFAULT_ARTIFACT_REPOSITORY), then run `headrace setup` again",
    )


def main() -> None:
    """Print jars.lock for the coordinates above, whatever it says now."""
    for jars in (CONNECTOR, BROKER, ECJ, LINTER):
        sums = _sums(_resolve(jars, lambda line: print(line, file=sys.stderr)))
        print(f"[{jars.name}]", *(f'"{name}" = "{digest}"' for name, digest in sums.items()), sep="\n")


if __name__ == "__main__":
    main()

"""The kernel jar: the Java sources in `headrace/kernel/java`, compiled for Java 17.

A wheel holds it, compiled when the wheel was built (hatch_build.py), under a name that has the version of Spark and the
hash of the sources; an installed Headrace takes that one and never compiles. In a checkout it is compiled on the
machine that runs it, and kept in the cache under the same hash: once, and again after any change.

It is compiled with the `javac` of the Java that was found, or else with the Eclipse compiler on the plain runtime,
against pyspark's jars and the Kafka connector. The entries are sorted and carry no time, so that the same compiler
gives the same bytes.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path

from headrace.errors import PartError
from headrace.parts import java
from headrace.parts.cache import entry, made_once
from headrace.parts.jars import CONNECTOR, ECJ, Report, directory, files, pyspark_jars

SOURCES = Path(__file__).parent.parent / "kernel" / "java"
RELEASE = "17"
_JAR = "headrace-kernel.jar"
_MANIFEST = "Manifest-Version: 1.0\r\nCreated-By: headrace\r\n\r\n"


def kernel_jar(report: Report, sources: Path = SOURCES) -> Path:
    """The jar of the sources: the one that is packed beside them, or compiled, once."""
    found = _sources(sources)
    key = _key(found, sources)
    if packed := sorted(sources.parent.glob(_name("*", "*"))):
        return _fitting(packed, sources.parent / _name(version("pyspark"), key))
    return made_once("kernel", key, lambda place: _compile(found, place, report)) / _JAR


def is_cached(sources: Path = SOURCES) -> bool:
    """Whether the jar was compiled already, so that `kernel_jar` will not do it."""
    return entry("kernel", _key(_sources(sources), sources)).is_dir()


def packed_name(sources: Path = SOURCES) -> str:
    """What the jar of the sources is called in a wheel, where it lies beside the directory of the sources."""
    return _name(version("pyspark"), _key(_sources(sources), sources))


def _name(spark: str, key: str) -> str:
    return f"headrace-kernel-spark{spark}-{key}.jar"


def _fitting(packed: list[Path], wanted: Path) -> Path:
    if wanted in packed:
        return wanted
    raise PartError(
        "HR-105",
        "The compiled kernel of this installation is of another Spark or of other sources.",
        found=f"{', '.join(jar.name for jar in packed)}; needed is {wanted.name}",
        fix="let pip install what belongs together: pip install --force-reinstall headrace",
    )


def _sources(sources: Path) -> list[Path]:
    return sorted(sources.rglob("*.java"))


def _key(found: list[Path], sources: Path) -> str:
    digest = hashlib.sha256(f"pyspark {version('pyspark')}, release {RELEASE}, {CONNECTOR.key}".encode())
    for path in found:
        digest.update(f"\0{path.relative_to(sources)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(found: list[Path], place: Path, report: Report) -> None:
    home = java.find()
    class_path = f"{pyspark_jars()}/*:{directory(CONNECTOR, report)}/*"
    with tempfile.TemporaryDirectory() as scratch:
        classes = Path(scratch, "classes")
        classes.mkdir()
        if found:
            report(f"compiling the kernel ({len(found)} Java files)")
            names = Path(scratch, "sources")
            names.write_text("\n".join(f'"{path}"' for path in found), encoding="utf-8")
            compiler = _compiler(home, class_path, report)
            done = subprocess.run(
                [*compiler, "-d", classes, "-encoding", "UTF-8", f"@{names}"],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise PartError(
                    "HR-105",
                    "The Java sources of the kernel do not compile.",
                    found="\n" + (done.stdout + done.stderr).strip(),
                    fix="correct the lines that the compiler names; an untouched installation that shows this is"
                    " mixed from two versions: pip install --force-reinstall headrace",
                )
        _pack(classes, place / _JAR)


def _compiler(home: java.Java, class_path: str, report: Report) -> list[str]:
    if home.javac is not None:
        return [str(home.javac), "--release", RELEASE, "-g", "-proc:none", "-Xlint:-options", "-cp", class_path]
    # A runtime lacks the signatures of older releases that `--release` needs; and the Eclipse compiler knows no `/*`.
    expanded = ":".join(
        str(jar) for pattern in class_path.split(":") for jar in sorted(Path(pattern).parent.glob("*.jar"))
    )
    ecj = [str(home.executable), "-cp", str(files(ECJ, report)[0]), "org.eclipse.jdt.internal.compiler.batch.Main"]
    return [*ecj, "-source", RELEASE, "-target", RELEASE, "-g", "-nowarn", "-proc:none", "-cp", expanded]


def _pack(classes: Path, jar: Path) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), _MANIFEST)
        for path in sorted(classes.rglob("*.class")):
            archive.writestr(zipfile.ZipInfo(path.relative_to(classes).as_posix()), path.read_bytes())

"""The formatter and the linter of the Java sources: google-java-format, and javac with Error Prone.

    python java_lint.py          says what is wrong, which is what `make lint` does
    python java_lint.py --fix    formats the files

Both look into javac, so a Java with a compiler is needed; where there is none, that is said and nothing is checked.
Sources that have passed are noted in the per-user cache by their hash, and not looked at again.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from headrace.errors import PartError
from headrace.parts import java
from headrace.parts.cache import entry, made_once
from headrace.parts.jars import CONNECTOR, LINTER, directory, files, pyspark_jars
from headrace.parts.kernel_jar import RELEASE

ROOT = Path(__file__).parent
SOURCES = ("src/headrace/kernel/java", "tests/kernel/java")
FORMATTER = "com.google.googlejavaformat.java.Main"
# Of javac: `processing` and `path` speak of the jars of others; every process of a run has the same classes, so
# `serial` has nothing to say.
LINTS = "-Xlint:all,-processing,-path,-serial"
# Of Error Prone: what is done on purpose here, mostly for speed.
ALLOWED = (
    "ArrayRecordComponent",
    "AssignmentExpression",
    "ByteBufferBackingArray",
    "FutureReturnValueIgnored",
    "NonApiType",
    "StatementSwitchToExpressionSwitch",
    "StaticAssignmentOfThrowable",
    "ThreadPriorityCheck",
    "TypeParameterUnusedInFormals",
)
INSIDES = ("api", "code", "comp", "file", "main", "model", "parser", "processing", "tree", "util")
OPENED = ("code", "comp")


def main(fix: bool) -> int:
    """The exit code."""
    try:
        home = java.find()
    except PartError as error:
        return _unchecked(str(error))
    if home.javac is None:
        return _unchecked(f"{home.home} has no compiler")
    sources = sorted(file for place in SOURCES for file in (ROOT / place).rglob("*.java"))
    if fix:
        return subprocess.run([*_formatter(home), "--replace", *sources], check=False).returncode
    passed = key(home, sources)
    if entry("lint", passed).is_dir():
        return 0
    formatting = subprocess.Popen([*_formatter(home), "--dry-run", "--set-exit-if-changed", *sources])
    linting = subprocess.Popen([*_linter(home), *sources])
    linted, formatted = linting.wait(), formatting.wait()
    if formatted:
        _say("the files named above are not formatted: python java_lint.py --fix")
    if linted or formatted:
        return 1
    made_once("lint", passed, lambda place: None)
    return 0


def _formatter(home: java.Java) -> list[str]:
    return [str(home.executable), *_inside(), *_quick(), "-cp", f"{directory(LINTER, _say)}/*", FORMATTER]


def _linter(home: java.Java) -> list[str]:
    plugin = " ".join(("-Xplugin:ErrorProne", *(f"-Xep:{check}:OFF" for check in ALLOWED)))
    return [
        str(home.javac),
        *(f"-J{flag}" for flag in (*_inside(), *_quick())),
        *("--release", RELEASE, "-encoding", "UTF-8", "-implicit:none", "-Xmaxwarns", "1000", LINTS, "-Werror"),
        # Error Prone looks at classes that were analysed whole, and nothing is written.
        *("-XDcompilePolicy=simple", "--should-stop=ifError=FLOW", "--should-stop=ifNoError=FLOW"),
        *("-processorpath", ":".join(map(str, files(LINTER, _say))), plugin),
        *("-cp", f"{pyspark_jars()}/*:{directory(CONNECTOR, _say)}/*"),
    ]


def _inside() -> list[str]:
    """What lets a program look into javac."""
    package = "jdk.compiler/com.sun.tools.javac"
    exports = [f"--add-exports={package}.{name}=ALL-UNNAMED" for name in INSIDES]
    return [*exports, *(f"--add-opens={package}.{name}=ALL-UNNAMED" for name in OPENED)]


def _quick() -> list[str]:
    """What suits a program that runs for seconds."""
    return ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


def key(home: java.Java, sources: list[Path]) -> str:
    """What sources that have passed are known by."""
    digest = hashlib.sha256(f"{home.version} {LINTER.key} {CONNECTOR.key}".encode())
    digest.update(Path(__file__).read_bytes())
    for path in sources:
        digest.update(f"\0{path.relative_to(ROOT)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _unchecked(why: str) -> int:
    _say(f"the Java sources are not checked: {why}")
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(fix="--fix" in sys.argv[1:]))
    except PartError as error:
        sys.exit(str(error))

"""The documentation is true: its code runs, its commands print what it shows, its references are complete.

Every page runs by itself in an empty directory, block by block, from top to bottom:

    ```python              runs in one namespace a page, with `spark` and `bootstrap` where the page says what they are
    ```python, # name.py   is written to that file: an app is loaded, any other file is run, and its tests are called
    ```console             runs each `$ ` line in bash and compares what it prints (`…` matches anything, a line `…` any
                           lines); `make` is only asked what it would do. The commands that a page may begin with
                           (tests/template.py) are run in a clean environment by tests/test_packaging.py; here only
                           `headrace new` is
    ```console background  runs until the page says «with Ctrl-C», or ends
    ```toml                is read as headrace.toml

Commands use the Kafka (and PostgreSQL) of the test run, unless the page starts one with `headrace parts up`. Where a
page says 8600, which somebody else may have taken, a free port is meant.
"""

from __future__ import annotations

import inspect
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.template import BEGINNING

import headrace
import headrace.testing
from headrace import names
from headrace.app import App, load
from headrace.cli.command import app as commands
from headrace.errors import codes, title
from headrace.log import topic
from headrace.log.connection import Connection
from headrace.log.schema import Schema
from headrace.serve import beside
from headrace.settings import Settings

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
READ = [*PAGES, ROOT / "CONTRIBUTING.md"]  # its commands are looked at by test_contributing.py
LANGUAGES = {"python", "console", "toml", "mermaid", "json", "text", "java", "sql"}
RUN = {"python", "console", "toml"}
COMMAND_S = 300
INSTALL, _, DEV = BEGINNING


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the word after it, its text, the line it begins at, and the prose above it."""

    language: str
    word: str
    text: str
    line: int
    prose: str


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    opened: tuple[int, str] | None = None
    inside: list[str] = []
    prose: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if opened is None and line.startswith("```"):
            opened = (number + 1, line.removeprefix("```").strip())
        elif opened is not None and line == "```":
            language, _, word = opened[1].partition(" ")
            found.append(Block(language, word, "\n".join(inside), opened[0], " ".join(prose)))
            opened, inside, prose = None, [], []
        else:
            (prose if opened is None else inside).append(line)
    assert opened is None, f"{page}:{opened and opened[0]}: the block is not closed"
    return found


def orders(block: Block) -> Iterator[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it prints."""
    lines = block.text.splitlines()
    assert lines[0].startswith("$ "), f"line {block.line}: a console block begins with a command"
    while lines:
        command = lines.pop(0).removeprefix("$ ")
        while command.endswith("\\"):
            command += "\n" + lines.pop(0)
        printed: list[str] = []
        while lines and not lines[0].startswith("$ "):
            printed.append(lines.pop(0))
        yield command, printed


def pattern(lines: list[str]) -> str:
    """What the lines match: runs of blanks are one, `…` is anything."""
    wanted = [r"[\s\S]+" if line.strip() == "…" else re.escape(plain(line)).replace("…", ".+") for line in lines]
    return "\n".join(wanted)


def plain(text: str) -> str:
    return "\n".join(re.sub(r"\s+", " ", line).strip() for line in text.strip().splitlines())


# The pages run


@dataclass
class Page:
    """A page that is being run in a directory; `given` are the names that its snippets may use."""

    path: Path
    directory: Path
    environment: dict[str, str]
    given: dict[str, Any]
    port: int
    namespace: dict[str, Any] = field(default_factory=dict)
    background: list[tuple[str, subprocess.Popen[bytes]]] = field(default_factory=list)

    def run(self) -> None:
        self.namespace |= {"__name__": "page", **self.given}
        for block in blocks(self.path):
            if "with Ctrl-C" in block.prose:
                self.interrupt()
            run: Callable[[Block], None] | None = getattr(self, block.language, None) if block.language in RUN else None
            if run is not None:
                run(block)
        self.interrupt()

    def python(self, block: Block) -> None:
        named = re.match(r"# ([\w-]+\.py)\n", block.text)
        if named is None:
            # Blank lines above, so that a traceback names the line of the page.
            code = compile("\n" * (block.line - 1) + block.text, str(self.path), "exec")
            exec(code, self.namespace)
            return
        file = self.directory / named[1]
        file.write_text(block.text + "\n", encoding="utf-8")
        if "hr.App(" in block.text:
            load(file).graph()
            return
        for name, found in runpy.run_path(str(file)).items():
            if name.startswith("test_") and callable(found):
                found(**{one: self.given[one] for one in inspect.signature(found).parameters})

    def toml(self, block: Block) -> None:
        place = self.directory / f"line-{block.line}"
        place.mkdir()
        (place / names.SETTINGS_FILE).write_text(block.text, encoding="utf-8")
        Settings.load(place)

    def console(self, block: Block) -> None:
        served = re.sub(r"(headrace serve \S+)$", rf"\1 --port {self.port}", block.text, flags=re.MULTILINE)
        for command, printed in orders(replace(block, text=served.replace(str(beside.PORT), str(self.port)))):
            if command.startswith("make "):
                self.bash(command.replace("make ", "make -n ", 1), ROOT)
            elif command in (INSTALL, DEV):
                assert printed == []
            elif block.word == "background":
                self.start(command, printed)
            else:
                said = self.bash(command, self.directory)
                told = f"{self.path.name}: $ {command}\nshould print\n" + "\n".join(printed) + f"\nand printed\n{said}"
                assert re.fullmatch(pattern(printed), plain(said)), told

    def bash(self, command: str, where: Path) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=where,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert done.returncode == 0, f"{self.path.name}: $ {command}\nended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def start(self, command: str, printed: list[str]) -> None:
        """Start it, and wait until it has printed what the page shows."""
        log = self.directory / f"background-{len(self.background)}.log"
        with log.open("wb") as out:
            started = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.background.append((command, started))
        until = time.monotonic() + COMMAND_S
        while not re.search(rf"(?m)^{pattern(printed[-1:])}$", said := plain(log.read_text(encoding="utf-8"))):
            assert started.poll() is None, f"$ {command}\nended:\n{said}"
            assert time.monotonic() < until, f"$ {command}\nprinted only\n{said}"
            time.sleep(0.2)
        assert re.match(pattern(printed), said), f"$ {command}\nprinted\n{said}"

    def interrupt(self) -> None:
        """What Ctrl-C does in a terminal."""
        while self.background:
            command, started = self.background.pop()
            os.killpg(started.pid, signal.SIGINT)
            assert started.wait(COMMAND_S) == 0, f"$ {command}\ndid not end well"

    def clean_up(self) -> None:
        """After a failure too: nothing is left running."""
        for _, started in self.background:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()
        if (self.directory / names.STATE_DIRECTORY).exists():
            command = Path(sys.executable).with_name("headrace")
            subprocess.run([command, "parts", "down"], cwd=self.directory, env=self.environment, check=False)


@contextmanager
def topics_removed(bootstrap: str, text: str) -> Iterator[None]:
    """Afterwards those topics are gone that the page has made: they were not there before, and it names them."""
    connection = Connection(bootstrap)
    before = set(topic.names(connection))
    yield
    made = set(topic.names(connection)) - before
    topic.delete(connection, *(name for name in made if re.search(rf"\b{name.split('.')[0]}\b", text)))


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.language in RUN for block in blocks(page))],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_a_page_does_what_it_says(
    page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = page.read_text(encoding="utf-8").replace("`", "")
    used = [command for block in blocks(page) if block.language == "console" for command, _ in orders(block)]
    own_kafka = any(one.startswith("headrace parts up") for one in used)
    given: dict[str, Any] = {}
    if "spark is a Spark session" in text:
        given["spark"] = request.getfixturevalue("spark")
    if "bootstrap is the address of Kafka" in text:
        given["bootstrap"] = request.getfixturevalue("bootstrap")
    bootstrap: str | None = given.get("bootstrap")
    if bootstrap is None and not own_kafka and any("headrace " in one for one in used):
        bootstrap = request.getfixturevalue("bootstrap")
    for name in [name for name in os.environ if name.startswith("HEADRACE_") and name != "HEADRACE_CACHE"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
        "HEADRACE_LOG": "text",
    }
    if bootstrap is not None:
        environment["HEADRACE_BOOTSTRAP"] = bootstrap
    if any(re.search(r"headrace (follow|serve) ", one) for one in used):
        environment["HEADRACE_POSTGRES"] = request.getfixturevalue("postgres_url")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    running = Page(page, tmp_path, environment, given, port)
    try:
        if bootstrap is None:
            running.run()
        else:
            with topics_removed(bootstrap, text):
                running.run()
    finally:
        running.clean_up()
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(f"{tmp_path}{os.sep}"):
                del sys.modules[name]


@pytest.mark.parametrize("page", READ, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_block_says_what_it_is(page: Path):
    unknown = [f"line {block.line}: {block.language}" for block in blocks(page) if block.language not in LANGUAGES]
    assert unknown == []
    assert re.findall(r"(?m)^[ \t]+```.*", page.read_text(encoding="utf-8")) == [], "a block inside a list is not run"


def test_the_commands_of_all_pages_start_spark_four_times_at_most():
    starting = [
        command
        for page in PAGES
        for block in blocks(page)
        if block.language == "console"
        for command, _ in orders(block)
        if re.search(r"headrace (run|dev|replay) ", command) and command != DEV
    ]
    assert len(starting) <= 4, "it takes too long for a test run"


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "tutorial" / "first-app.md"], ids=lambda page: page.name)
def test_a_beginning_is_what_the_packaging_test_runs(page: Path):
    first = next(block for block in blocks(page) if block.language == "console")
    assert tuple(command for command, _ in orders(first)) == BEGINNING


# Links


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    prose = re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))
    headings = re.findall(r"(?m)^#+ (.+)$", prose)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", READ, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path):
    prose = re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        path, _, anchor = target.partition("#")
        there = page if not path else page.parent / path
        if "://" in target:
            continue
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", READ, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_tests_that_a_page_names_are_there(page: Path):
    named = set(re.findall(r"`(tests/[\w/.]+?)`", page.read_text(encoding="utf-8")))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_index_leads_to_every_page():
    index = DOCS / "README.md"
    targets = re.findall(r"\]\(([^)#\s]+)\)", index.read_text(encoding="utf-8"))
    linked = {(DOCS / target).resolve() for target in targets}
    assert {page for page in PAGES if page.is_relative_to(DOCS)} - {index} <= linked


# References


def section(page: Path, heading: str) -> str:
    """The text below a heading, up to the next one."""
    parts = re.split(r"(?m)^#+ (.+)$", page.read_text(encoding="utf-8"))
    return next(text for name, text in zip(parts[1::2], parts[2::2], strict=True) if name.startswith(heading))


def column(text: str, number: int = 0) -> list[str]:
    """The cells of a column of the last table in a text, without its header."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    last = max(number for number, row in enumerate(rows) if set(row[0]) == {"-"})
    return [row[number].strip() for row in rows[last + 1 :]]


def test_the_readme_shows_the_example():
    shown = next(block.text for block in blocks(ROOT / "README.md") if block.language == "python")
    example = (ROOT / "examples" / "payments" / "app.py").read_text(encoding="utf-8")
    assert shown in re.sub(r"  # noqa.*", "", example)


def leaves(command: Any, name: str) -> dict[str, Any]:
    """The commands below one, by their whole names."""
    if not hasattr(command, "commands"):
        return {name: command}
    return {k: v for child, found in command.commands.items() for k, v in leaves(found, f"{name} {child}").items()}


COMMANDS = leaves(typer.main.get_command(commands), "headrace")


def test_the_reference_has_every_command():
    found = re.findall(r"(?m)^### (headrace .+)$", (REFERENCE / "cli.md").read_text(encoding="utf-8"))
    assert sorted(found) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_reference_has_every_option(name: str):
    (usage,) = re.findall(rf"(?m)^`({name}\b.*)`$", section(REFERENCE / "cli.md", name))
    options = [one for one in COMMANDS[name].params if one.param_type_name == "option" and one.name != "help"]
    written = {opt for one in options for opt in (*_longest(one.opts), *_longest(one.secondary_opts))}
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", usage)) == written


def _longest(opts: list[str]) -> list[str]:
    return [max(opts, key=len)] if opts else []


def test_the_reference_has_every_setting():
    rows = column(section(REFERENCE / "settings.md", "Settings"))
    assert sorted(rows) == sorted(f"`{name}`" for name in Settings.model_fields)


def test_the_reference_has_every_error():
    text = section(REFERENCE / "errors.md", "Error codes")
    assert list(zip(column(text), column(text, 1), strict=True)) == [(code, title(code)) for code in codes()]


def parameters(function: Callable[..., Any], *without: str) -> set[str]:
    return {name for name in inspect.signature(function).parameters if name not in ("self", *without)}


@pytest.mark.parametrize(
    ("heading", "wanted"),
    [
        ("An input", parameters(App.source)),
        ("A function", parameters(App.view, "name_or_function", "sql")),
        ("A table", parameters(App.table)),
    ],
)
def test_the_reference_has_every_parameter(heading: str, wanted: set[str]):
    rows = column(section(REFERENCE / "declarations.md", heading))
    assert sorted(rows) == sorted(f"`{name}`" for name in wanted)


@pytest.mark.parametrize(
    "operator", ["aggregate", "dedupe", "distinct", "event_time", "history", "join", "sliding", "top", "window"]
)
def test_the_reference_has_every_parameter_of_an_operator(operator: str):
    text = section(REFERENCE / "operators.md", f"hr.{operator}")
    usage = re.search(rf"`hr\.{operator}\((.*?)\)`", text)
    assert usage
    assert {one.partition("=")[0].lstrip("*") for one in usage[1].split(", ")} == parameters(
        getattr(headrace, operator)
    )


def test_the_reference_has_every_public_name():
    text = section(REFERENCE / "declarations.md", "Public names")
    assert sorted(column(text)) == sorted(f"`hr.{name}`" for name in headrace.__all__)
    assert [name for name in headrace.testing.__all__ if f"`{name}`" not in text] == []


def test_the_types_of_the_reference_can_be_declared():
    text = section(REFERENCE / "declarations.md", "Schema types")
    for name in re.findall(r"`([^`]+)`", " ".join(column(text) + column(text, 1))):
        Schema.parse(f"c {name.replace('(p,s)', '(10,2)').replace('…', 'int')}")


def test_the_reference_has_every_header():
    headers = {value for name, value in vars(names).items() if name.startswith("HEADER_") and name != "HEADER_PREFIX"}
    rows = set(column(section(REFERENCE / "topics.md", "Headers")))
    assert {f"`{header}`" for header in headers} <= rows
    java = (ROOT / "src/headrace/kernel/java/headrace/kernel/operators/LateRows.java").read_text(encoding="utf-8")
    assert {f"`{header}`" for header in re.findall(r'"(headrace\.\w+)"', java)} <= rows

"""`headrace setup`: all that a run would fetch or make on this machine, done once, and where it is kept.

Afterwards no run needs a network, and none is slower because it is the first. On a machine that never had a network,
set-up finds the jars in a copy of another machine's cache, and makes the rest.
"""

from __future__ import annotations

from headrace.cli import terminal
from headrace.parts import cache, jars, java, kernel_jar
from headrace.parts.setup import install


def setup() -> None:
    """Fetch and make once what the first run would otherwise wait for; no network is needed afterwards."""
    from headrace.engine.rehearsal import record

    said: list[str] = []

    def report(line: str) -> None:
        said.append(line)
        terminal.note(line)

    install(report)
    record(report)
    home = java.find()
    fetched = [len(jars.files(one, report)) for one in (jars.CONNECTOR, jars.BROKER)]
    rows = [
        ("Java", f"{home.version}, in {home.home}"),
        ("jars", f"{sum(fetched)} of Spark's Kafka connector and of the Kafka broker, in {cache.root() / 'jars'}"),
        ("kernel", str(kernel_jar.kernel_jar(report))),
        ("classes", f"what Kafka and Spark load at their start, in {cache.root() / 'classes'}"),
    ]
    terminal.out(terminal.columns(rows))
    terminal.out("everything is there" if said else "everything was there already")

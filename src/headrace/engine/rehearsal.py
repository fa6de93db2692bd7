"""A rehearsal of Spark's start, in a process of its own, which makes its classes ready (parts/archive.py).

`python -m headrace.engine.rehearsal` is the last step of set-up. The rehearsal is a small app, live, with a Kafka of
its own; `session` then uses what was recorded. When that is there already, nothing is imported but what finds it.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.parts import archive, jars, java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_VECTOR = "--add-modules=jdk.incubator.vector"


def record(report: Callable[[str], None]) -> None:
    """Record the classes of a session that starts and runs a query, once."""

    def rehearse(options: list[str]) -> list[str]:
        report("recording which classes Spark loads, so that it starts faster")
        command = [sys.executable, "-m", "headrace.engine.rehearsal", " ".join(f'"{option}"' for option in options)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=archive.SECONDS)
        return done.stdout.splitlines()

    archive.record(java.find(), jars.spark_files(), rehearse, report)


def rehearse(options: str) -> list[str]:
    """Run the app with these options of the JVM; gives what an archive must be made and used with."""
    import psutil

    from headrace.app import App
    from headrace.engine.mode import Mode
    from headrace.engine.run import Run
    from headrace.engine.session import session
    from headrace.log import topic
    from headrace.log.producer import Producer
    from headrace.operators.dedupe import dedupe
    from headrace.parts.embedded import Parts
    from headrace.settings import Settings

    app = App("rehearsal")
    app.source("events", schema="id string, at timestamp", event_time="at", id="id")

    @app.stream
    def unique(events: DataFrame) -> DataFrame:
        return dedupe(events, by="id", within="1 minute")

    with tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as scratch:
        settings = Settings.model_construct(directory=Path(scratch))
        with Parts.start(settings) as parts:
            given = {"spark.driver.extraJavaOptions": options}
            spark = session("headrace-rehearsal", settings=given, log=Path(scratch, "spark.log"))
            started: list[list[str]] = []
            for child in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):  # one that has ended is still listed for a while
                    started.append(child.cmdline())
            with Run.start(app, mode=Mode.LIVE, settings=settings, bootstrap=parts.bootstrap, spark=spark) as run:
                with Producer(run.connection) as producer:
                    producer.send("events", {"id": "a", "at": datetime.now(UTC)})
                until = time.monotonic() + archive.SECONDS / 2
                while not sum(topic.ends(run.connection, "unique").values()) and time.monotonic() < until:
                    run.wait(0.2)
            spark.stop()
    arguments = next(one for one in started if "org.apache.spark.deploy.SparkSubmit" in one)
    modules = [_VECTOR] if _VECTOR in arguments else []
    return [*modules, "-cp", arguments[arguments.index("-cp") + 1]]


def main(arguments: list[str]) -> None:
    """Without arguments, record; with options of the JVM, be the rehearsal."""
    if arguments:
        print("\n".join(rehearse(arguments[0])))
    else:
        record(lambda line: print(line, file=sys.stderr, flush=True))


if __name__ == "__main__":
    main(sys.argv[1:])

"""The payments app, live: a generator, the app, and a reader of its alerts, with the time between them.

    make demo                       until Ctrl-C
    make demo ARGS="--for 60s"      one minute from the first alert

Kafka starts beside the app in `.headrace/` (or is the one of the settings), Spark in this process, both at once. The
generator begins when there are topics. Ctrl-C, SIGTERM or `--for` end the demo: the generator stops, what it sent is
waited for, and a summary compares what came out with what the generator made. The exit code is 0, or 1 when an alert
is missing or wrong, when a malformed record is not among the dead letters, or after an error. A second Ctrl-C ends it
at once. Nothing is left running, also after kill -9: Kafka and Spark's JVM end with this process. The next demo goes
on from there, with ids of its own.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import psutil
from generate import APP, Tally, ensure_topics, options, records, run_name, send
from observe import Observer
from rich.console import Console
from screen import Rates, screen, summary

from headrace.app import load
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.engine.session import session
from headrace.errors import HeadraceError
from headrace.kernel import bridge
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.parts import setup
from headrace.parts.embedded import Parts
from headrace.serve.beside import Beside
from headrace.settings import Settings

FIRST_ALERT_S = 120.0
DRAIN_S = 30.0
T = TypeVar("T")


class Interrupted(Exception):  # noqa: N818 - not an error
    """The demo was ended before the app ran."""


@dataclass
class Demo:
    """One run of the demo; `lasting` seconds, or until `interrupted`."""

    rate: float
    seed: int
    directory: Path
    lasting: float | None
    began: float = field(default_factory=lambda: psutil.Process().create_time())
    name: str = field(default_factory=run_name)
    tally: Tally = field(default_factory=Tally)
    interrupted: threading.Event = field(default_factory=threading.Event)

    def carry_out(self) -> bool:
        """Start, show, end; whether everything came out as it must."""
        setup.install(self.say)
        settings = Settings.load(self.directory)
        all_sent, all_read = threading.Event(), threading.Event()
        with ThreadPoolExecutor(4) as pool, ExitStack() as undo:
            kafka = pool.submit(Parts.start, settings, report=self.say)
            undo.callback(_stop, kafka)
            log = settings.state / "spark.log"
            spark = pool.submit(session, "headrace-payments-demo", settings=settings.spark, log=log, report=self.say)
            undo.callback(_stop, spark)
            undo.callback(all_read.set)
            undo.callback(all_sent.set)

            parts = self.wait(kafka)
            self.say(f"Kafka answers at {parts.bootstrap}")
            connection = Connection(parts.bootstrap, parts.kafka_options)
            ensure_topics(connection)
            observer = Observer(connection, self.name, self.tally)
            reader = pool.submit(observer.follow, all_read)
            made = records(seed=self.seed, run=self.name, start=datetime.now(UTC), rate=self.rate)
            sender = pool.submit(send, Producer(connection, linger_ms=0), made, self.tally, all_sent)
            self.say(f"sending {self.rate:g} records a second")
            console = undo.enter_context(Beside(APP, bootstrap=settings.bootstrap, directory=self.directory))

            # Options for another broker are not for the embedded one.
            settings = settings.model_copy(update={"kafka": parts.kafka_options})
            session_in_use = self.wait(spark)
            self.say("Spark answers")
            app = load(APP)
            run = Run.start(app, mode=Mode.LIVE, settings=settings, bootstrap=parts.bootstrap, spark=session_in_use)
            undo.enter_context(run)
            self.say("the app runs live")
            self.say(f"see it move: {console.wait() or console.failure}")
            self.watch(run, observer, sender, reader)
            self.say("waiting for the last alerts")
            all_sent.set()
            sender.result()
            self.drain(run, observer, reader)
            print(summary(self.tally, observer, run.progress(), self.first(observer)), flush=True)
            self.say("stopping Spark and Kafka")
        return observer.seen.complete and not observer.seen.wrong

    def watch(self, run: Run, observer: Observer, *threads: Future[None]) -> None:
        """Show the demo until it ends."""
        # The time to be shown begins with the first alert.
        until, showing = time.monotonic() + FIRST_ALERT_S, False
        every, rates = 0.5 if Console().is_terminal else 1.0, Rates()
        with screen() as show:
            while time.monotonic() < until and not self.interrupted.wait(every):
                run.check()
                for thread in threads:
                    if thread.done():
                        thread.result()
                if observer.seen.first is not None and not showing:
                    until, showing = observer.seen.first + (math.inf if self.lasting is None else self.lasting), True
                    self.say("the first alert has come")
                if observer.seen.first is not None and observer.before is None:
                    observer.look_back(bridge.gauges(run.spark))
                show(rates.moment(self.tally, observer, run.progress()))

    def drain(self, run: Run, observer: Observer, reader: Future[None]) -> None:
        """Wait until all that was sent has come out and is counted, or there is nothing left to hope for."""
        until = time.monotonic() + DRAIN_S
        while time.monotonic() < until:
            run.check()
            if reader.done():
                reader.result()
            if observer.before is None:
                observer.look_back(bridge.gauges(run.spark))
            if observer.seen.complete and (observer.removed(run.progress()) or 0) >= self.tally.copies:
                return
            time.sleep(0.2)

    def first(self, observer: Observer) -> float | None:
        """How many seconds after the command the first alert came."""
        came = observer.seen.first
        return None if came is None else time.time() - (time.monotonic() - came) - self.began

    def wait(self, started: Future[T]) -> T:
        """What is being started; Interrupted when the user no longer wants it."""
        while not started.done():
            if self.interrupted.wait(0.1):
                self.say("ending, as soon as what is being started can be stopped")
                raise Interrupted
        return started.result()

    def say(self, line: str) -> None:
        """A line with the seconds since the command."""
        print(f"{time.time() - self.began:5.1f} s  {line}", flush=True)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: the first ends the demo, a second one the process."""
        if self.interrupted.is_set():
            os._exit(128 + number)
        self.interrupted.set()


def _stop(started: Future[Any]) -> None:
    """Stop what was started, as soon as it has started."""
    if started.exception() is None:
        started.result().stop()


def main() -> int:
    """The exit code."""
    given = options("Run the payments app live and show its alerts.").parse_args()
    demo = Demo(given.rate, given.seed, given.directory, given.lasting)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, demo.interrupt)
    try:
        return 0 if demo.carry_out() else 1
    except Interrupted:
        demo.say("ended before the app ran")
        return 0
    except HeadraceError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

"""The one Spark session of a process, with the settings that the figures in docs/performance.md were measured with.

Real-time mode holds a task slot for every task of every stage for the whole batch, whether there is data or not, so a
local master has many more slots than cores; idle tasks cost next to nothing. On a cluster the executors must have that
many cores between them. Connector and kernel jars travel with the session, and so do the app's own modules. The classes
of Spark's JVM come from an archive when set-up has made one (rehearsal.py).

Spark's process ends with this one, however this one ends (the kernel's Parent). Neither its environment nor its command
line, which everybody on the machine can read, has a secret of ours: it is told what it needs by calls. On one machine
it listens at the loopback address only, and who connects has to know a secret that is made at each start; on a cluster
both are for the cluster to decide.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from pyspark import java_gateway
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.errors import RunError
from headrace.kernel import bridge
from headrace.parts import archive, jars, java, kernel_jar

Report = Callable[[str], None]
LOCAL_SLOTS = 64
AUTHENTICATE = "spark.authenticate"
# py4j tells the root logger of a process that has ended, with a traceback; the run says so in an error.
logging.getLogger().addFilter(lambda record: record.msg != "Exception while sending command.")
_SECRETS = ("HEADRACE_", "PGPASS")  # how the names of variables begin
_SECRET_OPTION = re.compile(r"(?i)secret|password|token|access[.]?key")  # what Spark itself does not show
# State that fills half of the heap lets the collector mark all of it again and again, seconds of a core each time. It
# would go back to that by itself.
_MARKING = ("-XX:InitiatingHeapOccupancyPercent=70", "-XX:-G1UseAdaptiveIHOP")

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.locality.wait": "0s",
    "spark.plugins": bridge.PLUGINS,
    "spark.shuffle.manager.incremental": bridge.SHUFFLE,
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # A batch that is run again must be cut into the same tasks.
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Whoever writes a row asks in its own thread what was read for it (the kernel's Origin).
    "spark.python.udf.pipelined.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    "spark.sql.streaming.stopTimeout": "60s",
    # What Spark remembers of batches that are over, for a page that is not shown: by default a thousand executions with
    # their plans, a thousand jobs and a hundred thousand tasks.
    "spark.sql.ui.retainedExecutions": "50",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
}


def session(
    name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    modules: Sequence[Path] = (),
    secrets: Collection[str] = (),
    log: Path | None = None,
    report: Report = lambda _: None,
) -> SparkSession:
    """Start the session, or return the one that runs. `settings` are Spark's own and win over Headrace's; `secrets`
    name variables of the environment that are not for the JVM. What Spark logs goes to `log`, which is rotated, and
    what its JVM prints itself to a file beside it (`printed`); without a log both go to standard error."""
    home = java.find()
    os.environ["JAVA_HOME"] = str(home.home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    files = [*jars.files(jars.CONNECTOR, report), kernel_jar.kernel_jar(report)]
    options = dict(_SETTINGS)
    if is_local(master):
        options["spark.sql.streaming.checkpointFileManagerClass"] = bridge.CHECKPOINTS
        options["spark.driver.host"] = options["spark.driver.bindAddress"] = "127.0.0.1"
        options[AUTHENTICATE] = "true"
        # The slots are for tasks that wait; a local collection is cut by the cores there are.
        options["spark.default.parallelism"] = str(os.cpu_count() or 2)
    java_options = [*_logging(log), *_MARKING, *archive.options(home, jars.spark_files())]
    options |= {"spark.jars": ",".join(str(file) for file in files)}
    options["spark.driver.extraJavaOptions"] = " ".join(f'"{option}"' for option in java_options)
    options["spark.executor.extraJavaOptions"] = " ".join(_MARKING)
    if modules:
        options["spark.submit.pyFiles"] = ",".join(str(file) for file in modules)
    options |= dict(settings or {})
    builder = SparkSession.builder.appName(name).master(master or f"local[{LOCAL_SLOTS}]")
    for key, value in options.items():
        builder = builder.config(key, value)
    report("starting Spark")
    try:
        with _stderr_to(log), _no_orphan(), _without(secrets):
            spark = builder.getOrCreate()
        bridge.end_with_this_process(spark)
    except (PySparkException, RuntimeError, OSError) as error:
        raise RunError(
            "HR-301",
            "Spark could not be started.",
            found=str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__,
            fix="check the master's address and the settings under [spark] in headrace.toml",
        ) from error
    return spark


def end(spark: SparkSession) -> None:
    """Stop a session. One that cannot be stopped, or whose process has ended, is forgotten."""
    if bridge.is_alive(spark):
        with suppress(PySparkException, *bridge.UNANSWERED):
            spark.stop()
            return
    bridge.abandon(spark)


def check_doors(spark: SparkSession, *, live: bool) -> None:
    """Refuse a live run on a cluster where nobody has decided who may connect: executors send each other rows."""
    master = spark.sparkContext.master
    if live and not is_local(master) and spark.sparkContext.getConf().get(AUTHENTICATE) is None:
        raise RunError(
            "HR-343",
            "On a cluster, a live run opens ports between the executors, and it is not said who may connect to them.",
            found=f"master {master}, and no {AUTHENTICATE}",
            fix=f'write `"{AUTHENTICATE}" = "true"` under [spark] in headrace.toml and give the cluster its secret, or'
            ' "false" where nobody else can reach the executors',
        )


def is_local(master: str | None) -> bool:
    """Whether all of Spark is on this machine, in one process."""
    return master is None or master.startswith("local")


@contextmanager
def _without(secrets: Collection[str]) -> Iterator[None]:
    """PySpark starts the JVM with the whole environment, and with all options on the command line; in here, without
    what may hold a secret. Options are given by calls as well. The environment of this process stays as it is, since
    other threads look at it."""

    def start(command: Sequence[str], **given: Any) -> Any:
        told = {name: value for name, value in given.pop("env").items() if not _is_secret(name, secrets)}
        return subprocess.Popen(list(_without_secrets(command)), env=told, **given)

    gateway: Any = java_gateway
    gateway.Popen = start
    try:
        yield
    finally:
        gateway.Popen = subprocess.Popen


def _without_secrets(command: Sequence[str]) -> Iterator[str]:
    words = iter(command)
    for word in words:
        option = next(words, "") if word == "--conf" else None
        if option is None:
            yield word
        elif not _SECRET_OPTION.search(option.partition("=")[0]):
            yield from (word, option)


def _is_secret(name: str, secrets: Collection[str]) -> bool:
    return name.startswith(_SECRETS) or name in secrets


@contextmanager
def _no_orphan() -> Iterator[None]:
    """A start that is interrupted ends the JVM too: before it has called back, nothing else would."""
    this = psutil.Process()
    before = set(this.children(recursive=True))
    try:
        yield
    except BaseException:
        for child in set(this.children(recursive=True)) - before:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        raise


def printed(log: Path) -> Path:
    """Where what a JVM prints by itself is found: why it did not start, or its last words. That of the start before is
    kept beside it, as `.out.1`."""
    return log if log == Path(os.devnull) else log.with_suffix(".out")


@contextmanager
def _stderr_to(log: Path | None) -> Iterator[None]:
    """The JVM inherits standard error when it is started, so it is pointed at a file for that moment."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    file = printed(log)
    if file.is_file() and file.stat().st_size:
        file.replace(file.with_name(f"{file.name}.1"))
    sys.stderr.flush()
    kept = os.dup(2)
    with file.open("ab") as out:
        os.dup2(out.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _logging(log: Path | None) -> list[str]:
    """How Spark logs: to standard error, or to a file."""
    here = Path(__file__)
    if log is None or log == Path(os.devnull):
        return [f"-Dlog4j2.configurationFile={here.with_name('log4j2.properties')}"]
    return [
        f"-Dlog4j2.configurationFile={here.with_name('log4j2-file.properties')}",
        f"-Dheadrace.log={log.absolute()}",
    ]

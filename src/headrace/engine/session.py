"""The one Spark session of a process, with the settings that the figures in docs/performance.md were measured with.

Real-time mode holds a task slot for every task of every stage for the whole batch, whether there is data or not, so a
local master has many more slots than cores; idle tasks cost next to nothing. On a cluster the executors must have that
many cores between them. Connector and kernel jars travel with the session, and so do the app's own modules. The classes
of Spark's JVM come from an archive when set-up has made one (rehearsal.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.errors import RunError
from headrace.kernel import bridge
from headrace.parts import archive, jars, java, kernel_jar

Report = Callable[[str], None]
LOCAL_SLOTS = 64
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
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    "spark.sql.streaming.stopTimeout": "60s",
}


def session(
    name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    modules: Sequence[Path] = (),
    log: Path | None = None,
    report: Report = lambda _: None,
) -> SparkSession:
    """Start the session, or return the one that runs. `settings` are Spark's own and win over Headrace's; what the JVM
    prints goes to `log`, or to standard error."""
    home = java.find()
    os.environ["JAVA_HOME"] = str(home.home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if _is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    files = [*jars.files(jars.CONNECTOR, report), kernel_jar.kernel_jar(report)]
    options = dict(_SETTINGS)
    if _is_local(master):
        options["spark.sql.streaming.checkpointFileManagerClass"] = bridge.CHECKPOINTS
        options["spark.driver.host"] = "127.0.0.1"
        # The slots are for tasks that wait; a local collection is cut by the cores there are.
        options["spark.default.parallelism"] = str(os.cpu_count() or 2)
    java_options = [_logging(), *_MARKING, *archive.options(home, jars.spark_files())]
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
        with _stderr_to(log), _no_orphan():
            spark = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise RunError(
            "HR-301",
            "Spark could not be started.",
            found=str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__,
            fix="check the master's address and the settings under [spark] in headrace.toml",
        ) from error
    return spark


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


@contextmanager
def _stderr_to(log: Path | None) -> Iterator[None]:
    """The JVM inherits standard error when it is started, so it is pointed at the log for that moment."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as out:
        os.dup2(out.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _is_local(master: str | None) -> bool:
    return master is None or master.startswith("local")


def _logging() -> str:
    return f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"

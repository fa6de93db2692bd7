"""The certificate: an app runs on made-up data while things happen to its processes, and every output is held against
the batch answer.

    certificate = certify(Path("app.py"), modes=(Mode.EXACT, Mode.LIVE), kills=20, seed=7)
    assert certificate.holds

The app runs as in production, in processes of its own (trial.py): `headrace run` on a Kafka of its own, and where it
has views `headrace follow`, where it captures tables `headrace capture`, on a PostgreSQL of its own. With more than one
mode each start of the driver has another. Behind all that it has there are readers (chains.py). Again and again
something is stopped, killed, put back or deleted (chaos.py). At the end each stream gets events far in the future,
which close the windows, and when all is worked off, records and view tables are compared (verdict.py).

Functions that draw random numbers, or depend on the order in which rows of equal time arrive, have no one answer, and
may be reported as wrong. So may a stream that is joined with what a table holds at the moment.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from headrace.app import load
from headrace.engine import udf_types
from headrace.engine.mode import Mode
from headrace.engine.session import session
from headrace.testing.chains import Chained
from headrace.testing.chaos import hurt
from headrace.testing.trial import Report, Trial
from headrace.testing.verdict import Judge, Verdict

_FILE = "certified_by_headrace.py"
_APP = """\
from pathlib import Path

from headrace.app import load
from headrace.testing.chains import Chained

app = Chained(load(Path({file!r})), chains={chains})
"""
_SPARK = {"spark.python.authenticate.socketTimeout": "10m"}  # of large results; a busy machine takes its time
_OTHER_FILES = shutil.ignore_patterns(".headrace", ".venv", ".git", "__pycache__", "*.pyc")


@dataclass(frozen=True)
class Certificate:
    """The verdicts of a run, with what was sent, done, refused and added: `starts` by mode, `refused` by code."""

    app: str
    seed: int
    events: int
    kills: Mapping[str, int]
    starts: Mapping[str, int]
    refused: Mapping[str, int]
    added: tuple[str, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def holds(self) -> bool:
        return all(verdict.holds for verdict in self.verdicts)


def certify(
    app: Path,
    *,
    modes: Sequence[Mode] = (Mode.EXACT,),
    kills: int = 20,
    seed: int,
    rate: float = 100.0,
    chains: bool = True,
    report: Report = lambda _: None,
) -> Certificate:
    """Run the app in a directory of its own while so many faults happen; `rate` is events a second and source."""
    with ExitStack() as undo:
        home = Path(tempfile.mkdtemp(prefix="headrace-certify-"))
        home.chmod(0o755)  # the user that runs PostgreSQL for root must enter
        undo.callback(shutil.rmtree, home, ignore_errors=True)
        shutil.copytree(app.parent, home / "app", ignore=_OTHER_FILES)
        copy, file = home / "app" / app.name, home / "app" / _FILE
        with udf_types.read_later():
            declared = Chained(load(copy), chains=chains)
        file.write_text(_APP.format(file=str(copy), chains=chains), encoding="utf-8")
        trial = Trial(declared.graph(), file, modes=modes, seed=seed, rate=rate, report=report)
        undo.callback(trial.close)
        trial.begin()
        happened = hurt(trial, kills)
        trial.finish()
        report("computing the batch answer")
        spark = session("headrace-certify", settings=_SPARK, log=trial.directory / "oracle.log")
        undo.callback(spark.stop)
        verdicts = Judge(declared, trial, spark, repeats=Mode.LIVE in modes).verdicts()
        return Certificate(
            trial.graph.app,
            seed,
            trial.total,
            dict(happened),
            dict(trial.starts),
            dict(trial.refused),
            tuple(node.name for node in declared.added),
            verdicts,
        )

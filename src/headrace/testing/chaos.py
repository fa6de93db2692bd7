"""What is done to an app under test: faults, in an order that a seed draws.

- the driver, the follower or the capture is stopped with SIGTERM, or killed with -9, and started again; of a driver
  only Python is killed, and the next one is started at once;
- a killed driver may also lose the record of its last batch, which is what is left of a kill between the sink's commit
  and Spark's;
- the broker, or the database, is killed with -9 and comes back;
- checkpoints are put back to an older copy. A driver that refuses them with HR-314 is right, and is given the newer
  ones again; one that goes on is held to its results;
- checkpoints are deleted, in the same way with HR-315;
- a record of five megabytes comes, where a source has a text column that is no key.

Each kind comes once before one comes again, so as many faults as there are kinds try all of them.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path

from headrace.graph.plan import Query
from headrace.testing.driver import forget_last_commit
from headrace.testing.trial import Trial

OLDER = "HR-314"
GONE = "HR-315"
BEFORE_S = 5.0
AWAY_S = 3.0

Fault = Callable[[], None]


def hurt(trial: Trial, faults: int) -> Counter[str]:
    """Let so many faults happen, each when the app works; how often each kind did."""
    known = _kinds(trial)
    happened: Counter[str] = Counter()
    for kind in islice(_dealt(list(known), trial.dice), faults):
        trial.until_it_works()
        time.sleep(trial.dice.uniform(0, BEFORE_S))
        happened[kind] += 1
        trial.report(f"fault {happened.total()} of {faults}: {kind} ({trial.mode})")
        known[kind]()
    trial.until_it_works()
    return happened


def _dealt(kinds: list[str], dice: random.Random) -> Iterator[str]:
    """Every kind, and then every kind again."""
    while True:
        dice.shuffle(kinds)
        yield from kinds


def _kinds(trial: Trial) -> Mapping[str, Fault]:
    found: dict[str, Fault] = {
        "driver stopped": partial(_stopped, trial, "driver"),
        "driver killed": partial(_killed, trial, "driver"),
        "driver killed between commits": partial(_killed_between_commits, trial),
        "older checkpoints put back": partial(_put_back, trial),
        "checkpoints deleted": partial(_deleted, trial),
        "broker killed": lambda: trial.kill_part("broker", away_s=trial.dice.uniform(0, AWAY_S)),
    }
    for name in trial.companions:
        found[f"{name} stopped"] = partial(_stopped, trial, name)
        found[f"{name} killed"] = partial(_killed, trial, name)
    if trial.has_store:
        found["database killed"] = lambda: trial.kill_part("store", away_s=trial.dice.uniform(0, AWAY_S))
    givers = [trial.feeder, trial.database] if trial.database else [trial.feeder]
    if takers := [partial(giver.large, name) for giver in givers for name in giver.takes_large]:
        found["large record"] = partial(_one_of, trial.dice, takers)
    return found


def _one_of(dice: random.Random, takers: list[Fault]) -> None:
    dice.choice(takers)()


def _stopped(trial: Trial, name: str) -> None:
    trial.stop(name)
    trial.start(name)


def _killed(trial: Trial, name: str) -> None:
    trial.kill(name)
    trial.start(name)


def _killed_between_commits(trial: Trial) -> None:
    trial.kill("driver", family=True)
    for query in trial.queries:
        forget_last_commit(trial.checkpoint(query))
    trial.start("driver")


def _put_back(trial: Trial) -> None:
    chosen = _some(trial)
    trial.stop("driver")
    older = {query: _copied(trial, query) for query in chosen}
    trial.start("driver")
    trial.until_a_batch_ends(chosen)
    trial.until_it_works()
    _ended(trial)
    newer = _set_aside(trial, chosen)
    for query, copy in older.items():
        shutil.move(copy, trial.checkpoint(query))
    _tried(trial, OLDER, newer)


def _deleted(trial: Trial) -> None:
    _ended(trial)
    _tried(trial, GONE, _set_aside(trial, _some(trial)))


def _tried(trial: Trial, expected: str, newer: Mapping[Query, Path]) -> None:
    """Start the driver; where it is refused as it should be, give it back what it had."""
    if not trial.is_refused(expected):
        trial.report(f"went on ({trial.mode}) with other checkpoints of {', '.join(q.name for q in newer)}")
        return
    trial.report(f"refused with {expected}, and given back what it had")
    for query, copy in newer.items():
        shutil.rmtree(trial.checkpoint(query), ignore_errors=True)
        shutil.move(copy, trial.checkpoint(query))
    trial.start("driver")


def _ended(trial: Trial) -> None:
    if trial.dice.random() < 0.5:
        trial.stop("driver")
    else:
        trial.kill("driver", family=True)


def _some(trial: Trial) -> list[Query]:
    """One query, or all: somebody's mistake, or a lost volume."""
    queries = list(trial.queries)
    return queries if trial.dice.random() < 0.5 else [trial.dice.choice(queries)]


def _copied(trial: Trial, query: Query) -> Path:
    copy = _beside(trial, query, "older")
    shutil.copytree(trial.checkpoint(query), copy)
    return copy


def _set_aside(trial: Trial, queries: Collection[Query]) -> dict[Query, Path]:
    aside = {query: _beside(trial, query, "newer") for query in queries}
    for query, place in aside.items():
        shutil.move(trial.checkpoint(query), place)
    return aside


def _beside(trial: Trial, query: Query, kind: str) -> Path:
    place = trial.directory / "copies" / kind / query.name
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place

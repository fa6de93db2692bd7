"""A query goes on from its checkpoint, although its topic is ahead of the checkpoint.

A live query writes results as records come, and saves its state only at the end of a batch. So after a stop, a crash or
a kill its topic holds results of a batch that will be run again. Before the query goes on, in either mode, those
results are corrected, so that each has its effect once, for every reader and through any number of queries:

- *a view* holds the last value of each key: keys get their earlier value again (rollback.py);
- *changes* add up: those that were written are retracted (retraction.py);
- *a stream of rows* cannot be retracted, and need not be: a row has the same id when it is made again, and a row whose
  id is in the topic is not written a second time. The id of a row that is made of one record is the position of that
  record; of a row that an operator emits because of a record, that position and the operator; of a row that is emitted
  when time has passed (a window, a session), and of a row of `dedupe`, its key and its time.

**Why it is right.** Before the first row of the second run, readers of the log see what the state of the checkpoint
says (views, changes), or a part of the rows that it will give (streams). From there on the query is like one that never
stopped. Nothing is removed from the log.

**A row with the same id and other values.** Where the order of arrival decides (`sliding` on arrival, a look-up in a
table that changes), the second run may compute other values for a row; those of the first run stay.

**A crash** in between leaves nothing half done: views and changes are continued, and ids are read from the topic again.
The ids that an exact run needs are kept in the checkpoint, because its batches need not end where the live batch did.
They are removed when the query has read all that was there when they were found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace import names
from headrace.engine import checkpoint, retraction, rollback, unfinished
from headrace.engine.checkpoint import Finished, Written
from headrace.graph.plan import Query
from headrace.log import topic as topics
from headrace.log.connection import Connection


@dataclass
class Resumption:
    """What is to be done for one query. `changes` says that its rows are changes of a table; `set_back` is called with
    the offsets from which it goes on, before anything is retracted."""

    connection: Connection
    query: Query
    place: str
    reads: list[str]
    set_back: Callable[[Mapping[tuple[str, int], int]], None]
    report: Callable[[str], None]
    changes: bool = False

    def ids(self, *, live: bool) -> frozenset[str]:
        """The ids of rows that are in the topic and will be made again; empty for views and changes."""
        if self._is_balanced:
            return frozenset()
        known = checkpoint.written(self.place)
        reached = checkpoint.reached(self.place)
        if known is not None and all(reached.get(at, 0) >= offset for at, offset in known.until.items()):
            known = None
        finished, since = checkpoint.finished(self.place), checkpoint.live_since(self.place)
        if finished is not None and since is not None:
            told = {
                identity
                for record in unfinished.records(self.connection, self.query.node.topic, finished, since)
                if (identity := record.header(names.HEADER_ID)) is not None
            }
            if told:
                before = known.ids if known is not None else frozenset[str]()
                known = Written(topics.ends_of(self.connection, self.reads), before | told)
        if known is None or not live:
            checkpoint.note_written(self.place, known)
        return frozenset() if known is None else known.ids

    def make_good(self, *, live: bool) -> None:
        """Correct what has to be, and note how the query is started; call it right before the start."""
        finished, since = checkpoint.finished(self.place), checkpoint.live_since(self.place)
        if self._is_balanced and finished is not None and since is not None:
            self._take_back(finished, since)
        if not live:
            checkpoint.note_live(self.place, None)
        elif since is None:
            ends = topics.ends_of(self.connection, [self.query.node.topic])
            checkpoint.note_live(self.place, {partition: end for (_, partition), end in ends.items()})

    @property
    def _is_view(self) -> bool:
        return self.query.node.kind == "view"

    @property
    def _is_balanced(self) -> bool:
        return self.changes or self._is_view

    def _take_back(self, finished: Finished, since: Mapping[int, int]) -> None:
        topic = self.query.node.topic
        if self._is_view:
            values = rollback.due(self.connection, topic, finished, since)
            if values:
                self.set_back(checkpoint.reached(self.place))
                rollback.write(self.connection, topic, values)
            count = len(values)
        else:
            rows = retraction.due(unfinished.records(self.connection, topic, finished, since))
            if rows:
                self.set_back(checkpoint.reached(self.place))
                retraction.write(self.connection, topic, rows, finished)
            count = len(rows)
        if count:
            self.report(f"took {count} rows of {topic} back to the last finished batch of {self.query.name}")

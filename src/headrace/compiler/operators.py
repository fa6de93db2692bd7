"""The operators as a declared function calls them: on DataFrames, or on placeholders of them (stand_in.py)."""

from __future__ import annotations

from headrace.compiler import sql as compiled
from headrace.compiler.stand_in import taking
from headrace.operators import (
    aggregation,
)
from headrace.operators import (
    dedupe as deduped,
)
from headrace.operators import (
    distinct as different,
)
from headrace.operators import (
    event_time as timed,
)
from headrace.operators import (
    history as versions,
)
from headrace.operators import (
    join as joined,
)
from headrace.operators import (
    sliding as slid,
)
from headrace.operators import (
    top as ranked,
)
from headrace.operators import (
    union as united,
)
from headrace.operators import (
    window as windowed,
)

aggregate = taking(aggregation.aggregate)
dedupe = taking(deduped.dedupe)
distinct = taking(different.distinct)
event_time = taking(timed.event_time)
history = taking(versions.history)
join = taking(joined.join)
sliding = taking(slid.sliding)
sql = taking(compiled.sql)
top = taking(ranked.top)
union = taking(united.union)
window = taking(windowed.window)

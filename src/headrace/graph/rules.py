"""What must hold of the whole graph: one function a rule, each yielding every breach it finds.

Rules look at nodes that were declared one by one without complaint, or at the harmless stand-ins of those that were
not, so a rule never speaks about a mistake that the declaration has already reported.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator

from headrace import duration, names
from headrace.errors import DeclarationError, DeclarationErrors
from headrace.graph.follow import Follow
from headrace.graph.graph import Graph
from headrace.graph.node import DEFAULT_FUTURE_MS, DEFAULT_IDLE_MS, Node, Source

Rule = Callable[[Graph], Iterator[DeclarationError]]


def unique_name(graph: Graph) -> Iterator[DeclarationError]:
    """No two nodes have the same name: parameters could not tell them apart."""
    seen: dict[str, Node] = {}
    for node in graph.nodes:
        first = seen.setdefault(node.name, node)
        if first is not node:
            yield DeclarationError(
                "HR-016",
                f"`{node.name}` is declared twice; the first time at {first.where}.",
                where=node.where,
                found=f"{_kind(first)} `{node.name}` and {_kind(node)} `{node.name}`",
                fix="give one of them another name, and use that name as the parameter of the functions that read it",
            )


def known_input(graph: Graph) -> Iterator[DeclarationError]:
    """Every parameter names a declared node."""
    for node in graph.derived:
        for name in node.inputs:
            if name in graph.names:
                continue
            others = [other for other in graph.names if other != node.name]
            close = difflib.get_close_matches(name, others, n=1)
            if close:
                fix = f"did you mean `{close[0]}`? Then rename the parameter; otherwise declare `{name}`"
            elif others:
                fix = f"rename the parameter to one of {_listed(others)}, or declare `{name}`"
            else:
                fix = f"declare the input first: `{name} = app.source({_text(name)}, schema=…)`"
            yield DeclarationError(
                "HR-014",
                f"`{node.name}` reads `{name}` (its parameters name its inputs), and nothing of that name is declared.",
                where=node.where,
                found=f"`{name}`; declared are {_listed(others)}" if others else f"`{name}`; nothing else is declared",
                fix=fix,
            )


def no_cycle(graph: Graph) -> Iterator[DeclarationError]:
    """No node reads itself, directly or through others. Every cycle is reported once, at its first declared node."""
    reported: set[frozenset[str]] = set()
    for start in graph.derived:
        cycle = _way_back(graph, start.name)
        if cycle is None or frozenset(cycle) in reported:
            continue
        reported.add(frozenset(cycle))
        drawn = " → ".join(f"`{name}`" for name in [*cycle, start.name])
        if len(cycle) == 1:
            what = f"`{start.name}` reads itself: one of its parameters has its own name."
            fix = "rename the parameter to the input you meant, or rename the function"
        else:
            way = ", then into ".join(f"`{name}`" for name in cycle[1:])
            what = f"`{start.name}` needs its own result: what it returns goes into {way} and comes back to it."
            edges = zip(cycle, [*cycle[1:], start.name], strict=True)
            fix = "take away one of the steps: " + ", or ".join(f"the parameter `{a}` of `{b}`" for a, b in edges)
        yield DeclarationError("HR-015", what, where=start.where, found=drawn, fix=fix)


def unique_topic(graph: Graph) -> Iterator[DeclarationError]:
    """Every topic, with its dead and late letters, belongs to one node. To Kafka `.` and `_` are the same."""
    taken: dict[str, tuple[Node, str]] = {}
    for node in graph.nodes:
        if node is not graph.node(node.name):
            continue  # a second node of the same name is unique_name's business
        own = (node.topic, names.dead_topic(node.topic), names.late_topic(node.topic))
        clash = next(((topic, *taken[_same(topic)]) for topic in own if _same(topic) in taken), None)
        if clash is None:
            taken.update((_same(topic), (node, topic)) for topic in own)
            continue
        topic, other, theirs = clash
        yield DeclarationError(
            "HR-017",
            f"{_kind(node).capitalize()} `{node.name}` and {_kind(other)} `{other.name}` ({other.where}) "
            "would use one topic for two things.",
            where=node.where,
            found=f"`{theirs}` {_use(theirs, other)}, and `{topic}` {_use(topic, node)}"
            + ("" if topic == theirs else "; Kafka does not keep `.` and `_` apart"),
            fix=f"give `{node.name}` another topic, such as `topic={_text(f'{graph.app}.{node.name}')}`",
        )


def event_time_for_watermark(graph: Graph) -> Iterator[DeclarationError]:
    """What is said about the watermark (`delay`, `idle`, `future`) means nothing without an event time."""
    for node in graph.sources:
        bounds = {"delay": (node.delay_ms, 0), "idle": (node.idle_ms, DEFAULT_IDLE_MS)}
        bounds["future"] = (node.future_ms, DEFAULT_FUTURE_MS)
        given = {option: bound for option, (bound, default) in bounds.items() if bound != default}
        if given and node.event_time is None:
            columns = [field.name for field in node.schema.fields if field.type == "timestamp"] if node.schema else []
            options = _listed(given)
            yield DeclarationError(
                "HR-018",
                f"Stream `{node.name}` has {options}, but does not say which column is the time of an event.",
                where=node.where,
                found=", ".join(f"{option} {duration.describe(bound)}" for option, bound in given.items())
                + " and no event_time",
                fix=f"add `event_time={_text(columns[0])}`"
                if columns
                else f"add a timestamp column to the schema and name it: `event_time=…`; or leave {options} out",
            )


def key_for_table(graph: Graph) -> Iterator[DeclarationError]:
    """Tables and views have a key: it says which row a change replaces."""
    for node in graph.nodes:
        if node.kind in ("table", "view") and not node.key:
            example = f'`@app.view(key="{_column(node)}")`' if node.kind == "view" else f'`key="{_column(node)}"`'
            yield DeclarationError(
                "HR-019",
                f"{_kind(node).capitalize()} `{node.name}` has no key, so nothing says which row a change replaces.",
                where=node.where,
                fix=f"name the column or columns that make a row unique, such as {example}",
            )


def known_followed(graph: Graph) -> Iterator[DeclarationError]:
    """What is followed is a stream or view of this app: a table's topic belongs to who writes the table."""
    for follow in graph.follows:
        node = graph.node(follow.of) if follow.of in graph.names else None
        if node is not None and node.kind != "table":
            continue
        followable = [other.name for other in graph.nodes if other.kind != "table"]
        close = difflib.get_close_matches(follow.of, followable, n=1)
        if node is not None:
            what = f"`{follow.of}` is a table that this app only reads, so it has no changes of its own to send."
            fix = f"declare what is to be sent: `@app.view(key=…)`, `def changed({follow.of})`, and follow that"
        else:
            what = f"There is no stream or view `{follow.of}` in this app that could be followed."
            fix = f"did you mean `{close[0]}`?" if close else "follow one of the declared ones, or declare it first"
        yield DeclarationError(
            "HR-043",
            what,
            where=follow.where,
            found=f"`{follow.of}`; streams and views are {_listed(followable)}" if followable else f"`{follow.of}`",
            fix=fix,
        )


def unique_follower(graph: Graph) -> Iterator[DeclarationError]:
    """Followers of one node have names of their own: their positions are kept under them."""
    seen: dict[tuple[str, str], Follow] = {}
    for follow in graph.follows:
        first = seen.setdefault((follow.of, follow.to.name), follow)
        if first is not follow:
            yield DeclarationError(
                "HR-044",
                f"`{follow.of}` has two webhooks with the name `{follow.to.name}`, and their positions are kept under "
                f"it; the first is declared at {first.where}.",
                where=follow.where,
                found=f"name={_text(follow.to.name)}",
                fix=f"give this one a name of its own: `hr.webhook(…, name={_text('mail')})`",
            )


RULES: tuple[Rule, ...] = (
    unique_name,
    known_input,
    no_cycle,
    unique_topic,
    event_time_for_watermark,
    key_for_table,
    known_followed,
    unique_follower,
)


def validate(graph: Graph, earlier: Iterable[DeclarationError] = ()) -> None:
    """Raise every breach of every rule, with `earlier` mistakes among them, from the top of the file to its end."""
    errors = [*earlier, *(error for rule in RULES for error in rule(graph))]
    if errors:
        raise DeclarationErrors(sorted(errors, key=_place))


def _place(error: DeclarationError) -> tuple[str, int]:
    return (error.where.file, error.where.line) if error.where else ("", 0)


def _way_back(graph: Graph, start: str) -> list[str] | None:
    """The shortest way along the edges from a node to itself."""
    ways = [[start]]
    seen: set[str] = set()
    for way in ways:
        for reader in graph.readers(way[-1]):
            if reader.name == start:
                return way
            if reader.name not in seen:
                seen.add(reader.name)
                ways.append([*way, reader.name])
    return None


def _same(topic: str) -> str:
    return topic.replace(".", "_")


def _use(topic: str, node: Node) -> str:
    if topic == node.topic:
        return f"is the topic of `{node.name}`"
    what = "dead letters" if topic == names.dead_topic(node.topic) else "late rows"
    return f"holds the {what} of `{node.name}`"


def _column(node: Node) -> str:
    if isinstance(node, Source) and node.schema:
        return node.schema.names[0]
    return "id"


def _kind(node: Node) -> str:
    return node.kind if isinstance(node, Source) or node.kind == "view" else "function"


def _listed(words: Iterable[str]) -> str:
    quoted = [f"`{word}`" for word in dict.fromkeys(words)]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _text(text: str) -> str:
    return f'"{text}"'

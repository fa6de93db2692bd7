"""Nodes and edges, in the order they were declared.

An edge goes from a node to every function that has its name as a parameter. A graph may be built from declarations that
are wrong (that is how the rules look at them); `App.graph()` gives only graphs that no rule objects to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from headrace import names as reserved
from headrace.graph.follow import Follow
from headrace.graph.node import Derived, Node, Source


class Declarations(Protocol):
    """What a graph is made of: an App, seen from here."""

    @property
    def name(self) -> str: ...
    @property
    def definitions(self) -> tuple[Node, ...]: ...
    @property
    def follows(self) -> tuple[Follow, ...]: ...


@dataclass(frozen=True)
class Graph:
    """`app` is the name of the app; `follows` are the declared followers."""

    app: str
    nodes: tuple[Node, ...]
    follows: tuple[Follow, ...] = ()

    @classmethod
    def of(cls, app: Declarations) -> Graph:
        """The graph of what was declared, unchecked."""
        return cls(app.name, app.definitions, app.follows)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes)

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(node for node in self.nodes if isinstance(node, Source))

    @property
    def derived(self) -> tuple[Derived, ...]:
        return tuple(node for node in self.nodes if isinstance(node, Derived))

    def node(self, name: str) -> Node:
        """The node of this name, the first one declared; KeyError when there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def readers(self, name: str) -> tuple[Derived, ...]:
        """The functions that read this node."""
        return tuple(node for node in self.derived if name in node.inputs)

    def followers(self, name: str) -> tuple[Follow, ...]:
        """The declared followers of this node."""
        return tuple(follow for follow in self.follows if follow.of == name)

    def in_versions(self, versions: Mapping[str, str]) -> Graph:
        """The graph with these functions in these versions, by name, each with the topic of its version."""
        return replace(self, nodes=tuple(_in_version(node, versions.get(node.name)) for node in self.nodes))

    def topological(self) -> tuple[Node, ...]:
        """Every node after its inputs, otherwise in the order declared; ValueError names a cycle."""
        ordered: dict[str, Node] = {}
        path: list[str] = []

        def visit(node: Node) -> None:
            if node.name in ordered:
                return
            if node.name in path:
                raise ValueError(" → ".join([*path[path.index(node.name) :], node.name]))
            path.append(node.name)
            for name in inputs_of(node):
                if name in self.names:
                    visit(self.node(name))
            path.pop()
            ordered[node.name] = node

        for node in self.nodes:
            visit(node)
        return tuple(ordered.values())


def _in_version(node: Node, version: str | None) -> Node:
    if version is None or not isinstance(node, Derived):
        return node
    return replace(node, version=version, topic=reserved.versioned(node.topic, version))


def inputs_of(node: Node) -> tuple[str, ...]:
    """The names that a node reads; a source reads none."""
    return node.inputs if isinstance(node, Derived) else ()

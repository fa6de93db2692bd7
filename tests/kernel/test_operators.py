"""An operator is described in Python and in the kernel: both say the same, and what does not fit is an error."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pyspark.sql.types import LongType, StringType

import headrace as hr
import headrace.operators
from headrace.kernel.operator import Aggregated, Operator, layout_types, option_types
from headrace.operators.aggregate import Bound
from headrace.operators.sliding import Sliding
from headrace.parts import java

WORDS = {str: "text", int: "whole number", bool: "truth", Aggregated: "aggregate"}
SLIDING = Sliding(
    by=["card"],
    time="at",
    columns=["card", "at"],
    aggregates=[Bound("n", hr.count(), LongType())],
    output="card string, at timestamp, n bigint",
    changes=False,
    within_ms=60_000,
    early=False,
    emit="final",
    lateness_ms=0,
    drop_late=False,
    holds="card string, at timestamp",
)


class Kernel:
    """What the kernel knows, and what it says of specs."""

    def __init__(self, class_path: str) -> None:
        self._command = [
            str(java.find().executable),
            "-cp",
            class_path,
            "headrace.kernel.operators.OperatorSpecs",
        ]
        self.known = json.loads(self._run()[0])

    def answers(self, *specs: Mapping[str, Any]) -> list[str]:
        return self._run(*map(json.dumps, specs))[1:]

    def _run(self, *arguments: str) -> list[str]:
        done = subprocess.run([*self._command, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def kernel(kernel_with_tests: str) -> Kernel:
    return Kernel(kernel_with_tests)


def operators() -> Iterator[type[Operator]]:
    for module in pkgutil.iter_modules(headrace.operators.__path__):
        importlib.import_module(f"headrace.operators.{module.name}")
    classes = [Operator]
    while classes:
        one = classes.pop()
        classes += one.__subclasses__()
        if hasattr(one, "kind"):
            yield one


def word(kind: Any) -> str:
    """The type of a field in words, without whether it may be missing."""
    if get_origin(kind) is Annotated:
        return word(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) is Sequence:
        return f"list of {word(get_args(kind)[0])}"
    return WORDS[kind]


def words(types: Mapping[str, Any]) -> dict[str, str]:
    return {name: word(kind) for name, kind in types.items()}


def test_both_sides_describe_the_same_operators(kernel: Kernel):
    assert kernel.known["operators"] == {
        one.kind: {"form": one.form, "options": words(option_types(one))} for one in operators()
    }


def test_both_sides_describe_the_same_rows(kernel: Kernel):
    assert kernel.known["layout"] == words(layout_types())


def test_no_two_operators_have_one_kind():
    kinds = [one.kind for one in operators()]
    assert sorted(kinds) == sorted(set(kinds))


@pytest.mark.parametrize(
    "aggregate",
    [
        hr.count(),
        hr.sum("n"),
        hr.max_by("s", "n", ties=3),
        hr.collect("s"),
        hr.approx_distinct("s"),
        hr.approx_quantile("n", 0.5),
        hr.approx_top_k("s", 3),
        hr.count_min("s", of=["x"]),
    ],
    ids=lambda one: one.kind,
)
def test_the_kernel_knows_what_it_is_told_of_an_aggregate(kernel: Kernel, aggregate: Any):
    bound = Bound("a", aggregate, LongType(), 0, StringType(), 1, LongType())
    assert set(bound.told()) <= set(kernel.known["aggregate"])


def test_a_spec_must_fit_its_operator(kernel: Kernel):
    fits = SLIDING.told(view=False)
    options, layout = fits["options"], fits["layout"]

    def without(some: Mapping[str, Any], name: str) -> dict[str, Any]:
        return {key: value for key, value in some.items() if key != name}

    names = ", ".join(sorted(kernel.known["operators"]))
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "sliding"),
        ({"kind": "slidng"}, f"there is no operator `slidng`, only [{names}]"),
        ({"form": 2}, f"the operator `sliding` writes its state in form {Sliding.form}, and not in form 2"),
        ({"options": without(options, "within_ms")}, "the operator `sliding` needs the option `within_ms`"),
        ({"options": options | {"widthin_ms": 1000}}, "the operator `sliding` has no option `widthin_ms`"),
        ({"layout": without(layout, "output")}, "the operator `sliding` needs the option `output`"),
        ({"layout": layout | {"outputs": ""}}, "the operator `sliding` has no option `outputs`"),
    ]
    wrong = [{"within_ms": "soon"}, {"within_ms": None}, {"within_ms": "60000"}, {"early": "yes"}]
    cases += [({"options": options | one}, "the operator `sliding` cannot use an option: ") for one in wrong]
    unknown = layout["aggregates"][0] | {"mots": 3}
    cases += [({"layout": layout | {"aggregates": [unknown]}}, "the operator `sliding` cannot use an option: ")]
    for (changed, expected), said in zip(cases, kernel.answers(*(fits | one for one, _ in cases)), strict=True):
        assert said == expected or (expected.endswith(": ") and said.startswith(expected)), changed

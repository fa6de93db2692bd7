"""Rows of TPC-H's tables, of few keys and of values that its queries ask for, so that rows meet, change and go."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from tests.compiler.tpch import TABLES

from headrace.testing import Delete

REGIONS = ["EUROPE", "AMERICA", "ASIA", "MIDDLE EAST"]
# The nations that queries name, each with its region.
NATIONS = [("FRANCE", 0), ("GERMANY", 0), ("BRAZIL", 1), ("CANADA", 1), ("SAUDI ARABIA", 3), ("CHINA", 2)]
SUPPLIERS, CUSTOMERS, PARTS, ORDERS, LINES = 8, 9, 8, 30, 3
WEIGHTS = {"supplier": 3, "customer": 4, "part": 4, "partsupp": 8, "orders": 14, "lineitem": 40}
DELETED = 0.12

Row = Mapping[str, Any]


def money(dice: random.Random, least: int, most: int) -> Decimal:
    return Decimal(dice.randrange(least * 100, most * 100)).scaleb(-2)


def day(dice: random.Random, *often: str) -> str:
    """Any day of six years, or one of those in two cases of three."""
    if often and dice.random() < 2 / 3:
        return dice.choice(often)
    return str(date(1993, 1, 1) + timedelta(days=dice.randrange(2000)))


def supplier(dice: random.Random) -> Row:
    key = dice.randrange(SUPPLIERS)
    return {
        "s_suppkey": key, "s_name": f"Supplier#{key}", "s_address": dice.choice("ab"),
        "s_nationkey": dice.choice([0, 1, 3, 4, 4, 5]), "s_phone": str(key), "s_acctbal": money(dice, -100, 1000),
        "s_comment": dice.choice(["fine", "good", "a Customer with Complaints"]),
    }  # fmt: skip


def customer(dice: random.Random) -> Row:
    key = dice.randrange(CUSTOMERS)
    return {
        "c_custkey": key, "c_name": f"Customer#{key}", "c_address": dice.choice("ab"),
        "c_nationkey": dice.choice([0, 0, 1, 2, 3, 5, 5]), "c_phone": dice.choice(["13-1", "31-1", "40-1"]),
        "c_acctbal": money(dice, -100, 1000), "c_mktsegment": dice.choice(["BUILDING", "BUILDING", "AUTO"]),
        "c_comment": "c",
    }  # fmt: skip


def part(dice: random.Random) -> Row:
    return {
        "p_partkey": dice.randrange(PARTS), "p_name": dice.choice(["forest green", "green", "blue", "forest"]),
        "p_mfgr": dice.choice(["m1", "m2"]), "p_brand": dice.choice(["Brand#12", "Brand#23", "Brand#23", "Brand#34"]),
        "p_type": dice.choice(["ECONOMY ANODIZED STEEL", "PROMO BRASS", "SMALL BRASS", "MEDIUM POLISHED X"]),
        "p_size": dice.choice([15, 15, 3, 9]), "p_container": dice.choice(["MED BOX", "MED BOX", "SM CASE", "LG BOX"]),
        "p_retailprice": money(dice, 1, 100), "p_comment": "p",
    }  # fmt: skip


def partsupp(dice: random.Random) -> Row:
    return {
        "ps_partkey": dice.randrange(PARTS), "ps_suppkey": dice.randrange(SUPPLIERS),
        "ps_availqty": dice.randrange(1, 80), "ps_supplycost": money(dice, 1, 10), "ps_comment": "s",
    }  # fmt: skip


def orders(dice: random.Random) -> Row:
    return {
        "o_orderkey": dice.randrange(ORDERS), "o_custkey": dice.randrange(CUSTOMERS * 3 // 4),
        "o_orderstatus": dice.choice("FFO"), "o_totalprice": money(dice, 1, 1000),
        "o_orderdate": day(dice, "1993-10-05", "1994-05-05", "1995-03-01", "1993-08-01"),
        "o_orderpriority": dice.choice(["1-URGENT", "2-HIGH", "3-MEDIUM"]), "o_clerk": "k",
        "o_shippriority": dice.randrange(2), "o_comment": dice.choice(["plain", "a special b requests"]),
    }  # fmt: skip


def lineitem(dice: random.Random) -> Row:
    return {
        "l_orderkey": dice.randrange(ORDERS), "l_linenumber": dice.randrange(LINES),
        "l_partkey": dice.randrange(PARTS), "l_suppkey": dice.randrange(SUPPLIERS),
        "l_quantity": Decimal(dice.randrange(1, 50)), "l_extendedprice": money(dice, 1, 1000),
        "l_discount": Decimal(dice.randrange(4, 9)).scaleb(-2), "l_tax": Decimal("0.02"),
        "l_returnflag": dice.choice("RAN"), "l_linestatus": dice.choice("OF"),
        "l_shipdate": day(dice, "1994-06-06", "1995-09-05", "1996-02-02", "1995-04-01"),
        "l_commitdate": day(dice, "1994-07-01", "1997-01-01"), "l_receiptdate": day(dice, "1994-08-01"),
        "l_shipinstruct": dice.choice(["DELIVER IN PERSON", "NONE"]),
        "l_shipmode": dice.choice(["MAIL", "SHIP", "AIR", "AIR"]), "l_comment": "l",
    }  # fmt: skip


ROWS: dict[str, Callable[[random.Random], Row]] = {
    "supplier": supplier,
    "customer": customer,
    "part": part,
    "partsupp": partsupp,
    "orders": orders,
    "lineitem": lineitem,
}


def beginning() -> list[tuple[str, Row | Delete]]:
    """The regions and nations."""
    regions = [{"r_regionkey": i, "r_name": name, "r_comment": "r"} for i, name in enumerate(REGIONS)]
    nations = [
        {"n_nationkey": i, "n_name": name, "n_regionkey": region, "n_comment": "n"}
        for i, (name, region) in enumerate(NATIONS)
    ]
    return [*(("region", row) for row in regions), *(("nation", row) for row in nations)]


def change(dice: random.Random) -> tuple[str, Row | Delete]:
    """A row that comes, replaces another or goes."""
    table = dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    row = ROWS[table](dice)
    if dice.random() < DELETED:
        return table, Delete({name: row[name] for name in TABLES[table][1]})
    return table, row

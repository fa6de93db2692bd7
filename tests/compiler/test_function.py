"""Functions of ordinary PySpark: joins, groups and rankings of Spark's are kept up to date, beside operators of
Headrace and in every order with them, and the same function gives the batch answer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Window as Ranges
from pyspark.sql import functions as F
from tests.compiler.history import Tables, plain, told
from tests.compiler.test_sql import TABLES, change

import headrace as hr
from headrace.errors import DeclarationError
from headrace.testing import Simulation

Function = Callable[[DataFrame, DataFrame, DataFrame], DataFrame]
PARTS, CHANGES = 3, 50


def joined_and_grouped(orders, customers, products):
    sold = orders.join(customers, "customer").join(products, "product")
    return sold.groupBy("country").agg(
        F.count("*").alias("n"), F.sum(F.col("amount") * F.col("price")).alias("revenue")
    )


def only_joined(orders, customers, products):
    return orders.join(customers, "customer")


def left_join_by_columns(orders, customers, products):
    return orders.join(products, orders.product == products.product, "left").select(orders.id, products.price)


def semi_and_anti(orders, customers, products):
    known = orders.join(customers, "customer", "left_semi")
    return known.join(products, "product", "left_anti").select("id", "customer")


def with_columns(orders, customers, products):
    big = orders.withColumn("big", F.col("amount") > 3).drop("day").where("customer is not null")
    return big.groupBy("customer", "big").agg(
        F.max("amount").alias("most"), F.count_distinct("product").alias("products")
    )


def different(orders, customers, products):
    return orders.select("customer", "product").distinct()


def united(orders, customers, products):
    return orders.select("customer").union(customers.select("customer")).groupBy("customer").count()


def set_operations(orders, customers, products):
    return orders.select("customer").subtract(customers.select("customer"))


def first_of_each(orders, customers, products):
    order = Ranges.partitionBy("customer").orderBy(F.desc("amount"), "id")
    ranked = orders.withColumn("place", F.row_number().over(order))
    return ranked.where("place <= 2").select("customer", "id", "place")


def the_first(orders, customers, products):
    return orders.orderBy(F.desc("amount"), "id").limit(3).select("id", "amount")


def operator_then_spark(orders, customers, products):
    per_customer = hr.aggregate(orders, by="customer", n=hr.count(), spent=hr.sum("amount"))
    return per_customer.groupBy("n").agg(F.count("*").alias("customers"), F.sum("spent").alias("spent"))


def spark_then_operator(orders, customers, products):
    return hr.top(orders.join(customers, "customer").groupBy("country").count(), 1, by="count")


def spark_between_operators(orders, customers, products):
    spent = hr.aggregate(orders, by="customer", spent=hr.sum("amount"))
    named = spent.join(customers, "customer").groupBy("country").agg(F.sum("spent").alias("spent"))
    return hr.top(named, 1, by="spent")


def itself(orders, customers, products):
    others = orders.select(F.col("id").alias("other"), F.col("customer").alias("of"))
    return orders.join(others, F.col("customer") == F.col("of")).where("id < other").select("id", "other")


FUNCTIONS: list[Function] = [
    joined_and_grouped, only_joined, left_join_by_columns, semi_and_anti, with_columns, different, united,
    set_operations, first_of_each, the_first, operator_then_spark, spark_then_operator, spark_between_operators, itself,
]  # fmt: skip


def declared(function: Function) -> hr.App:
    app = hr.App("shop")
    for name, (ddl, key) in TABLES.items():
        app.table(name, schema=ddl, key=key, partitions=2)
    app.stream(function)
    return app


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_it_is_kept_up_to_date(spark: SparkSession, seed: int, function: Function):
    dice, tables, compared = random.Random(seed), Tables(TABLES), 0
    with Simulation(declared(function), spark=spark) as simulation:
        for part in range(PARTS):
            for _ in range(CHANGES):
                table, what = change(dice)
                tables.apply(table, what)
                simulation.push(table, [what])
            simulation.advance()
            if part == 0:
                simulation.crash()
            frames = tables.frames(spark, list(TABLES))
            answer = function(*frames.values())
            answer = answer.drop("change") if "change" in answer.columns else answer
            wanted = Counter(tuple(map(plain, row)) for row in answer.collect())
            found = told(simulation.read(function.__name__), answer.columns)
            assert found == wanted, f"part {part}: too much {found - wanted}, missing {wanted - found}"
            compared += wanted.total()
    assert compared > 0


def test_what_cannot_be_kept_is_refused_at_the_function(spark: SparkSession):
    def spread(orders, customers, products):
        return orders.groupBy("customer").agg(F.stddev("amount").alias("spread"))

    with pytest.raises(DeclarationError) as raised:
        Simulation(declared(spread), spark=spark)
    assert raised.value.code == "HR-061"


def test_a_function_that_treats_each_row_for_itself_stays_as_it_is(spark: SparkSession):
    app = hr.App("plain")
    app.stream("payments", schema="id string, amount double", id="id")

    @app.stream
    def large(payments):
        return payments.where("amount > 5").select("id", "amount")

    with Simulation(app, spark=spark) as simulation:
        simulation.push("payments", [{"id": "a", "amount": 7.0}, {"id": "b", "amount": 2.0}])
        simulation.advance()
        assert simulation.read("large") == [{"id": "a", "amount": 7.0}]


def test_a_stream_is_a_table_that_only_grows(spark: SparkSession):
    app = hr.App("growing")
    app.stream("payments", schema="id string, card string, amount double", id="id", key="card")

    @app.view(key="card")
    def cards(payments):
        return payments.groupBy("card").agg(F.count("*").alias("n"), F.sum("amount").alias("spent"))

    with Simulation(app, spark=spark) as simulation:
        simulation.push("payments", [{"id": str(i), "card": "ab"[i % 2], "amount": float(i)} for i in range(5)])
        simulation.advance()
        assert sorted(simulation.view("cards"), key=str) == [
            {"card": "a", "n": 3, "spent": 6.0},
            {"card": "b", "n": 2, "spent": 4.0},
        ]

"""Orders with their products and customers, from PostgreSQL: a price or a name that changes is changed in every order.

headrace dev examples/orders/app.py        captures the tables, joins them live, follows the view and opens the console
"""

from __future__ import annotations

from pyspark.sql import DataFrame

import headrace as hr

app = hr.App("orders")

orders = app.table(
    "orders", hr.postgres("public.orders"), key="id", schema="id bigint, customer bigint, product bigint, quantity int"
)
products = app.table(
    "products", hr.postgres("public.products"), key="id", schema="id bigint, name string, price decimal(10,2)"
)
customers = app.table(
    "customers", hr.postgres("public.customers"), key="id", schema="id bigint, name string, city string"
)


@app.view(key="id")
def invoices(orders: DataFrame, products: DataFrame, customers: DataFrame) -> DataFrame:
    """Every order with what it is of, who it is for, and what it costs now."""
    named = products.withColumnsRenamed({"id": "product", "name": "article"})
    of = hr.join(orders, named, on="product")
    full = hr.join(of, customers.withColumnsRenamed({"id": "customer", "name": "buyer"}), on="customer", how="left")
    return full.selectExpr("id", "article", "buyer", "city", "quantity", "quantity * price AS total", "change")


@app.view(key="city")
def revenue(invoices: DataFrame) -> DataFrame:
    """What is sold to each city."""
    return hr.aggregate(invoices, by="city", orders=hr.count(), total=hr.sum("total"))

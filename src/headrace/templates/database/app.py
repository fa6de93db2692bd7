"""Orders and products of a PostgreSQL database; what is sold of each product, right after every change of a row."""

from __future__ import annotations

from pyspark.sql import DataFrame

import headrace as hr

app = hr.App("APP_NAME")

orders = app.table("orders", hr.postgres("public.orders"), key="id", schema="id bigint, product bigint, quantity int")
products = app.table(
    "products", hr.postgres("public.products"), key="id", schema="id bigint, name string, price decimal(10,2)"
)


@app.view(key="name")
def revenue(orders: DataFrame, products: DataFrame) -> DataFrame:
    """When a price changes, all orders of the product are computed again."""
    sold = hr.join(orders, products.withColumnRenamed("id", "product"), on="product")
    lines = sold.selectExpr("name", "quantity", "quantity * price AS total", "change")
    return hr.aggregate(lines, by="name", sold=hr.sum("quantity"), total=hr.sum("total"))

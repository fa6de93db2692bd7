"""What a SQL query reads, found in its text."""

from __future__ import annotations

import pytest

from headrace.graph.relations import relations


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("SELECT * FROM orders", ("orders",)),
        ("select id from orders o, customers AS c where o.id in (1, 2)", ("orders", "customers")),
        ("SELECT * FROM a JOIN b ON a.x = b.x LEFT OUTER JOIN c USING (x), d", ("a", "b", "c", "d")),
        ("SELECT * FROM (a CROSS JOIN b) JOIN (SELECT * FROM c) x", ("a", "b", "c")),
        ("SELECT (SELECT max(n) FROM b) FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.x = a.x)", ("b", "a", "c")),
        ("SELECT * FROM a UNION ALL SELECT * FROM b EXCEPT SELECT * FROM a", ("a", "b")),
        ("WITH recent AS (SELECT * FROM orders), more (n) AS (SELECT 1 FROM recent) SELECT * FROM more", ("orders",)),
        ("SELECT x FROM orders -- FROM nothing\n/* JOIN nobody */ JOIN `big customers` USING (x)",
         ("orders", "big customers")),
        ("SELECT 'FROM somewhere', \"JOIN there\" FROM orders", ("orders",)),
        ("SELECT extract(year FROM at), trim(both ' ' from name), substring(name from 2) FROM orders", ("orders",)),
        ("SELECT a IS DISTINCT FROM b FROM orders", ("orders",)),
        ("SELECT k, v, w FROM orders LATERAL VIEW explode(tags) t AS k, v, w", ("orders",)),
        ("SELECT * FROM orders, LATERAL (SELECT * FROM lines WHERE lines.id = orders.id)", ("orders", "lines")),
        ("SELECT * FROM range(10), orders", ("orders",)),
        ("SELECT * FROM VALUES (1, 2), (3, 4) AS v(a, b)", ()),
        ("SELECT * FROM TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' MINUTE)", ("orders",)),
        ("SELECT * FROM explode(TABLE(orders))", ("orders",)),
        ("SELECT customer, count(*) FROM orders GROUP BY customer, day ORDER BY 1, 2", ("orders",)),
        ("SELECT * FROM shop.orders", ("shop.orders",)),
        ("SELECT 1", ()),
        ("FROM orders SELECT id, day", ("orders",)),
        ("SELECT sum(n) OVER (PARTITION BY a, b ORDER BY c) FROM orders", ("orders",)),
        ("SELECT * FROM orders PIVOT (sum(n) FOR day IN ('a', 'b')), customers", ("orders", "customers")),
    ],
)  # fmt: skip
def test_what_a_query_reads(sql: str, read: tuple[str, ...]) -> None:
    assert relations(sql) == read

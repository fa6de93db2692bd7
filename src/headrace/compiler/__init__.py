"""From ordinary SQL and PySpark to operators that keep the answer up to date.

A query is written over placeholders (inputs.py). Spark analyses it and makes it plain; what is left is told as a tree
of nodes (plan.py), and translated from the leaves up (translation.py): what treats each row for itself stays as it is,
with the sign beside it; joins (joins.py), groups (groups.py) and rankings (rankings.py) become operators. What cannot
be kept up to date is refused by name (refusal.py). Here a stream is a table that only grows.
"""

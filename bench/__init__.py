"""The headline numbers, each beside its peer: `python -m bench.latency`, or `make bench NAME=latency`.

latency     end to end, Kafka → Spark → Kafka, live and exact
decode      JSON records to rows, the kernel against `from_json`
dedupe      each event once, the kernel against Spark's `dropDuplicatesWithinWatermark`
windows     Nexmark's windows beside Flink, hopping windows, the cost by number of keys, `sliding` live
joins       Nexmark's joins beside Flink, a stream with a large table live, a row with many dependents
capture     changes of PostgreSQL into Kafka, beside Debezium
delivery    what exactly-once costs, and how fast stores follow

A bench starts its own Kafka and Spark in a temporary directory, with the product's settings whatever the environment
says, prints one JSON object a line on standard output (result.py) and a table on standard error, and leaves nothing
behind. It measures, and fails only when an answer is wrong: a figure that misses its goal is printed as it is.
`--quick` shows that a bench works; its figures mean nothing. Look at `load` and `stolen`: on 2 cores, a figure taken at
a load far above 2 tells of what else was running, and one with stolen cores of what ran beside the virtual machine.
"""

"""Nexmark: one set of events, queries and right answers for Headrace and for Flink.

events        the generator: the same arguments give the same bytes
queries       what each query means, and how it is written with Headrace's operators
oracle        the right answer of each query, in plain Python
verdict       what an engine gave, against that
ours          runs a query on Headrace, in a process of its own
flink         runs a query on Flink, in a process and an environment of its own
peer          makes that environment, and starts both
comparison    checks queries and compares the engines, for the benches

After P. Tucker, K. Tufte, V. Papadimos and D. Maier, «NEXMark - A Benchmark for Queries over Data Streams», with the
proportions of its later open-source generators. Of 50 events one is a person, three are auctions and 46 are bids.
"""

"""What ails an app, with the evidence and the remedy: one file a kind of disease.

finding      what is found: how bad it is, the evidence, the remedy, and a repair where there is one
checkpoints  files that are cut off or unreadable, one that is older than what it wrote, batches left in the middle
topics       topics that are missing or do not fit, records that are gone, records that vanished as dead letters
loops        what runs and makes no progress, waits, or is gone
pace         lag that grows, and why: too few partitions, skew, a slow operator, swollen state
outputs      repeats in what a query writes
tables       tables that do not follow their views

Each examination reads, and changes nothing; a repair is done only when somebody says so, after a backup.
"""

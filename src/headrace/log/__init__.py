"""The log: Kafka topics, and everything that reads or writes them from Python.

connection  how a broker is reached, for our clients and for Spark's
topic       what a topic must look like; create, describe, delete
position    where a record is: topic, partition, offset
codec       Python values as JSON
producer    writes that are never lost silently
consumer    bounded reads, following, and groups that can be set back
distinct    records without the repeats of the live mode
row         records as rows
queue       competing workers on a share group
dead        records that could not be used: kept, listed, put back
schema      what a record must look like
"""

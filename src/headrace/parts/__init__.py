"""Embedded Java, jars, Kafka and PostgreSQL: found or started, checked, stopped. `embedded.Parts` is the way in."""

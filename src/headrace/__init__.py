"""Stream processing for Python teams, on Spark. Every public name is here, and nothing else."""

from headrace.app import App
from headrace.graph.connector import postgres
from headrace.log.connection import Connection
from headrace.log.consumer import Consumer
from headrace.log.producer import Producer
from headrace.log.queue import Queue
from headrace.operators.dedupe import dedupe
from headrace.operators.event_time import event_time

__all__ = ["App", "Connection", "Consumer", "Producer", "Queue", "dedupe", "event_time", "postgres"]

"""Kafka transactions that hold data, checkpoint and progress together.

``delivery`` assembles them, ``producer`` is the transactional client, ``ledger`` counts what each
transaction put where. ``fixed_records`` writes checkpoint and progress. ``topics`` creates topics,
and ``delivery_topics`` knows those of one delivery. ``kafka_errors`` translates librdkafka's codes.
"""

from tailrace_publisher.deliver.delivery import KafkaDelivery
from tailrace_publisher.deliver.options import DeliveryOptions
from tailrace_publisher.deliver.topics import TopicSpec

__all__ = ["DeliveryOptions", "KafkaDelivery", "TopicSpec"]

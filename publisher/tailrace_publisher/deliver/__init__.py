"""Kafka transactions that hold data, checkpoint and progress together.

``delivery`` is the transactional producer, ``ledger`` counts what each transaction put where,
``topics`` creates the topics, ``kafka_errors`` translates librdkafka's codes.
"""

from tailrace_publisher.deliver.delivery import DeliveryOptions, KafkaDelivery
from tailrace_publisher.deliver.topics import TopicSpec

__all__ = ["DeliveryOptions", "KafkaDelivery", "TopicSpec"]

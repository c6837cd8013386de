"""Kafka transactions that hold data, checkpoint and progress together.

``delivery`` is the transactional producer, ``ledger`` counts what each transaction put where,
``topics`` creates the topics, ``kafka_errors`` translates librdkafka's codes.
"""

from publisher.deliver.delivery import DeliveryOptions, KafkaDelivery
from publisher.deliver.topics import TopicSpec

__all__ = ["DeliveryOptions", "KafkaDelivery", "TopicSpec"]

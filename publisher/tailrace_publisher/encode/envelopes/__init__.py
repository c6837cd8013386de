"""Events from encoded parts: Debezium's envelope, flat events, CloudEvents, JSON."""

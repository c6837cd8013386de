"""The publisher's metrics for Prometheus, also under the names of Debezium's connector."""

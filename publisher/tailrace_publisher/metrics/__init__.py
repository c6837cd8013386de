"""What the publisher counts, for Prometheus; also under the names of Debezium's connector."""

"""The Kafka client's lines are told once."""

import logging

from structlog.testing import capture_logs

from tailrace_publisher.daemon.adapters.client_log import ClientLog

FAIL = "FAIL [rdkafka#producer-{}] [thrd:b/1]: 127.0.0.1:{}: Connect failed (after {}ms in state X)"


def test_lines_that_differ_in_numbers_only_are_told_once_and_counted():
    now = 0.0
    logger = logging.getLogger("test_client_log")
    logger.addHandler(ClientLog(lambda: now))
    with capture_logs() as events:
        for number in range(50):
            logger.error(FAIL.format(number, 9092 + number, number))
        logger.warning("GETPID: retrying")
        now = 301.0
        logger.error(FAIL.format(1, 2, 3))

    assert [(e["event"], e["log_level"], e["repeated"]) for e in events] == [
        ("kafka_client", "error", 0),
        ("kafka_client", "warning", 0),
        ("kafka_client", "error", 49),
    ]
    assert "127.0.0.1:9092" in events[0]["text"]

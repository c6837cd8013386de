"""How long to wait for brokers, in seconds, where no option says it.

Three options of ``kafka`` say it elsewhere: ``start_timeout_s`` for an answer at a start and to a
command, ``commit_timeout_s`` for the outcome of a transaction, and ``transaction_timeout_s``.
"""

from __future__ import annotations

from typing import Final

PATIENCE_S: Final = 60.0
"""Without an answer, or a further record of a partition. It is long: another producer's open
transaction hides all later records until it ends."""

FIRST_PUBLISH_S: Final = 10.0
"""To learn whether anything was ever published, while the source does not answer. It is short: the
next attempt at the source waits for it."""

UNKNOWN_TOPIC_S: Final = 5.0
"""Until a topic that the brokers do not know was deleted. A broker that has just started knows its
topics only after some moments."""

MARGIN_S: Final = 1.0
"""Beyond the client's own timeout. That must end first, because it gives the reason."""

POLL_S: Final = 0.05
"""Between two queries for what brokers show only after some moments: new topics, partitions."""

"""Whether the pipeline runs: its newest progress record, daemons, stopped tables and lag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace.lag.verdict import State, findings
from tailrace_publisher.errors import PublisherError

if TYPE_CHECKING:
    from tailrace.settings.settings import Settings

_JUDGE: Final = Judge(Part.RUNNING)
_PARTS: Final = frozenset({"source", "topics", "log", "lake"})
_SUBJECT: Final = "pipeline"


def look_at_running(settings: Settings) -> Iterator[Finding]:
    """Judge what runs; nothing if a part that it is seen by does not answer: its own part says so.

    Raises:
        SettingsError: the configuration is not usable.
    """
    from tailrace.web.run import look_once
    from tailrace_sink.errors import SinkError

    try:
        facts = look_once(settings).facts
    except (KafkaException, PublisherError, SinkError):
        return
    if _PARTS & facts.problems.keys():
        return
    if facts.record_age_s is None:
        yield _JUDGE.warning(
            _SUBJECT,
            "nothing was published yet",
            "change rows wait in the change tables until cleanup removes them",
            Fix("tailrace publish"),
        )
        return
    # Capture job and cleanup are judged by their own part, which names the fix.
    of_its_own = replace(facts, capture_age_s=0.0, capture_error=None, until_loss_s=None)
    seen = list(findings(of_its_own))
    for found in seen:
        judged = _JUDGE.problem if found.state is State.BAD else _JUDGE.warning
        reasons = "tailrace status has the reasons; the page (tailrace web) has what to do"
        # The finding may advise to run doctor, which is running.
        is_ours = found.command in ("", "tailrace doctor")
        yield judged(
            _SUBJECT,
            found.sentence.rstrip("."),
            "changes do not reach everybody who reads them, or nobody would notice that",
            Fix(reasons if is_ours else ": ".join(filter(None, [found.fix, found.command]))),
        )
    if not seen:
        yield _JUDGE.ok(_SUBJECT, "what is configured runs, and every lag is in its bound")

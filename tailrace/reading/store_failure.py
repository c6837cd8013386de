"""What a failed request to the lake's store means: which store, why, and the fix.

deltalake and obstore share the library that sends their requests, so its texts are the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tailrace_sink.errors import StoreUnusable
    from tailrace_sink.options.s3_options import S3Options

PATIENCE: Final = {
    "connect_timeout": "5s",
    "timeout": "15s",
    "max_retries": "3",
    "retry_timeout": "10s",
}
"""Options of deltalake's requests. By default it tries a silent store for three minutes, and a
command reads more than once."""

_CODE: Final = re.compile(r"<Code>(\w+)</Code>(?:\s*<Message>(.*?)</Message>)?", re.DOTALL)
_INSTANCE: Final = "169.254."
"""Where AWS's instances and containers find credentials, if they have no others."""
_REFUSED: Final = re.compile(r"\b40[13] (?:Unauthorized|Forbidden)\b")
_BUSY: Final = re.compile(r"\b(?:429|5\d\d) [A-Z][A-Za-z ]+")
_NOT_SENT: Final = "error sending request"
_REASONS: Final = re.compile(
    r"Connection refused|operation timed out|Name or service not known"
    r"|failed to lookup address information|connection closed before message completed"
    r"|Connection reset by peer|Network is unreachable|invalid peer certificate: \w+"
    r"|received corrupt message"
)


def store_failure(lake: str, s3: S3Options, text: str) -> StoreUnusable | None:
    """Return our error for what deltalake or obstore says of a store.

    Returns:
        None if the failure is not one of the store.
    """
    from tailrace_sink.errors import StoreUnavailable, StoreUnusable

    found = _CODE.search(text)
    code = found[1] if found else ""
    if code == "NoSuchBucket":
        return StoreUnusable.bucket(lake, s3.endpoint)
    if f"http://{_INSTANCE}" in text:
        return StoreUnusable.without_keys(lake)
    if refused := _REFUSED.search(text):
        told = found[2] if found else None
        return StoreUnusable.keys(lake, s3.endpoint, f"{code}: {told}" if told else refused[0])
    if busy := _BUSY.search(text):
        return StoreUnavailable(lake, s3.endpoint, busy[0].strip())
    if _NOT_SENT in text:
        reason = _REASONS.search(text)
        return StoreUnavailable(lake, s3.endpoint, reason[0] if reason else "no answer")
    return None

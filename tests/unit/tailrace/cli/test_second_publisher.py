"""Whether the publisher of a progress record may run still."""

import os
import socket

import pytest

from tailrace.cli.second_publisher import LastSign


@pytest.mark.parametrize(
    ("sign", "may_live"),
    [
        (LastSign("elsewhere", 7, 29.0, 1), True),
        (LastSign("elsewhere", 7, 31.0, 1), False),
        (LastSign("", 0, 29.0, 1), True),
        (LastSign(socket.gethostname(), os.getppid(), 1.0, 1), True),
        (LastSign(socket.gethostname(), os.getpid(), 1.0, 1), False),
        (LastSign(socket.gethostname(), 2**22 + 1, 1.0, 1), False),
    ],
    ids=["other host", "silent", "older release", "lives", "this one's number", "dead"],
)
def test_a_publisher_may_live_unless_silence_or_its_host_says_otherwise(
    sign: LastSign, may_live: bool
):
    assert sign.may_live(heartbeat_s=10) is may_live

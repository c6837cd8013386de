"""The server's offset from UTC is asked for again every ten minutes."""

from typing import Any, cast

from tailrace_publisher.daemon.session.server_time import ServerTime
from tailrace_publisher.ports import Connection, Stop


class Server:
    """Answers with a zone of its own, and an offset that daylight saving time changes."""

    def __init__(self) -> None:
        self.offset = 60

    def query(self, sql: str, *_: Any) -> list[Any]:
        return [(self.offset if "DATEPART" in sql else "Central European Standard Time",)]


class Hands:
    """A clock that is set."""

    def __init__(self) -> None:
        self.at = 0.0

    def now_ms(self) -> int:
        return round(self.at * 1000)

    def monotonic(self) -> float:
        return self.at

    def wait(self, seconds: float, stop: Stop | None = None) -> None:
        self.at += 0.0 if stop is not None and stop.is_set() else seconds


def test_the_offset_is_read_again_after_ten_minutes_and_not_before():
    server, clock = Server(), Hands()
    time = ServerTime(cast(Connection, server), clock)
    assert (time.utc_offset_minutes, time.zone) == (60, "Central European Standard Time")

    server.offset = 120
    offsets = []
    for _ in range(3):
        clock.wait(300.0)
        time.refresh()
        offsets.append(time.utc_offset_minutes)

    assert offsets == [60, 60, 120]

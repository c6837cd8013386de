"""``python -m tailrace_emulator``: the embedded SQL Server as a process of its own.

Prints exactly one line to standard output, when it is ready: ``{"port": N, "pid": N}``. SIGTERM and
SIGINT stop it cleanly; what was committed survives any other end too.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tailrace_emulator.cdc.agent import Agent, AgentMode
from tailrace_emulator.cdc.extension import ChangeDataCapture
from tailrace_emulator.cdc.runtime import AgentControl, runtime
from tailrace_emulator.serving.job_steps import JobSteps
from tailrace_emulator.serving.server import Server
from tailrace_emulator.serving.session import Credentials, Logins
from tailrace_emulator.serving.tls import TlsContexts, ensure_certificate
from tailrace_emulator.storage.engine import DataDirectoryInUse, Engine
from tailrace_emulator.values.clock import (
    TICKS_PER_SECOND,
    UNIX_EPOCH_TICKS,
    Clock,
    ManualClock,
    MovableClock,
    SystemClock,
)

LOGIN: Final = "sa"
PASSWORD_VARIABLE: Final = "TAILRACE_EMULATOR_PASSWORD"  # noqa: S105 - a name, no password
PASSWORD_BYTES_MIN: Final = 8
COLLECTION_THRESHOLDS: Final = (50_000, 20, 20)
"""Of the garbage collector: a pass over 50,000 objects takes some milliseconds."""
_AGENT_MODES: Final = {
    "auto": AgentMode.AUTOMATIC,
    "manual": AgentMode.MANUAL,
    "stopped": AgentMode.STOPPED,
}

_log = logging.getLogger("tailrace_emulator")


Announce = Callable[[int], None]
"""Called with the port when the server is ready."""


def announce_as_json(port: int) -> None:
    """One line of JSON on standard output: port and process id."""
    sys.stdout.write(json.dumps({"port": port, "pid": os.getpid()}) + "\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None, announce: Announce = announce_as_json) -> int:
    """Run until a signal; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.clock is not None and not options.admin:
        parser.error("--clock needs --admin")
    logging.basicConfig(
        level=options.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        password, origin = _password(options.password_file)
    except OSError as error:
        return _fail(f"--password-file {options.password_file}: {error.strerror}")
    if len(password.encode()) < PASSWORD_BYTES_MIN:
        return _fail(
            f"{origin}: the password has fewer than {PASSWORD_BYTES_MIN} bytes; give a longer one"
        )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        engine = Engine(options.data_dir, _clock(options), ChangeDataCapture())
    except DataDirectoryInUse as error:
        return _fail(f"--data-dir {options.data_dir}: {error}")
    try:
        return _serve(engine, options, password, stop, announce)
    finally:
        engine.close()


def _serve(
    engine: Engine,
    options: argparse.Namespace,
    password: str,
    stop: threading.Event,
    announce: Announce,
) -> int:
    now = datetime.datetime.now(datetime.UTC)
    tls = TlsContexts(*ensure_certificate(options.data_dir, now))
    logins = Logins(engine, Credentials(LOGIN, password))
    try:
        server = Server(logins.open_session, tls, options.host, options.port)
    except OSError as error:
        return _fail(f"cannot listen on {options.host}:{options.port}: {error.strerror}")
    steps = JobSteps(engine, LOGIN)
    agent = Agent(engine, _AGENT_MODES[options.agent], options.agent_start_delay, steps)
    state = runtime(engine)
    state.service_account = options.service_account
    if options.admin and isinstance(engine.clock, MovableClock | ManualClock):
        state.control = _control(agent, engine.clock)
    _collect_seldom()
    server.start()
    agent.start()
    _log.info("listening on %s:%d, data in %s", options.host, server.port, options.data_dir)
    announce(server.port)
    try:
        stop.wait()
    finally:
        server.stop()
        agent.close()
        _log.info("stopped")
    return 0


def _collect_seldom() -> None:
    """Rows come and go by the thousand, in no cycles: looking for these costs a tenth of reading.

    Everything created so far stays for good, and need not be looked at again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)


def _password(file: Path | None) -> tuple[str, str]:
    """The password of sa, and where it was found, for messages."""
    if file is None:
        return os.environ.get(PASSWORD_VARIABLE, ""), f"environment variable {PASSWORD_VARIABLE}"
    return file.read_text(encoding="utf-8").rstrip("\r\n"), f"--password-file {file}"


def _clock(options: argparse.Namespace) -> Clock:
    """The machine's clock; with --admin one that can be moved, or that stands still."""
    if options.clock is not None:
        return ManualClock(UNIX_EPOCH_TICKS + round(options.clock.timestamp() * TICKS_PER_SECOND))
    return MovableClock(SystemClock()) if options.admin else SystemClock()


def _control(agent: Agent, clock: MovableClock | ManualClock) -> AgentControl:
    def advance_clock(seconds: float) -> int:
        now = clock.advance(seconds)
        agent.wake()
        return now

    return AgentControl(advance_clock, agent.run_due, agent.set_running)


def _moment(text: str) -> datetime.datetime:
    """A time of --clock: ISO 8601; UTC where it names no offset."""
    moment = datetime.datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def _seconds(text: str) -> float:
    """A span of time, not negative and finite.

    Raises:
        ArgumentTypeError: the text is no such span.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0 on")
    return seconds


def _fail(message: str) -> int:
    sys.stderr.write(f"emulator: {message}\n")
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tailrace_emulator",
        description="An embedded SQL Server with change data capture. Its login is sa.",
    )
    parser.add_argument(
        "--data-dir", type=Path, required=True, help="where its files are; made when missing"
    )
    parser.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--password-file",
        type=Path,
        help=f"file whose text is the password of sa; without it, {PASSWORD_VARIABLE} is",
    )
    parser.add_argument(
        "--agent",
        choices=sorted(_AGENT_MODES),
        default="auto",
        help="auto runs capture and cleanup jobs; manual only records them; stopped refuses them",
    )
    parser.add_argument(
        "--agent-start-delay",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="how long after its start a job begins and reads its parameters (0: at once)",
    )
    parser.add_argument(
        "--admin",
        action="store_true",
        help="allow the procedures tailrace.*, which move the clock and run the jobs",
    )
    parser.add_argument(
        "--clock",
        type=_moment,
        metavar="TIME",
        help="begin at this time (ISO 8601, UTC) and stand still until"
        " tailrace.advance_clock; needs --admin",
    )
    parser.add_argument(
        "--service-account",
        default="",
        metavar="NAME",
        help="account that the services seem to run under; 'NETWORK SERVICE' lets"
        " sp_cdc_enable_table fail with 22832, as it does there",
    )
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="warning"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

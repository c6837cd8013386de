"""``python -m emulator``: the embedded SQL Server as a process of its own.

Prints exactly one line to standard output, when it is ready: ``{"port": N, "pid": N}``. SIGTERM and
SIGINT stop it cleanly; what was committed survives any other end too.
"""

from __future__ import annotations

import argparse
import datetime
import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Final

from emulator.agent import Agent, AgentMode
from emulator.clock import SystemClock
from emulator.server import Server
from emulator.session import Credentials, Logins
from emulator.storage.engine import DataDirectoryInUse, Engine
from emulator.tls import TlsContexts, ensure_certificate

LOGIN: Final = "sa"
PASSWORD_BYTES_MIN: Final = 8
_AGENT_MODES: Final = {
    "auto": AgentMode.AUTOMATIC,
    "manual": AgentMode.MANUAL,
    "stopped": AgentMode.STOPPED,
}

_log = logging.getLogger("emulator")


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal; returns the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=options.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        password = options.password_file.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        return _fail(f"--password-file {options.password_file}: {error.strerror}")
    if len(password.encode()) < PASSWORD_BYTES_MIN:
        return _fail(
            f"--password-file {options.password_file}: the password has fewer than"
            f" {PASSWORD_BYTES_MIN} bytes; write a longer one as its first line"
        )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        engine = Engine(options.data_dir, SystemClock())
    except DataDirectoryInUse as error:
        return _fail(f"--data-dir {options.data_dir}: {error}")
    try:
        return _serve(engine, options, password, stop)
    finally:
        engine.close()


def _serve(
    engine: Engine, options: argparse.Namespace, password: str, stop: threading.Event
) -> int:
    now = datetime.datetime.now(datetime.UTC)
    tls = TlsContexts(*ensure_certificate(options.data_dir, now))
    logins = Logins(engine, Credentials(LOGIN, password))
    try:
        server = Server(logins.open_session, tls, options.host, options.port)
    except OSError as error:
        return _fail(f"cannot listen on {options.host}:{options.port}: {error.strerror}")
    agent = Agent(engine, _AGENT_MODES[options.agent])
    server.start()
    agent.start()
    _log.info("listening on %s:%d, data in %s", options.host, server.port, options.data_dir)
    sys.stdout.write(json.dumps({"port": server.port, "pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    try:
        stop.wait()
    finally:
        server.stop()
        agent.close()
        _log.info("stopped")
    return 0


def _fail(message: str) -> int:
    sys.stderr.write(f"emulator: {message}\n")
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m emulator",
        description="An embedded SQL Server with change data capture. Its login is sa.",
    )
    parser.add_argument(
        "--data-dir", type=Path, required=True, help="where its files are; made when missing"
    )
    parser.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--password-file", type=Path, required=True, help="file whose text is the password of sa"
    )
    parser.add_argument(
        "--agent",
        choices=sorted(_AGENT_MODES),
        default="auto",
        help="auto runs capture and cleanup jobs; manual only records them; stopped refuses them",
    )
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="warning"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

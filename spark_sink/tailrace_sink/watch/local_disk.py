"""Whether the disk of a lake in a local folder takes files: Java names no reason by its class."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Final

from tailrace_sink.errors import DiskUnwritable

_REASONS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_PROBE_BYTES: Final = 256 * 1024
"""More than what a disk that is called full still takes of a small file."""


def require_room(lake: str) -> None:
    """Write and remove a file in a lake's folder. In an object store nothing is done.

    Raises:
        DiskUnwritable: the disk is full or read-only, or a quota is used up.
    """
    folder = Path(lake.removeprefix("file:"))
    if not folder.is_absolute() or not folder.is_dir():
        return
    try:
        with tempfile.TemporaryFile(dir=folder, prefix=".room-") as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno in _REASONS:
            raise DiskUnwritable(lake, error.strerror or str(error)) from error

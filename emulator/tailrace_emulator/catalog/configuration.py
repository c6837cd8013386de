"""Server configuration options: sp_configure and sys.configurations.

Only ``max text repl size`` changes what the server does. Values are kept in master's options.

https://learn.microsoft.com/sql/database-engine/configure-windows/configure-the-max-text-repl-size-server-configuration-option
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from tailrace_emulator import messages

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import StorageEngine


@dataclass(frozen=True, slots=True)
class ConfigurationOption:
    """An option with its bounds and default."""

    configuration_id: int
    name: str
    minimum: int
    maximum: int
    default: int
    description: str
    advanced: bool = False


MAX_TEXT_REPL_SIZE: Final = ConfigurationOption(
    1536,
    "max text repl size (B)",
    -1,
    2147483647,
    65536,
    "Maximum size of a text field in replication.",
)

OPTIONS: Final = (
    ConfigurationOption(518, "show advanced options", 0, 1, 0, "show advanced options"),
    MAX_TEXT_REPL_SIZE,
    ConfigurationOption(
        1539, "max degree of parallelism", 0, 32767, 0, "maximum degree of parallelism", True
    ),
    ConfigurationOption(
        1544, "max server memory (MB)", 128, 2147483647, 2147483647, "Maximum size of memory", True
    ),
    ConfigurationOption(16390, "xp_cmdshell", 0, 1, 0, "Enable or disable command shell", True),
    ConfigurationOption(16384, "Agent XPs", 0, 1, 1, "Enable or disable Agent XPs", True),
)

_PREFIX: Final = "configuration:"

_not_installed: Final[WeakKeyDictionary[StorageEngine, dict[str, int]]] = WeakKeyDictionary()
"""The running values, by name, of options that were changed and not installed since: RECONFIGURE
and a restart install them."""


def configured_value(engine: StorageEngine, option: ConfigurationOption) -> int:
    """The value that is configured: config_value."""
    value = engine.database("master").options.get(_PREFIX + option.name)
    return value if isinstance(value, int) else option.default


def running_value(engine: StorageEngine, option: ConfigurationOption) -> int:
    """The value in force: run_value."""
    running = _not_installed.get(engine, {}).get(option.name)
    return configured_value(engine, option) if running is None else running


def reconfigure(engine: StorageEngine) -> None:
    """RECONFIGURE: what is configured is in force."""
    _not_installed.pop(engine, None)


def configured_values(engine: StorageEngine) -> Iterator[tuple[ConfigurationOption, int, int]]:
    """Every option with its configured and its running value, by name."""
    for option in sorted(OPTIONS, key=lambda o: o.name.casefold()):
        yield option, configured_value(engine, option), running_value(engine, option)


def find_option(name: str) -> ConfigurationOption:
    """The option whose name begins with ``name``, as sp_configure takes it.

    Raises:
        SqlError: 15123 when there is none.
    """
    folded = name.strip().casefold()
    for option in OPTIONS:
        if folded and option.name.casefold().startswith(folded):
            return option
    raise messages.error(15123, name, procedure="sp_configure")


def configure(engine: StorageEngine, name: str, value: int) -> tuple[ConfigurationOption, int]:
    """Sets an option; returns it with the value it had.

    Raises:
        SqlError: 15123 unknown option, 15129 value out of bounds.
    """
    option = find_option(name)
    if not option.minimum <= value <= option.maximum:
        raise messages.error(15129, value, option.name, procedure="sp_configure")
    old = configured_value(engine, option)
    _not_installed.setdefault(engine, {}).setdefault(option.name, running_value(engine, option))
    with engine.write() as connection:
        engine.database("master").set_option(_PREFIX + option.name, value, connection)
    return option, old

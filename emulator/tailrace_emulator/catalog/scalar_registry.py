"""How the catalog's scalar functions declare themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.system_routines import ROUTINES, SystemRoutines
from tailrace_emulator.values.types import SqlType, StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

ScalarCall = Callable[..., StorageValue]


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A scalar function of the catalog.

    Attributes:
        name: as registered, for messages.
        parameters: their types; an argument is converted to its type before the call.
        returns: the type of the result.
        body: called with the session and the arguments; may be given None for any argument.
        required: how many arguments must be given; the rest are optional.
    """

    name: str
    parameters: tuple[SqlType, ...]
    returns: SqlType
    body: ScalarCall
    required: int

    def call(self, context: SessionContext, *arguments: StorageValue) -> StorageValue:
        """The value for some arguments (storage values of the parameters' types)."""
        return self.body(context, *arguments)


class SystemFunctions:
    """Scalar functions that were declared together: the system's own, or an extension's."""

    def __init__(self, routines: SystemRoutines) -> None:
        """Begin; functions of a schema become known among ``routines``."""
        self._routines = routines
        self.by_name: dict[tuple[str, str], ScalarFunction] = {}
        """By (schema, name), casefolded; schema is empty for built-in functions."""

    def scalar(
        self, name: str, returns: SqlType, *parameters: SqlType, required: int | None = None
    ) -> Callable[[ScalarCall], ScalarCall]:
        """Registers a function as ``schema.name`` or, without a dot, as a built-in."""
        schema, _, plain = name.rpartition(".")

        def register(body: ScalarCall) -> ScalarCall:
            needed = len(parameters) if required is None else required
            self.by_name[schema.casefold(), plain.casefold()] = ScalarFunction(
                plain, parameters, returns, body, needed
            )
            if schema:
                self._routines.register(plain, "FN")
            return body

        return register


SYSTEM_FUNCTIONS: Final = SystemFunctions(ROUTINES)
"""The system's own."""
SCALARS: Final = SYSTEM_FUNCTIONS.by_name
scalar = SYSTEM_FUNCTIONS.scalar

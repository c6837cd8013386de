"""What can be wrong on the wire, by whose fault it is."""

from __future__ import annotations


class ProtocolError(Exception):
    """The protocol was broken."""


class LocalProtocolError(ProtocolError):
    """We asked for something that the protocol cannot carry, or not now."""


class RemoteProtocolError(ProtocolError):
    """The peer sent bytes that are not TDS, or not TDS that may come now."""


class WrongLengthError(RemoteProtocolError):
    """A value's length prefix does not go with its type; as many bytes follow it.

    The message's frame is intact, so what the value belongs to can be refused alone.

    Attributes:
        length: of the value, in bytes.
    """

    def __init__(self, text: str, length: int) -> None:
        super().__init__(text)
        self.length = length


class UnsupportedTypeError(RemoteProtocolError):
    """A well-formed message names a type that is not spoken here.

    The message's frame is intact, so the connection can answer with an error and continue.

    Attributes:
        type_name: the type's name in MS-TDS.
    """

    def __init__(self, type_name: str) -> None:
        super().__init__(f"values of type {type_name} are not supported on the wire")
        self.type_name = type_name

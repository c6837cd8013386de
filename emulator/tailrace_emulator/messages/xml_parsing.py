"""Messages of texts that are no xml."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.catalogue import SystemMessage
from tailrace_emulator.messages.errors import Aborts

_ENDS: Final = Aborts.TRANSACTION
_WHERE: Final = "XML parsing: line %d, character %d, "

MESSAGES: Final = (
    SystemMessage(
        6359,
        "Parsing XML with internal subset DTDs not allowed. Use CONVERT with style option 2 to"
        " enable limited internal subset DTD support.",
        aborts=_ENDS,
    ),
    SystemMessage(9400, _WHERE + "unexpected end of input", aborts=_ENDS),
    SystemMessage(9402, _WHERE + "unable to switch the encoding", aborts=_ENDS),
    SystemMessage(9410, _WHERE + "whitespace expected", aborts=_ENDS),
    SystemMessage(9411, _WHERE + "semicolon expected", aborts=_ENDS),
    SystemMessage(9412, _WHERE + "'>' expected", aborts=_ENDS),
    SystemMessage(9413, _WHERE + "A string literal was expected", aborts=_ENDS),
    SystemMessage(9414, _WHERE + "equal expected", aborts=_ENDS),
    SystemMessage(9415, _WHERE + "well formed check: no '<' in attribute value", aborts=_ENDS),
    SystemMessage(9416, _WHERE + "hexadecimal digit expected", aborts=_ENDS),
    SystemMessage(9417, _WHERE + "decimal digit expected", aborts=_ENDS),
    SystemMessage(9420, _WHERE + "illegal xml character", aborts=_ENDS),
    SystemMessage(9421, _WHERE + "illegal name character", aborts=_ENDS),
    SystemMessage(9422, _WHERE + "incorrect document syntax", aborts=_ENDS),
    SystemMessage(9423, _WHERE + "incorrect CDATA section syntax", aborts=_ENDS),
    SystemMessage(9424, _WHERE + "incorrect comment syntax", aborts=_ENDS),
    SystemMessage(9436, _WHERE + "end tag does not match start tag", aborts=_ENDS),
    SystemMessage(9437, _WHERE + "duplicate attribute", aborts=_ENDS),
    SystemMessage(9438, _WHERE + "text/xmldecl not at the beginning of input", aborts=_ENDS),
    SystemMessage(9441, _WHERE + "incorrect xml declaration syntax", aborts=_ENDS),
    SystemMessage(9448, _WHERE + "well formed check: undeclared entity", aborts=_ENDS),
    SystemMessage(9454, _WHERE + "no ']]>' in element content", aborts=_ENDS),
    SystemMessage(9455, _WHERE + "illegal qualified name character", aborts=_ENDS),
    SystemMessage(9459, _WHERE + "undeclared prefix", aborts=_ENDS),
    SystemMessage(9460, _WHERE + "non default namespace with empty uri", aborts=_ENDS),
)

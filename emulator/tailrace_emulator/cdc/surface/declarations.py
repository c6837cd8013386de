"""What the modules of change data capture and of the Agent declare for the catalog."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.catalog.extensions import Declarations
from tailrace_emulator.cdc.surface.procedure_access import authorize_capture_procedure

DECLARED: Final = Declarations(authorize_capture_procedure)
"""Complete once every module of cdc_catalog.py is imported, which that one does."""

view = DECLARED.views.view
procedure = DECLARED.procedures.procedure
scalar = DECLARED.functions.scalar

"""What a step does to the world, by its kind. Each chooses out of what there is at its moment."""

from tests.simulation.actions import access, capture, kafka, publisher, servers, tables, users
from tests.simulation.actions.registry import ACTIONS

__all__ = ["ACTIONS", "access", "capture", "kafka", "publisher", "servers", "tables", "users"]

"""What checking and comparing a resource's inputs says."""

from collections.abc import Mapping
from dataclasses import dataclass

from infra.sandbox.aws_resources.properties import Properties


@dataclass(frozen=True)
class Checked:
    """Inputs with defaults filled in, and what is wrong with them.

    - `failures`: (property path, what is wrong and what would be accepted).
    """

    inputs: Properties
    failures: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Difference:
    """What an update would change.

    - `changes`: path to add, delete or update.
    - `replaces`: those paths that cannot be changed in place.
    - `delete_before_replace`: the old one has to go first, since both would have the same name.
    """

    changes: Mapping[str, str]
    replaces: frozenset[str]
    delete_before_replace: bool

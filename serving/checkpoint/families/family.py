"""What every family gives: facts of the model, and a function that lays out its tensors."""

from collections.abc import Callable
from dataclasses import dataclass

from serving.checkpoint.families.blueprint import Blueprint
from serving.checkpoint.families.parts import Experts, Sizes
from serving.checkpoint.model import AttentionLayers, Family


@dataclass(frozen=True)
class Facts:
    """A model's facts beside its tensors."""

    family: Family
    sizes: Sizes
    attention: tuple[AttentionLayers, ...]
    experts: Experts | None = None


Described = tuple[Facts, Callable[[Blueprint], None]]
"""The facts, and what puts the tensors into a blueprint once the config has no faults."""

"""The layouts to look at: the one that was wished, or every plain one over a machine's GPUs."""

from collections.abc import Iterable
from dataclasses import replace

from infra.fit_question import FitQuestion, LayoutWish
from serving.accelerators import InstanceShape
from serving.fit.answers import candidate_layouts
from serving.fit.layout import Layout


def wished_layout(wish: LayoutWish, shape: InstanceShape) -> Layout:
    """The layout that the wish names on `shape`: tensor parallel within a machine, stages between machines.

    It takes every GPU, unless all of its sizes are given.
    """
    gpus = shape.gpus * wish.nodes
    data = wish.data_parallel or 1
    room_for_stages = (wish.tensor_parallel or 1) * data * wish.nodes <= gpus
    pipeline = wish.pipeline_parallel or (wish.nodes if room_for_stages else 1)
    return Layout(
        tensor_parallel=wish.tensor_parallel or max(1, gpus // (pipeline * data)),
        pipeline_parallel=pipeline,
        data_parallel=data,
        expert_parallel=wish.expert_parallel,
        decode_context_parallel=wish.decode_context_parallel,
        nodes=wish.nodes,
        vision_mode=wish.vision_mode or "data",
        draft=wish.draft,
    )


def layouts_for(question: FitQuestion, shape: InstanceShape) -> Iterable[Layout]:
    """What to try on `shape`, the plainest first: only the wished one where sizes were given."""
    wish = question.wish
    wished = wished_layout(wish, shape)
    if not wish.is_open:
        return (wished,)
    plain = candidate_layouts(question.model, shape, wish.nodes, wished)
    return (
        replace(
            one,
            expert_parallel=one.expert_parallel or wish.expert_parallel,
            decode_context_parallel=wish.decode_context_parallel,
        )
        for one in plain
    )

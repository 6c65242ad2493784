"""Sampling defaults that a model's maker documents, for requests that do not choose their own."""

import json

from serving.profiles import ModelProfile, Sampling

# What vLLM takes over from a generation config, but for max_new_tokens, which would cap every answer.
SAMPLING_KEYS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


def sampling_defaults(model: ModelProfile) -> Sampling | None:
    """The documented values of the mode that `model` answers in unless a request asks for another; None without any.

    Values of its other modes, such as 0.6 for Kimi K2.5 without thinking, are for the request to give: a server has
    one set of defaults and cannot tell the modes apart.
    """
    return next((sampling for sampling in model.sampling if sampling.values), None)


def generation_config(sampling: Sampling) -> str:
    """`sampling` as the value of `--override-generation-config`: JSON without spaces, keys in order."""
    return json.dumps(sampling.values, separators=(",", ":"), sort_keys=True)

"""The engine's command line under its old name; `serving.engine.arguments` holds it."""

from serving.engine.arguments import (
    CACHE_PATH,
    ENGINE_PORT,
    WEIGHTS_PATH,
    EngineOptions,
    engine_arguments,
    engine_environment,
    model_environment,
    weights_folder,
)

__all__ = [
    "CACHE_PATH",
    "ENGINE_PORT",
    "WEIGHTS_PATH",
    "EngineOptions",
    "engine_arguments",
    "engine_environment",
    "model_environment",
    "weights_folder",
]

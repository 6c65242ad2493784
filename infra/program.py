"""What `pulumi up` runs: the stack's configuration in, resources and outputs out."""

from datetime import UTC, datetime
from typing import Any

import pulumi
from pulumi.runtime import config as runtime_config

from infra.configuration import NAMESPACE
from infra.environment import api_key_fault, load
from infra.stack import build
from infra.weights_settings import TOKEN_KEY, plain_token_fault
from serving.errors import ConfigurationError, DormouseError, Fault


def run() -> None:
    """Build the stack that Pulumi's engine asks for; a mistake of the user's ends in its message and no traceback."""
    config = pulumi.Config(NAMESPACE)
    try:
        environment = load(pulumi.get_stack(), stack_values(), datetime.now(UTC).date())
        key = config.require_secret("apiKeySecret").apply(_checked_key)
        if environment.weights.has_token and not runtime_config.is_config_secret(f"{NAMESPACE}:{TOKEN_KEY}"):
            raise ConfigurationError([plain_token_fault()])
        token = config.require_secret(TOKEN_KEY) if environment.weights.has_token else None
        build(environment, key, token)
    except DormouseError as error:
        raise pulumi.RunError(str(error)) from error


def stack_values() -> dict[str, Any]:
    """Every `dormouse:` key that the engine handed over, without the namespace; values as text."""
    prefix = f"{NAMESPACE}:"
    given = {**runtime_config.get_config_env(), **runtime_config.CONFIG.get()}
    return {key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)}


def _checked_key(key: str) -> str:
    if fault := api_key_fault(key):
        value, accepted = fault.split("; accepted: ")
        raise pulumi.RunError(str(ConfigurationError([Fault("dormouse:apiKeySecret", value, accepted)])))
    return key

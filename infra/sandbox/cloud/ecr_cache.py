"""ECR's pull-through cache rules, which moto lacks: kept and answered as AWS does; no image is ever fetched."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportPrivateUsage=false
# moto's classes are untyped.
# ruff: noqa: SLF001, since moto offers no other way in

from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult
from moto.ecr.responses import ECRResponse

from infra.sandbox.cloud.simulation import current

# Those that ECR takes without credentials (ECR user guide, pull-through cache).
_OPEN_UPSTREAMS = ("public.ecr.aws", "registry.k8s.io", "quay.io")
_KEPT = "dormouse_pull_through_rules"


class _RuleError(ServiceException):
    """An error of these calls, by AWS's name."""


def install() -> None:
    """Give moto's ECR the three calls."""
    response: Any = ECRResponse
    response.create_pull_through_cache_rule = _create
    response.describe_pull_through_cache_rules = _describe
    response.delete_pull_through_cache_rule = _delete


def _rules(response: Any) -> dict[str, dict[str, Any]]:
    backend = response.ecr_backend
    if not hasattr(backend, _KEPT):
        setattr(backend, _KEPT, {})
    return getattr(backend, _KEPT)


def _create(response: Any) -> ActionResult:
    prefix, upstream = response._get_param("ecrRepositoryPrefix"), response._get_param("upstreamRegistryUrl")
    credentials = response._get_param("credentialArn")
    rules = _rules(response)
    if prefix in rules:
        raise _RuleError(
            "PullThroughCacheRuleAlreadyExistsException", f"A pull through cache rule with the prefix {prefix} exists"
        )
    if upstream not in _OPEN_UPSTREAMS and credentials is None:
        raise _RuleError("InvalidParameterException", f"The upstream registry {upstream} requires a credentialArn")
    rules[prefix] = {
        "ecrRepositoryPrefix": prefix,
        "upstreamRegistryUrl": upstream,
        "createdAt": current().now_naive(),
        "registryId": response.current_account,
        **({"credentialArn": credentials} if credentials else {}),
    }
    return ActionResult(dict(rules[prefix]))


def _describe(response: Any) -> ActionResult:
    rules = _rules(response)
    wanted = response._get_param("ecrRepositoryPrefixes")
    for prefix in wanted or ():
        _known(rules, prefix)
    return ActionResult({"pullThroughCacheRules": [rules[prefix] for prefix in wanted or rules]})


def _delete(response: Any) -> ActionResult:
    rules, prefix = _rules(response), response._get_param("ecrRepositoryPrefix")
    _known(rules, prefix)
    return ActionResult(rules.pop(prefix))


def _known(rules: dict[str, dict[str, Any]], prefix: str) -> None:
    if prefix not in rules:
        raise _RuleError(
            "PullThroughCacheRuleNotFoundException",
            f"The pull through cache rule with the prefix {prefix} was not found",
        )

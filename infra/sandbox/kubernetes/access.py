"""Who may ask: tokens are checked, roles are not; whoever is in `system:masters` may do all, everybody else nothing."""

from collections.abc import Callable

from infra.sandbox.kubernetes.refusals import forbidden, unauthorized

Authenticate = Callable[[str], tuple[str, list[str]] | None]

ADMINISTRATORS = "system:masters"
_PUBLIC = {"version", "healthz", "livez", "readyz"}
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def check_access(authenticate: Authenticate | None, authorization: str, method: str, parts: tuple[str, ...]) -> None:
    """Raise a 401 or 403 Refusal where the header's bearer token does not allow the request."""
    if authenticate is None or (parts and parts[0] in _PUBLIC):
        return
    scheme, _, token = authorization.partition(" ")
    identity = authenticate(token.strip()) if scheme.lower() == "bearer" and token.strip() else None
    if identity is None:
        raise unauthorized()
    user, groups = identity
    if ADMINISTRATORS not in groups:
        raise forbidden(_forbidden_words(user, method, parts))


def _forbidden_words(user: str, method: str, parts: tuple[str, ...]) -> str:
    verb = _VERBS.get(method, method.lower())
    if parts[:1] == ("api",) and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[:1] == ("apis",) and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return f'forbidden: User "{user}" cannot {verb} path "/{"/".join(parts)}"'
    scope = "at the cluster scope"
    if rest[0] == "namespaces" and len(rest) > 2:
        scope = f'in the namespace "{rest[1]}"'
        rest = rest[2:]
    if verb == "get" and len(rest) == 1:
        verb = "list"
    plural, name = rest[0], f' "{rest[1]}"' if len(rest) > 1 else ""
    qualified = f"{plural}.{group}" if group else plural
    return (
        f'{qualified}{name} is forbidden: User "{user}" cannot {verb} resource "{plural}" '
        f'in API group "{group}" {scope}'
    )

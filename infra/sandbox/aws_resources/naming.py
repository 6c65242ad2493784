"""Physical names that nobody chose, and what somebody may have meant by a misspelt one."""

import difflib
import hashlib
import secrets

_NAME_HEX_DIGITS = 7


def made_up_name(name: str, token: str, seed: bytes) -> str:
    """`name` with seven hexadecimal digits, the same for the same `seed`; random for an empty one."""
    if not seed:
        return f"{name}-{secrets.token_hex(4)[:_NAME_HEX_DIGITS]}"
    digest = hashlib.sha256(seed + token.encode() + b"\0" + name.encode()).hexdigest()
    return f"{name}-{digest[:_NAME_HEX_DIGITS]}"


def suggestion(path: str, accepted: list[str]) -> str:
    """The end of a refusal of the property at `path`: the nearest accepted name, or all of them."""
    close = difflib.get_close_matches(path.rsplit(".", 1)[-1], accepted, n=1)
    return f"; did you mean {close[0]}?" if close else f"; covered: {', '.join(accepted)}"

"""ARNs of who signs a request, in the form in which IAM policies and access entries name them."""


def role_or_user_arn(caller_arn: str) -> str:
    """The IAM ARN behind what STS GetCallerIdentity answers: a session's role, or the user itself.

    `arn:aws:sts::1:assumed-role/Name/session` becomes `arn:aws:iam::1:role/Name` (the role's path is not in the
    session's ARN, as in AWS); other ARNs come back unchanged.
    """
    parts = caller_arn.split(":", 5)
    if len(parts) == 6 and parts[2] == "sts" and parts[5].startswith("assumed-role/"):
        return ":".join((parts[0], parts[1], "iam", "", parts[4], "role/" + parts[5].split("/")[1]))
    return caller_arn


def session_name(caller_arn: str) -> str:
    """The session's name in an assumed role's ARN, or an empty text."""
    parts = caller_arn.split(":", 5)
    if len(parts) == 6 and parts[5].startswith("assumed-role/"):
        return parts[5].split("/", 2)[2]
    return ""

"""The one error of the build."""

from serving.errors import DormouseError


class EngineBuildError(DormouseError):
    """The engine tier cannot be built here; the message says what is missing and what works without it."""

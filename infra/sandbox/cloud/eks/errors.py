"""EKS's errors in the form that moto sends to the client."""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# moto carries no type information for its exceptions.

from typing import Any

from moto.core.exceptions import ServiceException


class EksError(ServiceException):
    """An error of EKS: `code` is its name in the API, `fields` go beside the message (clusterName, addonName, …)."""

    def __init__(self, code: str, message: str, fields: dict[str, Any]) -> None:
        """Keep the fields as attributes, where moto's serializer looks for them."""
        super().__init__(code, message)
        for name, value in fields.items():
            setattr(self, name, value)


def not_found(message: str, **fields: Any) -> EksError:
    """ResourceNotFoundException (404)."""
    return EksError("ResourceNotFoundException", message, fields)


def in_use(message: str, **fields: Any) -> EksError:
    """ResourceInUseException (409)."""
    return EksError("ResourceInUseException", message, fields)


def invalid_parameter(message: str, **fields: Any) -> EksError:
    """InvalidParameterException (400)."""
    return EksError("InvalidParameterException", message, fields)


def invalid_request(message: str, **fields: Any) -> EksError:
    """InvalidRequestException (400)."""
    return EksError("InvalidRequestException", message, fields)

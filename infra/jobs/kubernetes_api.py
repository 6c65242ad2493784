"""The Kubernetes API as the jobs use it: a few calls over HTTPS, with nothing but the standard library.

The same code runs on a laptop and in a Lambda function, against EKS, the sandbox's stand-in or a real API server:

    api = KubernetesApi(cluster["endpoint"], cluster["certificateAuthority"]["data"], lambda: eks_token(session, name, region))
    api.patch("/apis/apps/v1/namespaces/kimi/deployments/vllm/scale", {"spec": {"replicas": 0}})
"""

import base64
import binascii
import http.client
import ipaddress
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from email.message import Message
from typing import IO, Any, Literal, cast
from urllib.parse import urlencode, urlsplit

from serving.errors import DormouseError

_CONTENT_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
PatchType = Literal["merge", "strategic", "json"]

_FIRST_WAIT_S = 0.25
_LONGEST_WAIT_S = 8.0
_PAGE = 500


class KubernetesError(DormouseError):
    """A call that the API server refused.

    - `status`: the HTTP status; 0 where no answer came.
    - `reason`: the API server's word for it, such as `Forbidden`, `Invalid` or `Unreachable`.
    - `message`: the API server's own sentence.
    """

    def __init__(self, status: int, reason: str, message: str, call: str) -> None:
        """Keep the refusal of `call`, such as `GET /api/v1/nodes`."""
        self.status = status
        self.reason = reason
        self.message = message
        self.call = call
        answer = f"{status} {reason}" if status else reason
        super().__init__(f"Kubernetes API, {call}: {answer}: {message}{_remedy(status)}")


class NotFound(KubernetesError):  # noqa: N818 - the field's word for it
    """404: the object, its namespace or its kind does not exist."""


class Conflict(KubernetesError):  # noqa: N818 - the field's word for it
    """409: the object exists already, or somebody changed it since it was read."""


class AccessDenied(KubernetesError):  # noqa: N818 - the field's word for it
    """401 or 403: the token was not accepted, or its identity may not do this."""


class Unreachable(KubernetesError):  # noqa: N818 - the field's word for it
    """No answer: wrong address, closed network path, a time-out or a certificate that does not fit."""


class KubernetesApi:
    """One cluster's API server.

    Every method takes a path below the endpoint, such as `/api/v1/namespaces/kimi/pods`, and raises KubernetesError,
    or its subclass NotFound, Conflict, AccessDenied or Unreachable.

    Calls that may be sent twice without harm are repeated, with growing waits, after a lost connection, 429 and 5xx.
    A repeated patch that carries a `resourceVersion` may so meet its own first success as Conflict: read again then.
    """

    def __init__(
        self,
        endpoint: str,
        certificate_authority_data: str,
        token: Callable[[], str],
        *,
        timeout_s: float = 15.0,
        attempts: int = 5,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Connect to nothing yet.

        - `endpoint`: `https://…`, or `http://` on this machine alone.
        - `certificate_authority_data`: base64 of the PEM certificate, as DescribeCluster and kubeconfig files carry
          it; empty for the system's trusted certificates.
        - `token`: asked before every request, so that an expired one is never sent.
        - `timeout_s`: for one answer, in seconds of real time.
        - `attempts`: how often one call is sent at most, at least 1.
        - `sleep`: waits between attempts; real seconds, because networks do not run on simulated time.

        Raises DormouseError for an endpoint that a token must not be sent to, or certificate data that is none.
        """
        self.endpoint = endpoint.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._attempts = max(1, attempts)
        self._sleep = sleep
        self._opener = _opener(self.endpoint, certificate_authority_data)

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """Read one object, or a list as the API server words it."""
        return self._json("GET", path, query)

    def list(self, path: str, *, label_selector: str = "", field_selector: str = "") -> list[dict[str, Any]]:
        """Every item of a collection, all pages of it."""
        query = {"limit": str(_PAGE)}
        if label_selector:
            query["labelSelector"] = label_selector
        if field_selector:
            query["fieldSelector"] = field_selector
        items: list[dict[str, Any]] = []
        while True:
            page = self._json("GET", path, query)
            items += page.get("items") or []
            proceed = page.get("metadata", {}).get("continue")
            if not proceed:
                return items
            query["continue"] = proceed

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create `body` in the collection at `path`; never sent twice, unless the API server asked to wait."""
        return self._json("POST", path, {}, body)

    def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Put `body` in the object's place; with its `resourceVersion`, only where nobody changed it since."""
        return self._json("PUT", path, {}, body)

    def patch(
        self, path: str, body: Mapping[str, Any] | Sequence[Mapping[str, Any]], content_type: PatchType = "merge"
    ) -> dict[str, Any]:
        """Change parts of the object: a merge or strategic patch (a mapping) or a JSON patch (a list of operations)."""
        return self._json("PATCH", path, {}, body, _CONTENT_TYPES[content_type])

    def delete(
        self,
        path: str,
        *,
        grace_period_s: int | None = None,
        propagation: Literal["Foreground", "Background", "Orphan"] | None = None,
    ) -> dict[str, Any]:
        """Delete the object; `grace_period_s` overrides a pod's own grace period, 0 kills at once."""
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_period_s is not None:
            body["gracePeriodSeconds"] = grace_period_s
        if propagation is not None:
            body["propagationPolicy"] = propagation
        return self._json("DELETE", path, {}, body)

    def get_text(self, path: str, **query: str) -> str:
        """Read a page that is not JSON: a pod's log, or what a pod answers through `/proxy/`."""
        return self._send("GET", path, query, None, "").decode("utf-8", "replace")

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: object = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        answer = self._send(method, path, query, data, content_type)
        try:
            parsed: object = json.loads(answer)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise KubernetesError(0, "NotKubernetes", "the answer is not a JSON object", f"{method} {path}")
        return cast("dict[str, Any]", parsed)

    def _send(self, method: str, path: str, query: Mapping[str, str], body: bytes | None, content_type: str) -> bytes:
        url = self.endpoint + path + (f"?{urlencode(query)}" if query else "")
        repeatable = method in ("GET", "PUT", "DELETE") or (
            method == "PATCH" and content_type != _CONTENT_TYPES["json"]
        )
        # A pod that refuses is news about the pod, not a hiccup of the API server.
        proxied = "/proxy" in path
        call = f"{method} {path}"
        attempt = 0
        while True:
            attempt += 1
            headers = {
                "Accept": "application/json, */*",
                "User-Agent": "dormouse",
                "Authorization": f"Bearer {self._token()}",
            }
            if body is not None:
                headers["Content-Type"] = content_type
            request = urllib.request.Request(url, data=body, headers=headers, method=method)  # noqa: S310 - scheme checked
            wait_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (attempt - 1))
            try:
                with self._opener.open(request, timeout=self._timeout_s) as response:
                    return response.read()
            except urllib.error.HTTPError as refusal:
                with refusal:
                    error = _error_of(refusal.code, refusal.read(), call)
                    asked_s = refusal.headers.get("Retry-After", "")
                temporary = refusal.code == 429 or (refusal.code >= 500 and repeatable and not proxied)
                wait_s = min(_LONGEST_WAIT_S, float(asked_s)) if asked_s.isdigit() else wait_s
            except (OSError, http.client.HTTPException) as failure:
                error = Unreachable(0, "Unreachable", _words(failure, self.endpoint, self._timeout_s), call)
                temporary = repeatable and not isinstance(_cause(failure), ssl.SSLCertVerificationError)
            if not temporary or attempt >= self._attempts:
                raise error from None
            self._sleep(wait_s)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Redirects are refused, so that a token never follows one to another host."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        del req, fp, code, msg, headers, newurl
        return None


def _opener(endpoint: str, certificate_authority_data: str) -> urllib.request.OpenerDirector:
    url = urlsplit(endpoint)
    local = _is_this_machine(url.hostname or "")
    if url.scheme not in ("http", "https") or not url.hostname:
        raise DormouseError(f"Kubernetes endpoint {endpoint!r}: not an address; accepted: https://HOST[:PORT]")
    if url.scheme == "http" and not local:
        raise DormouseError(
            f"Kubernetes endpoint {endpoint}: plain http would send the token in the clear; accepted: https://…, "
            "or http on 127.0.0.1"
        )
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if local:
        handlers.append(urllib.request.ProxyHandler({}))
    if url.scheme == "https":
        handlers.append(urllib.request.HTTPSHandler(context=_tls(certificate_authority_data)))
    return urllib.request.build_opener(*handlers)


def _tls(certificate_authority_data: str) -> ssl.SSLContext:
    if not certificate_authority_data:
        return ssl.create_default_context()
    try:
        pem = base64.b64decode(certificate_authority_data, validate=True).decode("ascii")
        context = ssl.create_default_context(cadata=pem)
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
        raise DormouseError(
            "the cluster's certificate authority data is not base64 of a PEM certificate; "
            "DescribeCluster gives it as certificateAuthority.data"
        ) from error
    # Python 3.13 asks for extensions that the certificates of managed clusters do not carry.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _error_of(status: int, body: bytes, call: str) -> KubernetesError:
    """The error class and words for an answer, which is a Status object unless something stood in between."""
    text = body.decode("utf-8", "replace").strip()
    reason, message = http.client.responses.get(status, "Unknown"), text[:500] or "no message"
    try:
        parsed: object = json.loads(text)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict):
        answer = cast("dict[str, Any]", parsed)
        reason = str(answer.get("reason") or reason)
        message = str(answer.get("message") or message)
    kinds: dict[int, type[KubernetesError]] = {401: AccessDenied, 403: AccessDenied, 404: NotFound, 409: Conflict}
    return kinds.get(status, KubernetesError)(status, reason, message, call)


def _cause(failure: BaseException) -> BaseException:
    if isinstance(failure, urllib.error.URLError) and isinstance(failure.reason, BaseException):
        return failure.reason
    return failure


def _words(failure: BaseException, endpoint: str, timeout_s: float) -> str:
    cause = _cause(failure)
    if isinstance(cause, TimeoutError):
        return f"{endpoint} gave no answer within {timeout_s:g} s"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"{endpoint} shows a certificate that the cluster's authority did not sign ({cause.verify_message})"
    return f"{endpoint}: {cause or type(cause).__name__}"


def _remedy(status: int) -> str:
    if status == 401:
        return " (are these the credentials of the cluster's account, and has the identity an access entry?)"
    if status == 403:
        return " (the identity needs an EKS access entry whose policy or group allows this)"
    if status == 0:
        return " (is the cluster's endpoint open to this network, and does the cluster exist?)"
    return ""

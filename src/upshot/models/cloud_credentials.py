"""Credentials of clouds, from the clouds' own libraries.

botocore signs requests to Bedrock, and google-auth gets the tokens for Vertex AI. Both find their
credentials in many places (environment, files, metadata servers, roles), and may take seconds for
it: they are loaded at the first request, in a thread, and refreshed there when they are about to
expire. Requests in flight at the same time wait for one refresh.

Source:
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html;
    https://docs.aws.amazon.com/boto3/latest/guide/credentials.html;
    https://cloud.google.com/docs/authentication/application-default-credentials; read November
    2026.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Future
from importlib import import_module
from threading import Lock, Thread
from typing import Any, ClassVar, Final

from upshot.contract.base.checks import kind_of
from upshot.errors import Misuse
from upshot.models.providers import Provider

_GOOGLE_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_SERVICE: Final = "bedrock"


class CloudCredentials(ABC):
    """Credentials of one model; any number of tasks, loops and threads may share them.

    Args:
        given: What the caller passed; None means what the library finds.

    Attributes:
        what: What they are, for messages.
        missing_library: What to do if the library is not installed.
        found: Parts of the address that the library knows, such as the region.
        advice: What the user can do about a refused request.
    """

    what: ClassVar[str]
    missing_library: ClassVar[str]
    advice: ClassVar[str] = ""

    def __init__(self, given: Any = None) -> None:
        self._given = given
        self._lock = Lock()
        self._job: Future[str] | None = None
        self.found: dict[str, str] = {}

    async def prepare(self) -> str:
        """Make the credentials ready for a request.

        Returns:
            Why they are not, "" if they are.
        """
        if self._is_fresh():
            return ""
        with self._lock:
            job = self._job
            if job is None or job.done():
                job = self._job = Future()
                job.set_running_or_notify_cancel()
                # Not in the loop's executor, which other work needs meanwhile.
                Thread(
                    target=self._run, args=(job,), name="upshot-credentials", daemon=True
                ).start()
        # A caller that is cancelled does not take the refresh from the others.
        return await asyncio.shield(asyncio.wrap_future(job))

    def _run(self, job: Future[str]) -> None:
        try:
            job.set_result(self._refresh())
        except ImportError:
            job.set_result(self.missing_library)
        # The library may raise anything; a model call never raises. Only the class is reported, as
        # the message may contain a secret.
        except Exception as exception:
            job.set_result(f"{self.what} could not be loaded: {type(exception).__name__}")

    @abstractmethod
    def _is_fresh(self) -> bool:
        """Whether they are loaded, and will not expire before the next request has arrived."""

    @abstractmethod
    def _refresh(self) -> str:
        """Load or refresh them, in a thread. Return why they are not usable, "" if they are."""

    @abstractmethod
    def sign(
        self, url: str, headers: Mapping[str, str], body: bytes, *, region: str
    ) -> dict[str, str]:
        """Return the *headers* of a request with what proves who sends it."""


class AwsCredentials(CloudCredentials):
    """Signature Version 4, with the credentials that botocore finds or the caller's own.

    A given session has credentials and a region; given credentials have no region.
    """

    what = "AWS credentials"
    missing_library = (
        "bedrock needs an API key or AWS credentials: set AWS_BEARER_TOKEN_BEDROCK, pass api_key=, "
        "or install upshot-agents[bedrock], which reads AWS credentials"
    )
    advice = "check the AWS credentials, their permissions, and the clock of this machine"

    def __init__(self, given: Any = None) -> None:
        super().__init__(given)
        # botocore's, of any class.
        self._loaded: Any = None
        self._frozen: Any = None

    def _is_fresh(self) -> bool:
        if self._frozen is None:
            return False
        needs_refresh = getattr(self._loaded, "refresh_needed", None)
        return needs_refresh is None or not needs_refresh()

    def _refresh(self) -> str:
        loaded = self._loaded
        if loaded is None:
            loaded = self._load()
        if loaded is None:
            return (
                "no AWS credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "AWS_PROFILE, or AWS_BEARER_TOKEN_BEDROCK"
            )
        self._frozen = loaded.get_frozen_credentials()
        self._loaded = loaded
        return ""

    def _load(self) -> Any:
        given = self._given
        if given is None:
            given = import_module("botocore.session").Session()
        if not hasattr(given, "get_credentials"):
            return given
        if hasattr(given, "get_config_variable"):
            region = given.get_config_variable("region")
        else:
            region = getattr(given, "region_name", None)
        if isinstance(region, str):
            self.found: dict[str, str] = {"region": region}
        return given.get_credentials()

    def sign(
        self, url: str, headers: Mapping[str, str], body: bytes, *, region: str
    ) -> dict[str, str]:
        """Return the *headers* of a POST request with its signature."""
        auth, requests = import_module("botocore.auth"), import_module("botocore.awsrequest")
        request = requests.AWSRequest(method="POST", url=url, data=body, headers=dict(headers))
        auth.SigV4Auth(self._frozen, _SERVICE, region).add_auth(request)
        return {name.lower(): value for name, value in request.headers.items()}


class GoogleCredentials(CloudCredentials):
    """A bearer token, of the credentials that google-auth finds or the caller's own."""

    what = "Google credentials"
    missing_library = (
        "vertex needs a token or Google credentials: set CLOUDSDK_AUTH_ACCESS_TOKEN, pass "
        "api_key=, or install upshot-agents[vertex], which reads Google credentials"
    )
    advice = "check the Google credentials and their permissions"

    def __init__(self, given: Any = None) -> None:
        super().__init__(given)
        self._loaded: Any = None

    def _is_fresh(self) -> bool:
        return self._loaded is not None and bool(self._loaded.valid)

    def _refresh(self) -> str:
        loaded = self._loaded
        if loaded is None:
            loaded = self._load()
        if not loaded.valid:
            loaded.refresh(import_module("google.auth.transport.requests").Request())
        self._loaded = loaded
        return ""

    def _load(self) -> Any:
        loaded, project = self._given, getattr(self._given, "project_id", None)
        if loaded is None:
            loaded, project = import_module("google.auth").default(scopes=[_GOOGLE_SCOPE])
        if isinstance(project, str):
            self.found: dict[str, str] = {"project": project}
        return loaded

    def sign(
        self, url: str, headers: Mapping[str, str], body: bytes, *, region: str
    ) -> dict[str, str]:
        """Return the *headers* of a request with the token."""
        del url, body, region
        sent = dict(headers)
        self._loaded.apply(sent)
        return sent


def open_credentials(provider: Provider, given: object) -> CloudCredentials:
    """Make the credentials for *provider*; nothing is loaded yet.

    Args:
        provider: The provider.
        given: The caller's own; None means what the library finds.

    Raises:
        Misuse: The provider uses no such credentials.
    """
    match provider.cloud:
        case "aws" if given is None or _has_any(given, "get_credentials", "get_frozen_credentials"):
            return AwsCredentials(given)
        case "google" if given is None or (_has_any(given, "refresh") and _has_any(given, "apply")):
            return GoogleCredentials(given)
        case "aws":
            wanted = "a session or credentials of boto3 or botocore"
        case "google":
            wanted = "credentials of google-auth"
        case _:
            raise Misuse(f"{provider.name} has no credentials besides its key: pass api_key=")
    raise Misuse(f"credentials of {provider.name} must be {wanted}, got {kind_of(given)}")


def _has_any(given: object, *methods: str) -> bool:
    return any(callable(getattr(given, name, None)) for name in methods)

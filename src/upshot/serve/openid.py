"""Signs users in at an OpenID provider, and keeps their sessions in the journal.

The flow is the authorization code with PKCE. What the browser must bring back from the provider is
in a cookie of its own for each attempt, so that tabs do not disturb each other. The session's
cookie has a random text, and the journal a digest of it: every process that serves reads the
session at each request, so it survives a restart, and ends everywhere at once.

Authlib speaks with the provider and checks the identity token; this module says which claims must
hold, who may come in, and where the browser may be sent.

Source:
    OpenID Connect Core 1.0 sections 3.1 and 5.3, Discovery 1.0, RP-Initiated Logout 1.0,
    Back-Channel Logout 1.0, RFC 7636 (PKCE), RFC 9207 (iss in the response); read in 2026.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import html
import logging
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args
from urllib.parse import urlsplit

import msgspec
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.checks import Allowed, check_amount, check_argument
from upshot.contract.user import Role, User
from upshot.errors import Misuse, need_of_extra
from upshot.journal.audit import Actor, WebSession, add_act, needs_audit, row_of, set_actor
from upshot.serve import replies
from upshot.serve.guard import SESSION, WATCHING, address_of
from upshot.serve.permissions import Refused
from upshot.serve.site import Site, to_json

try:
    from authlib.integrations.starlette_client import OAuthError, StarletteOAuth2App
    from httpx2 import HTTPError
    from joserfc import jwt
    from joserfc.errors import InvalidKeyIdError, JoseError
    from joserfc.jwk import KeySet
    from joserfc.jws import JWSRegistry
except ModuleNotFoundError as _missing:
    raise Misuse(need_of_extra("oidc()", "oidc")) from _missing

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection, Request
    from starlette.routing import BaseRoute

logger: logging.Logger = logging.getLogger("upshot.serve")


def _is_named(value: object) -> bool:
    return isinstance(value, str) and value != ""


_TEXT = Allowed("a text", (str,))
_NAMED = Allowed("a text that is not empty", fits=_is_named)
_TEXTS = Allowed("a list of texts", items=_TEXT)
_RULES = Allowed('a dict such as {"operate": ["ops-team"]}', (Mapping,))
_LOCAL = ("localhost", "127.0.0.1", "::1")
# A secret that both sides know would let this site issue tokens too, so HS256 is not among them.
_ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
_LEEWAY_S = 60
_TIMEOUT_S = 10.0
# What the provider says of itself and its keys is read again after this time.
_KEEP_S = 600.0
# How long a user may take at the provider.
_ATTEMPT_S = 900
_TOUCH = timedelta(minutes=1)
# A path of this site: browsers read "//host" and "/\host" as another host, and skip control
# characters.
_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]*")
_MOST_GROUPS, _MOST_CHARS = 500, 200
_LOGOUT = "http://schemas.openid.net/event/backchannel-logout"
_ROLES: tuple[str, ...] = get_args(Role)
_EVERYONE = "*"
# What goes wrong on the way to the provider and back, other than a refusal.
_FAULTS = (OAuthError, JoseError, HTTPError, ValueError, KeyError, RuntimeError)
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sign in · upshot</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,"><link rel="stylesheet" href="{base}/static/console.css"></head>
<body><main><h1>{title}</h1><p>{sentence}</p>
<p><a class="button" href="{base}/sign-in">Sign in</a></p></main></body></html>
"""


class _Attempt(msgspec.Struct):
    """What a browser must bring back from the provider."""

    state: str
    nonce: str
    verifier: str
    next: str


class _Rule(NamedTuple):
    role: Role
    agent: str
    tool: str
    groups: frozenset[str]


def oidc(
    issuer: str,
    *,
    client_id: str,
    client_secret: str = "",
    roles: Mapping[str, Iterable[str]],
    roles_claim: str = "groups",
    user_claim: str = "sub",
    tenant_claim: str = "",
    scopes: Sequence[str] = ("openid", "profile", "email"),
    url: str = "",
    idle_s: float = 2 * 3600,
    life_s: float = 12 * 3600,
) -> OidcSignIn:
    """Return a sign-in at an OpenID provider, for ``App.asgi(user=)``.

    Register ``URL/sign-in/callback`` at the provider as the redirect address, ``URL/`` as the
    address after signing out and, if it can, ``URL/sign-in/back-channel`` for back-channel logout.

    Args:
        issuer: The provider's issuer, such as "https://login.example/realms/staff"; https, or
            http on this machine.
        client_id: The id of this site at the provider.
        client_secret: Its secret; "" for a public client.
        roles: The groups that have each role: ``{"operate": ["ops"], "view": ["*"]}``. A role is
            one of ``User``; "answer" may name a tool or an agent, "answer:tool/refund" or
            "answer:agent/desk". The group "*" is every account of the provider. An account without
            a role is refused.
        roles_claim: The claim with the groups; dots lead into objects, "realm_access.roles".
        user_claim: The claim that becomes the user's id. Others than "sub" may change hands at some
            providers.
        tenant_claim: The claim with the user's tenant, "" if users have none.
        scopes: What is requested of the provider.
        url: The address of the site for browsers, "https://ops.example"; "" takes it from each
            request.
        idle_s: A session ends after so many seconds without a request.
        life_s: A session ends so many seconds after the sign-in.

    Raises:
        Misuse: An argument is wrong, or the extra ``oidc`` is missing.
    """
    for name, value in (("issuer", issuer), ("client_id", client_id), ("user_claim", user_claim)):
        check_argument(name, value, _NAMED)
    for name, value in (
        ("client_secret", client_secret),
        ("roles_claim", roles_claim),
        ("tenant_claim", tenant_claim),
        ("url", url),
    ):
        check_argument(name, value, _TEXT)
    check_argument("scopes", scopes, _TEXTS)
    check_argument("roles", roles, _RULES)
    check_amount("idle_s", idle_s)
    check_amount("life_s", life_s)
    for name, address in (("issuer", issuer), ("url", url)):
        _check_address(name, address)
    if "openid" not in scopes:
        raise Misuse(f"scopes are {' '.join(scopes)}: 'openid' must be among them")
    return OidcSignIn(
        issuer,
        client_id,
        client_secret,
        rules=tuple(_rule_of(role, groups) for role, groups in roles.items()),
        claims=(roles_claim, user_claim, tenant_claim),
        scope=" ".join(scopes),
        url=url.rstrip("/"),
        idle=timedelta(seconds=idle_s),
        life=timedelta(seconds=life_s),
    )


def _check_address(name: str, address: str) -> None:
    parts = urlsplit(address)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL)
    if address and not (is_safe and parts.hostname):
        raise Misuse(
            f"{name} is {address[:200]!r}: give an address of https, or of http on this machine"
        )


def _rule_of(role: str, groups: Iterable[str]) -> _Rule:
    """Return a rule such as ``"answer:tool/refund": ["payments"]``."""
    name, _, limit = str(role).partition(":")
    kind, _, value = limit.partition("/")
    is_limited = name == "answer" and kind in ("agent", "tool") and value
    if name not in _ROLES or (limit and not is_limited):
        raise Misuse(
            f"roles has {role!r}: give one of {', '.join(_ROLES)}; only answer has limits, "
            "answer:tool/NAME or answer:agent/ID"
        )
    if isinstance(groups, str):
        raise Misuse(f"roles[{role!r}] is one text: give a list of groups, [{groups!r}]")
    names = frozenset(groups)
    check_argument(f"roles[{role!r}]", [*names], _TEXTS)
    agent, tool = (value if kind == one else "" for one in ("agent", "tool"))
    return _Rule(cast("Role", name), agent, tool, names)


class Unaccepted(Exception):
    """What came back from the provider is not accepted; its text is for the user."""


class OidcSignIn:
    """Returns the user of a request by their session; ``oidc`` makes one.

    Attributes:
        sign_in: The path where a browser signs in.
    """

    sign_in: str = "/sign-in"

    def __init__(
        self,
        issuer: str,
        client_id: str,
        client_secret: str,
        *,
        rules: tuple[_Rule, ...],
        claims: tuple[str, str, str],
        scope: str,
        url: str,
        idle: timedelta,
        life: timedelta,
    ) -> None:
        self._issuer = issuer
        self._client = (client_id, client_secret)
        self._rules = rules
        self._roles_claim, self._user_claim, self._tenant_claim = claims
        self._scope = scope
        self._url = url
        self._idle = idle
        self._life = life
        self._site: Site | None = None
        self._provider: Any = None
        self._read_at = 0.0
        self._lock = asyncio.Lock()

    def routes(self, site: Site) -> list[BaseRoute]:
        """Return the routes of signing in and out."""
        self._site = site
        return [
            Route("/sign-in", self._begin),
            Route("/sign-in/callback", self._return),
            Route("/sign-in/back-channel", self._end_by_provider, methods=["POST"]),
            *site.console_routes(("POST", "/api/sign-out", self._sign_out)),
        ]

    async def __call__(self, request: HTTPConnection) -> User | None:
        """Return the user who has the session of a request; None without one."""
        session = await self._session_of(request)
        if session is None:
            return None
        request.scope[SESSION] = session.id
        user = self._user_of(session.user, session.tenant, session.groups)
        return user if user.roles else None

    # -- sessions

    async def _journal(self) -> Any:
        if self._site is None:
            raise Misuse("this sign-in belongs to no site: give it to app.asgi(user=...)")
        return await self._site.app.open()

    async def _session_of(self, request: HTTPConnection) -> WebSession | None:
        token = request.cookies.get(self._cookie(request), "")
        if not token:
            return None
        journal, key, now = needs_audit(await self._journal()), _digest(token), SYSTEM_CLOCK.now()
        found = await journal.session(key)
        if found is None or found.until <= now or found.seen_at + self._idle <= now:
            return None
        # A page that is only left open does not keep its session.
        if now - found.seen_at >= _TOUCH and WATCHING not in request.scope:
            await journal.touch_session(key, now)
        return found

    def _user_of(self, id: str, tenant: str, groups: Iterable[str]) -> User:
        theirs = {*groups, _EVERYONE}
        rules = [rule for rule in self._rules if theirs & rule.groups]
        answers = [rule for rule in rules if rule.role == "answer"]
        is_limited = all(rule.agent or rule.tool for rule in answers)
        return User(
            id,
            tuple(dict.fromkeys(rule.role for rule in rules)),
            tenant,
            agents=tuple({rule.agent for rule in answers if rule.agent}) if is_limited else (),
            tools=tuple({rule.tool for rule in answers if rule.tool}) if is_limited else (),
        )

    def _cookie(self, request: HTTPConnection, name: str = "upshot-session") -> str:
        """Return the name of a cookie; another host of the domain cannot set one named so."""
        return f"__Host-{name}" if self._is_secure(request) else name

    def _is_secure(self, request: HTTPConnection) -> bool:
        return self._base(request).startswith("https://")

    def _base(self, request: HTTPConnection) -> str:
        """Return the address of the site for browsers."""
        return self._url or str(request.base_url).rstrip("/")

    def _callback(self, request: HTTPConnection) -> str:
        return f"{self._base(request)}{self.sign_in}/callback"

    def _set_cookie(
        self, response: Response, request: Request, name: str, value: str, *, life_s: int
    ) -> None:
        response.set_cookie(
            self._cookie(request, name),
            value,
            max_age=life_s,
            httponly=True,
            # The provider sends the browser here, from another site; the session starts here.
            samesite="lax" if name != "upshot-session" else "strict",
            secure=self._is_secure(request),
        )

    # -- the provider

    async def _open_provider(self) -> Any:
        """Return the provider, with what it says of itself.

        Raises:
            Unaccepted: It cannot be reached, or is another one.
        """
        async with self._lock:
            now = SYSTEM_CLOCK.monotonic()
            if self._provider is not None and now - self._read_at < _KEEP_S:
                return self._provider
            id, secret = self._client
            provider = StarletteOAuth2App(
                None,
                client_id=id,
                client_secret=secret or None,
                server_metadata_url=f"{self._issuer.rstrip('/')}/.well-known/openid-configuration",
                client_kwargs={
                    "scope": self._scope,
                    "code_challenge_method": "S256",
                    "timeout": _TIMEOUT_S,
                },
            )
            try:
                found = await provider.load_server_metadata()
            except _FAULTS as error:
                logger.warning("the OpenID provider %s cannot be read: %s", self._issuer, error)
                raise Unaccepted("the sign-in provider cannot be reached: try again soon") from None
            if found.get("issuer") != self._issuer:
                logger.warning("%s says that it is %r", self._issuer, found.get("issuer"))
                raise Unaccepted(
                    "the sign-in provider names another issuer than this site is set up for"
                )
            offered = found.get("id_token_signing_alg_values_supported") or ["RS256"]
            # Authlib accepts what is listed here.
            found["id_token_signing_alg_values_supported"] = [
                name for name in offered if name in _ALGORITHMS
            ]
            self._provider, self._read_at = provider, now
            return provider

    # -- signing in

    async def _begin(self, request: Request) -> Response:
        wanted = request.query_params.get("next", "")
        root = request.scope.get("root_path", "")
        is_here = _PATH.fullmatch(wanted) and wanted.startswith(f"{root}/")
        try:
            provider = await self._open_provider()
            begun = await provider.create_authorization_url(self._callback(request))
        except Unaccepted as error:
            return self._refusal(request, str(error), 503)
        attempt = _Attempt(
            begun["state"],
            begun["nonce"],
            begun["code_verifier"],
            wanted if is_here else f"{root}/",
        )
        response = RedirectResponse(begun["url"], 303)
        value = base64.urlsafe_b64encode(msgspec.json.encode(attempt)).decode()
        name = _attempt_cookie(attempt.state)
        self._set_cookie(response, request, name, value, life_s=_ATTEMPT_S)
        return response

    async def _return(self, request: Request) -> Response:
        """Take what the provider sent back by the browser, and open a session."""
        name = _attempt_cookie(request.query_params.get("state", ""))
        status = 400
        try:
            attempt = self._attempt_of(request, name)
            claims, token = await self._claims(request, attempt)
            try:
                session = self._to_session(request, claims, token)
                if not self._user_of(session.user, session.tenant, session.groups).roles:
                    status = 403
                    await self._note_refusal(request, session)
                    raise Unaccepted(
                        f"The account {session.user[:80]} is known, but has no role here: ask the "
                        "people who run this site for one"
                    )
            except Unaccepted:
                await self._end_account(self._subject_of(claims))
                raise
            response = await self._open_session(request, session, attempt.next)
        except Unaccepted as error:
            response = self._refusal(request, str(error), status)
        response.delete_cookie(
            self._cookie(request, name), secure=self._is_secure(request), httponly=True
        )
        return response

    def _attempt_of(self, request: Request, name: str) -> _Attempt:
        given = request.query_params
        value = request.cookies.get(self._cookie(request, name), "")
        try:
            attempt = msgspec.json.decode(base64.urlsafe_b64decode(value), type=_Attempt)
        except ValueError:
            attempt = None
        if attempt is None or not hmac.compare_digest(
            attempt.state.encode(), given.get("state", "").encode()
        ):
            raise Unaccepted("This sign-in was not begun in this browser, or took too long")
        if not _PATH.fullmatch(attempt.next):
            raise Unaccepted("This sign-in leads to another site")
        if given.get("iss", self._issuer) != self._issuer:
            raise Unaccepted("The answer is of another sign-in provider")
        if "error" in given or not given.get("code"):
            raise Unaccepted(f"The provider did not sign you in: {given.get('error', '')[:80]}")
        return attempt

    async def _claims(
        self, request: Request, attempt: _Attempt
    ) -> tuple[dict[str, Any], Mapping[str, Any]]:
        """Return the verified claims of an account, and the tokens."""
        provider = await self._open_provider()
        only = {"essential": True, "value": self._issuer}
        audience = {"essential": True, "value": self._client[0]}
        try:
            token = await provider.fetch_access_token(
                self._callback(request),
                code=request.query_params["code"],
                code_verifier=attempt.verifier,
            )
            found = await provider.parse_id_token(
                token,
                attempt.nonce,
                claims_options={"iss": only, "aud": audience},
                leeway=_LEEWAY_S,
            )
            if found is None:
                raise ValueError("there is no identity token")
            claims = dict(found)
            needed = [self._roles_claim, self._user_claim, self._tenant_claim, "name"]
            needed += ["email_verified"] if self._user_claim == "email" else []
            if not all(_find(claims, name) for name in needed if name):
                claims = {**await self._more_claims(provider, token, claims["sub"]), **claims}
        except _FAULTS as error:
            logger.warning("a sign-in at %s was not accepted: %s", self._issuer, error)
            # Of an exception only its kind: the text may quote the provider.
            reason = getattr(error, "error", "") or type(error).__name__
            raise Unaccepted(f"The provider's answer is not accepted ({reason[:80]})") from None
        return claims, token

    async def _more_claims(
        self, provider: Any, token: Mapping[str, Any], subject: str
    ) -> dict[str, Any]:
        """Return the claims that the provider's userinfo adds."""
        if not provider.server_metadata.get("userinfo_endpoint") or "access_token" not in token:
            return {}
        found = dict(await provider.userinfo(token=token))
        if found.get("sub") != subject:
            raise ValueError("the userinfo is of another account")
        return found

    def _to_session(
        self, request: Request, claims: Mapping[str, Any], token: Mapping[str, Any]
    ) -> WebSession:
        user = _find(claims, self._user_claim)
        tenant = _find(claims, self._tenant_claim) if self._tenant_claim else ""
        verified = claims.get("email_verified")
        is_unproven = self._user_claim == "email" and verified is not True and verified != "true"
        for name, value in ((self._user_claim, user), (self._tenant_claim, tenant)):
            if name and (not isinstance(value, str) or not value):
                raise Unaccepted(f"The account has no {name[:80]}, which this site needs")
        if is_unproven:
            raise Unaccepted(
                "The provider does not say that the account's address is verified: verify it there"
            )
        given = _find(claims, self._roles_claim)
        groups = cast("list[object]", given) if isinstance(given, list) else []
        groups = [given] if isinstance(given, str) else groups
        now = SYSTEM_CLOCK.now().astimezone(UTC)
        return WebSession(
            # Replaced by what names the new session.
            id="-",
            user=str(user),
            tenant=str(tenant),
            name=str(claims.get("name") or claims.get("email") or "")[:_MOST_CHARS],
            groups=tuple(str(one)[:_MOST_CHARS] for one in groups[:_MOST_GROUPS]),
            subject=self._subject_of(claims),
            provider_session=str(claims.get("sid") or ""),
            id_token=str(token.get("id_token", "")),
            address=address_of(request),
            browser=request.headers.get("user-agent", "")[:_MOST_CHARS],
            started_at=now,
            seen_at=now,
            until=now + self._life,
        )

    def _subject_of(self, claims: Mapping[str, Any]) -> str:
        return f"{self._issuer} {claims['sub']}"

    async def _end_account(self, subject: str, unless: tuple[str, str] = ("", "")) -> None:
        """End the sessions of an account, except those with the user and tenant *unless*."""
        journal = needs_audit(await self._journal())
        for one in await journal.sessions(subject=subject):
            if (one.user, one.tenant) != unless:
                set_actor(Actor(one.user, one.tenant, "console", one.id, ""))
                await journal.end_sessions(row_of("end_session"), id=one.id)

    async def _note_refusal(self, request: Request, session: WebSession) -> None:
        set_actor(Actor(session.user, session.tenant, "console", "", address_of(request)))
        await add_act(await self._journal(), "refused", subject=session.subject)

    async def _open_session(self, request: Request, session: WebSession, next: str) -> Response:
        journal, now = needs_audit(await self._journal()), session.started_at
        # What the browser had before is void: nobody can hand it a session to sign in to.
        token, before = secrets.token_urlsafe(32), request.cookies.get(self._cookie(request), "")
        key = _digest(token)
        session = msgspec.structs.replace(session, id=key[:16])
        await self._end_account(session.subject, (session.user, session.tenant))
        actor = Actor(session.user, session.tenant, "console", session.id, session.address)
        set_actor(actor)
        if before and (old := await journal.session(_digest(before))) is not None:
            await journal.end_sessions(row_of("end_session", user=old.user), id=old.id)
        await journal.drop_sessions(unseen_since=now - self._idle, now=now)
        await journal.open_session(key, session)
        response = RedirectResponse(next, 303)
        life_s = int(self._life.total_seconds())
        self._set_cookie(response, request, "upshot-session", token, life_s=life_s)
        return response

    def _refusal(self, request: Request, sentence: str, status: int) -> Response:
        base = request.scope.get("root_path", "")
        page = _PAGE.format(
            base=html.escape(base), title="Not signed in", sentence=html.escape(f"{sentence}.")
        )
        return HTMLResponse(page, status, {"cache-control": "no-store"})

    # -- signing out

    async def _sign_out(self, request: Request, user: User) -> object:
        """End the session; the reply says where the browser goes to sign out at the provider."""
        session = await self._session_of(request)
        if session is None:
            raise Refused("this request has no session to sign out of")
        await needs_audit(await self._journal()).end_sessions(row_of("sign_out"), id=session.id)
        place = ""
        try:
            provider = await self._open_provider()
            if provider.server_metadata.get("end_session_endpoint"):
                made = await provider.create_logout_url(
                    f"{self._base(request)}/", session.id_token or None, client_id=self._client[0]
                )
                place = made["url"]
        except Unaccepted:
            # The session here is over in any case.
            logger.warning("%s signed out here, not at the provider", user.id)
        response = to_json(replies.SignedOut(to=place))
        response.delete_cookie(
            self._cookie(request), secure=self._is_secure(request), httponly=True
        )
        return response

    async def _end_by_provider(self, request: Request) -> Response:
        """End the sessions that a logout token of the provider names."""
        try:
            async with request.form() as form:
                claims = await self._logout_claims(str(form.get("logout_token", "")))
            if not (claims.get("sub") or claims.get("sid")):
                raise ValueError("it names neither an account nor a session")
        except (Unaccepted, *_FAULTS) as error:
            logger.warning("a logout of %s was not accepted: %s", self._issuer, error)
            return Response(status_code=400, headers={"cache-control": "no-store"})
        set_actor(Actor("", "", "provider", "", address_of(request)))
        subject = self._subject_of(claims) if claims.get("sub") else ""
        await needs_audit(await self._journal()).end_sessions(
            row_of("end_session", user="the provider"),
            subject=subject,
            provider_session=str(claims.get("sid") or ""),
        )
        return Response(status_code=200, headers={"cache-control": "no-store"})

    async def _logout_claims(self, token: str) -> Mapping[str, Any]:
        provider = await self._open_provider()
        algorithms = provider.server_metadata["id_token_signing_alg_values_supported"]
        registry = JWSRegistry(algorithms=algorithms, strict_check_header=False)
        try:
            keys = KeySet.import_key_set(await provider.fetch_jwk_set())
            read = jwt.decode(token, keys, registry=registry)
        except InvalidKeyIdError:
            keys = KeySet.import_key_set(await provider.fetch_jwk_set(force=True))
            read = jwt.decode(token, keys, registry=registry)
        jwt.JWTClaimsRegistry(
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": self._client[0]},
            iat={"essential": True},
            exp={"essential": True},
        ).validate(read.claims)
        events = read.claims.get("events")
        # An identity token has a nonce, and could otherwise pass for this.
        if not isinstance(events, dict) or _LOGOUT not in events or "nonce" in read.claims:
            raise ValueError("it is not a logout token")
        return read.claims


def _attempt_cookie(state: str) -> str:
    return f"upshot-sign-in-{hashlib.sha256(state.encode()).hexdigest()[:12]}"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _find(claims: Mapping[str, Any], name: str) -> object:
    """Return a claim; dots lead into objects, unless a claim has that whole name."""
    found: object = claims.get(name)
    if found is None and "." in name:
        found = claims
        for part in name.split("."):
            found = cast("dict[str, object]", found).get(part) if isinstance(found, dict) else None
    return found

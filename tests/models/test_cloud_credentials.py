"""Signed requests to Bedrock, tokens for Vertex AI, and where both credentials come from."""

import asyncio
import hashlib
import hmac
import json
import os
import re
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from subprocess import PIPE
from threading import Event
from urllib.parse import quote, urlsplit

import pytest
from aiohttp import web

from tests.processes import launched
from tests.wire.frames import chunk, frame
from upshot.contract import TextDelta
from upshot.errors import Misuse
from upshot.models import missing_key, resolve

botocore_credentials = pytest.importorskip("botocore.credentials", reason="the extra bedrock")
google_credentials = pytest.importorskip("google.oauth2.credentials", reason="the extra vertex")

SECRET, SESSION = "a-very-secret-key", "a-very-secret-session"
AWS = botocore_credentials.Credentials("AKID", SECRET, SESSION)
CLAUDE = "anthropic.claude-sonnet-4-5-20250929-v1:0"
ADDRESS = f"https://bedrock-runtime.eu-west-1.amazonaws.com/model/{CLAUDE}"
HELLO = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Hello."}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5},
}
STREAM = b"".join(
    [
        frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hel"}}),
        frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "lo."}}),
        frame("messageStop", {"stopReason": "end_turn"}),
        frame("metadata", {"usage": HELLO["usage"]}),
    ]
)


class Wire:
    """A transport that notes what is sent, and answers each request alike."""

    def __init__(self, document=HELLO, *, status=200, form="application/json"):
        self.data = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.status, self.form, self.sent = status, form, []

    @asynccontextmanager
    async def send(self, method, url, headers, body, *, timeouts):
        self.sent.append((url, dict(headers), body))

        async def pieces():
            yield self.data

        yield self.status, [("content-type", self.form)], pieces()


def expected_signature(path, query, headers, body, *, region, secret=SECRET):
    """Signature Version 4, written after the documentation and not after any library."""
    signed = re.search(r"SignedHeaders=([^,]+)", headers["authorization"])[1]
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in signed.split(";"))
    canonical = "\n".join(
        ["POST", quote(path, safe="/~"), query, lines, signed, hashlib.sha256(body).hexdigest()]
    )
    moment = headers["x-amz-date"]
    scope = f"{moment[:8]}/{region}/bedrock/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, digest])
    key = f"AWS4{secret}".encode()
    for piece in scope.split("/"):
        key = hmac.new(key, piece.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def signature(headers):
    return re.search(r"Signature=(\w+)", headers["authorization"])[1]


@pytest.mark.parametrize(
    "model",
    [CLAUDE, "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.a.b:0", "a b~c"],
    ids=["id", "arn", "odd"],
)
async def test_the_server_receives_what_was_signed(serve, http_reply, monkeypatch, model):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    async with serve(http_reply(HELLO)) as server:
        response = await resolve(
            f"bedrock:{model}", base_url=server.url, credentials=AWS, headers={"x-mine": "a  b"}
        ).call("hi")
    assert (response.content, response.usage.total_tokens) == ("Hello.", 5)
    (asked,) = server.asked
    path = asked.line.split()[1]
    assert path == f"/model/{quote(model, safe=':')}/converse"
    assert asked.headers["x-amz-security-token"] == SESSION
    wanted = expected_signature(path, "", asked.headers, asked.body, region="eu-west-1")
    assert signature(asked.headers) == wanted


async def test_a_stream_has_its_own_address_and_signature():
    wire = Wire(STREAM, form="application/vnd.amazon.eventstream")
    model = resolve(
        f"bedrock:{CLAUDE}", transport=wire, credentials=AWS, base_url=ADDRESS.partition("/m")[0]
    )
    *items, response = [item async for item in model.stream("hi")]
    deltas = [item.text for item in items if isinstance(item, TextDelta)]
    assert (deltas, response.content) == (["Hel", "lo."], "Hello.")
    ((url, headers, body),) = wire.sent
    assert url == f"{ADDRESS}/converse-stream"
    parts = urlsplit(url)
    headers = {**headers, "host": parts.netloc}
    wanted = expected_signature(parts.path, "", headers, body, region="eu-west-1")
    assert signature(headers) == wanted


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
async def test_invoke_sends_the_body_of_messages_without_model_and_stream(monkeypatch, streamed):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    text = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "Hi"},
    }
    begin = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    said = chunk(begin) + chunk(text) + chunk({"type": "message_stop"})
    plain = {"type": "message", "content": [{"type": "text", "text": "Hi"}], "usage": {}}
    wire = Wire(said, form="application/vnd.amazon.eventstream") if streamed else Wire(plain)
    model = resolve(f"bedrock-invoke:{CLAUDE}", transport=wire, api_key="key")
    if streamed:
        *_, response = [item async for item in model.stream("hi")]
    else:
        response = await model.call("hi")
    assert (model.name, response.content) == (f"bedrock-invoke:{CLAUDE}", "Hi")
    ((url, headers, body),) = wire.sent
    assert url == f"{ADDRESS}/invoke{'-with-response-stream' if streamed else ''}"
    assert headers["authorization"] == "Bearer key"
    fields = json.loads(body)
    assert fields["anthropic_version"] == "bedrock-2023-05-31"
    assert fields.keys() == {"anthropic_version", "max_tokens", "messages"}


async def test_a_bearer_token_of_the_environment_needs_no_library(monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "token")
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    wire = Wire()
    assert (await resolve(f"bedrock:{CLAUDE}", transport=wire).call("hi")).success
    assert wire.sent[0][0] == f"{ADDRESS}/converse"
    assert wire.sent[0][1]["authorization"] == "Bearer token"


@pytest.mark.parametrize("given", ["environment", "profile", "session"])
async def test_credentials_and_region_are_found(monkeypatch, tmp_path, given):
    (tmp_path / "config").write_text(
        "[profile work]\nregion = eu-west-1\naws_access_key_id = WORK\n"
        f"aws_secret_access_key = {SECRET}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    options = {}
    if given == "environment":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "WORK")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
    elif given == "profile":
        monkeypatch.setenv("AWS_PROFILE", "work")
    else:
        from botocore.session import Session

        options["credentials"] = Session(profile="work")
    wire = Wire()
    model = resolve(f"bedrock:{CLAUDE}", transport=wire, **options)
    assert missing_key(model) is None
    assert (await model.call("hi")).success
    ((url, headers, _),) = wire.sent
    assert url == f"{ADDRESS}/converse"
    assert "Credential=WORK/" in headers["authorization"]
    assert "/eu-west-1/bedrock/aws4_request" in headers["authorization"]


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"AWS_EC2_METADATA_DISABLED": "true"}, "no AWS credentials were found"),
        ({"AWS_PROFILE": "none-such"}, "could not be loaded: ProfileNotFound"),
        ({"AWS_BEARER_TOKEN_BEDROCK": "t"}, "bedrock needs a region: set AWS_REGION, or pass"),
    ],
)
async def test_what_is_missing_is_said_as_a_value(monkeypatch, tmp_path, variables, said):
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    response = await resolve(f"bedrock:{CLAUDE}", transport=Wire()).call("hi")
    assert said in response.error.message
    assert (response.error.origin, response.error.retryable) == ("caller", False)


async def test_without_the_library_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    monkeypatch.setitem(sys.modules, "google.auth", None)
    error = (await resolve(f"bedrock:{CLAUDE}").call("hi")).error
    assert "upshot-agents[bedrock]" in error.message
    error = (await resolve("vertex:gemini-3-pro").call("hi")).error
    assert "upshot-agents[vertex]" in error.message


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("InvalidSignatureException", "Signature expired: 20260101T000000Z is now earlier than"),
        ("InvalidSignatureException", "Signature not yet current: 20270101T000000Z is still later"),
        ("RequestExpired", "Request has expired."),
        ("SignatureDoesNotMatch", f"The Canonical String has {SESSION} in it."),
        ("ExpiredTokenException", "The security token included in the request is expired"),
        ("UnrecognizedClientException", "The security token included in the request is invalid."),
    ],
)
async def test_a_refused_signature_is_an_auth_error_that_shows_no_secret(
    monkeypatch, kind, message
):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    wire = Wire({"__type": kind, "message": message}, status=403)
    error = (await resolve(f"bedrock:{CLAUDE}", transport=wire, credentials=AWS).call("hi")).error
    assert (error.code, error.retryable) == ("auth_error", False)
    assert "the clock of this machine" in error.message
    assert SESSION not in error.message


class Slow:
    """Credentials whose refresh ends when a test says so; they expire at once."""

    def __init__(self):
        self.go, self.refreshes, self.frozen = Event(), 0, AWS.get_frozen_credentials()

    def refresh_needed(self):
        return self.refreshes == 0

    def get_frozen_credentials(self):
        assert self.go.wait(30)
        self.refreshes += 1
        return self.frozen


async def test_requests_wait_for_one_refresh_which_does_not_block_the_loop(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    slow, wire = Slow(), Wire()
    model = resolve(f"bedrock:{CLAUDE}", transport=wire, credentials=slow)
    calls = [asyncio.ensure_future(model.call("hi")) for _ in range(50)]
    for _ in range(20):
        await asyncio.sleep(0)
    # The loop runs on; one of the callers gives up, and takes nothing from the others.
    calls.pop().cancel()
    assert not any(call.done() for call in calls[:-1])
    slow.go.set()
    assert all(response.success for response in await asyncio.gather(*calls))
    assert (slow.refreshes, len(wire.sent)) == (1, 49)


async def test_credentials_that_expire_are_refreshed_for_the_next_request(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    issued = iter(["FIRST", "SECOND"])

    def renew():
        expiry = datetime.now(UTC) + timedelta(minutes=1)
        return {
            "access_key": next(issued),
            "secret_key": SECRET,
            "token": SESSION,
            "expiry_time": expiry.isoformat(),
        }

    assumed = botocore_credentials.RefreshableCredentials.create_from_metadata(
        renew(), refresh_using=renew, method="assume-role"
    )
    wire = Wire()
    model = resolve(f"bedrock:{CLAUDE}", transport=wire, credentials=assumed)
    assert (await model.call("hi")).success
    assert "Credential=SECOND/" in wire.sent[0][1]["authorization"]


@pytest.mark.parametrize(
    ("name", "given"),
    [("bedrock:m", "AKID"), ("vertex:m", AWS), ("openai:m", AWS), ("litellm:m", AWS)],
)
def test_credentials_of_another_make_are_misuse(name, given):
    with pytest.raises(Misuse, match=r"credentials"):
        resolve(name, credentials=given)


class Token(google_credentials.Credentials):
    """Credentials of google-auth that are refreshed without a network."""

    refreshes = 0

    def __init__(self):
        super().__init__(None, quota_project_id="payer")

    def refresh(self, request):
        self.refreshes += 1
        self.token = f"token-{self.refreshes}"
        self.expiry = datetime.now(UTC).replace(tzinfo=None) + timedelta(hours=1)


ANSWER = {"candidates": [{"content": {"parts": [{"text": "Hello."}]}, "finishReason": "STOP"}]}


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("", "https://aiplatform.googleapis.com/v1/projects/p-1/locations/global"),
        ("us", "https://aiplatform.us.rep.googleapis.com/v1/projects/p-1/locations/us"),
        (
            "europe-west4",
            "https://europe-west4-aiplatform.googleapis.com/v1/projects/p-1/locations/europe-west4",
        ),
    ],
)
async def test_vertex_needs_no_address(monkeypatch, location, address):
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p-1")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", location)
    wire, token = Wire(ANSWER), Token()
    model = resolve("vertex:gemini-3-pro", transport=wire, credentials=token)
    assert [(await model.call("hi")).content for _ in range(2)] == ["Hello."] * 2
    url, headers, _ = wire.sent[-1]
    assert url == f"{address}/publishers/google/models/gemini-3-pro:generateContent"
    assert (headers["authorization"], token.refreshes) == ("Bearer token-1", 1)
    assert headers["x-goog-user-project"] == "payer"


async def test_vertex_reads_a_service_account(monkeypatch, tmp_path, serve, http_reply):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    token = {"access_token": "issued", "expires_in": 3600, "token_type": "Bearer"}
    async with serve(http_reply(token)) as server:
        account = {
            "type": "service_account",
            "project_id": "p-2",
            "private_key": pem.decode(),
            "client_email": "me@p-2.iam.gserviceaccount.com",
            "token_uri": f"{server.url}/token",
        }
        (tmp_path / "account.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
        wire = Wire(ANSWER)
        assert (await resolve("vertex:gemini-3-pro", transport=wire).call("hi")).success
    url, headers, _ = wire.sent[0]
    assert "/projects/p-2/locations/global/" in url
    assert headers["authorization"] == "Bearer issued"
    assert b"grant_type=urn" in server.asked[0].body


ON_A_MACHINE = """
import asyncio
from contextlib import asynccontextmanager
from upshot import resolve

class Wire:
    @asynccontextmanager
    async def send(self, method, url, headers, body, *, timeouts):
        print(headers["authorization"], url)
        async def pieces():
            yield b"{}"
        yield 200, [], pieces()

asyncio.run(resolve("vertex:gemini-3-pro", transport=Wire()).call("hi"))
"""


async def test_vertex_reads_the_token_of_the_machine(tmp_path):
    async def metadata(request):
        known = {
            "/computeMetadata/v1/project/project-id": "p-3",
            "/computeMetadata/v1/universe/universe-domain": "googleapis.com",
        }
        headers = {"Metadata-Flavor": "Google"}
        if request.path in known:
            return web.Response(text=known[request.path], headers=headers)
        account = {"email": "me@p-3.example", "scopes": [], "aliases": ["default"]}
        token = {"access_token": "of-the-machine", "expires_in": 3600, "token_type": "Bearer"}
        found = token if request.path.endswith("/token") else account
        return web.json_response(found, headers=headers)

    app = web.Application()
    app.router.add_get("/{path:.*}", metadata)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host = f"127.0.0.1:{runner.addresses[0][1]}"
    names = {"GCE_METADATA_HOST": host, "GCE_METADATA_IP": host, "CLOUDSDK_CONFIG": str(tmp_path)}
    left_out = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "NO_GCE_CHECK")
    env = {name: value for name, value in os.environ.items() if name not in left_out}
    try:
        # Its library reads these variables when it is imported.
        process = await asyncio.create_subprocess_exec(
            *launched("-c", ON_A_MACHINE), env={**env, **names}, stdout=PIPE
        )
        out, _ = await process.communicate()
    finally:
        await runner.cleanup()
    key, url = out.decode().split(" https")
    assert key == "Bearer of-the-machine"
    assert "/projects/p-3/locations/global/" in url


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
async def test_claude_on_vertex_is_asked_by_its_publisher(monkeypatch, streamed):
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p-1")
    wire = Wire({"type": "message", "content": [{"type": "text", "text": "Hi"}]})
    model = resolve("vertex-messages:claude-sonnet-4-5@20250929", transport=wire, api_key="t")
    if streamed:
        *_, response = [item async for item in model.stream("hi")]
    else:
        response = await model.call("hi")
    assert response.content == "Hi"
    ((url, headers, body),) = wire.sent
    method = "streamRawPredict" if streamed else "rawPredict"
    folder = "https://aiplatform.googleapis.com/v1/projects/p-1/locations/global/publishers"
    assert url == f"{folder}/anthropic/models/claude-sonnet-4-5@20250929:{method}"
    assert headers["authorization"] == "Bearer t"
    fields = json.loads(body)
    assert (fields["anthropic_version"], fields.get("stream")) == (
        "vertex-2023-10-16",
        True if streamed else None,
    )
    assert "model" not in fields

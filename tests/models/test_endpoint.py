"""Where a request goes, and with which key, where the environment says a part of it."""

import pytest

from upshot.models import PROVIDERS, Endpoint, missing_key, resolve

AZURE = "https://mine.openai.azure.com"


@pytest.mark.parametrize("said", [AZURE, f"{AZURE}/", f" {AZURE}/openai/v1/\n"])
@pytest.mark.parametrize(
    ("name", "path"), [("azure", "chat/completions"), ("azure-responses", "responses")]
)
async def test_azures_address_is_read_from_the_environment(monkeypatch, said, name, path):
    model = resolve(f"{name}:gpt-5", api_key="k")
    assert missing_key(model) == "AZURE_OPENAI_ENDPOINT"
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", said)
    assert missing_key(model) is None
    assert model.endpoint.url_of("gpt-5", stream=False) == f"{AZURE}/openai/v1/{path}"
    assert (await model.endpoint.headers())["api-key"] == "k"


@pytest.mark.parametrize("said", [None, "", "mine.openai.azure.com", "ftp://x"])
async def test_without_its_address_a_call_of_azure_is_an_error_that_names_it(monkeypatch, said):
    if said is not None:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", said)
    error = (await resolve("azure:gpt-5", api_key="k").call("hi")).error
    assert "set AZURE_OPENAI_ENDPOINT, or pass base_url=, such as https://NAME" in error.message
    assert error.details["variable"] == "AZURE_OPENAI_ENDPOINT"
    assert (error.code, error.origin) == ("invalid_request", "caller")


async def test_a_function_of_azure_returns_a_token_that_is_sent_as_one():
    identity = pytest.importorskip("azure.identity", reason="the token function of azure-identity")

    class Credential:
        def get_token(self, *scopes, **options):
            return identity_token

    from azure.core.credentials import AccessToken

    identity_token = AccessToken("entra-token", 2**40)
    scope = "https://cognitiveservices.azure.com/.default"
    function = identity.get_bearer_token_provider(Credential(), scope)
    endpoint = Endpoint(PROVIDERS["azure"], base_url=f"{AZURE}/openai/v1", api_key=function)
    headers = await endpoint.headers()
    assert headers["authorization"] == "Bearer entra-token"
    assert "api-key" not in headers


async def test_a_place_of_an_odd_form_is_no_part_of_an_address(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "x.example/?")
    endpoint = Endpoint(PROVIDERS["bedrock"], api_key="k")
    assert "needs a region" in (await endpoint.headers()).message
    assert missing_key(resolve("bedrock:m")) is None


def test_a_repr_names_an_unknown_part():
    assert "{region}" in repr(Endpoint(PROVIDERS["bedrock"]))

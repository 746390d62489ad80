"""resolve: from a name to a model."""

import pytest

from upshot.errors import Misuse
from upshot.models import PROVIDERS, Endpoint, ScriptedModel, missing_key, resolve


@pytest.mark.parametrize(
    "provider", [name for name in PROVIDERS if "{" not in PROVIDERS[name].base_url]
)
def test_every_provider_has_an_address(provider):
    model = resolve(f"{provider}:some/model:7b")
    assert model.name == f"{provider}:some/model:7b"
    url = model.endpoint.url_of("some/model:7b", stream=False)
    assert url.startswith(PROVIDERS[provider].base_url + "/")


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1/chat/completions"),
        ("http://localhost:8000/", "http://localhost:8000/v1/chat/completions"),
        ("https://host/openai/v1/", "https://host/openai/v1/chat/completions"),
        ("https://host/v1/chat/completions", "https://host/v1/chat/completions"),
        ("https://host/v1?api-version=2", "https://host/v1/chat/completions?api-version=2"),
    ],
)
def test_a_base_url_is_what_stands_before_the_path(base_url, url):
    assert Endpoint(PROVIDERS["openai"], base_url=base_url).url == url


@pytest.mark.parametrize(
    ("base_url", "model", "stream", "url"),
    [
        (None, "g-1", False, "https://generativelanguage.googleapis.com/v1beta/models/g-1:generateContent"),
        ("http://host", "g-1", True, "http://host/v1beta/models/g-1:streamGenerateContent?alt=sse"),
        ("http://host/v1/", "g-1", False, "http://host/v1/models/g-1:generateContent"),
        ("http://host/v1?a=b", "g-1", True, "http://host/v1/models/g-1:streamGenerateContent?a=b&alt=sse"),
        ("http://host/v1", "tunedModels/x", False, "http://host/v1/tunedModels/x:generateContent"),
        ("http://host/v1", "a:b?c", False, "http://host/v1/models/a%3Ab%3Fc:generateContent"),
    ],
)  # fmt: skip
def test_geminis_address_names_the_model_and_the_method(base_url, model, stream, url):
    endpoint = Endpoint(PROVIDERS["google"], base_url=base_url)
    assert endpoint.url_of(model, stream=stream) == url


@pytest.mark.parametrize(
    ("name", "full", "path"),
    [
        ("openai:m", "openai:m", "/v1/chat/completions"),
        ("openai-responses:m", "openai-responses:m", "/v1/responses"),
        ("openai-chat:m", "openai:m", "/v1/chat/completions"),
        ("Gemini:m", "google:m", "/v1beta"),
        ("anthropic-messages:m", "anthropic:m", "/v1/messages"),
    ],
)
def test_a_name_may_say_the_surface(name, full, path):
    model = resolve(name, base_url="http://host")
    assert (model.name, model.endpoint.url) == (full, f"http://host{path}")


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "localhost:8000",
        "ftp://me:a-secret@host/v1?token=a-secret",
        "http://",
        "http://[::1",
        "http://host:a-secret",
        "http://me:a-secret/x@host",
        "http://host:70000",
    ],
)
def test_a_base_url_that_is_no_address_is_misuse(base_url):
    with pytest.raises(Misuse, match="http://localhost:8000/v1") as caught:
        resolve("openai:m", base_url=base_url)
    assert "token" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("gpt-5", 'such as "openai:gpt-5"'),
        ("openai:", "names no model of openai"),
        ("opnai:gpt-5", "did you mean openai:gpt-5"),
        ("nowhere-at-all:x", "base_url="),
        ("scripted:", "needs a script"),
        ("groq-messages:x", "there is no provider"),
        ("openai-nothing:x", "did you mean openai"),
    ],
)
def test_a_name_that_names_nothing_is_misuse(name, match):
    with pytest.raises(Misuse, match=match):
        resolve(name)


def test_a_setting_that_is_none_is_misuse():
    with pytest.raises(Misuse, match="did you mean 'temperature'"):
        resolve("openai:m", temprature=1)


async def test_scripted_plays_a_script():
    assert (await resolve('scripted:["hello"]').call("hi")).content == "hello"


def test_openers_add_providers_and_are_asked_first():
    made = ScriptedModel([])
    asked = []
    opened = resolve("sim:FILE:x", openers={"sim": lambda rest: asked.append(rest) or made})
    assert (opened, asked) == (made, ["FILE:x"])


@pytest.mark.parametrize(
    ("name", "options", "missing"),
    [
        ("openai:m", {}, "OPENAI_API_KEY"),
        ("openai:m", {"api_key": "k"}, None),
        ("openai:m", {"api_key": lambda: "k"}, None),
        ("openai:m", {"base_url": "http://127.0.0.1:1"}, None),
        ("openai:m", {"base_url": "http://sim.localhost:1"}, None),
        ("openai:m", {"base_url": "https://elsewhere.example"}, "OPENAI_API_KEY"),
        ("anthropic:m", {"api_key": ""}, "ANTHROPIC_API_KEY"),
        ("ollama:m", {}, None),
        ('scripted:["x"]', {}, None),
    ],
)
def test_missing_key_names_the_variable_that_has_to_be_set(name, options, missing):
    assert missing_key(resolve(name, **options)) == missing


def test_a_key_of_the_environment_is_found_when_it_is_needed(monkeypatch):
    model = resolve("groq:m")
    assert missing_key(model) == "GROQ_API_KEY"
    monkeypatch.setenv("GROQ_API_KEY", " k\n")
    assert missing_key(model) is None


def test_a_key_may_have_another_variable(monkeypatch):
    model = resolve("google:m")
    assert missing_key(model) == "GEMINI_API_KEY"
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    assert missing_key(model) is None

"""Chat completions as objects, as libraries give them; nothing of any library is needed."""

import json
from types import SimpleNamespace


def to_object(value):
    """Attributes for keys, all the way down."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: to_object(item) for name, item in value.items()})
    return [to_object(item) for item in value] if isinstance(value, list) else value


class Dumped:
    """An object that gives its JSON as a pydantic model does."""

    def __init__(self, document, **attributes):
        self.document = document
        vars(self).update(vars(to_object(document)), **attributes)

    def model_dump(self, *, mode="python"):
        assert mode == "json"
        return json.loads(json.dumps(self.document))


USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def completion(content="hello", *, usage=USAGE, finish="stop", hidden=None, **message):
    said = {"role": "assistant", "content": content, **message}
    choices = [{"index": 0, "message": said, "finish_reason": finish}]
    document = {"id": "r-1", "model": "gpt-4o", "choices": choices, "usage": usage}
    return Dumped(document, _hidden_params=hidden or {})


def chunk(content=None, *, finish=None, usage=None, **delta):
    choices = [{"index": 0, "delta": {"content": content, **delta}, "finish_reason": finish}]
    document = {"id": "r-1", "model": "gpt-4o", "choices": choices}
    return Dumped(document | ({"usage": usage} if usage else {}))


class Stream:
    """Chunks that come one by one, and then maybe a failure."""

    def __init__(self, *items, hidden=None):
        self.items = items
        self.closed = False
        self._hidden_params = hidden or {}

    async def __aiter__(self):
        for item in self.items:
            if isinstance(item, Exception):
                raise item
            yield item

    async def aclose(self):
        self.closed = True

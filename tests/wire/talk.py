"""What the encoder tests share: a body as JSON, and messages of every make."""

import json

from hypothesis import strategies as st

from upshot.contract import (
    Audio,
    Data,
    File,
    Image,
    Message,
    ModelSettings,
    Reasoning,
    Text,
    ToolCall,
)


def body_of(encoder, **more):
    """The body of a request with *encoder*, decoded."""
    asked = {
        "model": "m",
        "system": None,
        "tools": (),
        "output_schema": None,
        "settings": ModelSettings(),
        "stream": False,
        **more,
    }
    return json.loads(encoder.body(**asked))


texts = st.text(st.characters(), max_size=5)
data = st.none() | st.binary(max_size=4)
parts = st.one_of(
    st.builds(Text, texts),
    st.builds(Image, url=texts, data=data),
    st.builds(File, url=texts, data=data, name=texts, id=texts),
    st.builds(Audio, url=texts, data=data, transcript=texts),
    st.builds(Data, st.dictionaries(texts, st.integers() | st.floats())),
    st.builds(Reasoning, text=texts, signature=st.none() | texts, redacted=st.booleans()),
)
calls = st.builds(ToolCall, texts, texts, texts | st.dictionaries(texts, st.floats()))
messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    texts | st.lists(parts, max_size=3).map(tuple),
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    tool_call_id=st.none() | texts,
)

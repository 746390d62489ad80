"""ModelContract: what every model must do."""

from __future__ import annotations

import asyncio

from ..contract import Message, Model, ModelRequest, ModelResponse, TextDelta

__all__ = ["ModelContract"]


class ModelContract:
    """A suite for pytest: inherit, and give a ``make`` that returns a model.

    Attributes:
        prompt: A text that the model answers with a text.
    """

    prompt: str = "Hello"

    def make(self) -> Model:
        """A model that answers ``prompt`` at least once."""
        raise NotImplementedError("a ModelContract gives the model in make()")

    def test_its_name_says_provider_and_model(self) -> None:
        """For logs and prices."""
        provider, _, name = self.make().name.partition(":")
        assert provider and name

    def test_it_answers_a_text(self) -> None:
        """Without an error, and with something to read."""
        _check(asyncio.run(self.make().call(self.prompt)))

    def test_it_answers_messages(self) -> None:
        """A sequence of them is as good as a text."""
        _check(asyncio.run(self.make().call([Message("user", self.prompt)])))

    def test_it_answers_a_request(self) -> None:
        """And so is a whole request."""
        request = ModelRequest(messages=(Message("user", self.prompt),))
        _check(asyncio.run(self.make().call(request)))

    def test_a_stream_ends_in_its_response(self) -> None:
        """The response comes last and once; the deltas before it are its text."""

        async def read() -> list[object]:
            return [item async for item in self.make().stream(self.prompt)]

        *deltas, last = asyncio.run(read())
        assert isinstance(last, ModelResponse)
        assert not [item for item in deltas if isinstance(item, ModelResponse)]
        told = "".join(item.text for item in deltas if isinstance(item, TextDelta))
        assert told == (last.content or "")

    def test_a_cancel_is_not_swallowed(self) -> None:
        """Who takes the call back while it waits gets no answer."""

        async def cancel() -> bool:
            task = asyncio.ensure_future(self.make().call(self.prompt))
            # Into its body: a task that has not begun is cancelled whatever the model does.
            await asyncio.sleep(0)
            if not task.cancel():
                return True
            await asyncio.wait((task,))
            return task.cancelled()

        assert asyncio.run(cancel())


def _check(response: ModelResponse) -> None:
    assert response.error is None, response.error
    assert response.content

"""Each provider's form of batches, whatever the provider answers."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.absurd import documents, to_bytes
from upshot.wire.batch_forms import FORMS
from upshot.wire.batches import BatchAnswer, BatchResult, BatchTarget, to_late_result

KEYS = (
    "id batch_id name status processing_status state metadata displayName key job data has_more "
    "last_id nextPageToken pagination_token operations batchPredictionJobs batches results "
    "custom_id batch_request_id batch_result result type response body status_code error message "
    "code choices output_file_id error_file_id output_file error_file errors num_requests "
    "num_pending num_cancelled expire_time cancel_by_xai_message inlinedResponses output done "
    "outputInfo gcsOutputDirectory items outputDatasetId filenameToSignedUrls input_file_id "
    "filename total"
)
WORDS = (
    "completed COMPLETED failed ended SUCCESS JOB_STATE_SUCCEEDED JOB_STATE_COMPLETED "
    "BATCH_STATE_SUCCEEDED expired cancelled running k upshot-k 2001-01-01T00:00:00Z x.jsonl "
    "gs://b/o succeeded errored Bad: {}"
)
NOW = datetime(2026, 11, 29, tzinfo=UTC)
ANSWERS = st.tuples(st.sampled_from([200, 404, 409]), documents(KEYS, WORDS).map(to_bytes))
TARGETS = {"anthropic": "messages", "google": "generate", "vertex": "generate"}


def form_of(provider):
    base = "https://h.example/v1/projects/p/publishers/google"
    surface = TARGETS.get(provider, "chat")
    return FORMS[provider](BatchTarget(lambda path: base + path, surface, "m", "gs://b/f"))


def converse(calls, answers):
    """Play the dialogue; answers run out, as those of an endless list would not."""
    sent = []
    try:
        sent.append(next(calls))
        for status, body in answers:
            sent.append(calls.send(BatchAnswer(status, body)))
    except StopIteration as end:
        return end.value, sent
    return None, sent


@pytest.mark.parametrize("provider", FORMS)
@given(st.lists(ANSWERS | st.tuples(st.just(200), st.binary(max_size=9)), max_size=7))
def test_no_answer_makes_a_form_raise(provider, answers):
    form = form_of(provider)
    for calls, kind in (
        (form.submit("k", b'{"model":"m","messages":[]}'), str),
        (form.poll("b-1", "k", NOW), BatchResult),
        (form.find("k"), str),
    ):
        value, sent = converse(calls, answers)
        assert value is None or isinstance(value, kind)
        assert all(call.url.startswith("http") or call.is_open for call in sent)


@pytest.mark.parametrize("provider", sorted({"openai", "google", "xai"}))
def test_a_list_that_never_ends_is_not_read_for_ever(provider):
    page = {"data": [{"id": "b"}], "has_more": True, "last_id": "b", "operations": [{}]}
    page |= {"batches": [{}], "nextPageToken": "n", "pagination_token": "n"}
    value, sent = converse(form_of(provider).find("k"), [(200, to_bytes(page))] * 100)
    assert (value, len(sent)) == (None, 20)
    assert sent[1].url != sent[0].url


@pytest.mark.parametrize("said", ["", "soon", None, 5, "2001-01-01", "2030-01-01T00:00:00Z"])
def test_a_batch_without_a_past_time_is_not_late(said):
    assert to_late_result(said, NOW) is None


def test_a_batch_past_its_time_is_late():
    assert to_late_result("2001-01-01T00:00:00Z", NOW).error.code == "timeout"

"""The form of each provider's batches, and the table of the providers that have any.

- OpenAI's batches, whose requests and results are files of lines, and those who follow it.
- Mistral's and xAI's, which have such files and other words.
- Anthropic's, OpenRouter's and the Gemini API's, whose requests are part of the batch.
- Fireworks', whose files are data sets of an account, and Vertex AI's, whose files, for Gemini and
  for Claude, are in Cloud Storage.

Source:
    https://platform.openai.com/docs/guides/batch, and those who follow it:
    https://console.groq.com/docs/batch,
    https://learn.microsoft.com/azure/foundry/openai/how-to/batch,
    https://www.alibabacloud.com/help/en/model-studio/openai-compatible-batch-file-input,
    https://platform.kimi.ai/docs/guide/use-batch-inference,
    https://inference-docs.cerebras.ai/api-reference/batch/create-batch and
    https://docs.together.ai/docs/inference/batch/tutorial;
    https://docs.mistral.ai/studio-api/batch-processing;
    https://docs.x.ai/developers/advanced-api-usage/batch-api;
    https://platform.claude.com/docs/en/build-with-claude/batch-processing;
    https://openrouter.ai/docs/batch-quickstart;
    https://ai.google.dev/gemini-api/docs/batch-api and https://ai.google.dev/api/batch-api;
    https://docs.fireworks.ai/guides/batch-inference;
    https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/batch-prediction-from-cloud-storage,
    https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/batch and
    https://cloud.google.com/storage/docs/json_api; read November 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import ClassVar, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from upshot.contract.base.enums import ErrorCode
from upshot.contract.base.structs import JsonObject
from upshot.wire.batches import (
    BatchAnswer,
    BatchCall,
    BatchCalls,
    BatchForm,
    BatchResult,
    batch_error,
    has_ended,
    read_line,
    read_results,
    read_word,
    search,
    to_error,
    to_late_result,
)
from upshot.wire.decoding import (
    as_count,
    as_list,
    as_object,
    as_text,
    encode_json,
    parse_object,
)
from upshot.wire.encoding import encode_wire

_BOUNDARY: Final = "upshot-batch"
_PATHS: Final = {"chat": "/chat/completions", "responses": "/responses"}
_STORAGE: Final = "https://storage.googleapis.com"
# By the codes of gRPC: https://cloud.google.com/apis/design/errors.
_STATUSES: Final = {
    3: 400,
    4: 504,
    5: 404,
    7: 403,
    8: 429,
    9: 400,
    11: 400,
    13: 500,
    14: 503,
    16: 401,
}


class FileBatches(BatchForm):
    """OpenAI's batches: files with a line for each request and for each result."""

    surfaces: ClassVar[frozenset[str]] = frozenset(_PATHS)

    # The metadata that has the key; "" if the provider keeps none, and the file's name has it.
    _label: ClassVar[str] = "upshot"
    _folder: ClassVar[str] = "/batches"
    _uploads: ClassVar[str] = "/files"

    def submit(self, key: str, body: bytes) -> BatchCalls[str | None]:
        """Upload the file, and start its batch."""
        data, form = _to_upload(key, self._to_line(key, body), self._fields(key))
        file_id = _read_id((yield BatchCall("POST", self._url(self._uploads), data, form)))
        if not file_id:
            return ""
        fields = encode_wire(self._to_batch(file_id, key))
        return _read_id((yield BatchCall("POST", self._url(self._folder), fields)))

    def poll(self, batch_id: str, key: str, now: datetime) -> BatchCalls[BatchResult | None]:
        """Read the files with results and errors, once there are any."""
        document = (yield BatchCall("GET", self._url(f"{self._folder}/{batch_id}"))).document
        word = read_word(document, "status")
        if not has_ended(word):
            return None
        for names in (("output_file_id", "output_file"), ("error_file_id", "error_file")):
            if file_id := next(filter(None, (as_text(document.get(name)) for name in names)), ""):
                lines = yield BatchCall("GET", self._url(f"/files/{file_id}/content"))
                if (result := read_results(lines.body, key)) is not None:
                    return result
        return BatchResult(error=to_error(word, _read_faults(document)))

    def find(self, key: str) -> BatchCalls[str | None]:
        """Search the list for the key in the metadata, or for a file with its name."""
        files: set[str] = set()
        if not self._label:
            listed = (yield BatchCall("GET", self._url("/files"))).document.get("data")
            named = [one for one in map(as_object, as_list(listed)) if _is_named(one, key)]
            files = {as_text(one.get("id")) for one in named}
            if not files:
                return ""

        def match(batch: JsonObject) -> str:
            metadata = as_object(batch.get("metadata"))
            is_found = as_text(batch.get("input_file_id")) in files
            return as_text(batch.get("id")) if key in metadata.values() or is_found else ""

        url = self._url(self._folder, limit="100")
        return (yield from search(url, "data", ("last_id", "after"), match))

    @property
    def _endpoint(self) -> str:
        """The path of the surface as the provider's batches know it."""
        return f"/v1{_PATHS[self._target.surface]}"

    def _fields(self, key: str) -> dict[str, str]:
        """Return what an upload says besides the file."""
        del key
        return {"purpose": "batch"}

    def _to_line(self, key: str, body: bytes) -> dict[str, object]:
        line: dict[str, object] = {"custom_id": key, "method": "POST", "url": self._endpoint}
        return line | {"body": msgspec.Raw(body)}

    def _to_batch(self, file_id: str, key: str) -> dict[str, object]:
        fields: dict[str, object] = {"input_file_id": file_id, "endpoint": self._endpoint}
        fields["completion_window"] = "24h"
        return fields | ({"metadata": {self._label: key}} if self._label else {})


class AzureBatches(FileBatches):
    """OpenAI's batches, where the older surface has a name without the version."""

    @property
    def _endpoint(self) -> str:
        path = _PATHS[self._target.surface]
        return path if self._target.surface == "chat" else f"/v1{path}"


class AlibabaBatches(FileBatches):
    """OpenAI's batches, whose metadata is a name and a description."""

    _label: ClassVar[str] = "ds_name"


class TogetherBatches(FileBatches):
    """OpenAI's batches without metadata; lines name no path."""

    _label: ClassVar[str] = ""
    _uploads: ClassVar[str] = "/files/upload"

    def _fields(self, key: str) -> dict[str, str]:
        return {"purpose": "batch-api", "file_name": f"{key}.jsonl"}

    def _to_line(self, key: str, body: bytes) -> dict[str, object]:
        return {"custom_id": key, "body": msgspec.Raw(body)}


class MistralJobs(FileBatches):
    """Mistral's batches: the job names path and model, and the lines do not."""

    _folder: ClassVar[str] = "/batch/jobs"

    def _to_line(self, key: str, body: bytes) -> dict[str, object]:
        return {"custom_id": key, "body": _without_model(body)}

    def _to_batch(self, file_id: str, key: str) -> dict[str, object]:
        fields: dict[str, object] = {"input_files": [file_id], "endpoint": self._endpoint}
        return fields | {"model": self._target.model, "metadata": {self._label: key}}

    def find(self, key: str) -> BatchCalls[str | None]:
        """Search the newest jobs for the key in the metadata."""
        url = self._url(self._folder, page_size="100", order_by="-created")
        document = (yield BatchCall("GET", url)).document
        jobs = [as_object(job) for job in as_list(document.get("data"))]
        found = [job for job in jobs if key in as_object(job.get("metadata")).values()]
        if found:
            return as_text(found[0].get("id"))
        return "" if (as_count(document.get("total")) or 0) <= len(jobs) else None


class XaiBatches(FileBatches):
    """xAI's batches: the name has the key, counts say whether all is done, results are pages."""

    def poll(self, batch_id: str, key: str, now: datetime) -> BatchCalls[BatchResult | None]:
        """Read the pages of results, once no request is pending."""
        url = self._url(f"/batches/{batch_id}")
        document = (yield BatchCall("GET", url)).document
        if refusal := as_text(document.get("cancel_by_xai_message")):
            return BatchResult(error=batch_error(refusal, ErrorCode.INVALID_REQUEST))
        counts = as_object(document.get("state"))
        # Before the file is read, no request is pending either.
        if not as_count(counts.get("num_requests")) or as_count(counts.get("num_pending")) != 0:
            return to_late_result(document.get("expire_time"), now)
        results: list[BatchResult] = []

        def match(line: JsonObject) -> str:
            if line.get("batch_request_id") != key:
                return ""
            results.append(_read_xai_result(line))
            return key

        pages, tokens = f"{url}/results?limit=100", ("pagination_token", "pagination_token")
        yield from search(pages, "results", tokens, match)
        if results:
            return results[0]
        word = "cancelled" if as_count(counts.get("num_cancelled")) else "completed"
        return BatchResult(error=to_error(word))

    def find(self, key: str) -> BatchCalls[str | None]:
        """Search the list for the key as a name."""

        def match(batch: JsonObject) -> str:
            return as_text(batch.get("batch_id")) if batch.get("name") == key else ""

        url = self._url("/batches", limit="100")
        tokens = "pagination_token", "pagination_token"
        return (yield from search(url, "batches", tokens, match))

    def _fields(self, key: str) -> dict[str, str]:
        return {}

    def _to_batch(self, file_id: str, key: str) -> dict[str, object]:
        return {"name": key, "input_file_id": file_id}


class MessageBatches(BatchForm):
    """Anthropic's batches: requests in the document, results as lines. The list has no keys."""

    surfaces: ClassVar[frozenset[str]] = frozenset({"messages"})

    def submit(self, key: str, body: bytes) -> BatchCalls[str | None]:
        """Start the batch."""
        fields = {"requests": [{"custom_id": key, "params": msgspec.Raw(body)}]}
        url = self._url("/messages/batches")
        return _read_id((yield BatchCall("POST", url, encode_wire(fields))))

    def poll(self, batch_id: str, key: str, now: datetime) -> BatchCalls[BatchResult | None]:
        """Read the lines of results."""
        path = f"/messages/batches/{batch_id}"
        document = (yield BatchCall("GET", self._url(path))).document
        if not has_ended(read_word(document, "processing_status")):
            return None
        lines = yield BatchCall("GET", self._url(f"{path}/results"))
        return read_results(lines.body, key) or BatchResult(error=to_error("ended"))


class OpenRouterBatches(BatchForm):
    """OpenRouter's batches: requests and results in the document. The list has no keys."""

    surfaces: ClassVar[frozenset[str]] = frozenset(_PATHS)

    def submit(self, key: str, body: bytes) -> BatchCalls[str | None]:
        """Start the batch."""
        requests = [{"custom_id": key, "body": msgspec.Raw(body)}]
        fields = {"endpoint": f"/v1{_PATHS[self._target.surface]}", "model": self._target.model}
        data = encode_wire(fields | {"requests": requests})
        return _read_id((yield BatchCall("POST", self._url("/batches"), data)))

    def poll(self, batch_id: str, key: str, now: datetime) -> BatchCalls[BatchResult | None]:
        """Read the results of the batch, once it has ended."""
        document = (yield BatchCall("GET", self._url(f"/batches/{batch_id}"))).document
        word = read_word(document, "status")
        if not has_ended(word):
            return None
        for line in map(as_object, as_list(document.get("results"))):
            if line.get("custom_id") == key:
                return read_line(line)
        return BatchResult(error=to_error(word, as_object(document.get("error"))))


class FireworksJobs(BatchForm):
    """Fireworks' jobs, whose input and output are data sets of an account; the key is their id."""

    needs: ClassVar[str] = "the account that keeps the data sets"
    starts: ClassVar[str] = "accounts/"

    def submit(self, key: str, body: bytes) -> BatchCalls[str | None]:
        """Make the data set if there is none yet; once it is ready, start the job."""
        ident = _to_resource(key)
        url = self._account(f"/datasets/{ident}")
        made = yield BatchCall("GET", url, accepts=(404,))
        if made.status == 404:
            dataset: dict[str, object] = {"userUploaded": {}, "exampleCount": "1"}
            fields = encode_wire({"datasetId": ident, "dataset": dataset})
            yield BatchCall("POST", self._account("/datasets"), fields)
        if _read_state(made) != "ready":
            line: dict[str, object] = {"custom_id": key, "body": _without_model(body)}
            data, form = _to_upload(key, line, {})
            # An earlier call may have uploaded the file.
            refused = () if made.status == 404 else (400, 409)
            yield BatchCall("POST", f"{url}:upload", data, form, accepts=refused)
            made = yield BatchCall("GET", url)
        if _read_state(made) != "ready":
            return None
        source = f"{self._target.place}/datasets/{ident}"
        fields = encode_wire({"model": self._target.model, "inputDatasetId": source})
        url = self._account("/batchInferenceJobs", batchInferenceJobId=ident)
        # A job with this id was made by an earlier call.
        yield BatchCall("POST", url, fields, accepts=(409,))
        return ident

    def poll(self, batch_id: str, key: str, now: datetime) -> BatchCalls[BatchResult | None]:
        """Download the files of the data set that the job wrote."""
        job = (yield BatchCall("GET", self._account(f"/batchInferenceJobs/{batch_id}"))).document
        word = read_word(job, "state")
        if not has_ended(word):
            return None
        if word in ("completed", "expired", "early_stopped"):
            dataset = as_text(job.get("outputDatasetId")).rpartition("/")[2]
            url = self._account(f"/datasets/{dataset}:getDownloadEndpoint")
            # A job that did nothing has no data set.
            files = (yield BatchCall("GET", url, accepts=(404,))).document
            for signed in as_object(files.get("filenameToSignedUrls")).values():
                lines = yield BatchCall("GET", as_text(signed), is_open=True)
                if (result := read_results(lines.body, key)) is not None:
                    return result
        return BatchResult(error=to_error(word, as_object(job.get("status"))))

    def find(self, key: str) -> BatchCalls[str | None]:
        """Ask for the job called *key*."""
        ident = _to_resource(key)
        url = self._account(f"/batchInferenceJobs/{ident}")
        return "" if (yield BatchCall("GET", url, accepts=(404,))).status == 404 else ident

    def _account(self, path: str, **query: str) -> str:
        parts = urlsplit(self._url("", **query))
        root = parts.path.removesuffix("/inference/v1")
        return parts._replace(path=f"{root}/v1/{self._target.place}{path}").geturl()


class GeminiBatches(BatchForm):
    """The batches of the Gemini API: requests and results in the document; the key is the name."""

    surfaces: ClassVar[frozenset[str]] = frozenset({"generate"})

    def submit(self, key: str, body: bytes) -> BatchCalls[str | None]:
        """Start the batch."""
        requests = [{"request": msgspec.Raw(body), "metadata": {"key": key}}]
        batch = {"displayName": key, "inputConfig": {"requests": {"requests": requests}}}
        model = quote(_to_model(self._target.model, "models/"), safe="/")
        url = self._url(f"/{model}:batchGenerateContent")
        document = (yield BatchCall("POST", url, encode_wire({"batch": batch}))).document
        return as_text(document.get("name"))

    def poll(self, batch_id: str, key: str, now: datetime) -> BatchCalls[BatchResult | None]:
        """Read the results of the operation, once it is done."""
        document = (yield BatchCall("GET", self._url(f"/{batch_id}"))).document
        metadata = as_object(document.get("metadata"))
        word = read_word(metadata, "state")
        if not has_ended(word) and document.get("done") is not True:
            return None
        output = as_object(document.get("response")) or as_object(metadata.get("output"))
        inlined = as_object(output.get("inlinedResponses")).get("inlinedResponses")
        for line in map(as_object, as_list(inlined)):
            if as_object(line.get("metadata")).get("key") == key:
                return _read_result(line)
        return BatchResult(error=to_error(word or "ended", as_object(document.get("error"))))

    def find(self, key: str) -> BatchCalls[str | None]:
        """Search the list for the key as a name."""

        def match(operation: JsonObject) -> str:
            named = as_object(operation.get("metadata")).get("displayName")
            return as_text(operation.get("name")) if named == key else ""

        tokens = "nextPageToken", "pageToken"
        url = self._url("/batches", pageSize="100")
        return (yield from search(url, "operations", tokens, match))


class VertexJobs(BatchForm):
    """The jobs of Vertex AI: files of lines in Cloud Storage; the key is the name."""

    needs: ClassVar[str] = "the folder of Cloud Storage for requests and results"
    starts: ClassVar[str] = "gs://"
    surfaces: ClassVar[frozenset[str]] = frozenset({"generate", "messages"})

    def submit(self, key: str, body: bytes) -> BatchCalls[str | None]:
        """Write the file, and start the job."""
        bucket, folder = self._place()
        named = {} if self._target.surface == "generate" else {"custom_id": key}
        line = encode_wire(named | {"request": msgspec.Raw(body)}) + b"\n"
        query = urlencode({"uploadType": "media", "name": f"{folder}{key}/requests.jsonl"})
        url = f"{self._storage()}/upload/storage/v1/b/{bucket}/o?{query}"
        yield BatchCall("POST", url, line, "application/jsonl")
        place = f"gs://{bucket}/{folder}{key}"
        source = {"uris": [f"{place}/requests.jsonl"]}
        fields = {
            "displayName": key,
            "model": self._model(),
            "inputConfig": {"instancesFormat": "jsonl", "gcsSource": source},
            "outputConfig": {
                "predictionsFormat": "jsonl",
                "gcsDestination": {"outputUriPrefix": place},
            },
        }
        answer = yield BatchCall("POST", self._jobs(), encode_wire(fields))
        return as_text(answer.document.get("name")).rpartition("/")[2]

    def poll(self, batch_id: str, key: str, now: datetime) -> BatchCalls[BatchResult | None]:
        """Read the files that the job wrote, once it has ended."""
        document = (yield BatchCall("GET", f"{self._jobs()}/{batch_id}")).document
        word = read_word(document, "state")
        if not has_ended(word):
            return None
        written = as_text(as_object(document.get("outputInfo")).get("gcsOutputDirectory"))
        bucket, _, folder = written.removeprefix("gs://").partition("/")
        if bucket:
            objects = f"{self._storage()}/storage/v1/b/{quote(bucket)}/o"
            listed = yield BatchCall("GET", f"{objects}?{urlencode({'prefix': folder})}")
            for item in map(as_object, as_list(listed.document.get("items"))):
                name = as_text(item.get("name"))
                if name.endswith(".jsonl"):
                    lines = yield BatchCall("GET", f"{objects}/{quote(name, safe='')}?alt=media")
                    for line in lines.body.splitlines():
                        # The job has one request.
                        if row := parse_object(line):
                            return _read_row(row)
        return BatchResult(error=to_error(word, as_object(document.get("error"))))

    def find(self, key: str) -> BatchCalls[str | None]:
        """Search the list for the key as a name."""

        def match(job: JsonObject) -> str:
            named = as_text(job.get("name")).rpartition("/")[2]
            return named if job.get("displayName") == key else ""

        query = urlencode({"filter": f'displayName="{key}"'})
        url, tokens = f"{self._jobs()}?{query}", ("nextPageToken", "pageToken")
        return (yield from search(url, "batchPredictionJobs", tokens, match))

    def _jobs(self) -> str:
        """Return the address of jobs, which are beside the publishers of models."""
        parts = urlsplit(self._url(""))
        root = parts.path.rpartition("/publishers/")[0]
        return parts._replace(path=f"{root}/batchPredictionJobs").geturl()

    def _storage(self) -> str:
        """Return the server of Cloud Storage; the token for another server stays there."""
        parts = urlsplit(self._url(""))
        is_google = (parts.hostname or "").endswith(".googleapis.com")
        return _STORAGE if is_google else f"{parts.scheme}://{parts.netloc}"

    def _model(self) -> str:
        publisher = urlsplit(self._url("")).path.rpartition("/")[2]
        return _to_model(self._target.model, f"publishers/{publisher}/models/")

    def _place(self) -> tuple[str, str]:
        """Return the bucket, and the folder with a "/" at its end."""
        place = self._target.place.removeprefix(self.starts)
        bucket, _, folder = place.rstrip("/").partition("/")
        return bucket, f"{folder}/" if folder else ""


FORMS: Final[dict[str, type[BatchForm]]] = {
    "openai": FileBatches,
    "anthropic": MessageBatches,
    "google": GeminiBatches,
    "vertex": VertexJobs,
    "azure": AzureBatches,
    "alibaba": AlibabaBatches,
    "cerebras": FileBatches,
    "fireworks": FireworksJobs,
    "groq": FileBatches,
    "mistral": MistralJobs,
    "moonshot": FileBatches,
    "openrouter": OpenRouterBatches,
    "together": TogetherBatches,
    "xai": XaiBatches,
}
"""By provider: the form of its batches."""

NO_FORMS: Final = {
    "bedrock": "its jobs have at least 100 requests and no tools, and a turn of a run is one: ask "
    'at once, with settings={"extra": {"serviceTier": {"type": "flex"}}} for a lower price',
}
"""By provider: why it has batches that a run cannot use, and what to do."""


def _to_upload(key: str, line: dict[str, object], fields: Mapping[str, str]) -> tuple[bytes, str]:
    """Return the form that uploads a file with one line, and its content type."""
    start = f"--{_BOUNDARY}\r\nContent-Disposition: form-data; name="
    parts = [f'{start}"{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()]
    file = f'{start}"file"; filename="{key}.jsonl"\r\nContent-Type: application/jsonl\r\n\r\n'
    data = "".join([*parts, file]).encode() + encode_wire(line) + b"\n"
    end = f"\r\n--{_BOUNDARY}--\r\n".encode()
    return data + end, f"multipart/form-data; boundary={_BOUNDARY}"


def _without_model(body: bytes) -> dict[str, msgspec.Raw]:
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    fields.pop("model", None)
    return fields


def _to_resource(key: str) -> str:
    """Return an id for what is made for *key*; it must start with a letter."""
    return f"upshot-{key}"


def _read_id(answer: BatchAnswer) -> str:
    """Return the id of what was made."""
    document = answer.document
    document = as_object(document.get("job")) or document
    return as_text(document.get("id")) or as_text(document.get("batch_id"))


def _read_state(answer: BatchAnswer) -> str:
    return as_text(answer.document.get("state")).lower()


def _is_named(file: JsonObject, key: str) -> bool:
    return as_text(file.get("filename")).startswith(key)


def _read_faults(document: JsonObject) -> JsonObject:
    """Return why a batch of files failed as a whole, in one message."""
    given = document.get("errors")
    faults = as_list(as_object(given).get("data")) or as_list(given)
    reasons: Iterable[str] = (as_text(as_object(fault).get("message")) for fault in faults)
    return {"message": "; ".join(filter(None, reasons)) or as_text(document.get("error"))}


def _read_xai_result(line: JsonObject) -> BatchResult:
    result = as_object(line.get("batch_result"))
    # The kind of the request names the reply.
    for reply in as_object(result.get("response")).values():
        return BatchResult(200, encode_json(reply))
    error = result.get("error")
    reason = as_text(as_object(error).get("message")) or as_text(error)
    return BatchResult(error=batch_error(reason or as_text(line.get("error_message"))))


def _to_model(model: str, folder: str) -> str:
    """Return the whole name of a model; tuned models have one already."""
    return model if "/" in model else folder + model


def _read_result(line: JsonObject) -> BatchResult:
    """Read a result of the Gemini API: a reply, or a status of gRPC."""
    if reply := as_object(line.get("response")):
        return BatchResult(200, encode_json(reply))
    error = as_object(line.get("error"))
    code = as_count(error.get("code")) or 13
    status = _STATUSES.get(code, code if code >= 400 else 500)
    return BatchResult(status, encode_json({"error": error}))


def _read_row(row: JsonObject) -> BatchResult:
    """Read a line that Vertex AI wrote: a reply, or what it says was wrong."""
    reason = as_text(row.get("status"))
    if not reason and (reply := as_object(row.get("response"))):
        return BatchResult(200, encode_json(reply))
    # "Bad Request: {"error": {...}}".
    error = as_object((parse_object(reason[reason.find("{") :]) or {}).get("error"))
    if code := as_count(error.get("code")):
        return BatchResult(code, encode_json({"error": error}))
    return BatchResult(error=to_error("succeeded", {"message": reason}))

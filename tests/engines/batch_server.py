"""A server that speaks the form of each provider's batches, as their pages describe it."""

import asyncio
import json
import re
from contextlib import asynccontextmanager

from aiohttp import web

USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
CHAT = {
    "model": "m",
    "choices": [{"message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
    "usage": USAGE,
}
MESSAGE = {
    "type": "message",
    "model": "claude",
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 9, "output_tokens": 3, "service_tier": "batch"},
}
CANDIDATE = {
    "candidates": [{"content": {"parts": [{"text": "Hello."}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12},
}
REFUSED = {"error": {"message": "No such field.", "type": "invalid_request_error", "code": 400}}
BASES = {
    "azure": "/openai/v1",
    "google": "/v1beta",
    "vertex": "/v1/projects/p/locations/l/publishers/google",
    "vertex-messages": "/v1/projects/p/locations/l/publishers/anthropic",
    "fireworks": "/inference/v1",
}
PLACES = {
    "vertex": "gs://bucket/in/folder",
    "vertex-messages": "gs://bucket",
    "fireworks": "accounts/mine",
}
# How each provider says how a batch ended, where that differs from "completed" and the like.
WORDS = {
    "mistral": {"completed": "SUCCESS", "failed": "FAILED", "expired": "TIMEOUT_EXCEEDED"}
    | {"cancelled": "CANCELLED", "": "RUNNING"},
    "together": {"": "IN_PROGRESS"},
    "google": {"completed": "BATCH_STATE_SUCCEEDED", "": "BATCH_STATE_RUNNING"},
    "vertex": {"completed": "JOB_STATE_SUCCEEDED", "": "JOB_STATE_RUNNING"},
    "fireworks": {"": "JOB_STATE_RUNNING"},
}
_PREFIXES = {"google": "BATCH_STATE_", "vertex": "JOB_STATE_", "fireworks": "JOB_STATE_"}


class BatchServer:
    """A provider; its batches end when a test says so.

    Args:
        provider: "provider" or "provider-surface".
        model: The provider's name of the model.

    Attributes:
        batches: By id, in the order of submission: the key, the body, and what was asked besides.
        ended: How all batches have ended: "" while in progress, or "completed", "failed",
            "expired" or "cancelled".
        result: What became of the request: "answered", "refused" or "missing".
        is_ready: Whether an uploaded file is ready at once.
        created: Set by the first batch.
        answers: A batch is answered to its submitter when this is set.
    """

    def __init__(self, provider, model="m"):
        self.name = provider
        self.model = model
        self.provider, _, self.surface = provider.partition("-")
        self.batches, self.files, self.asked = {}, {}, []
        self.ended, self.result, self.is_ready = "", "answered", True
        self.created, self.answers = asyncio.Event(), asyncio.Event()
        self.answers.set()
        self.url = ""

    @asynccontextmanager
    async def serve(self):
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.root = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self.url = self.root + BASES.get(self.name, "/v1")
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _handle(self, request):
        body = await request.read()
        key = request.headers.get("authorization") or request.headers.get("x-goog-api-key")
        key = key or request.headers.get("x-api-key") or request.headers.get("api-key") or ""
        path = request.path.removeprefix(BASES.get(self.name, "/v1"))
        if "publishers" in BASES.get(self.name, ""):
            path = request.path.removeprefix("/v1/projects/p/locations/l")
        self.asked.append((request.method, path))
        # What is signed already gets no key; everything else does.
        assert key.endswith("k") is not path.startswith("/signed/"), path
        before = len(self.batches)
        answer = self.answer(request.method, path, request.query, body)
        if len(self.batches) > before:
            self.created.set()
            await self.answers.wait()
        if answer is None:
            return web.json_response({"error": {"message": "none", "code": 404}}, status=404)
        if isinstance(answer, bytes):
            return web.Response(body=answer)
        return web.json_response(answer)

    def answer(self, method, path, query, body):
        form = "messages" if self.provider == "anthropic" else self.provider
        own = getattr(self, f"_{form}", self._openai)
        return own(method, path, query, body)

    def begin(self, key, body, **more):
        ident = f"b-{len(self.batches)}"
        self.batches[ident] = {"key": key, "body": body, **more}
        return ident

    def word(self):
        known = WORDS.get(self.provider, {})
        plain = self.ended or "in_progress"
        prefix = _PREFIXES.get(self.provider, "")
        return known.get(self.ended) or (prefix + plain.upper() if prefix else plain)

    @property
    def has_results(self):
        return self.ended == "completed" and self.result != "missing"

    def line(self, key):
        """The line of a file with the result."""
        status, reply = (200, CHAT) if self.result == "answered" else (400, REFUSED)
        document = {"custom_id": key, "response": {"status_code": status, "body": reply}}
        other = {"custom_id": "another", "response": {"status_code": 200, "body": {}}}
        return b"\n".join(json.dumps(one).encode() for one in (other, document)) + b"\n"

    def upload(self, body, *, purpose, named=False):
        assert (b'name="purpose"' in body) is bool(purpose)
        assert not purpose or f"\r\n\r\n{purpose}\r\n".encode() in body
        assert (b'name="file_name"' in body) is named
        ident = f"file-{len(self.files)}"
        line = json.loads(re.search(rb"\r\n\r\n(\{.*\})\n", body)[1])
        name = re.search(rb'filename="([^"]*)"', body)[1].decode()
        self.files[ident] = {"id": ident, "filename": name, "line": line}
        return {"id": ident}

    def _openai(self, method, path, query, body):
        match method, path:
            case "POST", "/files":
                return self.upload(body, purpose="batch")
            case "POST", "/batches":
                asked = json.loads(body)
                line = self.files[asked["input_file_id"]]["line"]
                assert line["url"] == asked["endpoint"]
                assert (line["method"], asked["completion_window"]) == ("POST", "24h")
                return self.show(self.begin(line["custom_id"], line["body"], **asked))
            case "GET", "/batches":
                assert query["limit"] == "100"
                return self.page(query.get("after"))
            case "GET", _ if found := re.fullmatch(r"/batches/(b-\d+)", path):
                return self.show(found[1])
            case "GET", _ if found := re.fullmatch(r"/files/out-(b-\d+)/content", path):
                return self.line(self.batches[found[1]]["key"])

    def page(self, after):
        """Pages of one batch, the newest first, as of a long list."""
        newest = [*reversed(self.batches)]
        place = newest.index(after) + 1 if after else 0
        shown = newest[place : place + 1]
        listed = [self.show(ident) for ident in shown]
        last = shown[-1] if shown else None
        return {"data": listed, "has_more": place + 1 < len(newest), "last_id": last}

    def show(self, ident):
        kept = self.batches[ident]
        shown = {"id": ident, "status": self.word(), "metadata": kept.get("metadata")}
        shown["input_file_id"] = kept.get("input_file_id")
        if self.ended == "failed":
            shown["errors"] = {"data": [{"message": "no funds"}]}
        return shown | ({"output_file_id": f"out-{ident}"} if self.has_results else {})

    def _together(self, method, path, query, body):
        match method, path:
            case "POST", "/files/upload":
                return self.upload(body, purpose="batch-api", named=True)
            case "GET", "/files":
                return {"data": [*self.files.values()]}
            case "GET", "/batches":
                return [self._together_job(ident) for ident in self.batches]
            case "POST", "/batches":
                asked = json.loads(body)
                line = self.files[asked["input_file_id"]]["line"]
                assert set(line) == {"custom_id", "body"}
                ident = self.begin(line["custom_id"], line["body"], **asked)
                return {"job": self._together_job(ident)}
            case "GET", _ if found := re.fullmatch(r"/batches/(b-\d+)", path):
                return self._together_job(found[1])
        return self._openai(method, path, query, body)

    def _together_job(self, ident):
        shown = self.show(ident)
        shown["status"] = shown["status"].upper()
        del shown["metadata"]
        if shown.pop("errors", None):
            shown["error"] = "no funds"
        return shown

    def _mistral(self, method, path, query, body):
        match method, path:
            case "POST", "/batch/jobs":
                asked = json.loads(body)
                line = self.files[asked["input_files"][0]]["line"]
                assert set(line) == {"custom_id", "body"}
                assert "model" not in line["body"]
                assert asked["model"] == self.model
                return self._mistral_job(self.begin(line["custom_id"], line["body"], **asked))
            case "GET", "/batch/jobs":
                jobs = [self._mistral_job(ident) for ident in reversed(self.batches)]
                return {"data": jobs, "total": len(jobs)}
            case "GET", _ if found := re.fullmatch(r"/batch/jobs/(b-\d+)", path):
                return self._mistral_job(found[1])
        return self._openai(method, path, query, body)

    def _mistral_job(self, ident):
        shown = self.show(ident)
        shown["output_file"] = shown.pop("output_file_id", None)
        if shown.pop("errors", None):
            shown["errors"] = [{"message": "no funds", "count": 1}]
        return shown

    def _xai(self, method, path, query, body):
        match method, path:
            case "POST", "/files":
                return self.upload(body, purpose="")
            case "POST", "/batches":
                asked = json.loads(body)
                line = self.files[asked["input_file_id"]]["line"]
                return self._xai_batch(self.begin(line["custom_id"], line["body"], **asked))
            case "GET", "/batches":
                newest = [*reversed(self.batches)]
                place = int(query.get("pagination_token", 0))
                token = str(place + 1) if place + 1 < len(newest) else None
                listed = [self._xai_batch(ident) for ident in newest[place : place + 1]]
                return {"batches": listed, "pagination_token": token}
            case "GET", _ if found := re.fullmatch(r"/batches/(b-\d+)", path):
                return self._xai_batch(found[1])
            case "GET", _ if found := re.fullmatch(r"/batches/(b-\d+)/results", path):
                if not query.get("pagination_token"):
                    return {"results": [], "pagination_token": "2"}
                key = self.batches[found[1]]["key"]
                answered = {"response": {"chat_get_completion": CHAT}}
                failed = {"error": {"code": 3, "message": "No such field."}}
                result = answered if self.result == "answered" else failed
                line = {"batch_request_id": key, "batch_result": result}
                return {"results": [line] if self.has_results else []}

    def _xai_batch(self, ident):
        shown = {"batch_id": ident, "name": self.batches[ident]["name"], "state": {}}
        shown["expire_time"] = "2031-01-01T00:00:00Z"
        pending = self.ended in ("", "expired")
        if self.ended != "failed":
            cancelled = int(self.ended == "cancelled")
            shown["state"] = {"num_requests": 1, "num_pending": int(pending)}
            shown["state"]["num_cancelled"] = cancelled
        else:
            shown["cancel_by_xai_message"] = "no funds"
        if self.ended == "expired":
            shown["expire_time"] = "2001-01-01T00:00:00Z"
        return shown

    def _messages(self, method, path, query, body):
        match method, path:
            case "POST", "/messages/batches":
                (request,) = json.loads(body)["requests"]
                ident = self.begin(request["custom_id"], request["params"])
                return {"id": ident, "processing_status": "in_progress"}
            case "GET", _ if found := re.fullmatch(r"/messages/batches/(b-\d+)", path):
                status = "ended" if self.ended else "in_progress"
                return {"id": found[1], "processing_status": status}
            case "GET", _ if found := re.fullmatch(r"/messages/batches/(b-\d+)/results", path):
                kinds = {"expired": "expired", "cancelled": "canceled", "failed": "errored"}
                kind = kinds.get(
                    self.ended, "succeeded" if self.result == "answered" else "errored"
                )
                fault = {"type": "error", "error": {"type": "invalid_request_error"}}
                fault["error"]["message"] = (
                    "no funds" if self.ended == "failed" else "No such field."
                )
                result = {"type": kind, "message": MESSAGE, "error": fault}
                key = "another" if self.result == "missing" else self.batches[found[1]]["key"]
                return json.dumps({"custom_id": key, "result": result}).encode() + b"\n"

    def _openrouter(self, method, path, query, body):
        match method, path:
            case "POST", "/batches":
                asked = json.loads(body)
                (request,) = asked["requests"]
                assert asked["model"] == request["body"]["model"] == self.model
                assert asked["endpoint"] == "/v1/chat/completions"
                ident = self.begin(request["custom_id"], request["body"])
                return {"id": ident, "status": "validating"}
            case "GET", _ if found := re.fullmatch(r"/batches/(b-\d+)", path):
                shown = {"id": found[1], "status": self.word(), "results": [], "error": None}
                if self.ended == "failed":
                    shown["error"] = {"message": "no funds"}
                if self.has_results:
                    lines = self.line(self.batches[found[1]]["key"]).splitlines()
                    shown["results"] = [json.loads(line) for line in lines]
                    reply = shown["results"][-1]["response"]["body"]
                    reply["usage"] = {**USAGE, "cost": 0.01}
                return shown

    def _google(self, method, path, query, body):
        match method, path:
            case "POST", _ if path == f"/models/{self.model}:batchGenerateContent":
                asked = json.loads(body)["batch"]
                (request,) = asked["inputConfig"]["requests"]["requests"]
                key = request["metadata"]["key"]
                ident = self.begin(key, request["request"], name=asked["displayName"])
                return self._operation(ident)
            case "GET", "/batches":
                newest = [*reversed(self.batches)]
                place = int(query.get("pageToken", 0))
                more = {"nextPageToken": str(place + 1)} if place + 1 < len(newest) else {}
                listed = [self._operation(ident) for ident in newest[place : place + 1]]
                return {"operations": listed, **more}
            case "GET", _ if found := re.fullmatch(r"/batches/(b-\d+)", path):
                return self._operation(found[1])

    def _operation(self, ident):
        kept = self.batches[ident]
        metadata = {"state": self.word(), "displayName": kept["name"]}
        shown = {"name": f"batches/{ident}", "metadata": metadata, "done": bool(self.ended)}
        if self.ended == "failed":
            shown["error"] = {"code": 9, "message": "no funds"}
        if self.has_results:
            fault = {"code": 3, "message": "No such field.", "status": "INVALID_ARGUMENT"}
            result = {"response": CANDIDATE} if self.result == "answered" else {"error": fault}
            line = {"metadata": {"key": kept["key"]}, **result}
            shown["response"] = {"inlinedResponses": {"inlinedResponses": [line]}}
        return shown

    def _vertex(self, method, path, query, body):
        match method, path:
            case "POST", _ if found := re.fullmatch(r"/upload/storage/v1/b/(.*)/o", path):
                assert query["uploadType"] == "media"
                self.files[f"gs://{found[1]}/{query['name']}"] = json.loads(body)
                return {"name": query["name"]}
            case "POST", "/batchPredictionJobs":
                asked = json.loads(body)
                line = self.files[asked["inputConfig"]["gcsSource"]["uris"][0]]
                publisher = "anthropic" if self.surface else "google"
                assert asked["model"] == f"publishers/{publisher}/models/{self.model}"
                assert ("custom_id" in line) is bool(self.surface)
                return self._vertex_job(self.begin(asked["displayName"], line["request"], **asked))
            case "GET", "/batchPredictionJobs":
                named = re.fullmatch('displayName="(.*)"', query["filter"])[1]
                jobs = [one for one, kept in self.batches.items() if kept["key"] == named]
                return {"batchPredictionJobs": [self._vertex_job(ident) for ident in jobs]}
            case "GET", _ if found := re.fullmatch(r"/batchPredictionJobs/(b-\d+)", path):
                return self._vertex_job(found[1])
            case "GET", "/storage/v1/b/bucket/o":
                names = ["manifest.json", "predictions.jsonl"] if self.has_results else []
                return {"items": [{"name": f"{query['prefix']}/{name}"} for name in names]}
            case "GET", _ if path.endswith("/predictions.jsonl"):
                assert query["alt"] == "media"
                reply = MESSAGE if self.surface else CANDIDATE
                row = {"status": "", "response": reply}
                if self.result == "refused":
                    row = {"status": f"Bad Request: {json.dumps(REFUSED)}", "response": {}}
                return json.dumps(row).encode() + b"\n"

    def _vertex_job(self, ident):
        kept = self.batches[ident]
        name = f"projects/p/locations/l/batchPredictionJobs/{ident}"
        shown = {"name": name, "displayName": kept["key"], "state": self.word()}
        if self.ended == "failed":
            shown["error"] = {"code": 9, "message": "no funds"}
        if self.ended == "completed":
            prefix = kept["outputConfig"]["gcsDestination"]["outputUriPrefix"]
            shown["outputInfo"] = {"gcsOutputDirectory": f"{prefix}/prediction-m-1"}
        return shown

    def _fireworks(self, method, path, query, body):
        path = path.removeprefix("/v1/accounts/mine")
        if path.startswith("/datasets"):
            return self._fireworks_dataset(method, path, body)
        match method, path:
            case "POST", "/batchInferenceJobs":
                asked, ident = json.loads(body), query["batchInferenceJobId"]
                kept = self.files[asked["inputDatasetId"].removeprefix("accounts/mine/datasets/")]
                line = kept["line"]
                self.batches[ident] = {"key": line["custom_id"], "body": line["body"]}
                return self._fireworks_job(ident)
            case "GET", _ if path.startswith("/batchInferenceJobs/"):
                return self._fireworks_job(path[len("/batchInferenceJobs/") :])
        (kept,) = self.batches.values()
        result = {"response": CHAT}
        if path == "/signed/error-data":
            result = {"error": {"message": "No such field."}}
        is_there = (self.result == "answered") is (path == "/signed/BIJOutputSet.jsonl")
        line = json.dumps({"custom_id": kept["key"], **result}).encode() + b"\n"
        return line if is_there else b""

    def _fireworks_dataset(self, method, path, body):
        match method, path:
            case "POST", "/datasets":
                asked = json.loads(body)
                assert asked["dataset"] == {"userUploaded": {}, "exampleCount": "1"}
                self.files[asked["datasetId"]] = {"state": "UPLOADING"}
                return {"name": asked["datasetId"]}
            case "POST", _ if path.endswith(":upload"):
                kept = self.files[path[len("/datasets/") : -len(":upload")]]
                kept["line"] = json.loads(re.search(rb"\r\n\r\n(\{.*\})\n", body)[1])
                assert "model" not in kept["line"]["body"]
                return {}
            case "GET", "/datasets/out:getDownloadEndpoint":
                names = ["error-data", "BIJOutputSet.jsonl"] if self.has_results else []
                signed = {f"dataset/out/{name}": f"{self.root}/signed/{name}" for name in names}
                return {"filenameToSignedUrls": signed} if names else None
            case "GET", _ if path.startswith("/datasets/"):
                kept = self.files.get(path[len("/datasets/") :])
                if kept and "line" in kept and self.is_ready:
                    kept["state"] = "READY"
                return kept and {"state": kept["state"]}

    def _fireworks_job(self, ident):
        if ident not in self.batches:
            return None
        shown = {"name": f"accounts/mine/batchInferenceJobs/{ident}", "state": self.word()}
        shown["outputDatasetId"] = "accounts/mine/datasets/out"
        fault = {"code": "INVALID_ARGUMENT", "message": "no funds"}
        shown["status"] = fault if self.ended == "failed" else {"code": "OK", "message": ""}
        return shown

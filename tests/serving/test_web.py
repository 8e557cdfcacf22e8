"""A server over real connections: its answers, their limits, and fields of requests."""

import asyncio
import contextlib
import html
import http.client
import json
import math
import pathlib
import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from starlette.exceptions import HTTPException

import albert
from albert.core.errors import UserError
from albert.serving import services
from albert.serving.server import hosts_of, listen
from albert.serving.services import read, service_of
from albert.serving.web import Limits
from albert.tasks.classification.head import make_head
from tests.helpers.serving import (
    BODY,
    LABELS,
    LONGEST,
    TEXT,
    Gated,
    OwnService,
    Served,
    load_once,
    model_of,
    until,
)

BEARER = {"Authorization": "Bearer secret"}
NO_PATH = {"error": "there is no such path; send requests to POST /v1/answer or /v1/embed"}


@pytest.fixture(scope="module")
def model(exported):
    return load_once(str(exported))


@pytest.fixture
def serve(request) -> Callable[..., Served]:
    def serve(*args, **kwargs) -> Served:
        served = Served(*args, **kwargs)
        request.addfinalizer(served.stop)
        return served

    return serve


@pytest.fixture(scope="module")
def served(model) -> Iterator[Served]:
    """Starts a server with a token and a small limit on the size of bodies."""
    served = Served(service_of(model), Limits(body_bytes=2000, seconds=LONGEST), "secret")
    yield served
    served.stop()


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("status", "data", "headers", "message"),
    [
        (400, b"question=Who", JSON, "the body is not JSON: Expecting value"),
        (400, b'{"question": "caf\xe9"}', JSON, "the body is not UTF-8: byte 17"),
        (413, b" " * 2001, JSON, "larger than 2000 bytes"),
        (413, [b" " * 1500, b" " * 1500], JSON, "larger than 2000 bytes"),
        (415, b"{}", {"Content-Type": "text/plain"}, "must have the type application/json"),
        (415, b"{}", {}, "must have the type"),
        (415, b"\x1f", {**JSON, "Content-Encoding": "gzip"}, "gzip is not supported; send plain"),
        (422, b'{"question": "Who?"}', JSON, "'context' is missing"),
    ],
)
def test_a_bad_request_gets_a_status_and_a_message(served, status, data, headers, message):
    data = iter(data) if isinstance(data, list) else data
    response = served.post(data=data, headers={**BEARER, **headers})
    assert (response.status_code, list(response.json())) == (status, ["error"])
    assert message in response.json()["error"]


def test_requests_need_the_token_except_for_health(served):
    for headers in ({}, {"Authorization": "secret"}, {"Authorization": "Bearer secrets"}):
        response = served.post(headers=headers)
        assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert served.get("/metrics", headers=headers).status_code == 401
    assert served.get("/health").json()["status"] == "ok"


def test_the_page_loads_nothing_and_cannot_be_framed(served):
    response = served.get("/")
    policies = response.headers["Content-Security-Policy"].split("; ")
    policy = dict(policy.split(maxsplit=1) for policy in policies)
    assert all(policy.pop(f"{kind}-src").startswith("'sha256-") for kind in ("script", "style"))
    nothing = ("default-src", "base-uri", "form-action", "frame-ancestors")
    expected = {"connect-src": "'self'", "img-src": "data:", **dict.fromkeys(nothing, "'none'")}
    assert policy == expected
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "server" not in response.headers


def test_other_methods_get_405_and_no_redirects_happen(served):
    response = served.get("/v1/answer", headers=BEARER)
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    # A request's host never becomes a redirect's target.
    response = served.post(headers={**BEARER, "Host": "evil.example"}, path="/v1/answer/")
    assert (response.status_code, response.json()) == (404, NO_PATH)


def test_metrics_count_requests_and_time_answers(serve, model):
    served = serve(service_of(model))
    assert [served.get(path).json() for path in ("/a", "/b")] == [NO_PATH] * 2
    assert served.post({"question": " "}).status_code == 422
    assert served.metric('albert_requests_total{path="other",status="404"}') == 2
    assert served.metric('albert_requests_total{path="/v1/answer",status="422"}') == 1
    assert served.metric("albert_answer_seconds_count") == 0
    assert served.post().status_code == 200
    assert served.metric("albert_answer_seconds_count") == 1
    assert "/a" not in served.get("/metrics").text.replace("/answer", "")


def test_a_flood_is_answered_in_batches(serve, model):
    service = Gated(model)
    served = serve(service, Limits(seconds=LONGEST, waiting=3, together=2))
    bodies = [{"question": f"What is {n}?", "context": f"{TEXT} {'More. ' * n}"} for n in range(12)]
    with ThreadPoolExecutor(12) as pool:
        futures = [pool.submit(served.post, bodies[0])]
        assert service.begun.wait(LONGEST)
        futures += [pool.submit(served.post, body) for body in bodies[1:]]
        # The model works on one and three wait; the others are refused at once.
        until(lambda: sum(future.done() for future in futures) == 8)
        refused = [future.result() for future in futures if future.done()]
        assert {response.status_code for response in refused} == {503}
        assert "3 requests are waiting" in refused[0].json()["error"]
        assert refused[0].headers["Retry-After"] == "1"
        assert served.get("/health").status_code == 200
        assert served.metric("albert_queue_length") == 3
        service.may.set()
        responses = [future.result() for future in futures]
    assert list(map(len, service.batches)) == [1, 2, 1]
    sizes = [served.metric(f"albert_batch_size_{what}") for what in ("count", "sum")]
    assert sizes == [3, 4] and served.metric("albert_answer_seconds_count") == 4
    for body, response in zip(bodies, responses, strict=True):
        assert response.status_code == 503 or response.json()["question"] == body["question"]


def test_a_slow_answer_or_body_gets_a_timeout(serve, model):
    served = serve(Gated(model), Limits(seconds=0.3))
    with ThreadPoolExecutor(2) as pool:
        responses = list(pool.map(lambda _: served.post(), range(2)))
    assert [response.status_code for response in responses] == [504, 504]
    assert responses[0].json() == {"error": "no answer within 0.3 seconds"}
    # The timed-out request has left the queue.
    assert served.metric("albert_queue_length") == 0
    sent = served.connect('{"question"', length=100)
    with sent, http.client.HTTPResponse(sent) as response:
        response.begin()
        assert response.status == 408 and b"did not arrive within 0.3 seconds" in response.read()


def test_a_client_that_hangs_up_leaves_the_queue(serve, model):
    service = Gated(model)
    served = serve(service)
    gone = 'albert_requests_total{path="/v1/answer",status="499"}'
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(served.post)
        assert service.begun.wait(LONGEST)
        with served.connect(json.dumps({**BODY, "question": "Who is gone?"})):
            until(lambda: served.metric("albert_queue_length") == 1)
        until(lambda: served.metric(gone) == 1)
        assert served.metric("albert_queue_length") == 0
        served.connect('{"question"', length=100).close()
        until(lambda: served.metric(gone) == 2)
        service.may.set()
        assert first.result().status_code == 200
    assert served.post().status_code == 200
    assert ["Who is gone?"] not in service.batches


def test_a_model_error_fails_only_its_request(serve, model, caplog):
    class Failing(OwnService):
        """Raises an error for one question, and gives another an answer that JSON cannot hold."""

        def answer_all(self, requests, pause):
            if requests[0]["question"] == "bad":
                raise RuntimeError("broken")
            (answer,) = super().answer_all(requests, pause)
            fault = {"no_answer_probability": math.nan} if requests[0]["question"] == "nan" else {}
            return [{**answer, **fault}]

    served = serve(Failing(model))
    response = served.post({**BODY, "question": "bad"})
    assert response.status_code == 500
    assert response.json() == {"error": "the model failed; see the server's log"}
    until(lambda: "RuntimeError: broken" in caplog.text)
    message = "the answer contains NaN or infinity; the model's weights may be damaged"
    caplog.clear()
    response = served.post({**BODY, "question": "nan"})
    assert (response.status_code, response.json()) == (500, {"error": message})
    (record,) = caplog.records
    assert record.getMessage() == f"a request failed: {message}" and not record.exc_info
    assert served.post().status_code == 200


def test_answers_are_sent_without_delay():
    """A kept connection would otherwise wait for acknowledgements."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listen("127.0.0.1", 0))
        stack.enter_context(socket.create_connection(listener.getsockname()))
        connection = stack.enter_context(listener.accept()[0])
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_only_allowed_hosts_are_served(serve, model):
    with listen("127.0.0.1", 0) as listener:
        served = serve(service_of(model), hosts=hosts_of(listener))
    allowed = ("localhost", "LocalHost:80", "127.0.0.1:1", "[::1]:80")
    refused = ("evil.example", "10.0.0.7:8080", "localhost.evil.example", "::1", "")
    for host in (*allowed, *refused, "evil@localhost", "localhost:80:80"):
        headers = {"Host": host}
        for response in (served.post(headers=headers), served.get("/", headers=headers)):
            assert response.status_code == (200 if host in allowed else 421)
            error = f"the host {host!r} is not named in --allowed_hosts"
            assert host in allowed or response.json() == {"error": error}
        for path in ("/health", "/metrics"):
            assert served.get(path, headers=headers).status_code == 200
    with listen("0.0.0.0", 0) as listener:
        assert hosts_of(listener) == ()
        assert hosts_of(listener, ["a.example"]) == ["a.example"]
    with listen("127.0.0.2", 0) as listener:
        assert "127.0.0.2" in hosts_of(listener)
        assert hosts_of(listener, ["a.example", "*"]) == ()
    assert serve(service_of(model)).post(headers={"Host": "any.example"}).status_code == 200


def test_a_short_request_does_not_wait_for_a_long_one(serve, model):
    class OfLongTexts(Gated):
        def answer_all(self, requests, pause):
            is_long = len(requests[0]["context"]) > 10_000
            return (Gated if is_long else OwnService).answer_all(self, requests, pause)

    service = OfLongTexts(model)
    served = serve(service, Limits(waiting=1, seconds=LONGEST))
    long = {**BODY, "context": TEXT * 200}
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(served.post, long)
        assert service.begun.wait(LONGEST)
        second = pool.submit(served.post, long)
        until(lambda: served.metric("albert_queue_length") == 1)
        assert served.post().status_code == 200
        assert served.post(long).status_code == 503
        service.may.set()
        assert [future.result().status_code for future in (first, second)] == [200] * 2
    assert served.metric("albert_batch_size_count") == served.metric("albert_batch_size_sum") == 3


@pytest.mark.parametrize("kind", ["labels", "sets", "number"])
def test_other_tasks_answer_as_their_models_do(serve, random_model, kind):
    model = load_once(model_of(random_model, kind))
    served = serve(service_of(model))
    bodies = [{"text": "A text."}, {"text": "A text.", "second_text": ""}]
    bodies += [{"text": "A text.", "second_text": "Another one."}] * (kind == "labels")
    several = served.post(bodies).json()
    for body, answer in zip(
        [*bodies, *bodies], [*several, *(served.post(b).json() for b in bodies)], strict=True
    ):
        expected = model.classify(*body.values())
        shares = pytest.approx(expected.probabilities, rel=1e-4)
        assert answer == {**expected._asdict(), "probabilities": shares, "truncated": False}
        assert (answer.get("number") == 7.0) == (kind == "number")
        assert isinstance(answer.get("labels"), list) == (kind == "sets")


def test_a_model_that_chooses_options_is_not_served(random_model):
    with pytest.raises(UserError, match="chooses options: use choose_all of albert.load in Pyth"):
        service_of(load_once(model_of(random_model, "options")))


def test_spans_are_found_in_texts_of_any_length(serve, random_model):
    model = load_once(model_of(random_model, "spans"))
    served = serve(service_of(model))
    texts = ("Anna went\nto Rome 🏰 and Berlin.", "Anna went to Rome. " * 200)
    answers = [*served.post([{"text": text} for text in texts]).json()]
    answers += [served.post({"text": text}).json() for text in texts]
    for text, answer in zip(texts * 2, answers, strict=True):
        names = "start", "end", "text", "label", "probability"
        rows = [[row[name] for name in names] for row in answer["spans"]]
        spans = model.find(text)
        assert rows == [[*span[:4], pytest.approx(span.probability, abs=1e-5)] for span in spans]


def test_questions_come_together_a_cut_one_is_said_and_texts_are_embedded(serve, model):
    served = serve(service_of(model))
    bodies = [BODY, {**BODY, "question": "What words? " * 60}]
    answers = served.post(bodies).json()
    assert [one["truncated"] for one in answers] == [False, True]
    for answer, body in zip(answers, bodies, strict=True):
        assert answer["answer"] == served.post(body).json()["answer"]
    assert served.post(data="[]", headers=JSON).json() == []
    response = served.post([BODY, {"question": "Who?"}])
    assert response.status_code == 422
    assert response.json() == {"error": "element 1: 'context' is missing"}
    texts = [TEXT, "", "word " * 500, *map(str, range(10))]
    rows = served.post([{"text": text} for text in texts], "/v1/embed").json()
    vectors = [row["embedding"] for row in rows]
    np.testing.assert_allclose(vectors, model.encode(texts), atol=1e-5)
    assert [row["truncated"] for row in rows] == [text.startswith("word") for text in texts]
    alone = served.post({"text": TEXT}, "/v1/embed").json()
    np.testing.assert_allclose(alone["embedding"], vectors[0], atol=1e-5)


def test_a_model_without_a_head_only_embeds(serve, transformers_folder):
    embedder = albert.load(transformers_folder())
    served = serve(service_of(embedder))
    (vector,) = embedder.encode(["one two"])
    found = served.post({"text": "one two"}, "/v1/embed").json()["embedding"]
    np.testing.assert_allclose(found, vector, atol=1e-5)
    assert served.post({"text": "one two"}).status_code == 404


def test_a_model_of_one_text_has_one_field_and_the_examples_of_its_data(serve, random_model):
    """A pair of texts about the weather is not what it was trained on."""

    def page(token: str = "", **description) -> dict:
        about = {"task": "glue", "labels": LABELS, "limits": None, **description}
        folder = random_model(make_head(2, 0.0), **about)
        samples = [{"id": str(n), "texts": [f"Text {n}."], "answer": "no"} for n in range(5)]
        pathlib.Path(folder, "predictions.jsonl").write_text("\n".join(map(json.dumps, samples)))
        data = re.search(
            'data-model="(.*?)"', serve(service_of(load_once(folder)), None, token).get("/").text
        )
        return json.loads(html.unescape(data[1]))

    for one in ({"task_name": "sst-2"}, {"task_name": "tsv", "text_column": "text"}):
        shown = page(**one)
        assert [*shown["fields"]] == shown["shown"] == ["text"]
        assert shown["examples"] == [{"text": f"Text {n}."} for n in range(3)]
    shown = page("secret", task_name="mrpc")
    assert [*shown["fields"]] == shown["shown"] == ["text", "second_text"]
    assert shown["examples"] == [], "who has no token sees no texts"
    shown = page()
    assert ([*shown["fields"]], shown["shown"]) == (["text", "second_text"], ["text"])


FIELDS = {
    "question": services.TEXT,
    "more": services.OPTIONAL_TEXT,
    "n_best": {"type": "integer", "minimum": 1, "maximum": 20, "default": 1},
}
LEAST = {"question": "Who?"}


def test_valid_fields_are_read():
    assert read(LEAST, FIELDS) == {**LEAST, "more": "", "n_best": 1}
    whole = {**LEAST, "more": "", "n_best": 20}
    assert read(whole, FIELDS) == whole
    with pytest.raises(HTTPException, match="'question' has half of a surrogate pair"):
        read({**LEAST, "question": "a\ud83c"}, FIELDS)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "the body must be a JSON object with question, more, n_best"),
        ({"more": "a"}, "'question' is missing"),
        ({**LEAST, "context": "a"}, "'context' is not a field; the fields are question, more"),
        ({**LEAST, "question": " \n\u3000"}, "'question' is empty"),
        ({**LEAST, "question": None}, "'question' must be a text"),
        ({**LEAST, "more": 1}, "'more' must be a text"),
        ({**LEAST, "n_best": 0}, "'n_best' must be an integer from 1 to 20"),
        ({**LEAST, "n_best": 21}, "from 1 to 20"),
        ({**LEAST, "n_best": 1.5}, "must be an integer"),
        ({**LEAST, "n_best": True}, "must be an integer"),
    ],
)
def test_fields_that_do_not_fit_are_refused(body, message):
    with pytest.raises(HTTPException) as caught:
        read(body, FIELDS)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_request_that_is_not_http_is_refused_without_a_traceback(served, caplog):
    """Before and after an answer, and within a body that is not read because the token is wrong."""
    get = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    chunked = b"POST /v1/answer HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    chunked += b"Transfer-Encoding: chunked\r\n\r\n"
    for first, status, last in (
        (b"nothing\r\n\r\n", b"400", b""),
        (get, b"200", b"nothing\r\n\r\n"),
        (chunked, b"401", b"nothing\r\n"),
    ):
        with socket.create_connection(served.listener.getsockname(), timeout=LONGEST) as connection:
            connection.sendall(first)
            assert connection.recv(65536).startswith(b"HTTP/1.1 " + status)
            with contextlib.suppress(ConnectionError):
                connection.sendall(last)
                while connection.recv(65536):
                    pass
    assert served.get("/health").status_code == 200
    assert caplog.records == []


def test_a_lack_of_file_descriptors_is_one_log_line(served, caplog):
    for _ in range(3):
        loop = asyncio.AbstractEventLoop()
        served.server._note_fault(loop, {"exception": OSError(24, "Too many open files")})
    message = "no connection can be accepted: Too many open files; see `ulimit -n`"
    assert caplog.messages == [message]

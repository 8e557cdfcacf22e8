"""A server over real connections, with a model that a run has trained."""

from __future__ import annotations

import json
import math
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import pytest
import requests

from answering import load_model
from glue.head import make_head
from race.head import make_race_head
from serving.openapi import FAULTS
from serving.server import HttpServer, hosts_of, listen, url_of
from serving.services import Questions, service_of
from serving.web import Api, Limits

LONGEST = 60
TEXT = "Ten words are here. Another sentence follows, and one more after that."
BODY = {"question": "What comes after words?", "context": TEXT}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def model(exported):
    return load_model(str(exported))


class Gated(Questions):
    """Answers when it may; notes what goes through the model together."""

    def __init__(self, model):
        super().__init__(model)
        self.may, self.begun, self.batches = threading.Event(), threading.Event(), []

    def answer_all(self, asked, pause):
        self.batches.append([one["question"] for one in asked])
        self.begun.set()
        assert self.may.wait(LONGEST)
        return super().answer_all(asked, pause)


class Served:
    """A server on a free port."""

    def __init__(self, service, limits=None, token="", hosts=()):
        self.listener = listen("127.0.0.1", 0)
        self.url = url_of(self.listener)
        self.api = Api(service, "squad-1.1", limits or Limits(), token, hosts)
        self.server = HttpServer(self.api.app(), self.listener, 2 * LONGEST)

    def stop(self) -> None:
        self.server.stop()
        self.api.close()

    def post(self, body=None, path="/v1/answer", **kwargs) -> requests.Response:
        if "data" not in kwargs:
            kwargs["json"] = body or BODY
        return requests.post(self.url + path, timeout=LONGEST, allow_redirects=False, **kwargs)

    def get(self, path: str, **kwargs) -> requests.Response:
        return requests.get(self.url + path, timeout=LONGEST, **kwargs)

    def metric(self, name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.get("/metrics").text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def connect(self, head: str) -> socket.socket:
        """Sends the beginning of a request."""
        host, port = self.url.removeprefix("http://").split(":")
        connection = socket.create_connection((host, int(port)), timeout=LONGEST)
        connection.sendall(head.replace("\n", "\r\n").encode())
        return connection


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Starts servers, and stops them."""
    started = []

    def serve(service, *args, **kwargs) -> Served:
        started.append((service, Served(service, *args, **kwargs)))
        return started[-1][1]

    yield serve
    for service, served in started:
        if isinstance(service, Gated):
            service.may.set()
        served.stop()


@pytest.fixture(scope="module")
def served(model) -> Iterator[Served]:
    """With a token and a small limit of size."""
    served = Served(Questions(model), Limits(body_bytes=2000, seconds=LONGEST), "secret")
    yield served
    served.stop()


BEARER = {"Authorization": "Bearer secret"}


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + LONGEST
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_answer_is_the_models(served, model):
    response = served.post({**BODY, "n_best": 3}, headers=BEARER)
    assert response.status_code == 200
    found = response.json()
    expected = model.answer(BODY["question"], [TEXT])
    assert [answer["text"] for answer in found["answers"]] == [a.text for a in expected.answers[:3]]
    for answer, theirs in zip(found["answers"], expected.answers, strict=False):
        assert answer["probability"] == pytest.approx(theirs.probability, rel=1e-4)
        assert TEXT[answer["start"] :].startswith(answer["text"])
    assert found["answer"] == found["answers"][0]["text"] and not found["abstains"]


@pytest.mark.parametrize(
    ("status", "request_", "message"),
    [
        (400, {"data": b"question=Who"}, "the body is not JSON: Expecting value"),
        (400, {"data": b""}, "the body is not JSON"),
        (400, {"data": b'{"question": "caf\xe9"}'}, "the body is not UTF-8: byte 17"),
        (400, {"data": b"[" * 1900}, "the body is not JSON"),
        (413, {"data": b" " * 2001}, "larger than 2000 bytes"),
        (413, {"data": iter([b" " * 1500, b" " * 1500])}, "larger than 2000 bytes"),
        (415, {"type": "text/plain"}, "must have the type application/json"),
        (415, {"type": "multipart/form-data; boundary=x"}, "must have the type"),
        (415, {"type": None}, "must have the type"),
        (422, {"data": b"[]"}, "must be a JSON object with question, context, n_best"),
        (422, {"json": {"question": "Who?"}}, "'context' is missing"),
        (422, {"json": {**BODY, "question": " "}}, "'question' is empty"),
        (422, {"json": {**BODY, "context": ""}}, "'context' is empty"),
        (422, {"data": json.dumps({**BODY, "context": "a\ud800"})}, "half of a surrogate"),
    ],
)
def test_bad_requests(served, status, request_, message):
    data = request_.get("data", json.dumps(request_.get("json")))
    kind = {"Content-Type": request_.get("type", "application/json")}
    response = served.post(data=data, headers={**BEARER, **kind})
    assert (response.status_code, list(response.json())) == (status, ["error"])
    assert message in response.json()["error"]


def test_a_type_with_a_parameter(served):
    headers = {**BEARER, "Content-Type": "Application/JSON; charset=utf-8"}
    assert served.post(data=json.dumps(BODY), headers=headers).status_code == 200


def test_the_token(served):
    for headers in ({}, {"Authorization": "secret"}, {"Authorization": "Bearer secrets"}):
        response = served.post(headers=headers)
        assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer")
        for path in ("/metrics", "/openapi.json"):
            assert served.get(path, headers=headers).status_code == 401
    assert served.get("/health").json()["status"] == "ok"
    assert served.get("/").status_code == 200


def test_other_paths_and_methods(served):
    assert served.get("/v1/none").json() == {"error": "Not Found"}
    response = served.get("/v1/answer", headers=BEARER)
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    # Nor is anybody sent to a host that the request names.
    response = served.post(headers={**BEARER, "Host": "evil.example"}, path="/v1/answer/")
    assert (response.status_code, response.json()) == (404, {"error": "Not Found"})


@pytest.mark.parametrize("text", ["Это текст.", "🏰 \u200b", "\u200b", "</script><b>&amp;", "a\0b"])
def test_any_text_has_an_answer_or_none(served, text):
    found = served.post({"question": text, "context": text}, headers=BEARER)
    assert found.status_code == 200
    for answer in found.json()["answers"]:
        assert text[answer["start"] :].startswith(answer["text"])


def test_the_description(served):
    described = served.get("/openapi.json", headers=BEARER).json()
    assert described["openapi"] == "3.1.0"
    answer = described["paths"]["/v1/answer"]["post"]
    assert {int(code) for code in answer["responses"]} == {200, *FAULTS}
    content = answer["requestBody"]["content"]["application/json"]
    result = answer["responses"]["200"]["content"]["application/json"]["schema"]
    for schema in (content["schema"], result):
        jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(content["example"], content["schema"])
    jsonschema.validate(served.post(content["example"], headers=BEARER).json(), result)
    assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def test_requests_at_a_time_are_answered_together(serve, model):
    service = Gated(model)
    served = serve(service)
    sentences = [f"{TEXT} {'More of it. ' * count}" for count in range(5)]
    bodies = [{"question": f"What is {n}?", "context": text} for n, text in enumerate(sentences)]
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(served.post, bodies[0])
        assert service.begun.wait(LONGEST)
        others = [pool.submit(served.post, body) for body in bodies[1:]]
        until(lambda: served.metric("albert_queue_length") == 4)
        service.may.set()
        found = [future.result().json() for future in (first, *others)]
    (alone, together) = service.batches
    assert alone == ["What is 0?"] and len(together) == 4
    for body, answered in zip(bodies, found, strict=True):
        (expected,) = Questions(model).answer_all([{**body, "n_best": 1}])
        (own,), (other,) = answered.pop("answers"), expected.pop("answers")
        assert answered == expected
        assert own.pop("probability") == pytest.approx(other.pop("probability"), rel=1e-4)
        assert own == other
    assert served.metric("albert_batch_size_count") == 2
    assert served.metric("albert_batch_size_sum") == 5
    assert served.metric('albert_requests_total{path="/v1/answer",status="200"}') == 5
    assert served.metric("albert_answer_seconds_count") == 5


def test_a_flood(serve, model):
    service = Gated(model)
    served = serve(service, Limits(waiting=3, together=2))
    with ThreadPoolExecutor(12) as pool:
        futures = [pool.submit(served.post)]
        assert service.begun.wait(LONGEST)
        futures += [pool.submit(served.post) for _ in range(11)]
        # The model works at one and three wait; the others know at once.
        until(lambda: sum(future.done() for future in futures) == 8)
        refused = [future.result() for future in futures if future.done()]
        assert {response.status_code for response in refused} == {503}
        assert "3 requests wait already" in refused[0].json()["error"]
        assert refused[0].headers["Retry-After"] == "1"
        assert served.get("/health").status_code == 200
        service.may.set()
        statuses = [future.result().status_code for future in futures]
    assert sorted(statuses) == [200] * 4 + [503] * 8


def test_an_answer_that_takes_too_long(serve, model):
    service = Gated(model)
    served = serve(service, Limits(seconds=0.3))
    with ThreadPoolExecutor(2) as pool:
        responses = list(pool.map(lambda _: served.post(), range(2)))
    assert [response.status_code for response in responses] == [504, 504]
    assert responses[0].json() == {"error": "there was no answer in 0.3 seconds"}
    # Who waited has left the queue, and later ones are answered.
    assert served.metric("albert_queue_length") == 0
    service.may.set()
    assert served.post().status_code == 200


HEAD = "POST /v1/answer HTTP/1.1\nHost: a\nContent-Type: application/json\nContent-Length: {}\n\n"


def test_a_body_that_does_not_come(serve, model):
    served = serve(Questions(model), Limits(seconds=0.3))
    with served.connect(HEAD.format(100) + '{"question"') as connection:
        answer = b""
        while not answer.endswith(b"}"):
            answer += connection.recv(10000)
    assert answer.startswith(b"HTTP/1.1 408 ") and b"did not come within 0.3 seconds" in answer


def test_a_client_that_hangs_up(serve, model):
    service = Gated(model)
    served = serve(service)
    status = 'albert_requests_total{path="/v1/answer",status="499"}'
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(served.post)
        assert service.begun.wait(LONGEST)
        body = json.dumps({**BODY, "question": "Who is gone?"})
        with served.connect(HEAD.format(len(body)) + body):
            until(lambda: served.metric("albert_queue_length") == 1)
        until(lambda: served.metric(status) == 1)
        assert served.metric("albert_queue_length") == 0
        with served.connect(HEAD.format(100) + '{"question"'):
            pass
        until(lambda: served.metric(status) == 2)
        service.may.set()
        assert first.result().status_code == 200
    assert served.post().status_code == 200
    assert ["Who is gone?"] not in service.batches


def test_what_was_taken_is_answered_before_the_end(serve, model):
    service = Gated(model)
    served = serve(service, Limits(together=2))
    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(served.post) for _ in range(5)]
        until(lambda: service.begun.is_set() and served.metric("albert_queue_length") >= 3)
        stopping = pool.submit(served.stop)

        def refuses():
            try:
                return served.get("/health").status_code != 200
            except requests.ConnectionError:
                return True

        until(refuses)
        assert not stopping.done()
        service.may.set()
        stopping.result(LONGEST)
        assert [future.result().status_code for future in futures] == [200] * 5


def test_a_fault_of_the_model_is_one_requests_own(serve, model, caplog):
    class Failing(Questions):
        def answer_all(self, asked, pause):
            if any(one["question"] == "bad" for one in asked):
                raise RuntimeError("broken")
            return super().answer_all(asked, pause)

    served = serve(Failing(model))
    response = served.post({**BODY, "question": "bad"})
    assert response.status_code == 500
    assert response.json() == {"error": "the model failed; see the server's log"}
    until(lambda: "RuntimeError: broken" in caplog.text)
    assert served.post().status_code == 200


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_an_answer_that_json_lacks(serve, model, caplog, number):
    class Damaged(Questions):
        def answer_all(self, asked, pause):
            answers = super().answer_all(asked, pause)
            return [{**answer, "no_answer_probability": number} for answer in answers]

    response = serve(Damaged(model)).post()
    message = "the answer has NaN or infinity; the model's weights may be damaged"
    assert (response.status_code, response.json()) == (500, {"error": message})
    (record,) = caplog.records
    assert record.getMessage() == f"no answer to a request: {message}" and not record.exc_info


class TestHosts:
    """What a request's header Host may be."""

    @pytest.mark.parametrize(
        ("host", "allowed"),
        [
            *((host, True) for host in ("localhost", "LocalHost:80", "127.0.0.1:1", "[::1]:80")),
            *(
                (host, False)
                for host in ("evil.example", "10.0.0.7:8080", "localhost.evil.example")
            ),
            *((host, False) for host in ("::1", "", "evil@localhost", "localhost:80:80")),
        ],
    )
    def test_where_only_this_machine_can_connect(self, serve, model, host, allowed):
        with listen("127.0.0.1", 0) as listener:
            served = serve(Questions(model), hosts=hosts_of(listener))
        headers = {"Host": host}
        responses = [
            served.post(headers=headers),
            *(served.get(path, headers=headers) for path in ("/", "/openapi.json")),
        ]
        error = {"error": f"the host {host!r} is not named in --allowed_hosts"}
        for response in responses:
            assert response.status_code == (200 if allowed else 421)
            assert allowed or response.json() == error
        for path in ("/health", "/metrics"):
            assert served.get(path, headers=headers).status_code == 200

    def test_others(self, serve, model):
        with listen("0.0.0.0", 0) as listener:
            assert hosts_of(listener) == ()
            assert hosts_of(listener, ["a.example"]) == ["a.example"]
        with listen("127.0.0.2", 0) as listener:
            assert "127.0.0.2" in hosts_of(listener)
            assert hosts_of(listener, ["a.example", "*"]) == ()
        assert serve(Questions(model)).post(headers={"Host": "any.example"}).status_code == 200


def test_a_short_request_does_not_wait_for_a_long_one(serve, model):
    service = Gated(model)
    ordinary = Questions(model)
    service.answer_all = lambda asked, pause: (
        Gated.answer_all(service, asked, pause)
        if len(asked[0]["context"]) > 10_000
        else ordinary.answer_all(asked, pause)
    )
    served = serve(service, Limits(waiting=1))
    long = {**BODY, "context": TEXT * 1000}
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(served.post, long)
        assert service.begun.wait(LONGEST)
        second = pool.submit(served.post, long)
        until(lambda: served.metric("albert_queue_length") == 1)
        assert served.post().status_code == 200
        assert served.post(long).status_code == 503
        service.may.set()
        assert [future.result().status_code for future in (first, second)] == [200] * 2
    # Each of the long ones went alone.
    assert served.metric("albert_batch_size_count") == served.metric("albert_batch_size_sum") == 3


def check_result(served: Served, **body) -> dict:
    described = served.get("/openapi.json").json()["paths"]["/v1/answer"]["post"]
    schema = described["responses"]["200"]["content"]["application/json"]["schema"]
    response = served.post(body)
    assert response.status_code == 200, response.text
    jsonschema.validate(response.json(), schema)
    assert served.post({}).status_code == 422
    return response.json()


def test_labels(serve, random_model):
    labels = ["no", "yes"]
    folder = random_model(make_head(2, 0.0), task="glue", labels=labels, limits=None)
    model = load_model(folder)
    served = serve(service_of(model))
    for pair in (("A text.", "Another one."), ("A text.", "")):
        texts = dict(zip(("text", "second_text"), pair, strict=True))
        found, expected = check_result(served, **texts), model.classify(*pair)
        assert found["label"] == expected.label and found["number"] is None
        assert found["probabilities"] == pytest.approx(expected.probabilities, rel=1e-4)
    assert check_result(served, text="A text.") == found


def test_a_number(serve, random_model):
    folder = random_model(make_head(1, 0.0), task="glue", labels=[None], limits=[7.0, 9.0])
    found = check_result(serve(service_of(load_model(folder))), text="A text.")
    assert found == {"label": None, "probabilities": {}, "number": 7.0}


def test_an_option(serve, random_model):
    head, labels = make_race_head(0.0, 4), list("ABCD")
    model = load_model(random_model(head, task="race", labels=labels, max_qa_length=16))
    served = serve(service_of(model))
    asked = ("A passage.", "It is _ .", ["one", "two", "red", "blue"])
    found = check_result(
        served, **dict(zip(("passage", "question", "options"), asked, strict=True))
    )
    expected = model.choose(*asked)
    assert found["label"] == expected.label
    assert found["probabilities"] == pytest.approx(expected.probabilities, rel=1e-4)
    three = {"passage": "A.", "question": "B?", "options": ["a", "b", "c"]}
    assert served.post(three).json() == {"error": "'options' must be a list of 4 texts"}

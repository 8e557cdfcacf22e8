"""Servers over real connections, and the models with which they answer."""

import functools
import re
import socket
import threading
import time
from collections.abc import Callable

import requests

from albert.inference import load_model
from albert.serving.server import HttpServer, listen, url_of
from albert.serving.services import Service, service_of
from albert.serving.web import Api, Limits
from albert.tasks.classification.head import make_choice_head, make_head
from albert.tasks.entities.head import make_head as make_tagging_head

# Seconds.
LONGEST = 60
TEXT = "Ten words are here. Another sentence follows, and one more after that."
BODY = {"question": "What comes after words?", "context": TEXT}
LABELS = ["no", "<b>yes"]
# Random weights rarely predict one of them often.
TAGS = ["O", "B-PER", "I-PER", "B-<b>LOC", "I-<b>LOC"]

load_once = functools.cache(load_model)


@functools.cache
def model_of(random_model: Callable[..., str], kind: str) -> str:
    """Returns the folder of a model with random weights, by the kind of its answers."""
    if kind == "spans":
        return random_model(make_tagging_head(len(TAGS), 0.0), task="entities", labels=TAGS)
    if kind == "options":
        head, labels = make_choice_head(0.0, 4), list("ABCD")
        return random_model(head, task="race", labels=labels, max_qa_length=16)
    if kind == "sets":
        # With small weights, all probabilities are about 0.5.
        own = {"labels": LABELS, "limits": None, "multi_label": True, "label_threshold": 0.5}
        return random_model(make_head(2, 0.0, label_threshold=0.5), task="glue", **own)
    labels, limits = (LABELS, None) if kind == "labels" else ([None], [7.0, 9.0])
    return random_model(make_head(len(labels), 0.0), task="glue", labels=labels, limits=limits)


class OwnService(Service):
    """The service of a model, whose methods a class of tests overrides."""

    def __init__(self, model):
        vars(self).update(vars(service_of(model)))


class Gated(OwnService):
    """Answers when a test allows it; notes what goes through the model together."""

    def __init__(self, model):
        super().__init__(model)
        self.may, self.begun, self.batches = threading.Event(), threading.Event(), []

    def answer_all(self, batch, pause):
        self.batches.append([one["question"] for one in batch])
        self.begun.set()
        assert self.may.wait(LONGEST)
        return super().answer_all(batch, pause)


class Served:
    def __init__(self, service, limits=None, token="", hosts=()):
        self.service, self.listener = service, listen("127.0.0.1", 0)
        self.url = url_of(self.listener)
        api = Api(service, "squad-1.1", limits or Limits(seconds=LONGEST), token, hosts)
        self.server = HttpServer(api.app(), self.listener, 2 * LONGEST)

    def stop(self) -> None:
        if isinstance(self.service, Gated):
            self.service.may.set()
        self.server.stop()

    def post(self, body=None, path="/v1/answer", **kwargs) -> requests.Response:
        if "data" not in kwargs:
            kwargs["json"] = body or BODY
        return requests.post(self.url + path, timeout=LONGEST, allow_redirects=False, **kwargs)

    def get(self, path: str, **kwargs) -> requests.Response:
        return requests.get(self.url + path, timeout=LONGEST, **kwargs)

    def metric(self, name: str) -> float:
        found = re.search(rf"(?m)^{re.escape(name)} (\S+)$", self.get("/metrics").text)
        return float(found[1]) if found else 0.0

    def connect(self, body: str, length: int | None = None) -> socket.socket:
        """Sends a request; its announced length may exceed the body."""
        head = "POST /v1/answer HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        connection = socket.create_connection(self.listener.getsockname(), timeout=LONGEST)
        announced = f"Content-Length: {length or len(body)}\r\n\r\n"
        connection.sendall(f"{head}{announced}{body}".encode())
        return connection


def until(holds: Callable[[], object]) -> None:
    """Waits until a condition holds that another thread changes."""
    end = time.monotonic() + LONGEST
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)

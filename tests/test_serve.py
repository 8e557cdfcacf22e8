"""`albert serve`: its output, its refusals, and its end."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from albert.cli import serve
from albert.cli.serve import task_of
from albert.core.errors import FlagError, UserError
from albert.inference import loading
from albert.serving import web
from tests.helpers.forking import LONGEST
from tests.helpers.running import albert
from tests.helpers.serving import TEXT, load_once, until

BODY = {"question": "What comes after words?", "context": f"{TEXT} " * 30}


@pytest.fixture
def starts(monkeypatch, exported):
    """Prepares to serve in this process, up to listening for requests."""
    monkeypatch.delenv(serve.TOKEN, raising=False)

    def starts(*arguments: object, model: object = exported) -> None:
        serve.main(serve.parse(["albert serve", str(model), *map(str, arguments)]))

    return starts


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--port=65536"], "--port must be below 65536; see --help"),
        (["--port=http"], "argument --port: invalid int value: 'http'"),
        (["--max_queue=0"], "--max_queue must be positive"),
        (["--max_seconds=nan"], "--max_seconds must be positive"),
        (["--max_batch=0"], "--max_batch must be positive"),
        (["--allowed_hosts=a.example,b:80"], "--allowed_hosts has 'b:80'; give names of hosts"),
        (["--hosts=a"], "unrecognized arguments: --hosts=a; did you mean --host? See --help"),
        (["--host=0.0.0.0", "--port=0"], "--host 0.0.0.0 is open to other machines: set ALBERT_T"),
    ],
)
def test_a_bad_flag_is_one_line(starts, arguments, part):
    with pytest.raises(FlagError) as caught:
        starts(*arguments)
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_a_bad_address_model_or_token_is_an_error(starts, monkeypatch, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"--port {port}: Address already in use.*; pass"):
            starts("--port", port)
    for host in ("192.0.2.1", "none.invalid"):
        with pytest.raises(UserError, match=f"cannot listen at --host {host} --port 0: "):
            starts("--host", host, "--port=0")
    with pytest.raises(UserError, match="has no model"):
        starts("--port=0", model=tmp_path)
    for token in ("two words", "schlüssel"):
        monkeypatch.setenv(serve.TOKEN, token)
        with pytest.raises(UserError, match="ALBERT_TOKEN must consist of printable ASCII"):
            starts("--port=0")


def test_flags_set_the_limits(starts, monkeypatch):
    def begin(service, *arguments):
        raise InterruptedError(arguments)

    chosen = []

    def load(path, *how):
        chosen.append(how)
        return load_once(str(path), *how)

    monkeypatch.setattr(loading, "load_any", load)
    monkeypatch.setattr(web, "Api", begin)
    monkeypatch.setenv(serve.TOKEN, "secret")
    flags = ("--max_bytes=1", "--max_seconds=2.5", "--max_queue=3", "--max_batch=4")
    with pytest.raises(InterruptedError) as caught:
        hosts, engine = "--allowed_hosts=A.example,b", "--engine=openvino"
        starts("--port=0", *flags, hosts, engine, "--precision=float32")
    computing = {"engine": "openvino", "precision": "float32"}
    assert chosen == [(*computing.values(), None)]
    limits = web.Limits(body_bytes=1, seconds=2.5, waiting=3, together=4)
    expected = ("squad-1.1", limits, "secret", ["a.example", "b"], computing)
    assert caught.value.args == (expected,)


def test_a_missing_package_is_an_error(starts, monkeypatch):
    for module in [name for name in sys.modules if name.startswith("albert.serving")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(UserError, match="uvicorn is missing: run `pip install prom.* uvicorn`"):
        starts("--port=0")


def test_a_signal_ends_it_after_all_answers(exported):
    command = [*albert("serve"), str(exported), "--port=0"]
    environment, headers = {**os.environ, serve.TOKEN: "secret"}, {"Authorization": "Bearer secret"}
    with contextlib.ExitStack() as stack:
        popen = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        process = stack.enter_context(popen)
        stack.callback(process.kill)
        says = r"Serving a model for squad-1.1 at (http:\S+); press Ctrl-C to end"
        url = next(match[1] for line in process.stderr if (match := re.search(says, line)))

        def post(_):
            return requests.post(f"{url}/v1/answer", json=BODY, headers=headers, timeout=LONGEST)

        def taken() -> bool:
            text = session.get(f"{url}/metrics", headers=headers, timeout=LONGEST).text
            waiting = re.search(r"^albert_queue_length (\S+)", text, re.MULTILINE)
            return float(waiting[1]) > 0 or any(future.done() for future in futures)

        with ThreadPoolExecutor(8) as pool, requests.Session() as session:
            futures = [pool.submit(post, n) for n in range(8)]
            until(taken)
            process.send_signal(signal.SIGTERM)
            responses = [future.exception(LONGEST) or future.result() for future in futures]
        answered = [r for r in responses if isinstance(r, requests.Response)]
        assert answered and {response.status_code for response in answered} == {200}
        refused = [r for r in responses if not isinstance(r, requests.Response)]
        assert all(isinstance(error, requests.ConnectionError) for error in refused)
        assert process.wait(LONGEST) == 128 + signal.SIGTERM
        assert process.stderr.read().splitlines()[-1] == "albert serve: stopped by SIGTERM"


@pytest.mark.parametrize(("name", "task"), [("tsv", "classify"), ("mrpc", "glue")])
def test_a_model_of_your_own_table_is_not_called_glue(name, task):
    assert task_of({"task": "glue", "task_name": name}) == task

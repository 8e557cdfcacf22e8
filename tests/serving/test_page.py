"""The page in a real browser: Debian's Chromium, without a window, in front of a real server."""

from __future__ import annotations

import json
import pathlib
import shlex

import pytest
import requests

from answering import load_model
from glue.head import make_head
from race.head import make_race_head
from serving.services import Questions, service_of
from serving.web import Limits
from tests.looking.test_page_in_browser import contrast, emulate, until
from tests.serving.test_web import LONGEST, Gated, Served

# What a browser would run if it took it for markup.
MARKUP = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>&lt;"


class Page:
    """The page as people see it."""

    def __init__(self, driver, served):
        self.driver, self.served = driver, served
        driver.get(served.url)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector):
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)"
        return self.run(script, selector)

    def type(self, name, text):
        field = self.find(name)
        field.clear()
        field.send_keys(text)

    def ask(self):
        """Asks, and waits for what comes of it."""
        self.find("send").click()
        self.wait()

    def wait(self):
        until(self.driver, self.find("send").is_enabled)

    def find(self, name):
        return self.driver.find_element("id", name)

    def fault_at(self, name):
        """What is said to be wrong with an input, which must have the focus."""
        field, fault = self.find(name), self.find(f"{name}-fault")
        assert field.get_attribute("aria-describedby") == fault.get_attribute("id")
        assert field.get_attribute("aria-invalid") == str(fault.is_displayed()).lower()
        assert not fault.is_displayed() or self.driver.switch_to.active_element == field
        return fault.text


@pytest.fixture
def open_page(chromium):
    """Opens the page of a service."""
    started = []

    def open_page(service, **kwargs) -> Page:
        # What the console said before is of other pages.
        chromium.get_log("browser")
        started.append(Served(service, **kwargs))
        return Page(chromium, started[-1])

    yield open_page
    emulate(chromium)
    chromium.get("about:blank")
    for served in started:
        served.stop()


def console(page: Page) -> list[str]:
    return [entry["message"] for entry in page.driver.get_log("browser")]


def test_an_answer_in_its_text(open_page, exported):
    model = load_model(str(exported))
    page = open_page(Questions(model))
    text = f"A tower 🏰 and a mill{MARKUP} stood here, and\nmore words of it."
    question = f"What is{MARKUP}?"
    page.run("document.getElementById('context').value = arguments[0]", text)
    page.type("question", question)
    page.ask()
    found = model.answer(question, [text]).answers
    assert page.texts("#said") == [" ".join(found[0].text.split())]
    in_text = "return document.getElementById('passage').textContent"
    assert page.run(in_text) == text
    marked = "return document.querySelector('mark').textContent"
    assert page.run(marked) == found[0].text
    # Another answer is shown where it stands.
    buttons = page.driver.find_elements("css selector", "#others button")
    assert len(buttons) == min(5, len(found)) > 1
    buttons[1].click()
    assert page.run(marked) == found[1].text and page.run(in_text) == text
    before = "return document.querySelector('mark').previousSibling.textContent"
    assert page.run(before) == text[: found[1].place]
    assert page.run("return window.broken") is None
    assert page.texts("#result h2, #asked") == ["Answer", question]
    shares = [f"{100 * answer.probability:.1f}%" for answer in found[:5]]
    assert page.texts(".row span:last-child") == shares
    assert page.texts("#facts") == [f"confidence {shares[0]} · line 1"]
    # What is shown for a terminal asks the same.
    command = shlex.split(page.run("return document.getElementById('curl').textContent"))
    assert command[:2] == ["curl", page.driver.current_url + "v1/answer"]
    asked = json.loads(command[command.index("-d") + 1])
    assert asked == {"question": question, "context": text, "n_best": 5}
    assert console(page) == []


def test_examples_and_what_the_page_says_of_the_model(open_page, exported):
    page = open_page(service_of(load_model(str(exported))))
    (about,) = page.texts("#about")
    name = pathlib.Path(exported).parent.parent.name
    assert f" Model: {name} (squad-1.1), version " in about
    link = page.driver.find_element("css selector", "header a").get_attribute("href")
    assert requests.get(link, timeout=LONGEST).json()["openapi"]
    buttons = page.driver.find_elements("css selector", "#examples button")
    buttons[1].click()
    page.wait()
    assert page.texts("#asked") == [buttons[1].text] != [buttons[0].text]
    answer = page.run("return document.querySelector('mark').textContent")
    assert answer and answer in page.find("context").get_attribute("value")
    page.find("clear").click()
    assert page.run("return context.value + question.value") == ""
    assert page.driver.switch_to.active_element == page.find("context")
    headers = requests.get(page.driver.current_url, timeout=LONGEST).headers
    policy = dict(part.split(maxsplit=1) for part in headers["Content-Security-Policy"].split("; "))
    of_page = {kind: policy.pop(f"{kind}-src") for kind in ("script", "style")}
    assert all(source.startswith("'sha256-") for source in of_page.values())
    assert policy == {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


def test_faults_and_the_keyboard(open_page, exported):
    from selenium.webdriver import Keys

    limits = Limits(body_bytes=1000, seconds=LONGEST)
    page = open_page(Questions(load_model(str(exported))), limits=limits)
    page.type("question", " ")
    page.ask()
    assert page.fault_at("question") == "Question is empty."
    assert console(page) == [], "an empty question is not sent"
    page.type("question", "Who wrote it?" + Keys.ENTER)
    page.wait()
    assert page.fault_at("question") == "" and page.texts("#said") != [""]
    page.find("context").clear()
    page.find("context").send_keys(Keys.CONTROL + Keys.ENTER)
    assert page.fault_at("context") == "Context is empty."
    # What only the server refuses.
    page.run("context.value = 'half a character \\ud83c'")
    page.ask()
    assert page.fault_at("context").startswith("Context has half of a surrogate pair")
    assert not page.find("answer").is_displayed(), "it is of another question"
    page.run("context.value = 'long '.repeat(200)")
    page.ask()
    too_long = "The text is too long for this server: the body is larger than 1000 bytes, "
    assert page.texts("#fault") == [f"{too_long}the server's limit."]
    assert page.fault_at("context") == ""


def test_the_token_is_asked_for(open_page, exported):
    page = open_page(Questions(load_model(str(exported))), token="secret")
    assert not page.find("token").is_displayed()
    page.ask()
    assert page.fault_at("token") == "This server answers only with its token."
    page.type("token", "secrets")
    page.ask()
    assert page.fault_at("token") == "This is not the server's token."
    page.type("token", "secret")
    page.ask()
    assert page.fault_at("token") == "" and page.texts("mark") != []


def test_an_answer_that_takes_long(open_page, exported):
    """The old answer is dimmed meanwhile, and stays for who stops."""
    service = Gated(load_model(str(exported)))
    page = open_page(service, limits=Limits(seconds=LONGEST))
    service.may.set()
    page.ask()
    assert page.texts("#clock")[0].startswith("Answered in ")
    (said,) = page.texts("#said")
    service.may.clear()
    try:
        page.find("send").click()
        until(page.driver, lambda: page.texts("#clock") == ["Asking: 1 s"])
        result = page.find("result")
        assert result.get_attribute("aria-busy") == "true" and not page.find("send").is_enabled()
        assert float(page.find("answer").value_of_css_property("opacity")) < 0.6
        page.find("stop").click()
        page.wait()
        assert page.texts("#clock")[0].startswith("Stopped after ")
        assert result.get_attribute("aria-busy") == "false"
        assert page.texts("#said") == [said] and page.texts("#fault") == [""]
        assert not page.find("stop").is_displayed()
    finally:
        service.may.set()
    page.ask()
    assert page.texts("#clock")[0].startswith("Answered in ")
    page.served.server.stop()
    page.ask()
    unreachable = "The server cannot be reached (Failed to fetch). Does it still run?"
    assert page.texts("#fault") == [unreachable] and page.texts("#clock") == [""]
    assert not page.find("answer").is_displayed()


def test_labels(open_page, random_model):
    labels = ["no", "<b>yes"]
    folder = random_model(make_head(2, 0.0), task="glue", labels=labels, limits=None)
    model = load_model(folder)
    page = open_page(service_of(model))
    page.type("text", "A text.")
    page.type("second_text", "Another one.")
    page.ask()
    found = model.classify("A text.", "Another one.")
    assert page.texts("#said") == [found.label]
    assert sorted(page.texts(".row span:first-child")) == sorted(labels)
    assert page.texts(".row span:last-child")[0] == f"{100 * found.probabilities[found.label]:.1f}%"
    bar = "return document.querySelector('.bar div').offsetWidth / arguments[0].offsetWidth"
    width = page.run(bar, page.driver.find_element("css selector", ".bar"))
    assert width == pytest.approx(found.probabilities[found.label], abs=0.01)
    assert console(page) == []


def test_options(open_page, random_model):
    head, labels = make_race_head(0.0, 4), list("ABCD")
    model = load_model(random_model(head, task="race", labels=labels, max_qa_length=16))
    page = open_page(service_of(model))
    options = ["one", "two", "red", "blue"]
    for number, option in enumerate(options):
        page.type(f"options-{number}", option)
    page.ask()
    (said,) = page.texts("#said")
    label, option = said.split(": ")
    assert options[labels.index(label)] == option
    assert len(page.texts("#others li")) == 4 and console(page) == []


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_the_answer_is_in_sight(open_page, exported, width, scheme):
    page = open_page(Questions(load_model(str(exported))))
    emulate(page.driver, width, height=500, prefers_color_scheme=scheme)
    page.type("context", "word" * 100)
    page.ask()
    wide = page.run("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide[0] <= wide[1] == width
    top = page.run("return document.getElementById('said').getBoundingClientRect().top")
    assert 0 <= top < 400
    share = page.driver.find_element("css selector", ".row span:last-child")
    assert share.value_of_css_property("white-space") == "nowrap"
    for name, around in (("question", "form"), ("question", "question"), ("clear", "clear")):
        edge = page.find(name).value_of_css_property("border-top-color")
        ground = page.find(around).value_of_css_property("background-color")
        assert contrast(edge.replace("rgba", "rgb"), ground.replace("rgba", "rgb")) >= 3

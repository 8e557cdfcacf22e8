"""The page in a real browser: Debian's Chromium, without a window, in front of a real server."""

from __future__ import annotations

import pytest

from answering import load_model
from glue.head import make_head
from race.head import make_race_head
from serving.services import Questions, service_of
from tests.serving.test_web import LONGEST, Served

# What a browser would run if it took it for markup.
MARKUP = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>&lt;"


class Page:
    """The page as people see it."""

    def __init__(self, driver, url):
        self.driver = driver
        driver.get(url)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector):
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)"
        return self.run(script, selector)

    def type(self, name, text):
        field = self.driver.find_element("id", name)
        field.clear()
        field.send_keys(text)

    def ask(self):
        """Asks, and waits for what comes of it."""
        from selenium.webdriver.support.wait import WebDriverWait

        self.driver.find_element("id", "send").click()
        is_done = "return !document.getElementById('send').disabled"
        WebDriverWait(self.driver, LONGEST).until(lambda _: self.run(is_done))


@pytest.fixture
def open_page(chromium):
    """Opens the page of a service."""
    started = []

    def open_page(service, **kwargs) -> Page:
        # What the console said before is of other pages.
        chromium.get_log("browser")
        started.append(Served(service, **kwargs))
        return Page(chromium, started[-1].url)

    yield open_page
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
    assert console(page) == []


def test_faults_and_the_keyboard(open_page, exported):
    from selenium.webdriver import Keys

    page = open_page(Questions(load_model(str(exported))))
    page.type("question", " ")
    page.ask()
    assert page.texts("#fault") == ["422: 'question' is empty"]
    page.type("question", "Who wrote it?" + Keys.ENTER)
    page.ask()
    assert page.texts("#fault") == [""] and page.texts("#said") != [""]
    page.type("context", Keys.CONTROL + Keys.ENTER)
    page.ask()
    assert page.texts("#fault") == ["422: 'context' is empty"]


def test_the_token_is_asked_for(open_page, exported):
    page = open_page(Questions(load_model(str(exported))), token="secret")
    assert not page.driver.find_element("id", "token").is_displayed()
    page.ask()
    assert page.texts("#fault") == ["401: send the header Authorization: Bearer TOKEN"]
    page.type("token", "secret")
    page.ask()
    assert page.texts("#fault") == [""] and page.texts("mark") != []


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
    assert (
        page.texts(".row span:last-child")[0] == f"{100 * found.probabilities[found.label]:.1f} %"
    )
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


@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_sticks_out(open_page, exported, width):
    page = open_page(Questions(load_model(str(exported))))
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.type("context", "word" * 100)
    page.ask()
    wide = page.run("return [document.documentElement.scrollWidth, window.innerWidth]")
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide[0] <= wide[1] == width

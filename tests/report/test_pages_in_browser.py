"""The pages of predictions, of a server and of the site in a real browser, in one module for it."""

import csv
import functools
import http.server
import json
import pathlib
import re
import shlex
import threading

import numpy as np
import pytest
from scipy.stats import binomtest
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.support.wait import WebDriverWait

from albert.report.classes import Classes
from albert.report.predictions import View, write_page
from albert.report.spans import Span, spans_view
from albert.serving.services import service_of
from albert.serving.web import Limits
from albert.tasks.classification.view import labels_view
from albert.tasks.squad.scoring import ScoredAnswer
from albert.tasks.squad.view import sample_of
from tests.helpers import browser
from tests.helpers.browser import emulate
from tests.helpers.forking import ROOT
from tests.helpers.serving import LABELS, LONGEST, Gated, Served, load_once, model_of

FITS = "return document.documentElement.scrollWidth <= innerWidth"
ROWS = "return document.querySelectorAll('.row').length"
BROKEN = "return [window.broken, document.querySelectorAll('img').length]"
# Text that a browser would run, or take for the end of the data, if it read it as markup.
MARKUP = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>&lt;"


@pytest.fixture(scope="module")
def chromium():
    with browser.started() as driver:
        yield driver


class Page:
    def __init__(self, driver, address: str):
        driver.get(address)
        self.driver = driver

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)"
        return self.run(script, selector)

    def text(self, selector: str) -> str:
        return self.texts(selector)[0]

    def content(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def find(self, selector: str):
        return self.driver.find_element("css selector", selector)

    def type(self, selector: str, text: str) -> None:
        self.find(selector).clear()
        self.find(selector).send_keys(text)

    def press(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()

    def until(self, holds) -> None:
        WebDriverWait(self.driver, LONGEST).until(lambda _: holds())

    def console(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]


def contrast(*colours: str) -> float:
    """Returns the contrast of two colors "rgb(...)", see https://www.w3.org/TR/WCAG22."""
    shares = [np.array(re.findall(r"\d+", colour)[:3], float) / 255 for colour in colours]
    linear = [np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) for c in shares]
    low, high = sorted(c @ [0.2126, 0.7152, 0.0722] for c in linear)
    return (high + 0.05) / (low + 0.05)


@pytest.fixture
def open_view(chromium, tmp_path):
    """Opens the page of a view; at the end of the test, a message on the console is a failure, and
    so is markup of a text that was not shown as text."""

    def open_view(view) -> Page:
        write_page(str(tmp_path / "predictions.html"), view)
        return Page(chromium, f"file://{tmp_path}/predictions.html")

    # Earlier messages are from other pages.
    chromium.get_log("browser")
    yield open_view
    emulate(chromium)
    assert chromium.execute_script(BROKEN) == [None, 0]
    assert chromium.get_log("browser") == []


@pytest.fixture
def open_service(chromium):
    """Opens the page of a model or of a service, and starts its server."""
    started = []

    def open_service(service, **kwargs) -> Page:
        service = service_of(load_once(str(service))) if not hasattr(service, "fields") else service
        started.append(Served(service, **kwargs))
        page = Page(chromium, started[-1].url)
        page.served = started[-1]
        return page

    chromium.get_log("browser")
    yield open_service
    emulate(chromium)
    chromium.get("about:blank")
    for served in started:
        served.stop()


def shown(page: Page) -> list[str]:
    return page.texts(".row div:first-child")


def view_of(count=6, markup=""):
    """Returns answers to SQuAD 2.0 with n-best lists and log-odds; every third has no answer."""
    samples = []
    for n in range(count):
        context = f"Tower {n} was built 🏰 by Anna{markup} in {1000 + n}, and it was Anna who fell."
        question = {"id": f"q{n}", "question": f"{'Who' if n % 2 else 'When'} built {n}{markup}?"}
        truth = "Anna" if n % 2 else str(1000 + n)
        truths = [{"text": truth, "answer_start": context.index(truth)}] * (n % 3 != 2)
        shares = {"Anna": (n % 10) / 10 + 0.05, f"Tower {n}": 0.01}
        nbest = [{"text": text, "probability": share} for text, share in shares.items()]
        score = float(n % 2 or not truths)
        answer = ("Anna", -3.0) if truths else ("", 3.0)
        answered = ScoredAnswer(f"q{n}", *answer, score, score)
        samples.append(sample_of(context, {**question, "answers": truths}, answered, nbest, True))
    scores = {"exact": 66.66666, "f1": 66.66666, "total": count, "HasAns_exact": 50.0}
    scores["best_f1_thresh"] = 1.0
    return View(f"Towers{markup}", scores, samples)


def test_a_question_and_its_markup_are_shown_with_answer_and_scores(open_view):
    page = open_view(view_of(markup=MARKUP))
    assert page.driver.title == page.text("h1") == f"Towers{MARKUP}"
    assert page.text("h2") == f"When built 0{MARKUP}?" and MARKUP in page.text("#passage")
    assert page.texts("#passage mark.answer") == ["Anna"]
    assert page.texts("#passage mark.truth") == ["1000"]
    assert page.texts("#detail dd") == ["Anna", "1000"]
    assert page.texts(".bars span:nth-child(3n + 1)")[:2] == ["Anna", "Tower 0"]
    assert page.texts(".bars .number") == ["5.0%", "1.0%"]
    chips = ["Exact match 66.67", "F1 66.67", "Questions 6", "Answerable: exact match 50"]
    assert page.texts("#scores .chip")[:4] == chips
    assert page.texts(".row .facts")[0] == "✗ wrong · F1 0% · confidence 5% · Anna"
    buttons = ["all 6", "right 4", "wrong 2", "unanswerable 2", "abstained 2"]
    assert [" ".join(text.split()) for text in page.texts("#outcomes button")] == buttons
    page.press("j")
    # A text that is both predicted and true has both marks: the first Anna, at the file's offset.
    assert page.texts("#passage mark.answer.truth") == ["Anna"]
    assert page.text("#passage").index("Anna") < page.text("#passage").index("1001")


def test_searches_and_filters_select_questions(open_view):
    page = open_view(view_of(12))
    # Questions, paragraphs and ids.
    found_by = {"WHO built 3": "Who built 3?", "1004": "When built 4?", "q5": "Who built 5?"}
    for words, question in found_by.items():
        page.type("#search", words)
        assert shown(page) == [question] and page.text("#count") == "1 of 12"
    page.type("#search", "nowhere")
    assert shown(page) == [] and "No predictions match" in page.text("#sample")
    page.find("#sample button").click()
    assert page.text("#count") == "12 of 12"
    # By confidence.
    page.type("#low", "50")
    page.type("#high", "90")
    expected = sum(0.5 <= s["confidence"] <= 0.9 for s in view_of(12).samples)
    assert 0 < expected < 12 and page.text("#count") == f"{expected} of 12"


def bars(page, key):
    """Returns what the bars of a chart say, by their names for screen readers."""
    names = "return [...document.querySelectorAll(`[id^='${arguments[0]}:']`)]"
    return page.run(names + ".map(bar => bar.ariaLabel)", key)


def test_charts_show_the_selection_and_filter_it(open_view):
    page = open_view(view_of(12))
    titles = ["F1 by confidence", "F1 by question word", "F1 by words of the true answer"]
    assert page.texts("#plots h3") == titles
    labels = "return [...document.querySelectorAll('#plots [role=group]')].map(e => e.ariaLabel)"
    assert page.run(labels) == titles
    low, high = (100 * x for x in binomtest(2, 6).proportion_ci(method="wilson"))
    when = f"when: F1 33.3, 6 questions; 95% interval {low:.0f} to {high:.0f}"
    assert sorted(bars(page, "word"))[0] == page.find("[id='word:when']").get_attribute("title")
    assert sorted(bars(page, "word"))[0] == when
    assert bars(page, "confidence")[9].startswith("90-100%: F1 ")

    # A bar filters by mouse and keyboard, and leaves the other bars' counts.
    page.find("[id='word:when']").click()
    assert page.text("#count") == "6 of 12" and page.text("#overall") == "F1 33.3, 6 questions"
    assert sorted(bars(page, "word"))[0] == when and len(bars(page, "word")) == 2
    bar = page.find("[id='word:when']")
    assert bar.get_attribute("aria-pressed") == "true"
    bar.send_keys(Keys.ENTER)
    assert page.text("#count") == "12 of 12"
    page.find("[id='confidence:90-100%']").click()
    assert page.text("#count") == "5 of 12" and "5 questions" in bars(page, "confidence")[9]


def test_the_address_holds_the_filters(open_view):
    page = open_view(view_of(12))
    path = page.driver.current_url
    page.driver.get(f"{path}#only=wrong&to=50&word=when&order=most+confident+first")
    assert page.text("#count") == "3 of 12" and page.text("h2") == "When built 4?"
    assert page.run("return $('high').value + $('order').value") == "50most confident first"
    page.driver.get(f"{path}#only=nothing&order=none&word=&from=0")
    assert page.text("#count") == "12 of 12", "what is not known is no filter"

    # "Back" undoes one step: typing into a field, a button, a bar, a row.
    page.driver.get(path + "#")
    page.type("#search", "built")
    page.find("[data-only=wrong]").click()
    page.find("[id='word:when']").click()
    page.press("j", "j")
    assert page.run("return location.hash") == "#q=built&only=wrong&word=when&id=q6"
    only = "q=built&only=wrong"
    for hash, count in ((f"{only}&word=when", 4), (only, 4), ("q=built", 12), ("", 12)):
        page.driver.back()
        assert page.run("return location.hash.slice(1)") == hash
        assert page.text("#count") == f"{count} of 12"


def test_the_selection_is_saved_as_a_table(open_view, chromium, tmp_path):
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    chromium.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    view = view_of(6, markup=' "a", b')
    page = open_view(view)
    page.find("[data-only=wrong]").click()
    page.find("#save").click()
    file = tmp_path / "predictions.csv"
    page.until(lambda: file.exists() and file.stat().st_size)
    rows = list(csv.DictReader(file.read_text("utf-8-sig").splitlines()))
    samples = [sample for sample in view.samples if not sample["right"]]
    assert [(row["id"], row["question"], row["true"]) for row in rows] == [
        (s["id"], s["question"], s["truths"][0]["text"]) for s in samples
    ]
    assert [float(row["confidence"]) for row in rows] == [s["confidence"] for s in samples]


def test_every_key_does_what_the_page_says(open_view):
    page = open_view(view_of(40))
    selected = "return document.querySelector('[aria-selected=true] div').innerText"
    page.press("j", "j", "k", Keys.ARROW_DOWN)
    assert page.run(selected) == page.text("h2") == "When built 2?"
    page.press(Keys.END)
    assert page.run(selected) == "Who built 39?"
    page.press(Keys.HOME, "/", "q", "3", "j")
    assert page.run("return $('search').value") == "q3j", "letters that are typed move nothing"
    page.press(Keys.ESCAPE, "j")
    assert page.run("return $('search').value") == "" and page.run(selected) == "Who built 1?"


def class_table(page) -> dict[str, list]:
    """Returns the numbers in the table of the scores of labels, by label."""
    script = "return [...document.querySelectorAll('#classes tr')].map(tr => [...tr.children].map("
    _, *rows = page.run(script + "cell => cell.textContent))")
    return {label: [pytest.approx(float(cell), abs=6e-4) for cell in row] for label, *row in rows}


def classes_of(view) -> dict[str, list]:
    return {label: [*row.values()] for label, row in Classes(view.samples).scores().items()}


def labels(names, passage=None):
    """Returns a view of 8 examples with these labels; the last two are wrong."""
    texts = [{"id": f"e{n}", "passage": passage, "texts": [f"text {n}", "b"]} for n in range(8)]
    outputs = []
    for n, answer in enumerate([0, 1, 0, 1, 0, 1, 1, 0]):
        output = {"label_ids": np.int64(n % 2), "predictions": np.int32(answer)}
        outputs.append({**output, "probabilities": np.array([[0.8, 0.2], [0.3, 0.7]][answer])})
    return labels_view("Pairs", texts, outputs, names, {"eval_accuracy": 0.75})


def test_a_matrix_shows_and_selects_labels_and_sets_are_scored_by_f1(open_view):
    page = open_view(labels(["no", MARKUP]))
    assert page.texts("#scores .chip") == ["Accuracy 0.7500"]
    assert page.texts("#matrix th")[-1] == MARKUP and page.run(BROKEN) == [None, 0]
    assert page.text("#overall") == "Accuracy 75.0%, 8 examples"
    assert page.texts("#matrix button") == ["3", "1", "1", "3"]
    assert class_table(page) == classes_of(labels(["no", MARKUP]))
    page.find("#matrix tr:nth-child(2) td:nth-child(3) button").click()
    # Of the selection.
    assert class_table(page) == {"no": [0, 0, 0, 1], MARKUP: [0, 0, 0, 0]}
    assert shown(page) == ["text 6"]
    assert page.texts("#detail dd") == [MARKUP, "no"]
    page = open_view(labels(["A", "B"], "a passage"))
    assert page.texts(".bars span:nth-child(3n + 1)")[:2] == ["A: text 0", "B: b"]
    # All examples share it.
    page.press("j")
    assert page.text("#passage") == "a passage" and page.texts("#detail dd") == ["B", "B"]
    page.type("#search", "passage")
    assert page.text("#count") == "8 of 8"
    texts = [{"id": f"e{n}", "passage": None, "texts": [f"text {n}"]} for n in range(3)]
    outputs = [
        {"label_ids": np.int64(truth), "predictions": np.int32(answer), "probabilities": [0.6, 0.4]}
        for truth, answer in (([1, 1], [1, 0]), ([0, 0], [0, 0]), ([0, 1], [1, 0]))
    ]
    page = open_view(labels_view("Sets", texts, outputs, ["a", "b"], {"micro_f1": 0.5}))
    assert page.texts("#scores .chip") == ["Micro F1 0.5000"]
    assert page.text("#overall") == "F1 55.6, 3 examples"
    assert class_table(page) == classes_of(labels_view("", texts, outputs, ["a", "b"], {}))
    facts = ["✗ wrong · F1 67% · a", "✓ right · no label", "✗ wrong · F1 0% · a"]
    assert page.texts(".row .facts") == facts
    assert page.texts("#detail dd") == ["a", "a, b"]


def test_spans_are_marked_with_their_labels(open_view):
    """A place that is predicted and true has both marks, and both labels if they differ."""
    text = f"Anna 🏰 Bell left{MARKUP} Rome for York."

    def span(part, label, share=None):
        return Span(text.index(part), text.index(part) + len(part), part, label, share)

    predicted = [span("Anna", "PER", 0.9), span("Rome", MARKUP, 0.4)], []
    truths = [span("Anna", "PER"), span("Rome", "LOC"), span("York", "LOC")], []
    texts = {"line 1": text, "line 2": "nothing here"}
    page = open_view(spans_view("Towns", texts, predicted, truths, {"f1": 0.4, "LOC_f1": 0.0}))
    assert page.text("#passage") == text
    assert page.texts("#passage mark.answer.truth") == ["Anna", "Rome"]
    assert page.texts("#passage mark.truth:not(.answer)") == ["York"]
    labels = "return [...document.querySelectorAll('#passage mark')].map(e => e.dataset.label)"
    assert page.run(labels) == ["PER", f"{MARKUP}/LOC", "LOC"]
    said = f"Anna (PER) | Rome ({MARKUP})", "Anna (PER) | Rome (LOC) | York (LOC)"
    assert page.texts("#detail dd") == [*said]
    assert page.texts("#scores .chip") == ["F1 0.4000", "LOC f1 0"]
    assert page.texts(".bars .number") == ["90.0%", "40.0%"]
    assert page.text("#overall") == "F1 70.0, 2 texts"
    titles = "confidence", "label of the first true span", "words of the text"
    assert page.texts("#plots h3") == [*(f"F1 by {title}" for title in titles), "Scores by label"]
    assert class_table(page) == classes_of(spans_view("", texts, predicted, truths, {}))
    assert shown(page) == [text, "nothing here"]
    facts = f"✗ wrong · F1 40% · confidence 40% · {said[0]}"
    assert page.texts(".row .facts") == [facts, "✓ right · none"]
    page.find("[id='label:none']").click()
    assert shown(page) == ["nothing here"] and page.texts("#detail dd") == ["none", "none"]


def test_numbers_are_listed_and_plotted(open_view):
    texts = [{"id": f"e{n}", "passage": None, "texts": [f"text {n}"]} for n in range(3)]
    outputs = [{"label_ids": np.float32(n), "predictions": np.float32(n * n)} for n in range(3)]
    page = open_view(labels_view("Numbers", texts, outputs, [None], {"pearson": 0.96}))
    assert not page.find("#outcomes").is_displayed()
    assert not page.find("#confidence").is_displayed()
    page.find("#order").send_keys("largest")
    assert shown(page) == ["text 2", "text 0", "text 1"]
    assert len(page.texts("circle")) == 3
    # Unknown numbers are named so, and the rest is shown.
    nan = np.float32("nan")
    outputs = [{"label_ids": np.float32(n), "predictions": [nan, 3.0, 2.5][n]} for n in range(3)]
    page = open_view(labels_view("Numbers", texts, outputs, [None], {"pearson": nan}))
    assert page.texts("#scores .chip") == ["Pearson correlation unknown"]
    assert page.texts("#detail dd") == ["unknown", "0.00"]
    assert len(page.texts("circle")) == 2
    view = view_of()
    view.samples[0] |= {"confidence": None, "nbest": [{"text": "Anna", "probability": None}]}
    page = open_view(view)
    assert page.texts(".bars .number") == ["unknown"]
    assert page.texts(".row .facts")[0] == "✗ wrong · F1 0% · Anna"


def test_the_page_fits_a_phone_in_both_color_schemes(open_view, chromium):
    for scheme in ("light", "dark"):
        emulate(chromium, 390, prefers_color_scheme=scheme)
        page = open_view(view_of(1000))
        assert page.run(FITS)
        page.find("summary").click()
        assert page.run(FITS)
        style = "return getComputedStyle($(arguments[0]))[arguments[1]]"
        ground = page.run("return getComputedStyle(document.body).backgroundColor")
        assert (contrast(ground, "rgb(0, 0, 0)") < 3) == (scheme == "dark")
        for field in ("search", "low", "order", "save"):
            for inside in (ground, page.run(style, field, "backgroundColor")):
                assert contrast(page.run(style, field, "borderTopColor"), inside) >= 3
        bar = "return getComputedStyle(document.querySelector('.track i')).backgroundColor"
        assert contrast(page.run(bar), page.run(style, "list", "backgroundColor")) >= 3
    # Only visible questions are drawn.
    assert page.run(ROWS) < 60
    page.find("summary").click()

    # The page scrolls, and nothing inside it; a sample replaces the list until one goes back.
    page.run("scrollTo(0, 500 * 56)")
    row = "return document.elementFromPoint(100, 400).closest('.row')"
    page.until(lambda: page.run(row))
    question = page.run(row + ".firstChild.innerText")
    assert page.run(ROWS) < 60
    page.run(row).click()
    assert page.text("#sample h2") == question and page.run("return scrollY") == 0
    assert not page.find("#list").is_displayed() and not page.find("#search").is_displayed()
    for leave in (page.driver.back, lambda: page.find("[data-to=list]").click()):
        leave()
        assert not page.find("#detail").is_displayed()
        chosen = page.find("[aria-selected=true]")
        assert 0 < page.run("return arguments[0].getBoundingClientRect().top", chosen) < 844
        chosen.click()
    assert page.run(FITS)


class TestServer:
    def ask(self, page: Page, button=None) -> None:
        (button or page.find("#send")).click()
        page.until(page.find("#send").is_enabled)

    def fault_at(self, page: Page, name: str) -> str:
        """Returns the fault reported for an input, which must have the focus."""
        field, fault = page.find(f"#{name}"), page.find(f"#{name}-fault")
        assert field.get_attribute("aria-describedby") == fault.get_attribute("id")
        assert field.get_attribute("aria-invalid") == str(fault.is_displayed()).lower()
        assert not fault.is_displayed() or page.driver.switch_to.active_element == field
        return fault.text

    def test_an_answer_is_marked_in_its_text(self, open_service, exported):
        page, model = open_service(exported), load_once(str(exported))
        text = f"A tower 🏰 and a mill{MARKUP} stood here, and\nmore words of it."
        question = f"What is{MARKUP}?"
        page.run("document.getElementById('context').value = arguments[0]", text)
        page.type("#question", question)
        self.ask(page)
        answers = model.answer(question, [text]).answers
        assert page.texts("#said") == [" ".join(answers[0].text.split())]
        assert page.content("#passage") == text and page.content("mark") == answers[0].text
        # Selecting another answer marks that one.
        page.find("#others li:nth-child(2) button").click()
        assert page.content("mark") == answers[1].text and page.content("#passage") == text
        assert page.run("return window.broken") is None
        assert page.texts("#result h2, #asked") == ["Answer", question]
        shares = [f"{100 * answer.probability:.1f}%" for answer in answers[:5]]
        assert page.texts(".row span:last-child") == shares
        assert page.texts("#facts") == [f"confidence {shares[0]} · line 1"]
        # The command shown for a terminal asks the same.
        command = shlex.split(page.content("#curl"))
        assert command[:2] == ["curl", page.driver.current_url + "v1/answer"]
        request = json.loads(command[command.index("-d") + 1])
        assert request == {"question": question, "context": text, "n_best": 5}
        assert page.console() == []

    def test_examples_fill_the_form_and_the_model_is_described(self, open_service, exported):
        page = open_service(exported)
        name = pathlib.Path(exported).parent.parent.name
        assert f" Model: {name} (squad-1.1), version " in page.text("#about")
        buttons = page.driver.find_elements("css selector", "#examples button")
        self.ask(page, buttons[1])
        assert page.texts("#asked") == [buttons[1].text] != [buttons[0].text]
        answer = page.content("mark")
        assert answer and answer in page.find("#context").get_attribute("value")
        page.find("#clear").click()
        assert page.run("return context.value + question.value") == ""

    def test_faults_name_the_input_and_focus_it(self, open_service, exported):
        page = open_service(exported, limits=Limits(body_bytes=1000, seconds=LONGEST))
        page.type("#question", " ")
        self.ask(page)
        assert self.fault_at(page, "question") == "Question is empty."
        assert page.console() == [], "an empty question is not sent"
        page.type("#question", "Who wrote it?" + Keys.ENTER)
        page.until(page.find("#send").is_enabled)
        assert self.fault_at(page, "question") == "" and page.texts("#said") != [""]
        page.type("#context", Keys.CONTROL + Keys.ENTER)
        assert self.fault_at(page, "context") == "Context is empty."
        # Only the server refuses this.
        page.run("context.value = 'half a character \\ud83c'")
        self.ask(page)
        assert self.fault_at(page, "context").startswith("Context has half of a surrogate pair")
        assert not page.find("#answer").is_displayed(), "it is of another question"
        page.run("context.value = 'long '.repeat(200)")
        self.ask(page)
        too_long = "The text is too long for this server: the body is larger than 1000 bytes, "
        assert page.texts("#fault") == [f"{too_long}the server's limit."]
        assert self.fault_at(page, "context") == ""

    def test_the_token_is_asked_for(self, open_service, exported):
        page = open_service(exported, token="secret")
        assert not page.find("#token").is_displayed()
        self.ask(page)
        assert self.fault_at(page, "token") == "This server answers only with its token."
        for token, fault in (("secrets", "This is not the server's token."), ("secret", "")):
            page.type("#token", token)
            self.ask(page)
            assert self.fault_at(page, "token") == fault
        assert page.texts("mark") != []

    def test_a_slow_answer_can_be_stopped(self, open_service, exported):
        """The old answer is dimmed meanwhile, and stays if the reader stops."""
        service = Gated(load_once(str(exported)))
        page = open_service(service)
        service.may.set()
        self.ask(page)
        assert page.text("#clock").startswith("Answered in ")
        said = page.text("#said")
        service.may.clear()
        page.find("#send").click()
        page.until(lambda: re.fullmatch("Asking: [1-9][0-9]* s", page.text("#clock")))
        result = page.find("#result")
        assert result.get_attribute("aria-busy") == "true" and not page.find("#send").is_enabled()
        assert float(page.find("#answer").value_of_css_property("opacity")) < 0.6
        self.ask(page, page.find("#stop"))
        assert page.text("#clock").startswith("Stopped after ")
        assert result.get_attribute("aria-busy") == "false"
        assert page.texts("#said") == [said] and page.texts("#fault") == [""]
        assert not page.find("#stop").is_displayed()
        service.may.set()
        self.ask(page)
        assert page.text("#clock").startswith("Answered in ")
        page.served.server.stop()
        self.ask(page)
        unreachable = "The server cannot be reached (Failed to fetch). Is it still running?"
        assert page.texts("#fault") == [unreachable] and page.texts("#clock") == [""]
        assert not page.find("#answer").is_displayed()

    def test_labels_and_spans_are_shown(self, open_service, random_model):
        folder = model_of(random_model, "labels")
        page = open_service(folder)
        page.type("#text", "A text.")
        # The folder does not say whether the model was trained on pairs.
        page.find("#fields summary").click()
        page.type("#second_text", "Another one.")
        self.ask(page)
        labelled = load_once(folder).classify("A text.", "Another one.")
        share = labelled.probabilities[labelled.label]
        assert page.texts("#said") == [labelled.label]
        assert sorted(page.texts(".row span:first-child")) == sorted(LABELS)
        assert page.texts(".row span:last-child")[0] == f"{100 * share:.1f}%"
        folder = model_of(random_model, "spans")
        page, model = open_service(folder), load_once(folder)
        text = f"Anna 🏰 went{MARKUP} to\nRome and Berlin."
        page.run("document.getElementById('text').value = arguments[0]", text)
        self.ask(page)
        spans = model.find(text)
        elements = "return [...document.querySelectorAll(arguments[0])].map(e => "
        marks = page.run(f"{elements}[e.textContent, e.dataset.label])", "mark")
        assert marks == [[span.text, span.label] for span in spans] != []
        assert page.content("#passage") == text
        rows = page.run(f"{elements}e.textContent)", ".row span:first-child")
        assert rows == [f"{span.label}: {span.text}" for span in spans]
        assert page.texts(".row span:last-child")[0] == f"{100 * spans[0].probability:.1f}%"
        assert page.run("return window.broken") is None and page.console() == []

    @pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
    def test_the_answer_is_visible_on_any_screen(self, open_service, exported, width, scheme):
        page = open_service(exported)
        emulate(page.driver, width, height=500, prefers_color_scheme=scheme)
        page.type("#context", "word" * 100)
        self.ask(page)
        assert page.run(FITS) and page.run("return innerWidth") == width
        top = page.run("return document.getElementById('said').getBoundingClientRect().top")
        assert 0 <= top < 400
        share = page.find(".row span:last-child")
        assert share.value_of_css_property("white-space") == "nowrap"


@pytest.mark.usefixtures("site")
def test_the_site_is_searched_and_read_on_any_screen(chromium):
    """It needs no other host; a search leads to its word, and no page scrolls sideways."""
    folder = str(ROOT / "build/site")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        page = Page(chromium, address)
        page.run("document.querySelector('[for=__search]').click()")
        page.type("[data-md-component=search-query]", "confusion matrix")
        page.until(lambda: page.texts(".md-search-result__link"))
        page.run("document.querySelector('.md-search-result__link').click()")
        page.until(lambda: chromium.current_url != address)
        assert "matrix" in page.text("article").lower()
        page.run("document.querySelector('[data-md-color-media*=dark]').click()")
        background = "return getComputedStyle(document.body).backgroundColor"
        page.until(lambda: page.run("return document.body.dataset.mdColorScheme") == "slate")
        assert contrast(page.run(background), "rgb(255, 255, 255)") > 10
        hosts = "return performance.getEntriesByType('resource').map(e => new URL(e.name).host)"
        for name in ("", "squad/", "flags/", "api/", "results/", "notebook/"):
            page = Page(chromium, address + name)
            emulate(chromium, width=390)
            assert page.run(FITS), name
            assert set(page.run(hosts)) <= {f"127.0.0.1:{server.server_port}"}
        emulate(chromium)
        server.shutdown()

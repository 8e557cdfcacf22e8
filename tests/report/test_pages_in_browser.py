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
from tests.helpers.serving import LABELS, LONGEST, Gated, Served, load_once, model_of, until

FITS = "return document.documentElement.scrollWidth <= innerWidth"
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

    def texts(self, selector: str, of: str = "innerText") -> list[str]:
        """Returns the text of each element, or another property of it."""
        return self.run(f"return [...document.querySelectorAll({selector!r})].map(e => e.{of})")

    def text(self, selector: str, of: str = "innerText") -> str:
        return self.texts(selector, of)[0]

    def find(self, selector: str):
        return self.driver.find_element("css selector", selector)

    def color(self, selector: str, of: str) -> str:
        return self.find(selector).value_of_css_property(of).replace("rgba", "rgb")

    def type(self, selector: str, text: str) -> None:
        self.find(selector).clear()
        self.find(selector).send_keys(text)

    def fill(self, selector: str, text: str) -> None:
        """Sets a text that cannot be typed."""
        self.run("arguments[0].value = arguments[1]", self.find(selector), text)

    def press(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()


def contrast(*colors: str) -> float:
    """Returns the contrast of two colors "rgb(...)", see https://www.w3.org/TR/WCAG22."""
    shares = [np.array(re.findall(r"\d+", color)[:3], float) / 255 for color in colors]
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
def open_service(chromium, request):
    """Opens the page of a model or of a service, and starts its server."""

    def open_service(service, **kwargs) -> Page:
        service = service_of(load_once(str(service))) if not hasattr(service, "fields") else service
        served = Served(service, **kwargs)
        request.addfinalizer(served.stop)
        page = Page(chromium, served.url)
        page.served = served
        return page

    chromium.get_log("browser")
    yield open_service
    emulate(chromium)
    chromium.get("about:blank")


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
    assert page.texts(".bars span:nth-child(3n + 1)") == ["Anna", "Tower 0"]
    assert page.texts(".bars .number") == ["5.0%", "1.0%"]
    assert page.texts(".meter i", "style.width") == ["5%", "1%"]
    chips = ["Exact match 66.67", "F1 66.67", "Questions 6", "Answerable: exact match 50"]
    assert page.texts("#scores .chip") == [*chips, "Best F1 threshold 1"]
    assert page.text(".row .facts") == "✗ wrong · F1 0% · confidence 5% · Anna"
    buttons = ["all 6", "right 4", "wrong 2", "unanswerable 2", "abstained 2"]
    assert page.texts("#outcomes button") == buttons
    page.press("j")
    # A text that is both predicted and true has both marks: the first Anna, at the file's offset.
    assert page.texts("#passage mark.answer.truth") == ["Anna"]
    assert page.text("#passage").index("Anna") < page.text("#passage").index("1001")


def test_searches_select_questions(open_view):
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


def test_charts_show_the_selection_and_filter_it(open_view):
    page = open_view(view_of(12))
    titles = ["F1 by confidence", "F1 by question word", "F1 by words of the true answer"]
    assert page.texts("#plots h3") == page.texts("#plots [role=group]", "ariaLabel") == titles
    low, high = (100 * x for x in binomtest(2, 6).proportion_ci(method="wilson"))
    when = f"when: F1 33.3, 6 questions; 95% interval {low:.0f} to {high:.0f}"
    assert page.text("[id='word:when']", "title") == when
    drawn = page.texts("[id='word:when'] i", "style.width")
    assert [float(width[:-1]) for width in drawn] == pytest.approx([100 / 3, high - low], abs=0.01)

    # A bar filters by mouse and keyboard, keeps the focus, and leaves the other bars' counts.
    page.find("[id='word:when']").click()
    assert page.text("#count") == "6 of 12" and page.text("#overall") == "F1 33.3, 6 questions"
    assert len(page.texts("[id^='word:']")) == 2
    assert page.text("[id='word:when']", "ariaLabel") == when
    assert page.text("[id='word:when']", "ariaPressed") == "true"
    page.find("[id='word:when']").send_keys(Keys.ENTER)
    assert page.text("#count") == "12 of 12"
    assert page.text(":focus", "id") == "word:when"
    assert page.text(":focus", "ariaPressed") == "false"

    # A bar shows as many as it selects.
    page.find("[id='confidence:90-100%']").click()
    assert page.text("#count") == "5 of 12"
    assert "5 questions" in page.text("[id='confidence:90-100%']", "ariaLabel")


def test_the_address_holds_the_filters(open_view):
    page = open_view(view_of(12))
    path = page.driver.current_url
    page.driver.get(f"{path}#only=wrong&to=50&word=when&order=most+confident+first")
    assert page.text("#count") == "3 of 12" and page.text("h2") == "When built 4?"
    assert page.text("#high", "value") + page.text("#order", "value") == "50most confident first"
    page.driver.get(f"{path}#order=least+confident+first")
    assert shown(page)[:2] == ["When built 0?", "When built 10?"]
    page.driver.get(f"{path}#only=nothing&order=none&word=&from=0")
    assert page.text("#count") == "12 of 12", "what is not known is no filter"

    # "Back" undoes one step: typing into a field, a button, a bar, a row.
    page.driver.get(path + "#")
    page.type("#search", "built")
    page.find("[data-only=wrong]").click()
    page.find("[id='word:when']").click()
    page.press("j", "j")
    linked, only = page.driver.current_url, "q=built&only=wrong"
    assert linked.endswith(f"#{only}&word=when&id=q6")
    for hash, count in ((f"{only}&word=when", 4), (only, 4), ("q=built", 12), ("", 12)):
        page.driver.back()
        assert page.run("return location.hash.slice(1)") == hash
        assert page.text("#count") == f"{count} of 12"
    page.driver.get("about:blank")
    page.driver.get(linked)
    assert page.text("h2") == "When built 6?" and page.text("#count") == "4 of 12"


def test_the_selection_is_saved_as_a_table(open_view, chromium, tmp_path):
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    chromium.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    view = view_of(6, markup=' "a", b')
    page = open_view(view)
    page.find("[data-only=wrong]").click()
    page.find("#save").click()
    file = tmp_path / "predictions.csv"
    until(lambda: file.exists() and file.stat().st_size)
    rows = csv.DictReader(file.read_text("utf-8-sig").splitlines())
    saved = [(r["id"], r["question"], r["true"], float(r["confidence"])) for r in rows]
    wrong = [sample for sample in view.samples if not sample["right"]]
    expected = [(s["id"], s["question"], s["truths"][0]["text"], s["confidence"]) for s in wrong]
    assert saved == expected


def test_every_key_does_what_the_page_says(open_view):
    page, selected = open_view(view_of(40)), "[aria-selected=true] div:first-child"
    page.press("j", "j", "k", Keys.ARROW_DOWN)
    assert page.text(selected) == page.text("h2") == "When built 2?"
    page.press(Keys.END)
    assert page.text(selected) == "Who built 39?"
    assert page.text("#list", "getAttribute('aria-activedescendant')") == "row-39"
    page.press(Keys.ARROW_DOWN, Keys.PAGE_UP)
    assert page.text(selected) != "Who built 39?"
    page.press(Keys.HOME, "/", "q", "3", "j")
    assert page.text("#search", "value") == "q3j", "letters that are typed move nothing"
    page.press(Keys.ESCAPE, "j")
    assert page.text("#search", "value") == "" and page.text(selected) == "Who built 1?"


def class_table(page) -> dict[str, list]:
    """Returns the numbers in the table of the scores of labels, by label."""
    script = "return [...document.querySelectorAll('#classes tr')].map(tr => [...tr.children].map("
    _, *rows = page.run(script + "cell => cell.textContent))")
    return {label: [pytest.approx(float(cell), abs=6e-4) for cell in row] for label, *row in rows}


def classes_of(view) -> dict[str, list]:
    return {label: [*row.values()] for label, row in Classes(view.samples).scores().items()}


def labeled(truths, answers, names=("no", MARKUP), passage=None, **scores) -> View:
    """Returns texts with their true and predicted labels, sets of labels, or numbers."""
    texts = [{"id": f"e{n}", "passage": passage, "texts": [f"text {n}", "b"]} for n in range(8)]
    outputs = [
        {"label_ids": np.array(truth), "predictions": np.array(answer), "probabilities": [0.8, 0.2]}
        for truth, answer in zip(truths, answers, strict=True)
    ]
    view = labels_view("Texts", texts[: len(outputs)], outputs, names, scores)
    return view._replace(samples=list(view.samples))


def test_labels_have_a_matrix_that_selects_them(open_view):
    view = labeled([0, 1] * 4, [0, 1, 0, 1, 0, 1, 1, 0], eval_accuracy=0.75)
    page, cell = open_view(view), "#matrix tr:nth-child(2) td:nth-child(3) button"
    assert page.texts("#scores .chip, #overall") == [
        "Accuracy 0.7500",
        "Accuracy 75.0%, 8 examples",
    ]
    assert page.texts("#matrix th:last-child") == [MARKUP] and page.run(BROKEN) == [None, 0]
    assert class_table(page) == classes_of(view)
    page.find(cell).click()
    assert shown(page) == ["text 6"] and page.texts("#detail dd") == [MARKUP, "no"]
    assert page.texts("#matrix button") == ["3", "1", "1", "3"]
    assert class_table(page) == {"no": [0, 0, 0, 1], MARKUP: [0, 0, 0, 0]}, "of the selection"
    page.find(cell).click()
    assert page.text("#count") == "8 of 8"


def test_options_share_their_passage(open_view):
    page = open_view(labeled([0, 1], [1, 1], ["A", "B"], "a passage"))
    assert page.texts(".bars span:nth-child(3n + 1)") == ["A: text 0", "B: b"]
    page.press("j")
    assert page.text("#passage") == "a passage" and page.texts("#detail dd") == ["B", "B"]


def test_sets_of_labels_are_scored_by_f1(open_view):
    answers = [[1, 0], [0, 0], [1, 0]]
    view = labeled([[1, 1], [0, 0], [0, 1]], answers, ["a", "b"], micro_f1=0.5)
    page = open_view(view)
    assert page.texts("#scores .chip, #overall") == ["Micro F1 0.5000", "F1 55.6, 3 examples"]
    assert class_table(page) == classes_of(view)
    facts = ["✗ wrong · F1 67% · a", "✓ right · no label", "✗ wrong · F1 0% · a"]
    assert page.texts(".row .facts") == facts and page.texts("#detail dd") == ["a", "a, b"]
    page.find("#order").send_keys("lowest")
    assert shown(page) == ["text 2", "text 0", "text 1"]


def test_spans_are_marked_with_their_labels(open_view):
    """A place that is predicted and true has both marks, and both labels if they differ."""
    text = f"Anna 🏰 Bell left{MARKUP} Rome for York."

    def span(part, label, share=None):
        return Span(text.index(part), text.index(part) + len(part), part, label, share)

    predicted = [span("Anna", "PER", 0.9), span("Rome", MARKUP, 0.4)], []
    truths = [span("Anna", "PER"), span("Rome", "LOC"), span("York", "LOC")], []
    texts = {"line 1": text, "line 2": "nothing here"}
    view = spans_view("Towns", texts, predicted, truths, {"f1": 0.4, "LOC_f1": 0.0})
    view = view._replace(samples=list(view.samples))
    page = open_view(view)
    assert page.text("#passage") == text
    assert page.texts("#passage mark", "className") == ["answer truth", "answer truth", "truth"]
    assert page.texts("#passage mark", "dataset.label") == ["PER", f"{MARKUP}/LOC", "LOC"]
    said = f"Anna (PER) | Rome ({MARKUP})", "Anna (PER) | Rome (LOC) | York (LOC)"
    assert page.texts("#detail dd") == [*said]
    assert page.texts("#scores .chip, #overall") == ["F1 0.4000", "LOC f1 0", "F1 70.0, 2 texts"]
    assert page.texts(".bars .number") == ["90.0%", "40.0%"]
    assert class_table(page) == classes_of(view)
    facts = f"✗ wrong · F1 40% · confidence 40% · {said[0]}"
    assert page.texts(".row .facts") == [facts, "✓ right · none"]
    page.find("[id='label:none']").click()
    assert shown(page) == ["nothing here"] and page.texts("#detail dd") == ["none", "none"]


def test_numbers_are_listed_and_plotted(open_view):
    """Those that are unknown are named so, and the rest is shown."""
    page = open_view(labeled([0, 1, 2], [0, 1, 4], [None], pearson=0.96))
    assert not page.find("#outcomes").is_displayed()
    assert not page.find("#confidence").is_displayed()
    page.find("#order").send_keys("largest")
    assert shown(page) == ["text 2", "text 0", "text 1"]
    assert page.texts("#detail dd") == ["4.00", "2.00"] and len(page.texts("circle")) == 3
    page = open_view(labeled([0, 1, 2], [np.nan, 3, 2.5], [None], pearson=np.nan))
    assert page.texts("#scores .chip") == ["Pearson correlation unknown"]
    assert page.texts("#detail dd") == ["unknown", "0.00"] and len(page.texts("circle")) == 2
    view = view_of()
    view.samples[0] |= {"confidence": None, "nbest": [{"text": "Anna", "probability": None}]}
    page = open_view(view)
    assert page.texts(".bars .number") == ["unknown"]
    assert page.text(".row .facts") == "✗ wrong · F1 0% · Anna"


def test_the_page_fits_a_phone_in_both_color_schemes(open_view, chromium):
    for scheme in ("light", "dark"):
        emulate(chromium, 390, prefers_color_scheme=scheme)
        page = open_view(view_of(1000))
        assert page.run(FITS)
        page.find("summary").click()
        assert page.run(FITS)
        ground = page.color("body", "background-color")
        assert (contrast(ground, "rgb(0, 0, 0)") < 3) == (scheme == "dark")
        for field in ("#search", "#low", "#order", "#save"):
            for inside in (ground, page.color(field, "background-color")):
                assert contrast(page.color(field, "border-top-color"), inside) >= 3
        bar = page.color(".track i", "background-color")
        assert contrast(bar, page.color("#list", "background-color")) >= 3
    page.find("summary").click()

    # The page scrolls, and nothing inside it; a sample replaces the list until one goes back.
    assert page.run("return $('list').scrollHeight === $('list').clientHeight")
    page.run("scrollTo(0, 500 * 56)")
    row = "return document.elementFromPoint(100, 400).closest('.row')"
    until(lambda: page.run(row))
    question = page.run(row + ".firstChild.innerText")
    assert len(shown(page)) < 60
    page.run(row).click()
    assert page.text("#sample h2") == question and page.run("return scrollY") == 0
    assert not page.find("#list").is_displayed() and not page.find("#search").is_displayed()
    page.find("[data-to='1']").click()
    assert page.text("#sample h2") != question
    for leave in (page.driver.back, lambda: page.find("[data-to=list]").click()):
        leave()
        assert not page.find("#detail").is_displayed()
        chosen = page.find("[aria-selected=true]")
        assert 0 < page.run("return arguments[0].getBoundingClientRect().top", chosen) < 844
        chosen.click()
    assert page.run(FITS)


class TestServer:
    def ask(self, page: Page, button="#send") -> None:
        page.find(button).click()
        until(page.find("#send").is_enabled)

    def fault_at(self, page: Page, name: str) -> str:
        """Returns the fault reported for an input, which must have the focus."""
        field, fault = page.find(f"#{name}"), page.find(f"#{name}-fault")
        assert field.get_attribute("aria-describedby") == fault.get_attribute("id")
        assert field.get_attribute("aria-invalid") == str(fault.is_displayed()).lower()
        assert not fault.is_displayed() or page.text(":focus", "id") == name
        return fault.text

    def test_an_answer_is_marked_in_its_text(self, open_service, exported):
        page = open_service(exported)
        text = f"A tower 🏰 and a mill{MARKUP} stood here, and\nmore words of it."
        question = f"What is{MARKUP}?"
        page.fill("#context", text)
        page.type("#question", question)
        self.ask(page)
        answers = load_once(str(exported)).answer(question, [text]).answers[:5]
        shares = [f"{100 * answer.probability:.1f}%" for answer in answers]
        said = " ".join(answers[0].text.split()), f"confidence {shares[0]} · line 1"
        assert page.texts("#result h2, #asked, #said, #facts") == ["Answer", question, *said]
        assert page.texts("#passage, mark", "textContent") == [text, answers[0].text]
        assert page.texts(".row span:last-child") == shares and len(shares) > 1
        # Selecting another answer marks that one.
        page.find("#others li:nth-child(2) button").click()
        assert page.texts("#passage, mark", "textContent") == [text, answers[1].text]
        before = page.texts("mark", "previousSibling.textContent")
        assert before == [text[: answers[1].start]]
        assert page.run("return window.broken") is None
        # The command shown for a terminal asks the same.
        command = shlex.split(page.text("#curl", "textContent"))
        assert command[:2] == ["curl", page.driver.current_url + "v1/answer"]
        request = json.loads(command[command.index("-d") + 1])
        assert request == {"question": question, "context": text, "n_best": 5}
        assert page.driver.get_log("browser") == []

    def test_examples_fill_the_form_and_the_model_is_described(self, open_service, exported):
        page = open_service(exported)
        name = pathlib.Path(exported).parent.parent.name
        assert f" Model: {name} (squad-1.1), version " in page.text("#about")
        self.ask(page, "#examples button:nth-of-type(2)")
        first, second, *_ = page.texts("#examples button")
        assert page.texts("#asked") == [second] != [first]
        assert page.text("mark", "textContent") in page.text("#context", "value")
        page.find("#clear").click()
        assert page.text("#context", "value") == page.text("#question", "value") == ""
        assert page.text(":focus", "id") == "context"

    def test_faults_name_the_input_and_focus_it(self, open_service, exported):
        page = open_service(exported, limits=Limits(body_bytes=1000, seconds=LONGEST))
        page.type("#question", " ")
        self.ask(page)
        assert self.fault_at(page, "question") == "Question is empty."
        assert page.driver.get_log("browser") == [], "an empty question is not sent"
        page.type("#question", "Who wrote it?" + Keys.ENTER)
        until(page.find("#send").is_enabled)
        assert self.fault_at(page, "question") == "" and page.texts("#said") != [""]
        page.type("#context", Keys.CONTROL + Keys.ENTER)
        assert self.fault_at(page, "context") == "Context is empty."
        # Only the server refuses this.
        page.run("context.value = 'half a character \\ud83c'")
        self.ask(page)
        assert self.fault_at(page, "context").startswith("Context has half of a surrogate pair")
        assert not page.find("#answer").is_displayed(), "it is of another question"
        page.fill("#context", "long " * 200)
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
        said = page.texts("#said")
        service.may.clear()
        page.find("#send").click()
        until(lambda: re.fullmatch("Asking: [1-9][0-9]* s", page.text("#clock")))
        assert page.text("#result", "ariaBusy") == "true" and not page.find("#send").is_enabled()
        assert float(page.find("#answer").value_of_css_property("opacity")) < 0.6
        self.ask(page, "#stop")
        assert page.text("#clock").startswith("Stopped after ")
        assert page.text("#result", "ariaBusy") == "false"
        assert page.texts("#said") == said and page.texts("#fault") == [""]
        assert not page.find("#stop").is_displayed()
        service.may.set()
        page.served.server.stop()
        self.ask(page)
        unreachable = "The server cannot be reached (Failed to fetch). Is it still running?"
        assert page.texts("#fault") == [unreachable] and page.texts("#clock") == [""]
        assert not page.find("#answer").is_displayed()

    def test_labels_are_shown(self, open_service, random_model):
        folder = model_of(random_model, "labels")
        page = open_service(folder)
        page.type("#text", "A text.")
        # The folder does not say whether the model was trained on pairs.
        page.find("#fields summary").click()
        page.type("#second_text", "Another one.")
        self.ask(page)
        labeled = load_once(folder).classify("A text.", "Another one.")
        share = 100 * labeled.probabilities[labeled.label]
        assert page.texts("#said") == [labeled.label]
        assert sorted(page.texts(".row span:first-child")) == sorted(LABELS)
        assert page.text(".row span:last-child") == f"{share:.1f}%"
        assert float(page.text(".bar div", "style.width")[:-1]) == pytest.approx(share, abs=0.01)
        folder = model_of(random_model, "sets")
        page = open_service(folder)
        page.type("#text", "A text.")
        self.ask(page)
        # The weights are random, so there may be none.
        labels = load_once(folder).classify("A text.").labels
        assert page.text("#said") == (", ".join(labels) or "No label")
        assert page.driver.get_log("browser") == []

    def test_spans_are_marked_with_their_labels(self, open_service, random_model):
        folder = model_of(random_model, "spans")
        page, text = open_service(folder), f"Anna 🏰 went{MARKUP} to\nRome and Berlin."
        page.fill("#text", text)
        self.ask(page)
        spans = load_once(folder).find(text)
        assert page.texts("#passage, mark", "textContent") == [text, *(s.text for s in spans)]
        assert page.texts("mark", "dataset.label") == [span.label for span in spans] != []
        rows = page.texts(".row span:first-child", "textContent")
        assert rows == [f"{span.label}: {span.text}" for span in spans]
        assert page.text(".row span:last-child") == f"{100 * spans[0].probability:.1f}%"
        assert page.run("return window.broken") is None and page.driver.get_log("browser") == []

    @pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
    def test_the_answer_is_visible_on_any_screen(self, open_service, exported, width, scheme):
        page = open_service(exported)
        emulate(page.driver, width, height=500, prefers_color_scheme=scheme)
        page.type("#context", "word" * 100)
        self.ask(page)
        assert page.run(FITS) and page.run("return innerWidth") == width
        assert 0 <= page.text("#said", "getBoundingClientRect().top") < 400
        assert page.find(".row span:last-child").value_of_css_property("white-space") == "nowrap"
        for name, around in (
            ("#question", "form"),
            ("#question", "#question"),
            ("#clear", "#clear"),
        ):
            edge, ground = (
                page.color(name, "border-top-color"),
                page.color(around, "background-color"),
            )
            assert contrast(edge, ground) >= 3


@pytest.mark.usefixtures("site")
def test_the_site_is_searched_and_read_on_any_screen(chromium):
    """It needs no other host; a search leads to its word, and no page scrolls sideways."""
    folder = str(ROOT / "build/site")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        page = Page(chromium, address)
        page.run("document.querySelector('[for=__search]').click()")
        page.type("[data-md-component=search-query]", "confusion matrix")
        until(lambda: page.texts(".md-search-result__link"))
        page.run("document.querySelector('.md-search-result__link').click()")
        until(lambda: chromium.current_url != address)
        assert "matrix" in page.text("article").lower()
        page.run("document.querySelector('[data-md-color-media*=dark]').click()")
        until(lambda: page.text("body", "dataset.mdColorScheme") == "slate")
        assert contrast(page.color("body", "background-color"), "rgb(255, 255, 255)") > 10
        hosts = "return performance.getEntriesByType('resource').map(e => new URL(e.name).host)"
        for name in ("", "squad/", "flags/", "api/", "results/", "notebook/"):
            page = Page(chromium, address + name)
            emulate(chromium, width=390)
            assert page.run(FITS), name
            assert set(page.run(hosts)) <= {f"127.0.0.1:{server.server_port}"}
        emulate(chromium)
        server.shutdown()

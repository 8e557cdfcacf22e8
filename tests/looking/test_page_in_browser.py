"""The page of predictions in a real browser: Debian's Chromium, without a window."""

from __future__ import annotations

import numpy as np
import pytest

from classification.view import labels_view
from looking.page import write_page
from squad.scoring import evaluate_v2, get_raw_scores
from squad.view import answers_view

# What a browser would run, or take for the end of the data, if it took it for markup.
MARKUP = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>&lt;"


class Page:
    """A page as people see it."""

    def __init__(self, driver, path, view):
        write_page(str(path), view)
        self.driver = driver
        driver.get(f"file://{path}")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def texts(self, selector):
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)"
        return self.run(script, selector)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def type(self, selector, text):
        self.find(selector).clear()
        self.find(selector).send_keys(text)

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def shown(self):
        """The heading of every row in sight."""
        return self.texts(".row div:first-child")


@pytest.fixture
def open_page(chromium, tmp_path):
    """Opens the page of a view; what the console says when the test ends is a failure."""
    yield lambda view: Page(chromium, tmp_path / "predictions.html", view)
    assert chromium.get_log("browser") == []


def squad(count=6, markup=""):
    """Articles of SQuAD 2.0, answers to them, n-best lists and log-odds; every third is none."""
    articles, answers, odds, nbest = [], {}, {}, []
    for n in range(count):
        context = f"Tower {n} was built 🏰 by Anna{markup} in {1000 + n}, and it was Anna who fell."
        question = {"id": f"q{n}", "question": f"{'Who' if n % 2 else 'When'} built {n}{markup}?"}
        start = context.index("Anna")
        truth = {"text": "Anna", "answer_start": start} if n % 2 else None
        truth = truth or {"text": str(1000 + n), "answer_start": context.index(str(1000 + n))}
        question |= {"is_impossible": n % 3 == 2, "answers": [] if n % 3 == 2 else [truth]}
        articles.append({"paragraphs": [{"context": context, "qas": [question]}]})
        answers[f"q{n}"] = {0: "Anna", 1: "Anna", 2: ""}[n % 3]
        odds[f"q{n}"] = 3.0 if n % 3 == 2 else -3.0
        entry = {"text": "Anna", "probability": (n % 10) / 10 + 0.05}
        nbest.append((f"q{n}", [entry, {"text": f"Tower {n}", "probability": 0.01}]))
    return articles, answers, odds, nbest


def view_of(count=6, markup=""):
    articles, answers, odds, nbest = squad(count, markup)
    scores = evaluate_v2(articles, answers, odds)
    raw = get_raw_scores(articles, answers)
    return answers_view(f"Towers{markup}", articles, answers, scores, raw, nbest, odds)


# Those that have no answer, and those that ask who.
RIGHT = [n for n in range(6) if n % 3 == 2 or n % 2]


def test_a_question(open_page):
    page = open_page(view_of())
    assert page.driver.title == page.text("h1") == "Towers"
    assert page.text("h2") == "When built 0?"
    assert page.texts("#passage mark.answer") == ["Anna"]
    assert page.texts("#passage mark.truth") == ["1000"]
    assert page.texts("#detail dd") == ["Anna", "1000"]
    assert page.texts(".bars span:nth-child(3n + 1)")[:2] == ["Anna", "Tower 0"]
    page.press("j")
    # What is predicted and true is both; the first Anna, whose place the file gives.
    assert page.texts("#passage mark.answer.truth") == ["Anna"]
    assert page.text("#passage").index("Anna") < page.text("#passage").index("1001")


def test_typed_searches(open_page):
    page = open_page(view_of())
    page.type("#search", "WHO built 3")
    assert page.shown() == ["Who built 3?"]
    assert page.text("#count") == "1 of 6"
    page.type("#search", "1004")
    assert page.shown() == ["When built 4?"], "the paragraph counts too"
    page.type("#search", "q5")
    assert page.text("h2") == "Who built 5?"
    page.type("#search", "nowhere")
    assert page.shown() == [] and "Nothing fits" in page.text("#detail")
    page.find("#detail button").click()
    assert page.text("#count") == "6 of 6"


def test_filters_by_outcome(open_page):
    page = open_page(view_of())
    buttons = dict(text.split() for text in page.texts("#outcomes button"))
    assert buttons == {
        "all": "6",
        "right": str(len(RIGHT)),
        "wrong": str(6 - len(RIGHT)),
        "unanswerable": "2",
        "abstained": "2",
    }
    page.find("[data-only=right]").click()
    assert [int(text.split()[2][0]) for text in page.shown()] == RIGHT
    assert page.find("[data-only=right]").get_attribute("aria-pressed") == "true"
    page.type("#search", "when")
    assert page.text("#count") == f"{sum(n % 2 == 0 for n in RIGHT)} of 6"


def test_filters_by_confidence(open_page):
    page = open_page(view_of(12))
    everything = page.run("return samples.map(s => s.confidence)")
    page.type("#low", "50")
    page.type("#high", "90")
    expected = sum(0.5 <= confidence <= 0.9 for confidence in everything)
    assert 0 < expected < 12
    assert page.text("#count") == f"{expected} of 12"
    page.find("#order").send_keys("least")
    shown = page.run("return state.shown.map(s => s.confidence)")
    assert shown == sorted(shown) and len(shown) == expected


def test_the_summary_is_of_what_is_chosen(open_page):
    page = open_page(view_of())
    assert page.texts("#plots h3") == [
        "F1 by confidence",
        "F1 by question word",
        "F1 by words of the true answer",
    ]
    words = "return [...$('plots').querySelectorAll('svg')[1].querySelectorAll('title')]"
    words += ".map(t => t.textContent)"
    assert sorted(page.run(words)) == ["when: 33.3 of 3", "who: 100.0 of 3"]
    page.find("[data-only=wrong]").click()
    assert page.run(words) == ["when: 0.0 of 2"]


def test_keyboard(open_page):
    from selenium.webdriver import Keys

    page = open_page(view_of(40))
    selected = "return document.querySelector('[aria-selected=true] div').innerText"
    page.press("j", "j", "k", Keys.ARROW_DOWN)
    assert page.run(selected) == page.text("h2") == "When built 2?"
    page.press(Keys.END)
    assert page.run(selected) == "Who built 39?"
    assert page.run("return $('list').getAttribute('aria-activedescendant')") == "row-39"
    page.press(Keys.ARROW_DOWN, Keys.PAGE_UP)
    assert page.run(selected) != "Who built 39?"
    page.press(Keys.HOME)
    assert page.run(selected) == "When built 0?"
    page.press("/", "q", "3", "j")
    assert page.run("return $('search').value") == "q3j", "letters that are typed move nothing"
    page.press(Keys.ESCAPE, "j")
    assert page.run("return $('search').value") == ""
    assert page.run(selected) == "Who built 1?"


def test_markup_is_text(open_page):
    page = open_page(view_of(markup=MARKUP))
    assert page.text("h1") == f"Towers{MARKUP}"
    assert page.text("h2") == f"When built 0{MARKUP}?"
    assert MARKUP in page.text("#passage")
    assert page.run("return window.broken") is None
    assert page.run("return document.querySelectorAll('img').length") == 0


def test_markup_in_labels_is_text(open_page):
    page = open_page(labels(["no", MARKUP]))
    assert page.texts("#matrix th")[-1] == MARKUP
    assert page.run("return [window.broken, document.querySelectorAll('img').length]") == [None, 0]


def test_12000_questions_are_filtered_in_less_than_a_second(open_page):
    page = open_page(view_of(12_000))
    assert page.run("return document.querySelectorAll('.row').length") < 60
    took = """
      const started = performance.now();
      $(arguments[0]).value = arguments[1];
      $(arguments[0]).dispatchEvent(new Event("input"));
      document.body.getBoundingClientRect();
      return performance.now() - started;"""
    with_777 = sum("777" in f"{n} {1000 + n}" for n in range(12_000))
    for name, value, count in (
        ("search", "anna", 12_000),
        ("search", "built 777", with_777),
        ("search", "", 12_000),
        ("low", "60", None),
        ("order", "most confident first", None),
    ):
        assert page.run(took, name, value) < 1000
        assert count is None or page.text("#count") == f"{count} of 12000"
    page.run("$('list').scrollTop = 1e6; drawRows()")
    assert page.run("return document.querySelectorAll('.row').length") < 60


def labels(names, passages=False):
    """A view of 8 examples with these labels, of which the last two are wrong."""
    texts = [
        {"id": f"e{n}", "passage": "a passage" if passages else None, "texts": [f"text {n}", "b"]}
        for n in range(8)
    ]
    outputs = []
    for n in range(8):
        answer = n % 2 if n < 6 else 1 - n % 2
        probabilities = np.array([0.8, 0.2] if answer == 0 else [0.3, 0.7])
        output = {"label_ids": np.int64(n % 2), "predictions": np.int32(answer)}
        outputs.append({**output, "probabilities": probabilities})
    return labels_view("Pairs", texts, outputs, names, {"eval_accuracy": 0.75})


def test_labels(open_page):
    page = open_page(labels(["no", "yes"]))
    assert page.texts("#matrix button") == ["3", "1", "1", "3"]
    page.find("#matrix tr:nth-child(2) td:nth-child(3) button").click()
    assert page.shown() == ["text 6"]
    assert page.texts("#detail dd") == ["yes", "no"]
    assert page.texts("#matrix button") == ["3", "1", "1", "3"]
    page.find("[data-only=right]").click()
    assert page.text("#count") == "0 of 8"
    page.find("#matrix tr:nth-child(2) td:nth-child(3) button").click()
    assert page.text("#count") == "6 of 8"


def test_options(open_page):
    page = open_page(labels(["A", "B"], passages=True))
    assert page.texts(".bars span:nth-child(3n + 1)")[:2] == ["A: text 0", "B: b"]
    assert page.text("#passage") == "a passage"


def test_numbers(open_page):
    texts = [{"id": f"e{n}", "passage": None, "texts": [f"text {n}"]} for n in range(3)]
    outputs = [{"label_ids": np.float32(n), "predictions": np.float32(n * n)} for n in range(3)]
    page = open_page(labels_view("Numbers", texts, outputs, [None], {"pearson": 0.96}))
    assert not page.find("#outcomes").is_displayed()
    assert not page.find("#confidence").is_displayed()
    page.find("#order").send_keys("largest")
    assert page.shown() == ["text 2", "text 0", "text 1"]
    assert page.texts("#detail dd") == ["4.00", "2.00"]
    assert page.run("return document.querySelectorAll('circle').length") == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_and_in_both_schemes(open_page, chromium, scheme):
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        page = open_page(view_of())
        assert page.run("return document.documentElement.scrollWidth <= innerWidth")
        page.find("summary").click()
        assert page.run("return document.documentElement.scrollWidth <= innerWidth")
        ground = page.run("return getComputedStyle(document.body).backgroundColor")
        brightness = max(map(int, ground[4:-1].split(",")))
        assert (brightness < 80) == (scheme == "dark")
    finally:
        chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

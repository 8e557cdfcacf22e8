"""The page of predictions in a real browser: Debian's Chromium, without a window."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest
from scipy.stats import binomtest

from classification.view import labels_view
from looking.page import write_page
from squad.scoring import evaluate_v2, get_raw_scores
from squad.view import answers_view
from tests.helpers.forking import LONGEST

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
    emulate(chromium)
    assert chromium.get_log("browser") == []


def emulate(driver, width=None, height=844, **media):
    """Sets the width of the page and what its style asks for; nothing is as it was."""
    features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
    kind = media.pop("type", "")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": features})
    if width is None:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    else:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def until(driver, holds):
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(driver, LONGEST).until(lambda _: holds())


def contrast(*colours):
    """The contrast of two colours "rgb(...)", see https://www.w3.org/TR/WCAG22."""
    shares = [np.array(re.findall(r"\d+", colour)[:3], float) / 255 for colour in colours]
    linear = [np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) for c in shares]
    low, high = sorted(c @ [0.2126, 0.7152, 0.0722] for c in linear)
    return (high + 0.05) / (low + 0.05)


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
    assert page.texts(".bars .number") == ["5.0%", "1.0%"]
    widths = "return [...document.querySelectorAll('.meter i')].map(bar => bar.clientWidth / "
    assert page.run(widths + "bar.parentNode.clientWidth)") == pytest.approx([0.05, 0.01], abs=0.02)
    chips = ["Exact match 66.67", "F1 66.67", "Questions 6", "Answerable: exact match 50"]
    assert page.texts("#scores .chip")[:4] == chips
    assert "Best F1 threshold" in page.text("#scores")
    assert page.texts(".row .facts")[0] == "✗ wrong · F1 0% · confidence 5% · Anna"
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
    assert page.shown() == [] and "Nothing fits" in page.text("#sample")
    page.find("#sample button").click()
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


def bars(page, key):
    """What the bars of a chart say, by the names that people who see nothing get."""
    script = (
        "return [...document.querySelectorAll(`[id^='${arguments[0]}:']`)].map(b => b.ariaLabel)"
    )
    return page.run(script, key)


def test_charts_show_the_selection_and_filter_it(open_page):
    from selenium.webdriver import Keys

    view = view_of(12)
    view["samples"][1]["confidence"] = 0.5  # Between two bars.
    page = open_page(view)
    titles = ["F1 by confidence", "F1 by question word", "F1 by words of the true answer"]
    assert page.texts("#plots h3") == titles
    labels = "return [...document.querySelectorAll('#plots [role=group]')].map(e => e.ariaLabel)"
    assert page.run(labels) == titles
    low, high = (100 * x for x in binomtest(2, 6).proportion_ci(method="wilson"))
    when = f"when: F1 33.3, 6 questions; 95% interval {low:.0f} to {high:.0f}"
    assert sorted(bars(page, "word"))[0] == page.find("[id='word:when']").get_attribute("title")
    assert sorted(bars(page, "word"))[0] == when
    assert bars(page, "confidence")[9].startswith("90-100%: F1 ")
    line = "const [bar, line] = arguments[0].querySelectorAll('i'), all = bar.parentNode;"
    line += "return [bar, line].map(e => 100 * e.getBoundingClientRect().width / all.clientWidth)"
    drawn = page.run(line, page.find("[id='word:when']"))
    assert drawn == pytest.approx([100 / 3, high - low], abs=0.2)

    # A bar filters by mouse and keyboard, keeps the focus, and leaves the other bars their counts.
    page.find("[id='word:when']").click()
    assert page.text("#count") == "6 of 12" and page.text("#overall") == "F1 33.3, 6 questions"
    assert sorted(bars(page, "word"))[0] == when and len(bars(page, "word")) == 2
    page.find("[data-only=wrong]").click()
    assert page.text("#overall") == "F1 0.0, 4 questions"
    bar = page.find("[id='word:when']")
    assert bar.get_attribute("aria-pressed") == "true"
    bar.send_keys(Keys.ENTER)
    assert page.text("#count") == "4 of 12", "who is always answered"
    focused = page.driver.switch_to.active_element
    assert focused.get_attribute("id") == "word:when"
    assert focused.get_attribute("aria-pressed") == "false"

    # Every question is in one bar of confidence, which says as many as it chooses.
    page.press(Keys.ESCAPE)
    sizes = {}
    for tenth in range(10):
        label = bars(page, "confidence")[tenth]
        found = re.search(r"(\d+) questions?", label)
        if not found:
            assert label == f"{10 * tenth}-{10 * tenth + 10}%: no questions"
            continue
        page.find(f"[id='confidence:{10 * tenth}-{10 * tenth + 10}%']").click()
        assert page.text("#count") == f"{found[1]} of 12"
        sizes[tenth] = int(found[1])
        page.press(Keys.ESCAPE)
    assert sum(sizes.values()) == 12 and len(sizes) > 5


def test_the_address_holds_the_filters(open_page):
    page = open_page(view_of(12))
    path = page.driver.current_url
    page.driver.get(f"{path}#only=wrong&to=50&word=when&order=most+confident+first")
    assert page.text("#count") == "3 of 12" and page.text("h2") == "When built 4?"
    assert page.run("return $('high').value + $('order').value") == "50most confident first"
    page.driver.get(f"{path}#only=nothing&order=none&word=&from=0")
    assert page.text("#count") == "12 of 12", "what is not known is no filter"

    # Each step is one back: typing into a field, a button, a bar, a row.
    page.driver.get(path + "#")
    page.type("#search", "built")
    page.find("[data-only=wrong]").click()
    page.find("[id='word:when']").click()
    page.press("j", "j")
    assert page.run("return location.hash") == "#q=built&only=wrong&word=when&id=q6"
    linked = page.driver.current_url
    seen = []
    for _ in range(4):
        page.driver.back()
        seen.append((page.run("return location.hash.slice(1)"), page.text("#count")))
    assert seen == [
        ("q=built&only=wrong&word=when", "4 of 12"),
        ("q=built&only=wrong", "4 of 12"),
        ("q=built", "12 of 12"),
        ("", "12 of 12"),
    ]
    page.driver.forward()
    assert page.run("return $('search').value") == "built"
    page.driver.get("about:blank")
    page.driver.get(linked)
    assert page.text("h2") == "When built 6?" and page.text("#count") == "4 of 12"


def test_the_selection_is_saved_as_a_table(open_page, chromium, tmp_path):
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    chromium.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    view = view_of(6, markup=' "a", b')
    page = open_page(view)
    page.find("[data-only=wrong]").click()
    page.find("#save").click()
    file = tmp_path / "predictions.csv"
    until(chromium, lambda: file.exists() and file.stat().st_size)
    with open(file, encoding="utf-8-sig", newline="") as text:
        rows = list(csv.DictReader(text))
    samples = [sample for sample in view["samples"] if not sample["right"]]
    assert [(row["id"], row["question"], row["true"]) for row in rows] == [
        (s["id"], s["question"], s["truths"][0][1]) for s in samples
    ]
    assert [float(row["confidence"]) for row in rows] == [s["confidence"] for s in samples]


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
    assert page.texts("#scores .chip") == ["Accuracy 0.7500"]
    assert page.text("#overall") == "Accuracy 75.0%, 8 examples"
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


def test_numbers_that_are_not_known(open_page):
    """They are called so, and the rest is shown."""
    texts = [{"id": f"e{n}", "passage": None, "texts": [f"text {n}"]} for n in range(3)]
    nan = np.float32("nan")
    outputs = [{"label_ids": np.float32(n), "predictions": [nan, 3.0, 2.5][n]} for n in range(3)]
    page = open_page(labels_view("Numbers", texts, outputs, [None], {"pearson": nan}))
    assert page.texts("#scores .chip") == ["Pearson correlation unknown"]
    assert page.texts("#detail dd") == ["unknown", "0.00"]
    assert page.run("return document.querySelectorAll('circle').length") == 2
    view = view_of()
    view["samples"][0] |= {"confidence": None, "nbest": [["Anna", None]]}
    page = open_page(view)
    assert page.texts(".bars .number") == ["unknown"]
    assert page.texts(".row .facts")[0] == "✗ wrong · F1 0% · Anna"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_and_in_both_schemes(open_page, chromium, scheme):
    emulate(chromium, 390, prefers_color_scheme=scheme)
    page = open_page(view_of(1000))
    fits = "return document.documentElement.scrollWidth <= innerWidth"
    assert page.run(fits)
    page.find("summary").click()
    assert page.run(fits)
    style = "return getComputedStyle($(arguments[0]))[arguments[1]]"
    ground = page.run("return getComputedStyle(document.body).backgroundColor")
    assert (contrast(ground, "rgb(0, 0, 0)") < 3) == (scheme == "dark")
    for field in ("search", "low", "order", "save"):
        for inside in (ground, page.run(style, field, "backgroundColor")):
            assert contrast(page.run(style, field, "borderTopColor"), inside) >= 3
    fill = page.run("return getComputedStyle(document.querySelector('.track i')).backgroundColor")
    assert contrast(fill, page.run(style, "list", "backgroundColor")) >= 3
    page.find("summary").click()

    # The page scrolls, and nothing in it; a sample takes the place of the list until one goes back.
    assert page.run("return $('list').scrollHeight === $('list').clientHeight")
    page.run("scrollTo(0, 500 * 56)")
    row = "return document.elementFromPoint(100, 400).closest('.row')"
    until(chromium, lambda: page.run(row))
    question = page.run(row + ".firstChild.innerText")
    assert page.run("return document.querySelectorAll('.row').length") < 60
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
    assert page.run(fits)


def test_on_paper_and_in_colours_of_ones_own(open_page, chromium):
    page = open_page(view_of())
    emulate(chromium, type="print")
    assert not page.find("#list").is_displayed() and not page.find("#tools").is_displayed()
    assert page.find("#passage").is_displayed() and page.find("#plots").is_displayed()
    emulate(chromium, forced_colors="active")
    colour = "return getComputedStyle(document.querySelector(arguments[0])).backgroundColor"
    assert page.run(colour, ".track i") != page.run(colour, ".track")

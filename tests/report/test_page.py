"""The HTML page in a real browser: it loads, sorts, filters, searches, fits a phone, and runs nothing but itself."""

from __future__ import annotations

import re
import shutil

import pytest

from pytest_torch_compile.report import html, view
from tests.report import documents

pytest.importorskip("jinja2")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Open a document in a window that may not use the network; everything it complains of is an error."""
    problems: list[str] = []

    def show(made, width=1280, height=900, scheme="light"):
        file = tmp_path / "report.html"
        file.write_text(html.page(made), encoding="utf-8")
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: request.url != file.as_uri() and problems.append(request.url))
        page.goto(file.as_uri())
        return page

    yield show
    assert problems == []


def shown(page) -> list[str]:
    return [code.inner_text() for code in page.locator("details.test:visible summary code").all()]


def test_the_page_shows_failures_first_and_the_source_line(opened):
    page = opened(documents.typical())
    assert page.title() == "torch.compile: Some checks failed"
    assert shown(page)[0] == "tests/test_encoder.py::test_branch"
    assert not page.locator(".finding").first.is_visible()
    page.locator("details.test").first.click()
    assert "if y.sum() > 0:" in page.locator(".finding .here").first.inner_text()
    assert page.locator(".trends > .plot").count() >= 3


@pytest.mark.parametrize(("width", "open_at_first"), [(1280, True), (390, False)], ids=["desktop", "phone"])
def test_what_selected_the_tests_is_folded_on_a_phone(width, open_at_first, opened):
    page = opened(documents.made(documents.case(), selection="-k 'not slow'"), width=width)
    assert page.locator(".selection code").is_visible() is open_at_first
    page.click(".selection summary")
    assert page.locator(".selection code").is_visible() is not open_at_first


@pytest.mark.parametrize(("width", "most"), [(1280, html.WIDE), (390, html.NARROW)], ids=["desktop", "phone"])
def test_long_names_fit_one_line_stay_apart_and_are_whole_in_the_test(width, most, opened):
    name = "tests/models/test_encoders_and_decoders.py::TestAttention::test_forward[{}-bf16-dynamic_batch-fullgraph]"
    names = [name.format(kind) for kind in ("rotary", "absolute")]
    page = opened(documents.made(*(documents.case(one) for one in names)), width=width)
    first, second = shown(page)
    assert first != second and max(len(first), len(second)) <= most
    assert page.locator("summary code").first.bounding_box()["height"] < 25
    page.locator("details.test").first.click()
    assert page.locator(".whole:visible").inner_text() in names
    page.fill("#search", "rotary-bf16-dynamic_batch")
    assert len(shown(page)) == 1


def test_history_by_test_is_folded_and_shows_counts_and_speedup(opened):
    page = opened(documents.typical())
    assert not page.locator(".of-test").first.is_visible()
    page.click(".by-test > summary")
    first = page.locator(".of-test", has_text="test_branch")
    assert "failed in 6 of 6 results" in first.inner_text()
    assert first.locator(".plot", has_text="breaks").is_visible()
    assert page.locator(".of-test", has_text="test_forward").locator(".plot", has_text="speedup").is_visible()


def test_a_usage_error_is_named_in_its_row_and_in_the_summary():
    made = documents.made(documents.case(outcome="failed", usage_error=True, message="backnd is no option"))
    page = html.page(made)
    assert "<em>usage-error</em>" in page
    assert '<pre class="message">backnd is no option</pre>' in page
    assert [found.finding["kind"] for found in view.findings(made)] == ["usage-error"]


def test_the_timeline_shows_recompiles_with_their_guard(opened):
    page = opened(documents.typical())
    page.locator("details.test", has_text="test_lengths").first.click()
    timeline = page.locator(".timeline:visible li")
    assert [item.get_attribute("class") for item in timeline.all()] == ["compiled", *["recompiled"] * 3]
    assert "expected 2, actual 3" in timeline.nth(1).inner_text()
    assert timeline.nth(1).locator(".where").inner_text() == "src/model.py:1"
    assert "0 recompiles instead of 3" in page.locator(".diagnosis:visible").inner_text()


def test_remarks_are_shown_and_an_old_report_has_none():
    found = documents.made(documents.case("tests/test_a.py::test_a", "passed", documents.check(breaks=1)))
    assert "<dt>note</dt><dd>accepted_breaks: gb-gone matched no graph break" in html.page(found)
    del found["tests"][0]["checks"][0]["remarks"]
    assert "<dt>note" not in html.page(found)


def test_trends_are_those_of_the_same_choice_of_tests():
    history, names = [], ["-k a", "", "-k a", ""]
    for day, name in enumerate(names):
        case = documents.case("a", "passed", documents.check(breaks=1))
        found = documents.made(case, created=f"2026-01-0{day + 1}", selection=name, history=history)
        history = found["history"]
    text = html.page(found).partition("<nav>")[0]
    assert 'aria-label="graph breaks over 2 results"' in text
    assert "selected by" not in text
    assert "<summary>selected by</summary> <code>-k a</code>" in html.page(documents.made(selection="-k a"))


def test_counts_of_both_legs_are_named():
    page = html.page(documents.typical())
    assert (
        "Python calls in one call: 849 eager, 303 compiled" in page
        and "kernels in one call: 9 eager, 2 compiled" in page
    )


def test_cause_and_the_settings_that_differ_are_shown():
    page = html.page(documents.caused_by_a_setting())
    assert "<b>cause</b> torch._dynamo.config.disable is True" in page
    assert "<code>torch._dynamo.config.disable</code> is True (default: False), left by tests/test_b.py::test_b" in page


def test_what_cuda_graphs_did_is_summed_up():
    run = {"call": 1, "warmed_up": 1, "recorded": 0, "replayed": 2, "without": ["why"]}
    entry = documents.check() | {"cudagraph_runs": [run, run]}
    page = html.page(documents.made(documents.case("a", "passed", entry)))
    assert "<dt>CUDA graphs</dt><dd>2 warmed up, 0 recorded, 4 replayed, 2 without</dd>" in page


def test_speed_shows_both_legs_and_the_interval_of_the_baseline(opened):
    page = opened(documents.typical())
    page.locator("details.test", has_text="test_step").first.click()
    speed = page.locator(".speed:visible")
    assert {"wall time", "device time", "peak memory"} <= {
        re.sub(r" eager.*", "", title.inner_text()) for title in speed.locator(".legs h3").all()
    }
    assert speed.locator(".interval.regressed .dot").is_visible()


def test_sorting_by_a_column_goes_both_ways(opened):
    page = opened(documents.typical())
    page.click("[data-sort=recompiles]")
    assert shown(page)[0] == "tests/test_encoder.py::test_lengths[bf16]"
    page.click("[data-sort=test]")
    assert shown(page) == sorted(shown(page))
    page.click("[data-sort=test]")
    assert shown(page) == sorted(shown(page), reverse=True)
    page.click("[data-sort=speedup]")
    assert shown(page)[0].startswith("tests/test_speed.py")


def test_filter_and_search_narrow_the_list_together(opened):
    page = opened(documents.typical())
    page.click("[data-filter=failed]")
    assert len(shown(page)) == 3
    page.fill("#search", "encoder mismatch")
    assert shown(page) == ["tests/test_encoder.py::test_lengths[bf16]"]
    page.fill("#search", "nothing like this")
    assert page.locator("#none").is_visible()
    page.fill("#search", "")
    page.click("[data-filter='']")
    assert len(shown(page)) == 7


def test_dark_follows_the_system_and_the_button(opened):
    page = opened(documents.typical(), scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(20, 22, 27)"
    page.locator("details.test").first.click()
    page.click("#theme")
    assert page.evaluate(background) == "rgb(251, 251, 253)"


@pytest.mark.parametrize("make", [documents.typical, documents.hostile], ids=["typical", "hostile"])
def test_a_phone_needs_no_sideways_scrolling(make, opened):
    page = opened(make(), width=375, height=812)
    page.click("#unfold")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    page.click("#unfold")
    page.locator("details.test").first.click()


def test_nothing_hostile_runs_or_becomes_an_element(opened):
    page = opened(documents.hostile())
    page.click("#unfold")
    assert page.title() == "torch.compile: Some checks failed"
    assert page.locator("script").count() == 1
    assert page.locator("img, a, iframe").count() == 0
    assert "<script>" in page.locator(".finding p").first.inner_text()


def test_an_empty_run_has_a_page(opened):
    assert opened(documents.made(exit_status=5)).locator("h1").inner_text() == "No test used the plugin"


def test_a_thousand_tests_stay_usable(opened):
    check = documents.check(documents.finding(), breaks=1)
    tests = [documents.case(f"tests/test_a.py::test_{n:04}", "failed", check) for n in range(1000)]
    page = opened(documents.made(*tests))
    page.fill("#search", "test_0999")
    assert shown(page) == ["tests/test_a.py::test_0999"]


def test_page_shows_what_is_counted_before_and_after():
    page = html.page(documents.made(documents.case(speed=[documents.speed("regressed", 0.09)])))
    assert re.search(r"worse: kernels per call 46 -(>|&gt;) 56", page)
    assert "better: peak memory 9.0 MB" in page
    assert "kernels per call" not in html.page(documents.made(documents.case(speed=[documents.speed()])))

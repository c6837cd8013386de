"""What an operator sees of each trouble, on a desk and on a phone, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tailrace.web.model import Model
from tests.web import models
from tests.web.conftest import Shown, picture, start, width

Serve = Callable[..., str]
WAIT_S = 60


def wait(browser: webdriver.Chrome, is_so: Callable[[], object], what: str) -> None:
    """Wait until the page is so; a renewal may replace an element while it is read."""
    waiting = WebDriverWait(browser, WAIT_S, 0.1, [StaleElementReferenceException])
    waiting.until(lambda _: is_so(), what)


def headline(browser: webdriver.Chrome) -> str:
    return browser.find_element(By.CSS_SELECTOR, ".verdict h1").text


@pytest.mark.parametrize(
    ("seen", "state", "words", "advice"),
    [
        (models.healthy, "good", "All is well: 6 tables.", None),
        (models.stopped_table, "bad", "1 of 6 tables cannot continue: dbo.docs.", "TableStopped"),
        (
            models.dead_publisher,
            "bad",
            "The publisher has been silent for",
            "PublisherNotPublishing",
        ),
        (models.dead_sink, "bad", "sink did not answer", "SinkGone"),
        (models.dead_broker, "bad", "topics did not answer", None),
        (models.slow_lake, "bad", "The lake's tables lag the source by 13 min.", "LakeBehind"),
        (models.paused, "warn", "The publisher is paused.", None),
        (models.many, "bad", "1 of 300 tables cannot continue: dbo.table_123.", "TableStopped"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_state_is_told_at_first_sight_on_desk_and_phone(
    browser: webdriver.Chrome,
    site: Serve,
    seen: Callable[[], Model],
    state: str,
    words: str,
    advice: str | None,
):
    url = site(seen())
    for pixels in (1280, 390):
        with width(browser, pixels):
            browser.get(url)
            assert headline(browser).startswith(words)
            assert browser.find_element(By.CLASS_NAME, "verdict").get_dom_attribute("class") == (
                f"verdict {state}"
            )
            top = browser.find_element(By.CSS_SELECTOR, ".verdict h1").rect
            assert top["y"] + top["height"] < 700, "it is on the first screen"
            assert browser.execute_script(
                "return document.documentElement.scrollWidth <= innerWidth"
            ), "nothing is off the screen"
            icon = browser.find_element(By.ID, "icon").get_attribute("href")
            assert icon.endswith(f"/static/icon-{state}.svg")
            is_well = state == "good"
            assert browser.title.startswith("shop" if is_well else "("), browser.title
            if advice:
                link = browser.find_element(By.CSS_SELECTOR, ".advice a").get_attribute("href")
                assert link.endswith(f"/runbook?name={advice}")
            device = "" if pixels == 1280 else "-phone"
            picture(browser, f"page-{seen.__name__}{device}")
            problems = [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
            assert not problems, problems


def test_the_slow_stage_is_marked_and_its_delay_is_on_the_arrow(
    browser: webdriver.Chrome, site: Serve
):
    browser.get(site(models.slow_lake()))
    slow = browser.find_elements(By.CSS_SELECTOR, ".pipeline .slow")
    assert [arrow.text.split("\n")[-1] for arrow in slow] == ["13 min behind"]
    groups = browser.find_elements(By.CSS_SELECTOR, "#tables > *")
    assert [g.get_dom_attribute("data-name") for g in groups] == ["behind", "healthy"]


def test_a_snapshot_shows_progress_rate_and_time_left(browser: webdriver.Chrome, site: Serve):
    browser.get(site(models.stopped_table()))
    row = browser.find_element(By.CSS_SELECTOR, ".in-snapshot tbody")
    told = "340000 of about 1000000 rows, 48.3 MB, 6947 rows/s, about 95 s left"
    assert told in row.text
    bar = row.find_element(By.TAG_NAME, "progress")
    assert (bar.get_property("value"), bar.get_property("max")) == (340_000, 1_000_000)


def test_a_renewal_keeps_what_somebody_has_open_or_typed(browser: webdriver.Chrome, site: Serve):
    shown = Shown(models.healthy())
    browser.get(site(shown))
    browser.find_element(By.CSS_SELECTOR, "details.group > summary").click()
    browser.find_element(By.TAG_NAME, "body").send_keys("/")
    box = browser.switch_to.active_element
    assert box.get_dom_attribute("id") == "find"
    box.send_keys("pay")
    rows = browser.find_elements(By.CSS_SELECTOR, "#tables [data-name][data-table]")
    assert [row.get_dom_attribute("data-table") for row in rows if row.is_displayed()] == [
        "dbo.payments"
    ]

    shown.seen = models.stopped_table()
    wait(browser, lambda: "cannot continue" in headline(browser), "the page renews itself")

    assert browser.switch_to.active_element == browser.find_element(By.ID, "find")
    assert browser.find_element(By.ID, "find").get_property("value") == "pay"
    shown_rows = browser.find_elements(By.CSS_SELECTOR, "#tables [data-name][data-table]")
    visible = [row.get_dom_attribute("data-table") for row in shown_rows if row.is_displayed()]
    assert visible == ["dbo.payments"], "in its new group, still found"
    browser.find_element(By.ID, "find").send_keys(Keys.BACKSPACE * 3)
    assert browser.find_element(By.CSS_SELECTOR, "details.group").get_property("open")
    card = browser.find_element(By.CSS_SELECTOR, ".card")
    assert "RecordTooLarge" in card.text
    for place in (card, browser.find_element(By.CLASS_NAME, "verdict")):
        copied = place.find_element(By.CSS_SELECTOR, "button[data-copy]")
        assert str(copied.get_dom_attribute("data-copy")).startswith("kafka-configs.sh --alter")
    assert (
        "tailrace snapshot dbo.docs" not in card.find_element(By.CSS_SELECTOR, "summary").text[:80]
    )


def test_an_open_menu_and_a_runbook_are_on_the_screen_of_desk_and_phone(
    browser: webdriver.Chrome, site: Serve
):
    url = site(models.stopped_table())
    for path in ("", "table?name=dbo.docs", "runbook?name=TableStopped"):
        for pixels in (1280, 390):
            with width(browser, pixels):
                browser.get(f"{url}{path}")
                browser.execute_script(
                    "for (const each of document.querySelectorAll('details')) each.open = true"
                )
                off = browser.execute_script(
                    "return [...document.querySelectorAll('.menu > div, td, pre')].filter(each => {"
                    "const {left, right} = each.getBoundingClientRect();"
                    "return left < 0 || right > innerWidth}).map(each => each.outerHTML)"
                )
                assert off == [], (path, pixels)
                assert browser.execute_script(
                    "return document.documentElement.scrollWidth <= innerWidth"
                ), (path, pixels)


def test_an_action_is_asked_twice_and_its_failure_is_told(browser: webdriver.Chrome, site: Serve):
    browser.get(site(models.stopped_table()))
    menu = browser.find_element(By.CSS_SELECTOR, ".card .menu")
    menu.find_element(By.TAG_NAME, "summary").click()
    menu.find_element(By.CSS_SELECTOR, 'button[data-signal="snapshot"]').click()
    question = browser.switch_to.alert
    assert "new snapshot: dbo.docs?" in question.text
    assert "replace those in the lake" in question.text
    question.dismiss()
    assert not browser.find_element(By.ID, "notice").is_displayed()

    menu.find_element(By.CSS_SELECTOR, 'button[data-signal="snapshot"]').click()
    browser.switch_to.alert.accept()
    notice = browser.find_element(By.ID, "notice")
    wait(browser, lambda: "not requested: 502" in notice.text, "Kafka is away, and it says so")


def test_the_age_of_what_is_seen_is_told_when_nothing_answers_any_more(
    browser: webdriver.Chrome, site: Serve
):
    browser.get(site(models.healthy()))
    age = browser.find_element(By.ID, "age")
    browser.execute_script("seenAt = Date.now() - 20000; tick()")
    assert (age.text, age.get_dom_attribute("class")) == ("seen 20 s ago", "warn")
    browser.execute_script("seenAt = Date.now() - 61000; tick()")
    assert age.get_dom_attribute("class") == "bad"
    assert browser.find_element(By.ID, "icon").get_attribute("href").endswith("icon-plain.svg")


def test_dark_has_enough_contrast(browser: webdriver.Chrome, site: Serve):
    url = site(models.stopped_table())
    contrast = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")
    try:
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            browser.get(url)
            assert browser.execute_script(contrast) == [], scheme
            picture(browser, f"page-{scheme}")
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_without_scripts_it_is_a_whole_page_that_promises_no_more(site: Serve, tmp_path: Path):
    browser = start(tmp_path / "plain", scripts=False)
    try:
        browser.get(site(models.stopped_table()))
        assert headline(browser).startswith("1 of 6 tables cannot continue")
        for promise in ("#find", "button[data-signal]", "button[data-copy]"):
            found = browser.find_elements(By.CSS_SELECTOR, promise)
            assert not [element for element in found if element.is_displayed()], promise
        browser.find_element(By.CSS_SELECTOR, ".advice a").click()
        assert browser.find_element(By.TAG_NAME, "h1").text == "TableStopped"
    finally:
        browser.quit()


def test_the_keyboard_reaches_everything_in_order(browser: webdriver.Chrome, site: Serve):
    browser.get(site(models.stopped_table()))
    body = browser.find_element(By.TAG_NAME, "body")
    reached = []
    for _ in range(12):
        body = browser.switch_to.active_element
        body.send_keys(Keys.TAB)
        focused = browser.switch_to.active_element
        reached.append(focused.text or focused.get_dom_attribute("id"))
    assert reached[:5] == ["To the content", "Tailrace", "find", "copy", "runbook TableStopped"]
    assert "dbo.docs" in reached


def test_every_runbook_is_a_page(browser: webdriver.Chrome, site: Serve):
    url = site(models.healthy())
    folder = Path("docs/runbooks")
    for file in sorted(folder.glob("[A-Z]*.md")):
        browser.get(f"{url}runbook?name={file.stem}")
        assert browser.find_element(By.TAG_NAME, "h1").text == file.stem
        links = browser.find_elements(By.CSS_SELECTOR, "main a")
        for link in links:
            assert "/runbook?name=" in str(link.get_attribute("href"))
    browser.get(f"{url}runbook?name=..%2Foperate")
    assert browser.find_element(By.TAG_NAME, "h1").text == "No such runbook"
    assert json.loads(json.dumps(browser.title)) == "No such runbook"


def test_several_pipelines_are_on_one_page_with_the_worst_first(
    browser: webdriver.Chrome, site: Serve
):
    browser.get(site(models.healthy(), models.slow_lake(), models.paused()))
    cards = browser.find_elements(By.CSS_SELECTOR, ".card")
    assert [card.find_element(By.CSS_SELECTOR, "h2 + p").text for card in cards] == [
        "The lake's tables lag the source by 13 min.",
        "The publisher is paused.",
        "All is well: 6 tables.",
    ]
    assert browser.title == "(2!) pipelines"
    picture(browser, "page-pipelines")
    cards[0].find_element(By.TAG_NAME, "a").click()
    assert headline(browser) == "The lake's tables lag the source by 13 min."
    browser.find_element(By.CSS_SELECTOR, "#tables a").click()
    assert browser.find_element(By.TAG_NAME, "h1").text == "dbo.orders"
    browser.find_element(By.CLASS_NAME, "home").click()
    assert len(browser.find_elements(By.CSS_SELECTOR, ".card")) == 3

"""The HTML page: well-formed, self-contained, and its bars are as long as the bytes."""

from functools import cache
from xml.etree import ElementTree as ET

import pytest

from infra.fit_page import fit_page
from infra.fit_parts import Group, parts_of
from infra.fit_question import FitQuestion, LayoutWish, find_model, limits_for, machines_named
from infra.fit_rows import FitReport, answer
from serving.fit.layout import Layout
from serving.fit.plan import plan_fit
from serving.gpu_boxes import gpu_box
from serving.profiles import known_models, load_checkpoint


@cache
def report(model: str, *machines: str) -> FitReport:
    named = find_model(model, None, None)
    limits = limits_for(named.checkpoint, context=None, concurrency=None, kv_cache_dtype="auto")
    wish = LayoutWish(vision_mode=named.vision_mode)
    return answer(FitQuestion(named.checkpoint, named.title, limits, wish, machines_named(list(machines))))


def drawing(page: str) -> ET.Element:
    start = page.index("<svg viewBox")
    return ET.fromstring(page[start : page.index("</svg>", start) + 6])


def test_it_stands_alone() -> None:
    page = fit_page(report("kimi-k2.5"))
    assert "<script" not in page
    for word in ("http:", "https:", "src=", "url(http", "@import"):
        assert word not in page
    assert "prefers-color-scheme: dark" in page


@pytest.mark.parametrize("model", ["kimi-k2.5", "gpt-oss-120b", "qwen3-32b"])
def test_each_bar_is_as_long_as_its_bytes(model: str) -> None:
    answered = report(model)
    bars = [group for group in drawing(fit_page(answered)).findall("g") if group.find("title") is not None]
    assert len(bars) == len(answered.rows) == 11
    longest = max(max(row.usable_bytes, row.needed_bytes) for row in answered.rows)
    for row, bar in zip(answered.rows, bars, strict=True):
        rects = {rect.get("class"): float(rect.get("width", "0")) for rect in bar.findall("rect")}
        assert rects["ground"] == pytest.approx(700 * row.usable_bytes / longest, abs=0.1)
        assert ("missing" in rects) == (row.missing_bytes > 0)
        if row.missing_bytes:
            assert rects["missing"] == pytest.approx(700 * row.missing_bytes / longest, abs=0.1)
        else:
            kv = next(part.size_bytes for part in row.parts if part.group is Group.KV_CACHE)
            assert rects["g-kv-cache"] == pytest.approx(700 * kv / longest - 0.8, abs=0.1)
        texts = [element.text for element in bar.findall("text")]
        assert texts[0] == row.machine_text
        assert row.verdict() in texts


def test_it_says_what_the_table_says() -> None:
    answered = report("kimi-k2.5")
    page = fit_page(answered)
    assert answered.sentence() in page
    for row in answered.rows:
        assert f"<td>{row.machine_text}</td>" in page
    assert "816,928 tokens" in page


def test_names_are_escaped() -> None:
    answered = report("kimi-k2.5", "p5en.48xlarge")
    hostile = FitQuestion(
        answered.question.model, "<script>alert(1)</script>", answered.question.limits, answered.question.wish,
        answered.question.machines,
    )  # fmt: skip
    page = fit_page(answer(hostile))
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize("model", known_models())
def test_parts_hold_every_byte_of_the_plan(model: str) -> None:
    checkpoint = load_checkpoint(model)
    limits = limits_for(checkpoint, context=None, concurrency=None, kv_cache_dtype="auto")
    plan = plan_fit(checkpoint, Layout(8), gpu_box("8xH200"), limits)
    parts = {part.group: part.size_bytes for part in parts_of(plan)}
    kv = parts.pop(Group.KV_CACHE)
    assert sum(parts.values()) == sum(term.count for term in plan.terms)
    assert kv == max(0, plan.kv_cache_bytes)

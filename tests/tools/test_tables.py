"""Test that tables and charts match the presets and the measurements."""

import csv
import json
import re

import pytest

from tests.harness import ROOT, load_module

pytestmark = pytest.mark.once


def measured(name):
    with open(ROOT / "benchmarks" / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_explorer_has_a_row_per_card_with_the_scores_of_the_weights():
    head, *rows = load_module("tools/tables.py").explorer()
    found = {re.match(r"\[`(.*?)`\]", row[0])[1]: dict(zip(head, row, strict=True)) for row in rows}
    for path in ROOT.glob("weights/*/*/metadata.json"):
        metadata = json.loads(path.read_text(encoding="utf-8"))
        if metadata["scores"]:
            row = found.pop("/".join(path.parent.parts[-2:]))
            key, score = next(iter(metadata["scores"].items()))
            percent = 100 if row["score"].endswith(" %") else 1
            assert float(row["score"].strip(" %")) == pytest.approx(percent * score, abs=0.005)
            assert row["parameters"] == f"{metadata['parameter_count']:,}"
            assert (row["data"], row["metric"]) == (metadata["data"], key.split("/")[-1])
    without_weights = {
        "cspvit/imagenette_scratch", "simpletron/sst2_softmax", "vit/imagenette"
    }  # fmt: skip
    assert set(found) == without_weights


@pytest.mark.parametrize("backend", ["jax", "tensorflow", "torch"])
def test_explorer_shows_measured_ratios(backend):
    head, *rows = load_module("tools/tables.py").explorer()
    found = {row[0].split("`")[1]: row[head.index(f"step, {backend}")] for row in rows}
    ratios = {(row["case"], row["model"]): row for row in measured(f"epyc/models_{backend}")}
    csp = ratios["cifar10_small", "CSPViT"]["vs_attention"]
    names = ("cspvit/cifar10_small", "vit/cifar10_small", "cspvit/mnist")
    assert [found[name] for name in names] == [f"{csp}×", "1.0×", "–"]


def test_charts_are_up_to_date(tmp_path):
    load_module("tools/charts.py").main(tmp_path)
    for name in ("step_times.svg", "cost_over_length.svg", "scores.svg"):
        words, coordinates = drawn(tmp_path / name)
        old_words, old_coordinates = drawn(ROOT / "benchmarks" / name)
        assert words == old_words and coordinates == pytest.approx(old_coordinates, abs=0.5)


def drawn(path):
    """Return the words of a chart, and the coordinates of its lines and bars."""
    text = path.read_text(encoding="utf-8")
    lines = " ".join(re.findall(r' d="([^"]*)"', text))
    return re.findall(r"<text[^>]*>([^<]*)", text), [*map(float, re.findall(r"-?[\d.]+", lines))]


@pytest.mark.parametrize("number, backend", list(enumerate(["jax", "tensorflow", "torch"])))
def test_charts_show_the_measurements(number, backend):
    charts = load_module("tools/charts.py")
    bars = {text.get_text() for text in charts.step_times().axes[0].texts}
    ratios = {float(row["vs_attention"]) for row in measured(f"epyc/models_{backend}")}
    assert bars >= {f"{ratio:g}×" for ratio in ratios - {1.0}}
    (row,) = [
        row
        for row in measured(f"xeon/layers_{backend}")
        if (row["layer"], row["tokens"]) == ("CSP", "65536")
    ]
    axes = charts.cost_over_length().axes
    costs = [(axes[number], float(row["us_per_token"]))]
    if backend != "tensorflow":  # which keeps the memory that it frees
        costs += [(axes[3 + number], 1000 * float(row["peak_mb"]) / 65536)]
    for panel, cost in costs:
        assert panel.lines[1].get_xydata()[-1].tolist() == [65536, cost]

"""scikit-learn's tools take the models by Keras' own wrapper, as docs/export.md shows."""

import importlib.util
import re

import numpy as np
import pytest

from tests.harness import ROOT

PAGE = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")


@pytest.mark.once
@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="scikit-learn is absent")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_snippet_runs(capsys):
    (snippet,) = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
    scores = {}
    exec(compile(snippet, "snippet", "exec"), scores)
    assert scores["scores"].shape == (3,) and np.isfinite(scores["scores"]).all()

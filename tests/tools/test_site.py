"""Test the pages of the documentation site before Sphinx builds them."""

import os
import re

import pytest

from keras_permix import layers
from keras_permix.zoo import list_presets
from tests.harness import ROOT, exported, load_module

pytestmark = pytest.mark.once
SITE = load_module("docs/site/pages.py")
PAGES = SITE.pages()


def test_every_page_is_in_the_sidebar():
    listed = []
    for page, text in PAGES.items():
        for contents in re.findall(r"```\{toctree\}\n(?::[^\n]*\n)*\n(.*?)\n```", text, re.DOTALL):
            folder = os.path.dirname(page)
            listed += [os.path.join(folder, name) for name in contents.split("\n")]
    assert sorted(listed) == sorted(set(PAGES) - {"index"})


def test_every_guide_is_a_page():
    for folder in ("guides", "reference"):
        for path in (ROOT / "docs" / folder).glob("*.md"):
            assert f"{folder}/{path.stem}" in PAGES


def test_every_guide_starts_with_an_example():
    for name in SITE.GUIDES:
        before, fence, _ = PAGES[f"guides/{name}"].partition("\n```")
        assert fence and before.startswith("# ") and "\n## " not in before


# Public layers that mix no tokens by themselves.
OTHERS = {
    "BlockDense", "GraphEmbedding", "GraphormerBias", "ImagePreprocessor", "MixerBlock",
    "PatchEmbedding", "PositionEmbedding", "RandomOrder", "SimpleAttentionBlock", "TokenEmbedding",
}  # fmt: skip


@pytest.mark.parametrize("layer", sorted(set(exported(layers)) - OTHERS))
def test_mixer_page_has_image_text_and_docstring(layer):
    page = PAGES[f"mixers/{layer}"]
    assert page.startswith(f"# {layer}\n\n![{layer}](../../../docs/mixers/")
    assert f"autoclass:: keras_permix.layers.{layer}\n" in page
    assert f"\n`{layer}` " in page


def test_mixer_page_has_measurements():
    rows = re.findall(r"^\| `(\w+)` \| 8×1024 \|", PAGES["mixers/ButterflyBlock"], re.MULTILINE)
    assert rows == ["ButterflyBlock"]
    assert "| `CSP` | 2×4096 |" in PAGES["mixers/CSP"]


def test_reference_omits_members_inherited_from_keras():
    for package in SITE.PACKAGES:
        assert ":inherited-members: Model, Layer, " in PAGES[f"reference/{package}"]


def test_every_trained_preset_has_a_card():
    trained = {name for name, info in list_presets().items() if info.scores}
    assert "vit/cifar10_small" in trained
    assert {f"zoo/{name}" for name in trained} <= set(PAGES)
    for name in ("curves.png", "recipe.toml"):
        assert f"../../../../zoo/vit/cifar10_small/{name}" in PAGES["zoo/vit/cifar10_small"]


def test_links_are_valid():
    for page, text in PAGES.items():
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        folder = ROOT / "build" / "site" / os.path.dirname(page)
        for link in re.findall(r"\]\((?!\w+:)([^)#]+)[^)]*\)", prose):
            target = os.path.relpath(folder / link, ROOT / "build" / "site")
            if target.endswith(".md"):
                assert target.removesuffix(".md") in PAGES, (page, link)
            else:
                assert os.path.isfile(os.path.normpath(folder / link)), (page, link)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("[a](../docs/mixers.md#csp)", "[a](../mixers/index.md#csp)"),
        ("[a](../weights)", "[a](weights.md)"),
        ("[code](../keras_permix/zoo)", "code"),
        ("![a](../docs/mixers/csp.png)", "![a](../../../docs/mixers/csp.png)"),
        ("[a](https://example.org/x)", "[a](https://example.org/x)"),
        ("```py\nmakers[0](model)\n```", "```py\nmakers[0](model)\n```"),
    ],
)
def test_links_are_rewritten(text, expected):
    assert SITE.rebased(text, "zoo/README.md", "zoo/index") == expected


def test_broken_link_raises():
    with pytest.raises(ValueError, match="Received: gone.md in zoo/README.md"):
        SITE.rebased("[a](gone.md)", "zoo/README.md", "zoo/index")

"""Test that the public API is annotated and that mypy reports mistakes of users."""

import ast
import re
import subprocess
import sys

import pytest

from tests.test_architecture import FOLDER, PACKAGES, TREES, within
from tests.test_docstrings import public

pytestmark = pytest.mark.once
# Parts with public modules: all their names without a leading underscore are public.
PUBLIC_PARTS = ("bench", "layers.mixers", "lra", "recipes", "training")
PUBLIC_PARTS += ("utils.files", "utils.formatting", "utils.machine", "zoo.presets", "zoo.registry")


def definition(module, name):
    """Return the module that defines a name, and its node. Follows imports."""
    for node in TREES[module].body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(FOLDER.name):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return definition(node.module.partition(".")[2], alias.name)
    return None


def public_nodes():
    """Return all public functions and classes, and base classes of these."""
    waiting = [definition(package, name) for package, name, _ in public()]
    for module in TREES:
        if module in PACKAGES or within(module, *PUBLIC_PARTS):
            nodes = TREES[module].body
            named = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)]
            waiting += [(module, node) for node in named if node.name[0] != "_"]
    found = {}
    while waiting:
        module, node = waiting.pop()
        if (module, node.name) not in found:
            found[module, node.name] = node
            bases = [definition(module, ast.unparse(b)) for b in getattr(node, "bases", ())]
            waiting += filter(None, bases)
    return found


def functions():
    """Yield name, node and number of arguments to skip of public functions and methods."""
    for (module, name), node in sorted(public_nodes().items()):
        if isinstance(node, ast.FunctionDef):
            yield f"{module}.{name}", node, 0
        for part in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(part, ast.FunctionDef) and re.match("[a-z]|__", part.name):
                static = "staticmethod" in map(ast.unparse, part.decorator_list)
                yield f"{module}.{name}.{part.name}", part, 0 if static else 1


def untyped(function, skipped):
    """Yield the names of arguments without annotation, and "return" without return type."""
    given = function.args
    arguments = [*given.posonlyargs, *given.args][skipped:] + given.kwonlyargs
    arguments += filter(None, (given.vararg, given.kwarg))
    yield from (argument.arg for argument in arguments if argument.annotation is None)
    if function.returns is None:
        yield "return"


def test_public_functions_are_annotated():
    found = {name: list(untyped(node, skipped)) for name, node, skipped in functions()}
    assert len(found) > 300
    assert {name: missing for name, missing in found.items() if missing} == {}


USERS = """
from pathlib import Path

import numpy as np

from keras_permix import analysis, data, distill, layers, ops, swap_mixer, tasks, training, zoo
from keras_permix.recipes.load import load_recipe

tokens = np.ones((1, 8, 4), "float32")
layers.CSP(group_size=4, shift=[0, 1, 2, 3], dropout=0, dtype="float16", name="mixer")(tokens)
layers.CSP(group_size=None, layer_index=1, num_layers=6).compute_output_shape((None, 8, 4))
layers.CSP(shift=[(0, 1), (1, 0)])  # wrong
layers.CausalCSP(delays=(1, 2))
layers.CausalCSP(delays=[1.5])  # wrong
layers.PatchOnlyMixer(patch_size=[2, 3])
layers.CSP(group_size="2")  # wrong
layers.CSP(2, [0.5])  # wrong
layers.CSP(dropout="0.1")  # wrong
layers.SliceSort(1)  # wrong
layers.MegaBlock(attention="softmax")  # wrong
layers.GraphormerBias(heads=8).build([1, 2])  # wrong
layers.SoftmaxAttention(num_heads=4).get_config()[0]  # wrong
ops.csp(tokens, (0, 1, 2, 3), 2, align="reference", mask=tokens[..., 0] > 0)
ops.csp(tokens, ops.ShiftSchedule("linear", 4), None)
ops.csp(tokens, (0, 1, 2, 3), "2")  # wrong
ops.group_sort(tokens, size=2)  # wrong
ops.shift_steps("linear", tokens=8, channels="4")  # wrong
ops.butterfly_stages(64, 8) + ops.explain(ops.csp, tokens, (0, 1, 2, 3), 2).chosen  # wrong
analysis.rank_residual(tokens, 1)  # wrong
model = zoo.CSPViT.from_preset(Path("preset"), num_classes=5, image_size=64)
name: str = model.classify(tokens)[0][0][0]
zoo.ViT(mixer=["attention", {"name": "csp", "group_size": 4}], num_layers=2, mean=[0.5, 0.5, 0.5])
zoo.MEGA(image_size=4, mean=[0.5], std=[0.5], mixer=["softmax", "laplace"], num_layers=2)
zoo.LRATransformer(mixer=["csp", {"name": "attention"}], num_layers=2, head_dims=[8])
zoo.ButterflyViT(mixer=[None, "csp"], num_layers=2, std=[0.5, 0.5, 0.5])
zoo.SimpleTRON(mixer=["csp", None], num_layers=2)
zoo.Graphormer(mixer=["attention", "slice_sort"], num_layers=2)
zoo.MLPMixer(mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5])
zoo.PatchOnlyMLPMixer(patch_sizes=[5, 7])
zoo.PatchOnlyMLPMixer(patch_sizes=5)  # wrong
swap_mixer(model, "csp", layers=(1, -1))
swap_mixer(model, "csp", layers=(0.5,))  # wrong
distill(model, model, tokens, layers={0: -1}, temperature=None, epochs=2)
distill(model, model, tokens, layers=[0.5])  # wrong
distill(model, model, tokens, logits="1")  # wrong
zoo.CSPViT.from_preset(3)  # wrong
zoo.ViT(num_layers=2.5)  # wrong
zoo.SliceViT(image_size="32")  # wrong
model.classify(tokens, top="5")  # wrong
model.labels = "cat"  # wrong
model.reset_classifier(2).save_to_preset(None)  # wrong
zoo.preset_info("cspvit/test").scores.values()  # wrong: may be `None`
pictures = data.load_images("mnist", data_dir=Path("data"))
data.Pipeline(*pictures.train, batch_size=32, num_classes=10)[0]
data.Pipeline(*pictures.train, batch_size="32")  # wrong
data.read_image(3)  # wrong
tasks.task_of(model).evaluate(pictures.test, 32)["top1"] / 2
tasks.task_of(model).evaluate(pictures.test)  # wrong
training.train("cspvit/mnist", epochs=1, smoke=True).scores["x"] / 2
training.train("cspvit/mnist", smoke=True, verbose="no")  # wrong
load_recipe("cspvit/mnist", epochs=2)["epochs"]  # wrong
load_recipe("cspvit/mnist", option=2)  # wrong
"""


def test_mypy_reports_only_mistakes_of_users(tmp_path):
    (tmp_path / "users.py").write_text(USERS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-color-output", tmp_path / "users.py"],
        cwd=FOLDER.parent, capture_output=True, text=True,
    )  # fmt: skip
    found = {int(line) for line in re.findall(r"users\.py:(\d+): error", done.stdout)}
    lines = enumerate(USERS.splitlines(), 1)
    assert found == {number for number, line in lines if "# wrong" in line}, done.stdout
    assert not done.stderr

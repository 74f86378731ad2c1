"""The parts stand to each other as CONTRIBUTING.md says, read off the syntax trees."""

import ast
from fnmatch import fnmatch
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = "keras_permix"
FOLDER = Path(__file__).parents[1] / PACKAGE
LEAVES = ("utils", "zoo.registry", "_backend", "_version")
# From the roof down. A module may import from the storeys below its own, and from its own part.
STOREYS = (
    ("cli",),
    ("lra",),
    ("training", "bench"),
    ("analysis",),
    ("surgery", "hub", "sklearn"),
    ("tasks", "zoo"),
    ("data", "layers"),
    ("ops",),
    ("ops.backend",),
    ("ops.reference",),
    ("ops.backend.plan",),
    ("recipes",),
    LEAVES,
    ("_typing",),
)
KERNELS = ("ops.backend.jax.tpu", "ops.backend.triton")
ASKS = ("ops.backend", "training.distribute")  # what may ask which backend runs, and name it
FRAMEWORKS = {"jax", "jaxlib", "flax", "tensorflow", "torch", "triton"}
# Strings are names as well. Which backends are installed is another question than which one runs.
WORDS = {*FRAMEWORKS, "KERAS_BACKEND"}
RUNNING = "ops.backend.running"
TELLING = {"BACKENDS", "name", "version"}  # of it; what else it has serves on any backend
ALLOWED = {
    "_backend": {"jax", "tensorflow", "torch", "KERAS_BACKEND"},
    "cli.verify": WORDS,
    "data.graphs.pcqm4m": {"torch", "torch.serialization.safe_globals"},  # reads its split
    # Records say what computed.
    "cli.bench": {"running.name", "running.version"},
    "training.run": {"running.name", "running.version"},
}

pytestmark = pytest.mark.once


def read():
    """The syntax tree of every module, by its name below the package; a package's is its face."""
    for path in sorted(FOLDER.rglob("*.py")):
        name = ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        yield name.removesuffix("__init__").rstrip("."), ast.parse(path.read_text("utf-8"))


TREES = dict(read())
FACES = {name for name in TREES if (FOLDER / name.replace(".", "/") / "__init__.py").is_file()}


def names(node):
    """The full names that a node imports; `import_module("…")` imports as well."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        return fitting(node.args[0])
    return []


def fitting(node):
    """What `import_module` may be given: a name, or those modules that an f-string can mean."""
    if isinstance(node, ast.Constant):
        return [node.value]
    if not isinstance(node, ast.JoinedStr):
        return []
    parts = (part.value if isinstance(part, ast.Constant) else "*" for part in node.values)
    pattern = "".join(parts)
    found = [name for name in TREES if fnmatch(f"{PACKAGE}.{name}", pattern)]
    assert found, f"no module is called {pattern}"
    return [f"{PACKAGE}.{name}" for name in found if not name.endswith("__main__")]


def imported(name):
    """All names that a module imports, wherever in it."""
    return [full for node in ast.walk(TREES[name]) for full in names(node)]


def modules(name):
    """The package's modules that a module imports; to take a name from a face imports the face."""
    for full in imported(name):
        first, _, rest = full.partition(".")
        if first == PACKAGE:
            yield rest if rest in TREES else rest.rpartition(".")[0]


def within(name, *parts):
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def storey(name):
    """Number and part of a module, by the longest name that fits; the whole is above the roof."""
    all_parts = [(number, part) for number, parts in enumerate(STOREYS) for part in parts]
    fitting = [(number, part) for number, part in all_parts if within(name, part)]
    return max(fitting, key=lambda pair: len(pair[1]), default=(-1, ""))


def goes_down(name, other):
    (above, part), (below, other_part) = storey(name), storey(other)
    return below > above or part == other_part


def test_every_module_has_its_storey():
    assert [name for name in TREES if name and storey(name)[0] < 0] == []


def test_imports_are_absolute():
    assert [full for name in TREES for full in imported(name) if full.startswith(".")] == []


def test_imports_go_down():
    pairs = [(name, other) for name in TREES if name for other in modules(name)]
    assert [" → ".join(pair) for pair in pairs if not goes_down(*pair)] == []


def test_there_is_no_circle():
    """A face imports what it shows, so that to import a name of it is to import all of that."""
    try:
        TopologicalSorter({name: set(modules(name)) for name in TREES}).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(reversed(error.args[1])))


def test_no_package_imports_its_own_face():
    inner = [name for name in TREES if not name.endswith("__main__")]
    pairs = [(name, face) for name in inner for face in set(modules(name)) & FACES]
    assert [pair for pair in pairs if pair[0] != pair[1] and within(*pair)] == []


def test_nobody_else_names_a_backend():
    """No framework is imported, none is named in a string, and nobody asks which one runs."""
    found = []
    for name, tree in TREES.items():
        if not within(name, *ASKS):
            said = [word for node in ast.walk(tree) for word in backends_in(node)]
            found += [(name, word) for word in said if word not in ALLOWED.get(name, ())]
    assert found == []


def backends_in(node):
    """Names of backends in a node, and the question which one runs."""
    for full in names(node):
        if full.partition(".")[0] in FRAMEWORKS or full.endswith(".backend.backend"):
            yield full
        if full in {f"{PACKAGE}.{RUNNING}.{word}" for word in TELLING}:
            yield full
    if isinstance(node, ast.Attribute) and node.attr in TELLING:
        if ast.unparse(node.value).endswith("running"):
            yield ast.unparse(node)
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("backend"):
        yield ast.unparse(node)
    if isinstance(node, ast.Attribute) and node.attr == "backend":
        if ast.unparse(node.value) in ("keras.config", "keras.backend"):
            yield ast.unparse(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if node.value in WORDS or node.value.partition(".")[0] in FRAMEWORKS:
            yield node.value


def test_no_kernel_names_keras():
    kernels = [name for name in TREES if within(name, *KERNELS)]
    assert kernels
    assert [name for name in kernels if any(within(full, "keras") for full in imported(name))] == []

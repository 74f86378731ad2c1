"""Test the architecture rules of CONTRIBUTING.md on the syntax trees of the package."""

import ast
from fnmatch import fnmatch
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = "keras_permix"
FOLDER = Path(__file__).parents[1] / PACKAGE
LEAVES = ("utils", "zoo.registry", "_backend", "_version")
# From top to bottom. A module may import from lower levels and from its own part.
LEVELS = (
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
BACKEND_PARTS = ("ops.backend", "training.distribute")  # may query and name the backend
FRAMEWORKS = {"jax", "jaxlib", "flax", "tensorflow", "torch", "triton"}
# Forbidden in strings, too. Code may ask which backends are installed, but not which one runs.
WORDS = {*FRAMEWORKS, "KERAS_BACKEND"}
RUNNING = "ops.backend.running"
BACKEND_QUERIES = {"BACKENDS", "name", "version"}  # the rest of `running` works on any backend
ALLOWED = {
    "_backend": {"jax", "tensorflow", "torch", "KERAS_BACKEND"},
    "cli.verify": WORDS,
    "data.graphs.pcqm4m": {"torch", "torch.serialization.safe_globals"},  # reads the split file
    # These record the backend.
    "cli.bench": {"running.name", "running.version"},
    "training.run": {"running.name", "running.version"},
}

pytestmark = pytest.mark.once


def read():
    """Yield the name of every module, relative to the package, and its syntax tree."""
    for path in sorted(FOLDER.rglob("*.py")):
        name = ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        yield name.removesuffix("__init__").rstrip("."), ast.parse(path.read_text("utf-8"))


TREES = dict(read())
PACKAGES = {name for name in TREES if (FOLDER / name.replace(".", "/") / "__init__.py").is_file()}


def names(node):
    """Return the full names that a node imports, also with `import_module("…")`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        return import_targets(node.args[0])
    return []


def import_targets(node):
    """Return the modules that an argument of `import_module` can name, also as an f-string."""
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
    """Return all names that a module imports, at any level of nesting."""
    return [full for node in ast.walk(TREES[name]) for full in names(node)]


def modules(name):
    """Yield the modules of this package that a module imports.

    `from package import name` counts as an import of the package.
    """
    for full in imported(name):
        first, _, rest = full.partition(".")
        if first == PACKAGE:
            yield rest if rest in TREES else rest.rpartition(".")[0]


def within(name, *parts):
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def level_of(name):
    """Return the level of a module and its part. The root package has level -1."""
    all_parts = [(number, part) for number, parts in enumerate(LEVELS) for part in parts]
    matches = [(number, part) for number, part in all_parts if within(name, part)]
    return max(matches, key=lambda pair: len(pair[1]), default=(-1, ""))


def may_import(name, other):
    (above, part), (below, other_part) = level_of(name), level_of(other)
    return below > above or part == other_part


def test_every_module_has_a_level():
    assert [name for name in TREES if name and level_of(name)[0] < 0] == []


def test_imports_are_absolute():
    assert [full for name in TREES for full in imported(name) if full.startswith(".")] == []


def test_modules_import_only_from_lower_levels():
    pairs = [(name, other) for name in TREES if name for other in modules(name)]
    assert [" → ".join(pair) for pair in pairs if not may_import(*pair)] == []


def test_no_import_cycles():
    """An import of a name from a package counts as an import of the package."""
    try:
        TopologicalSorter({name: set(modules(name)) for name in TREES}).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(reversed(error.args[1])))


def test_no_module_imports_the_init_of_its_package():
    inner = [name for name in TREES if not name.endswith("__main__")]
    pairs = [(name, package) for name in inner for package in set(modules(name)) & PACKAGES]
    assert [pair for pair in pairs if pair[0] != pair[1] and within(*pair)] == []


def test_only_listed_modules_mention_backends():
    """Other modules do not import frameworks, name them in strings or query the backend."""
    found = []
    for name, tree in TREES.items():
        if not within(name, *BACKEND_PARTS):
            mentions = [word for node in ast.walk(tree) for word in backends_in(node)]
            found += [(name, word) for word in mentions if word not in ALLOWED.get(name, ())]
    assert found == []


def backends_in(node):
    """Yield the names of backends, and the queries for the running backend, in a node."""
    for full in names(node):
        if full.partition(".")[0] in FRAMEWORKS or full.endswith(".backend.backend"):
            yield full
        if full in {f"{PACKAGE}.{RUNNING}.{word}" for word in BACKEND_QUERIES}:
            yield full
    if isinstance(node, ast.Attribute) and node.attr in BACKEND_QUERIES:
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


def test_kernels_do_not_import_keras():
    kernels = [name for name in TREES if within(name, *KERNELS)]
    assert kernels
    assert [name for name in kernels if any(within(full, "keras") for full in imported(name))] == []

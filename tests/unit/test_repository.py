"""The tree keeps its own rules: layers, lazy imports, citations, versions and tidy text."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidy import faults

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "beliefs"
SOURCES = sorted(PACKAGE.rglob("*.py"))

# A module may import from its own room, from rooms below it, and (see SIBLINGS) from some beside it.
LAYERS = {
    "errors": 0, "typing": 0, "options": 0, "elsewhere": 0, "deadline": 0, "interrupts": 0, "driver": 0, "display": 0,
    "lazy": 0,
    "kernels": 1,
    "model": 2,
    "cycles": 3,
    "io": 4, "inference": 4, "metrics": 4,
    "learning": 5,
    "datasets": 6, "plot": 6, "report": 6, "cli": 6, "torch": 6, "__init__": 6, "__main__": 6,
}  # fmt: skip
SIBLINGS = {0, 6}  # the ground floor and the top floor are one room each; io and inference are strangers

# Likewise inside the largest rooms: each line may import those above it; names on one line are strangers.
FLOORS = {
    "inference": (
        ("promises",),
        ("base", "budget", "door_options", "engine", "parallel", "prune", "quiet", "units"),
        ("batch_result", "machine_gradient", "many_result", "result", "rounding", "show", "temperatures", "text"),
        ("run", "states_result"),
        ("orders",),
        ("clusters",),
        ("exact",),
        ("rows", "search"),
        ("buckets", "messages", "sampling", "variational"),
        ("boltzmann", "dual", "regions"),
        ("aside", "portfolio", "registry"),
        ("question",),
        ("doors",),
        ("conditional_likelihood", "many"),
        ("likelihood",),
        ("__init__",),
    ),
    "kernels": (
        ("_front_end", "_on_disk"),
        ("_compiler", "_interpreted"),
        ("_jit",),
        ("primitives",),
        ("layout", "text"),
        ("boltzmann", "chains", "dual", "mean_field", "messages", "optimizers", "orders", "regions", "rows", "trees"),
        ("buckets", "gibbs", "rounding", "search"),
        ("adjoints", "losses"),
        ("__init__",),
    ),
    "learning.estimators": (
        ("describing", "fitting", "inputs", "parts", "per_instance", "unchanged"),
        ("examples", "labels", "storage"),
        ("base",),
        ("boltzmann", "networks", "structured"),
        ("registry",),
        ("__init__",),
    ),
}

# Slow to load or optional: imported inside the function that needs them.
LATE = ("matplotlib", "networkx", "pandas", "scipy.optimize", "scipy.special", "skimage", "sklearn", "torch")

# Estimators are loaded late themselves, and a class can have its base from scikit-learn in no other way.
LATE_BUT_HERE = {"beliefs.learning.estimators": ("sklearn",)}

CITATION = re.compile(r"\[([a-z]+[0-9]{4}[a-z]?(?:[,;] ?[a-z]+[0-9]{4}[a-z]?)*)\]")
MAX_LINES = 450


def room(module: str) -> str:
    """The first name below the package: `beliefs.model.graph` -> `model`, `beliefs` -> `__init__`."""
    return module.split(".")[1] if "." in module else "__init__"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(node: ast.AST) -> Iterator[str]:
    """Every module that one import statement may load; `from a import b` may load `a.b`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: imports are absolute"
        assert node.module is not None
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_anywhere(tree: ast.Module) -> set[str]:
    return {name for node in ast.walk(tree) for name in imported(node)}


def imports_on_load(tree: ast.Module) -> set[str]:
    """What is imported when the module is: not in function bodies, nor for the type checker only."""
    found: set[str] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        found.update(imported(node))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo.extend(node.orelse)
        else:
            todo.extend(ast.iter_child_nodes(node))
    return found


def wrong_way(importer: str, names: set[str]) -> list[str]:
    """The imports of `importer` that do not point down."""
    here = room(importer)
    level = LAYERS[here]
    bad = []
    for name in sorted(names):
        if name.split(".")[0] != "beliefs":
            continue
        # `from beliefs import x` names either the room x or something that only the package itself exports
        there = room(name) if room(name) in LAYERS else "__init__"
        if there != here and (LAYERS[there] > level or (LAYERS[there] == level and level not in SIBLINGS)):
            bad.append(name)
    return bad


def large_room(module: str) -> str | None:
    """The room with floors that a module is in: `beliefs.learning.estimators.base` -> `learning.estimators`."""
    return next((large for large in FLOORS if is_within(module, (f"beliefs.{large}",))), None)


def floor(module: str) -> tuple[str, int]:
    """The name below a large room, and its height: `beliefs.inference.search.icm` -> `search`, 6."""
    large = large_room(module)
    assert large is not None
    name = module.removeprefix(f"beliefs.{large}").lstrip(".").partition(".")[0] or "__init__"
    heights = {name: height for height, names in enumerate(FLOORS[large]) for name in names}
    if name not in heights:  # `from beliefs.inference import infer`: something that only the room itself exports
        name = "__init__"
    return name, heights[name]


def wrong_floor(importer: str, names: set[str]) -> list[str]:
    """The imports of `importer` from its own large room that do not point down."""
    large = large_room(importer)
    if large is None:
        return []
    here, height = floor(importer)
    own = [name for name in sorted(names) if large_room(name) == large]
    return [name for name in own if floor(name)[0] != here and floor(name)[1] >= height]


def is_within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def tracked_files() -> list[Path]:
    """The files under version control; of an unpacked archive, everything that is not derived."""
    done = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout:
        paths = [ROOT / name for name in done.stdout.split("\0") if name]
    else:
        derived = {"__pycache__", "build", "dist", "report", "site"}
        paths = [
            path
            for path in ROOT.rglob("*")
            if not any(part in derived or part.startswith(".") for part in path.relative_to(ROOT).parts)
        ]
    return [path for path in paths if path.is_file()]


def texts() -> Iterator[tuple[str, str]]:
    for path in tracked_files():
        data = path.read_bytes()
        if b"\0" not in data:
            yield str(path.relative_to(ROOT)), data.decode()


def bibliography() -> set[str]:
    return set(re.findall(r"^@\w+\{([^,]+),", (ROOT / "docs" / "references.bib").read_text(), re.MULTILINE))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def source_id(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", SOURCES, ids=source_id)
def test_imports_point_down(path: Path) -> None:
    assert wrong_way(module_name(path), imports_anywhere(parse(path))) == []


@pytest.mark.parametrize(
    ("importer", "source", "bad"),
    [
        (
            "beliefs.model.graph",
            "from beliefs.inference.doors import infer",
            ["beliefs.inference.doors.infer"],
        ),
        ("beliefs.model.graph", "def f():\n    import beliefs.io", ["beliefs.io"]),
        ("beliefs.io.uai", "from beliefs.inference import result", ["beliefs.inference.result"]),
        ("beliefs.inference.doors", "from beliefs import io", ["beliefs.io"]),
        ("beliefs.inference.doors", "from beliefs import infer", ["beliefs.infer"]),
        ("beliefs.driver", "from beliefs.kernels import reduce", ["beliefs.kernels.reduce"]),
        ("beliefs.driver", "from beliefs.errors import ModelError", []),
        ("beliefs.io.uai", "from beliefs.io.tokens import scan\nfrom beliefs.model import graph", []),
        ("beliefs.cli", "import beliefs as bl\nfrom beliefs import plot\nimport numpy", []),
    ],
)
def test_wrong_way_imports_are_seen(importer: str, source: str, bad: list[str]) -> None:
    assert wrong_way(importer, imports_anywhere(ast.parse(source))) == bad


@pytest.mark.parametrize("path", SOURCES, ids=source_id)
def test_imports_point_down_within_a_room(path: Path) -> None:
    assert wrong_floor(module_name(path), imports_anywhere(parse(path))) == []


@pytest.mark.parametrize("large", FLOORS)
def test_every_part_of_a_large_room_has_its_floor(large: str) -> None:
    parts = {
        path.stem
        for path in (PACKAGE / large.replace(".", "/")).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert sorted(name for names in FLOORS[large] for name in names) == sorted(parts)


@pytest.mark.parametrize(
    ("importer", "source", "bad"),
    [
        (
            "beliefs.inference.search.starts",
            "def f():\n    from beliefs.inference.doors import maximize",
            ["beliefs.inference.doors.maximize"],
        ),
        (
            "beliefs.inference.search.icm",
            "from beliefs.inference.messages.bp import BP",
            ["beliefs.inference.messages.bp.BP"],
        ),
        (
            "beliefs.inference.messages.bp",
            "from beliefs.inference.dual.gdd import GDD",
            ["beliefs.inference.dual.gdd.GDD"],
        ),
        ("beliefs.inference.messages.bp", "from beliefs.inference import infer", ["beliefs.inference.infer"]),
        ("beliefs.inference.dual.gdd", "from beliefs.inference.buckets.wmb import WMB", []),
        ("beliefs.inference.dual.gdd", "from beliefs.inference.dual.state import GddState", []),
        (
            "beliefs.kernels.trees.log",
            "from beliefs.kernels.adjoints.trees import f",
            ["beliefs.kernels.adjoints.trees.f"],
        ),
        ("beliefs.model.graph", "from beliefs.kernels.layout import log_scores", []),
        (
            "beliefs.learning.estimators.base",
            "from beliefs.learning.estimators.structured.crf import CRF",
            ["beliefs.learning.estimators.structured.crf.CRF"],
        ),
        ("beliefs.learning.estimators.base", "from beliefs.learning.fit import fit", []),
    ],
)
def test_wrong_floors_are_seen(importer: str, source: str, bad: list[str]) -> None:
    assert wrong_floor(importer, imports_anywhere(ast.parse(source))) == bad


@pytest.mark.parametrize("path", SOURCES, ids=source_id)
def test_only_kernels_import_numba(path: Path) -> None:
    if room(module_name(path)) != "kernels":
        assert not [name for name in imports_anywhere(parse(path)) if is_within(name, ("numba", "llvmlite"))]


@pytest.mark.parametrize("path", SOURCES, ids=source_id)
def test_slow_and_optional_libraries_are_imported_late(path: Path) -> None:
    module = module_name(path)
    allowed = [name for place, names in LATE_BUT_HERE.items() if is_within(module, (place,)) for name in names]
    late = [name for name in imports_on_load(parse(path)) if is_within(name, LATE)]
    assert [name for name in late if not is_within(name, tuple(allowed))] == []


def test_late_imports_are_told_apart() -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import pandas\nelse:\n    import torch\n"
        "from scipy import optimize\n"
        "try:\n    import networkx\nexcept ImportError:\n    pass\n"
        "class A:\n    import sklearn.base\n    def f(self):\n        import matplotlib\n"
    )
    late = {name for name in imports_on_load(ast.parse(source)) if is_within(name, LATE)}
    assert late == {"torch", "scipy.optimize", "networkx", "sklearn.base"}


@pytest.mark.parametrize("module", ["beliefs", "beliefs.cli", "beliefs.inference.registry"])
def test_import_loads_nothing_slow(module: str) -> None:
    code = f"import {module}, sys; print(*[m for m in {LATE!r} if m in sys.modules])"
    env = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


def test_citations_have_an_entry() -> None:
    known = bibliography()
    missing = [
        f"{name}: [{key}]"
        for name, text in texts()
        if name.startswith(("src/", "docs/")) and name.endswith((".py", ".md"))
        for group in CITATION.findall(text)
        for key in re.split(r"[,;] ?", group)
        if key not in known
    ]
    assert missing == []


def test_bibliography_has_no_duplicates() -> None:
    text = (ROOT / "docs" / "references.bib").read_text()
    assert len(bibliography()) == len(re.findall(r"^@\w+\{", text, re.MULTILINE)) > 0


def test_one_file_does_one_job() -> None:
    """Sources and tests alike: a long file has more than one subject."""
    lines = {path: len(path.read_text().splitlines()) for path in (*SOURCES, *(ROOT / "tests").rglob("*.py"))}
    assert [path for path, n in lines.items() if n > MAX_LINES] == []


def test_text_is_free_of_one_machines_paths() -> None:
    """No home directory, no path of this very checkout, no host of a package registry."""
    outside = [r"/(?:home|Users)/\w+", r"/root/", r"\b(?:pypi|npmjs|anaconda)\.(?:org|com)\b"]
    if len(ROOT.parts) > 2:  # a checkout directly below / has no telling parent
        outside.append(re.escape(f"{ROOT.parent}/"))
    pattern = re.compile(r"(?<![\w.])(?:" + "|".join(outside) + ")")
    own = str(Path(__file__).resolve().relative_to(ROOT))
    assert [f"{name}: {hit}" for name, text in texts() if name != own for hit in pattern.findall(text)] == []


def test_source_has_no_placeholders() -> None:
    pattern = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
    assert [name for name, text in texts() if name.startswith("src/") and pattern.search(text)] == []


def test_tracked_files_are_small_and_end_well() -> None:
    written = ROOT / "docs" / "_tables"  # by the benchmarks
    assert [fault for path in tracked_files() if written not in path.parents for fault in faults(path)] == []


def test_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    changes = re.search(r"^## ([0-9.]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert citation is not None
    assert changes is not None
    assert {citation.group(1), changes.group(1)} == {version}


def test_continuous_integration_is_executable() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_no_filter_of_warnings_is_changed_where_threads_may_run() -> None:
    """``warnings.catch_warnings`` is process-wide; the command's own thread is the only one that may."""
    users = [module_name(path) for path in SOURCES if "catch_warnings()" in path.read_text()]
    assert set(users) <= {"beliefs.cli.program", "beliefs.cli.warmup", "beliefs.cli.warmup_workers"}


WIDE = {"beliefs.learning.fit.fit"}  # keywords of a public function, each with a default
MOST_PARAMETERS = 10


def wide_functions(module: str, tree: ast.Module) -> Iterator[str]:
    """The functions that take more parameters than somebody can keep in mind, self and cls apart."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            if len(given) - (given[:1] in (["self"], ["cls"])) > MOST_PARAMETERS:
                yield f"{module}.{node.name}"


@pytest.mark.parametrize("path", SOURCES, ids=source_id)
def test_no_function_takes_more_than_ten_parameters(path: Path) -> None:
    assert set(wide_functions(module_name(path), parse(path))) <= WIDE


def test_wide_functions_are_seen() -> None:
    wide = ", ".join(f"a{k}" for k in range(11))
    source = f"def f({wide}): ...\nclass A:\n    def g(self, {wide}): ...\n    def h(self, {wide[:-5]}): ..."
    assert list(wide_functions("m", ast.parse(source))) == ["m.f", "m.g"]


def kernels_in(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The functions of a module that are compiled."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if any("kernel" in ast.unparse(decorator) for decorator in node.decorator_list):
                yield node


def test_no_kernel_returns_an_array_to_python() -> None:
    """Callers allocate: an interrupt while a new array is wrapped would surface as a SystemError."""
    arrays = re.compile(r"\b(Ints|Floats|Bools|BlockMaps|Bits|ndarray|NDArray)\b")
    returning, outside = set(), set()
    for tree in map(parse, SOURCES):
        inside: set[ast.AST] = set()
        for function in kernels_in(tree):
            inside.update(ast.walk(function))
            if function.returns is not None and arrays.search(ast.unparse(function.returns)):
                returning.add(function.name)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node not in inside:
                outside.add(ast.unparse(node.func).rsplit(".", 1)[-1])
    assert returning and returning & outside == set()


@pytest.mark.parametrize("path", SOURCES, ids=source_id)
def test_plans_are_known_by_functions_that_have_names(path: Path) -> None:
    """A function that is made anew at each call would find nothing that is kept."""
    asked = [node for node in ast.walk(parse(path)) if isinstance(node, ast.Call)]
    plans = [node for node in asked if isinstance(node.func, ast.Attribute) and node.func.attr == "plan"]
    assert [ast.unparse(node) for node in plans if isinstance(node.args[0], ast.Lambda | ast.Call)] == []

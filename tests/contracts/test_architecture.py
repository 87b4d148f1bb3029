"""The rooms of the house, and which may look into which: read from the source, not from imports."""

from __future__ import annotations

import ast
import graphlib
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PACKAGE = SOURCE / "gradaudit"

# From the ground up. A part may import parts of lower levels, and nothing beside or above it.
LEVELS = (
    ("errors", "version"),
    ("options", "randomness", "decoding", "tensorfile", "budget", "memory", "solvers"),
    ("preprocessing", "evidence", "hostile", "engine"),
    ("update", "truth", "result", "npzfile", "threads"),
    ("theory",),
    ("data", "models", "metrics", "linear", "defenses"),
    ("chain", "noisy"),
    ("rgap", "gradient_matching", "rank"),
    ("certify", "clients", "capture", "opacus"),
    ("layers", "applicability", "outcome"),
    ("planning",),
    ("session",),
    ("auditing",),
    ("bulk", "defending", "rerunning"),
    ("sharding",),
    ("report",),
    ("experiments",),
    ("cli", "flower"),
    ("__main__", "__init__"),
)
LEVEL = {part: number for number, parts in enumerate(LEVELS) for part in parts}

# Lower, but closed all the same. An update is all that attack and capture have in common; a report
# is a view of a result, never of a search; an attack never sees the truth, not even through
# something that it imports.
CLOSED = {
    "linear": {"truth", "metrics", "clients", "data"},
    "chain": {"truth", "metrics", "clients", "data"},
    "noisy": {"truth", "metrics", "clients", "data"},
    "rgap": {"truth", "metrics", "clients", "data"},
    "rank": {"truth", "metrics", "clients", "data", "linear"},
    "gradient_matching": {"truth", "metrics", "clients", "data"},
    "certify": {"truth", "metrics", "clients", "data"},
    "layers": {"truth", "metrics", "clients", "data", "capture"},
    "applicability": {"truth", "metrics", "clients", "data", "capture"},
    "outcome": {"truth", "metrics", "clients", "data", "capture"},
    "planning": {"truth", "metrics", "clients", "data", "capture"},
    "session": {"truth", "metrics", "clients", "data", "capture"},
    "auditing": {"truth", "metrics", "clients", "data", "capture"},
    "defenses": {"linear", "metrics", "data", "models", "truth"},
    "clients": {"linear", "metrics", "data"},
    "capture": {"linear", "metrics", "data", "models", "truth", "result"},
    "opacus": {"linear", "metrics", "data", "models", "truth", "result"},
    "report": {"linear", "certify", "session", "auditing", "clients", "capture", "data", "models"},
}

MAX_LINES = 350
MAX_DEPTH = 3
TEXTS = {".py", ".html", ".css", ".json", ".txt", ".j2", ".md", ".svg"}
UNPICKLERS = {"pickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
OPTIONAL = {"matplotlib", "skimage", "sklearn", "torchvision", "torchmetrics", "PIL"}
FRAMEWORKS = {"flwr", "opacus", "ray"}


def read_modules() -> dict[str, tuple[Path, ast.Module]]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = (path, ast.parse(path.read_text(encoding="utf-8")))
    return found


MODULES = read_modules()


def imported(tree: ast.AST) -> set[str]:
    """Every module that is imported anywhere in it, by full name."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written with full names"
            assert node.module is not None
            for alias in node.names:
                # `from gradaudit import tensorfile` imports a module, `from a.b import f` does not.
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in MODULES else node.module)
    return names


IMPORTS = {name: imported(tree) & set(MODULES) for name, (_, tree) in MODULES.items()}


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def reach(module: str) -> set[str]:
    """The modules that it imports, and those that they import."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        new = IMPORTS[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_the_parser_sees_what_it_must():
    # Guards the tests below: a parser that finds no imports would let everything pass.
    assert "gradaudit.errors" in IMPORTS["gradaudit.capture.load"]
    assert "gradaudit.tensorfile" in reach("gradaudit.capture")
    found = imported(ast.parse("def f():\n  import torch.nn\n  from gradaudit import truth"))
    assert found == {"torch.nn", "gradaudit.truth"}


def test_every_part_has_its_place():
    assert {part_of(name) for name in MODULES} <= set(LEVEL)


def test_imports_point_downward():
    upward = [
        f"{module} imports {other}"
        for module in sorted(MODULES)
        for other in sorted(IMPORTS[module])
        if part_of(other) not in (part_of(module), "__init__")
        and LEVEL[part_of(other)] >= LEVEL[part_of(module)]
    ]
    assert not upward


@pytest.mark.parametrize("part", sorted(CLOSED))
def test_closed_doors(part):
    through = [
        f"{module} reaches {other}"
        for module in sorted(MODULES)
        if part_of(module) == part
        for other in sorted(reach(module))
        if part_of(other) in CLOSED[part]
    ]
    assert not through


def test_no_import_goes_in_a_circle():
    # A package's __init__ imports its modules, which may not import it back.
    list(graphlib.TopologicalSorter(IMPORTS).static_order())


def test_files_are_small_and_not_deep():
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path, _ in MODULES.values()}
    assert not [f"{path.name}: {number}" for path, number in lines.items() if number > MAX_LINES]
    depths = {path: len(path.relative_to(PACKAGE).parts) - 1 for path in lines}
    assert not [str(path) for path, depth in depths.items() if depth > MAX_DEPTH]


def dangers(tree: ast.Module) -> list[str]:
    """What would let a file's content run, as far as it can be seen in the source."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots = {alias.name.split(".")[0] for alias in node.names}
            found += sorted(roots & UNPICKLERS)
        elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in UNPICKLERS:
            # The error that torch raises may be caught.
            found += [a.name for a in node.names if a.name != "UnpicklingError"]
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            given = {word.arg: ast.unparse(word.value) for word in node.keywords}
            if called in ("eval", "exec", "os.system") or given.get("shell", "False") != "False":
                found.append(called)
            if given.get("allow_pickle", "False") != "False":
                found.append(f"{called} with allow_pickle")
            loads = called == "torch.load"
            if given.get("weights_only", "False" if loads else "True") != "True":
                found.append(f"{called} without weights_only=True")
    return found


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from pickle import load",
        "import cloudpickle as c",
        "np.load(path, allow_pickle=True)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "eval(text)",
        "subprocess.run(text, shell=True)",
    ],
)
def test_dangers_are_seen(line):
    assert dangers(ast.parse(line))


def test_nothing_in_a_file_can_run():
    found = {name: dangers(tree) for name, (_, tree) in MODULES.items()}
    assert not {name: lines for name, lines in found.items() if lines}


def test_optional_libraries_are_imported_when_needed():
    for name, (_, tree) in MODULES.items():
        top = ast.Module([n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)], [])
        # Flower's room is made of its classes, and is itself imported when needed.
        late = OPTIONAL | FRAMEWORKS - ({"flwr"} if part_of(name) == "flower" else set())
        assert not {each.split(".")[0] for each in imported(top)} & late, name


def test_one_room_speaks_to_ray():
    speakers = {
        part_of(name)
        for name, (path, tree) in MODULES.items()
        if 'require("ray"' in path.read_text(encoding="utf-8") or "ray" in imported(tree)
    }
    assert speakers == {"engine"}


def test_flowers_room_uses_its_public_modules():
    public = {"flwr", "flwr.app", "flwr.common", "flwr.clientapp", "flwr.serverapp"}
    public |= {"flwr.serverapp.strategy"}
    used = {
        each
        for name, (_, tree) in MODULES.items()
        if part_of(name) == "flower"
        for each in imported(tree)
        if each.split(".")[0] == "flwr"
    }
    assert used
    assert used <= public


def test_no_path_of_a_machine():
    paths = [p for p in PACKAGE.rglob("*") if p.suffix in TEXTS]
    assert len(paths) > len(MODULES)
    for path in paths:
        text = path.read_text(encoding="utf-8")
        found = re.search(r"(?<![\w./:])/(home|root|work|Users|opt|mnt)/\w", text)
        assert not found, f"{path.name}: {found[0]}"


def test_theory_needs_no_torch():
    for module in (name for name in MODULES if part_of(name) == "theory"):
        for other in {module, *reach(module)}:
            roots = {name.split(".")[0] for name in imported(MODULES[other][1])}
            assert "torch" not in roots, other


def prose(path: Path, docstrings: bool) -> list[str]:
    """What a file may show to a user: its texts, or a template outside its tags."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [re.sub(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", "", text, flags=re.DOTALL)]
    tree = ast.parse(text)
    hidden = set()
    if not docstrings:
        alone = [n.value for n in ast.walk(tree) if isinstance(n, ast.Expr)]
        hidden = {id(value) for value in alone}
    constants = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in hidden]
    return [node.value for node in constants if isinstance(node.value, str)]


VERDICT = re.compile(r"(?<![\w-])safe(?:ly|r|st)?(?![\w-])", re.IGNORECASE)


def test_the_word_is_found_where_it_is_a_verdict():
    assert VERDICT.search("This update is safe.")
    assert not VERDICT.search("unsafe, safetensors, fail-safe, safety margin")


@pytest.mark.parametrize(
    "part",
    [
        "report",
        "cli",
        "audit",
        "certify",
        "result",
        "evidence",
        "rank",
        "defending",
        "planning",
        "bulk",
    ],
)
def test_nothing_is_called_safe(part):
    # An audit that finds nothing proves nothing, and no text may read as if it did.
    paths = [p for p in (PACKAGE / part).rglob("*") if p.suffix in TEXTS]
    paths += [PACKAGE / f"{part}.py"] if (PACKAGE / f"{part}.py").is_file() else []
    for path in paths:
        # The command line shows docstrings as help.
        for text in prose(path, docstrings=part == "cli"):
            found = VERDICT.search(text)
            assert not found, f"{path.name}: {text[max(0, found.start() - 40) :][:80]!r}"

"""What is said where an extra is missing; run as a process of its own, in any environment.

``python extras.py [--blocked]`` prints, as JSON, what was asked for and the line that came. With
``--blocked``, the extras' packages are hidden from an environment that has them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

PACKAGES = (
    *("matplotlib", "PIL", "skimage", "sklearn", "torchmetrics", "torchvision"),
    *("flwr", "opacus", "ray"),
)
# One feature or more of each extra, and the extra.
EXPECTED = {
    "audit --report": "report",
    "plan --html": "report",
    "audit of a folder --reports": "report",
    "audit of a folder --engine ray": "ray",
    "digits": "data",
    "patches": "data",
    "a folder of images": "data",
    "torchvision's sets": "torchvision",
    "ssim": "metrics",
    "lpips": "lpips",
    "flower": "flower",
    "opacus": "opacus",
}


def hide() -> None:
    """Make the packages look as if they were not there, with all that lies in them."""
    for name in PACKAGES:
        sys.modules[name] = None  # type: ignore[assignment]


def line_of(action: Callable[[], object]) -> str:
    """What somebody sees who does this: stderr of a command, or the error of a function."""
    from gradaudit.errors import MissingExtraError

    stderr = io.StringIO()
    with contextlib.redirect_stderr(stderr), contextlib.redirect_stdout(io.StringIO()):
        try:
            action()
        except MissingExtraError as error:
            return str(error)
        except SystemExit as end:
            return f"{end.code}: {stderr.getvalue().strip()}"
    return f"nothing: {stderr.getvalue().strip()}"


def lines(folder: Path) -> dict[str, str]:
    """By what was asked for, what was said."""
    import numpy as np
    import torch

    import gradaudit as ga
    from gradaudit.cli import main
    from gradaudit.metrics.quality import lpips, ssim

    model = ga.models.mlp(12, [30, 30], 3, dtype=torch.float64)
    inputs = torch.randn(2, 12, generator=torch.Generator().manual_seed(1)).double()
    update, _ = ga.clients.FedSGD(model).update(inputs, torch.tensor([0, 1]))
    file = folder / "many" / "update.safetensors"
    update.save(file)
    pictures = folder / "pictures" / "one"
    pictures.mkdir(parents=True)
    (pictures / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    image = np.eye(8)[..., None]
    many, out, page = str(file.parent), str(folder / "out"), str(folder / "page.html")

    def load(spec: str) -> Callable[[], object]:
        generator = torch.Generator().manual_seed(0)
        return lambda: ga.data.load_source(spec).batch(1, generator=generator)

    def opacus() -> object:
        from gradaudit.opacus.mechanism import check_optimizer

        return check_optimizer(None)

    actions: dict[str, Callable[[], object]] = {
        "audit --report": lambda: main(["audit", str(file), "--report", page]),
        "plan --html": lambda: main(["plan", "--widths", "784,100,10", "-b", "4", "--html", page]),
        "audit of a folder --reports": lambda: main(["audit", many, "--out", out, "--reports"]),
        "audit of a folder --engine ray": lambda: main(
            ["audit", many, "--out", out, "--engine", "ray"]
        ),
        "digits": load("digits"),
        "patches": load("patches"),
        "a folder of images": load(str(pictures.parent)),
        "torchvision's sets": load(f"torchvision:MNIST?root={folder}"),
        "ssim": lambda: ssim(image, image),
        "lpips": lambda: lpips(image, image),
        "flower": lambda: ga.flower,
        "opacus": opacus,
    }
    return {name: line_of(action) for name, action in actions.items()}


def wrong(found: dict[str, str]) -> list[str]:
    """What was not answered by one line that names the package and the extra."""
    return [
        f"{name}: {found.get(name)!r}"
        for name, extra in EXPECTED.items()
        if not re.fullmatch(
            rf"(2: Error: )?\w+ is not installed; run: pip install 'gradaudit\[{extra}\]'",
            found.get(name, ""),
        )
    ]


if __name__ == "__main__":
    if "--blocked" in sys.argv:
        hide()
    os.environ["GRADAUDIT_DEBUG"] = ""
    with tempfile.TemporaryDirectory() as made:
        print(json.dumps(lines(Path(made))))

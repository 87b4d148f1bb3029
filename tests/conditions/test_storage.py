"""Disks that are full or read-only, and two audits that write to one place."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gradaudit.errors import InputError
from gradaudit.evidence import RecordEvidence, Status
from gradaudit.result import AuditResult
from gradaudit.tensorfile import replacing, taking_turns, write_tensors

pytestmark = pytest.mark.skipif(os.name != "posix", reason="conditions of POSIX")
Mount = Callable[[str], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mount a file system in memory; skips the test where that is not allowed."""
    mounted: list[Path] = []

    def make(options: str) -> Path:
        folder = tmp_path / f"mounted{len(mounted)}"
        folder.mkdir()
        if shutil.which("mount") is None or os.geteuid() != 0:
            pytest.skip("mounting needs root")
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_full_disk(mount, run, update):
    folder = mount("size=16k")
    (folder / "ballast").write_bytes(b"x" * 8192)
    result = run("audit", update, "--out", folder / "o", "--report", "report.html")
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == 1
    assert "No space left on device" in result.stderr
    # Nothing half written; what was there is.
    assert [name for name in files(folder) if "result" in name] == []
    assert (folder / "ballast").stat().st_size == 8192


def test_a_full_disk_keeps_what_was_there(mount):
    folder = mount("size=64k")
    write_tensors(folder / "t", {"a": torch.ones(2_000)}, {})
    before = (folder / "t").read_bytes()
    with pytest.raises(InputError, match="No space left"):
        write_tensors(folder / "t", {"a": torch.ones(20_000)}, {})
    assert (folder / "t").read_bytes() == before
    assert files(folder) == ["t"]


def test_a_limit_on_the_size_of_files(start, update, tmp_path):
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))

    process = start("audit", update, "--out", "o", preexec_fn=limit)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 2, (out, err)
    assert "File too large" in err
    assert len(err.splitlines()) == 1
    assert files(tmp_path / "o") == []


def test_a_full_disk_keeps_the_pair_that_was_there(mount):
    """The arrays would fit, and the JSON after them would not."""
    folder = mount("size=100k")
    result_of(1).save(folder / "r.json")
    larger = replace(result_of(2), cause="x" * 90_000)
    with pytest.raises(InputError, match="No space left"):
        larger.save(folder / "r.json")
    assert AuditResult.load(folder / "r.json").cause == "audit 1"
    assert files(folder) == ["r.json", "r.safetensors"]


def test_a_read_only_disk_is_noticed_before_the_search(mount, run, update):
    folder = mount("ro,size=64k")
    for words in (["--out", folder / "o"], ["--report", folder / "r.html"]):
        result = run("audit", update, *words)
        assert result.exit_code == 2
        assert "Read-only file system" in result.stderr
        # Nothing was audited in vain.
        assert result.stdout == ""


def result_of(number: int) -> AuditResult:
    """A result that can be told from others by its records and by its cause."""
    return AuditResult(
        Status.PARTIAL,
        f"audit {number}",
        "",
        batch_size=3,
        records=torch.full((1, 2_000), float(number), dtype=torch.float64),
        evidence=(RecordEvidence(True),),
    )


def test_many_audits_that_write_to_one_place_leave_a_pair(tmp_path):
    """Threads here: the system's lock is on the file that each of them opened."""
    path = tmp_path / "new" / "result.json"
    with ThreadPoolExecutor(8) as pool:
        for _ in range(6):
            list(pool.map(lambda number: result_of(number).save(path), range(8)))
            found = AuditResult.load(path)
            assert found.records is not None
            assert found.cause == f"audit {int(found.records[0, 0])}"
    assert files(path.parent) == ["result.json", "result.safetensors"]


def test_a_turn_ends_with_its_process(tmp_path):
    """Whoever dies while he writes does not keep the others waiting."""
    code = (
        "import os, sys\n"
        "from gradaudit.tensorfile import taking_turns\n"
        "with taking_turns(sys.argv[1]): os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "r")]
    assert subprocess.run(command, check=False, timeout=120).returncode == -9
    with taking_turns(tmp_path / "r"), replacing(tmp_path / "r") as temporary:
        temporary.write_text("x")
    assert files(tmp_path) == ["r"]


def test_two_audits_into_one_folder(start, update, tmp_path):
    """Both end well, and what lies there is whole and of one of them."""
    words = ["audit", update, "--out", "o", "--report", "o/report.html"]
    both = [start(*words, "--seed", str(seed)) for seed in (1, 2)]
    for process in both:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        assert "Proven leak" in out
    result = AuditResult.load(tmp_path / "o" / "result.json")
    assert result.search.seed in (1, 2)
    assert result.records_recovered == 3
    assert (tmp_path / "o" / "report.html").read_text("utf-8").endswith("</html>")
    assert not [name for name in files(tmp_path / "o") if name.startswith(".")]

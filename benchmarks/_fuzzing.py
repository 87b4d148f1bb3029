"""One reader, fuzzed in a process of its own; what it counts outlives the process."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fuzz.attempt import FoundError, Reader, attempt
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

# Address space beyond what is taken when the fuzzing begins: what asks for more gets a MemoryError.
HEADROOM_BYTES = 4 * 2**30
# A library may wait or spin without coming back to Python.
LONGEST_SECONDS = 60
# Of each content that hypothesis draws.
MUTANTS = 9


class Tally:
    """Counts and findings of one reader, on the disk every now and then.

    Args:
        file: Where they are kept.
        folder: For the inputs that were found to be trouble.
    """

    def __init__(self, file: Path, folder: Path) -> None:
        self._file = file
        self._folder = folder
        self._next = 0.0
        self.started = time.monotonic()
        self.counts: Counter[str] = Counter()
        self.findings: dict[str, str] = {}
        self.slowest = 0.0

    def add(self, outcome: str, seconds: float) -> None:
        """Count an input; what took long is remembered."""
        self.counts[outcome] += 1
        self.slowest = max(self.slowest, seconds)
        if time.monotonic() > self._next:
            self.write()

    def find(self, error: BaseException, content: bytes) -> None:
        """Keep an input that a reader could not stand, once for each place in the code."""
        cause = error.__cause__ or error
        frames = traceback.extract_tb(cause.__traceback__)
        ours = [f"{f.filename}:{f.lineno}" for f in frames if "/gradaudit/" in f.filename]
        place = f"{type(cause).__name__} at {ours[-1] if ours else 'no place'}"
        if place not in self.findings:
            self.findings[place] = str(error)[:300]
            name = hashlib.sha256(content).hexdigest()[:16]
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / name).write_bytes(content)
        self.write()

    def write(self) -> None:
        """Put it on the disk."""
        self._next = time.monotonic() + 1
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        value = {
            "counts": dict(self.counts),
            "findings": self.findings,
            "slowest": round(self.slowest, 2),
            "seconds": round(time.monotonic() - self.started, 1),
            "peak_mib": peak,
        }
        temporary = self._file.with_suffix(".new")
        temporary.write_text(json.dumps(value))
        temporary.replace(self._file)


def fuzz(reader: Reader, engine: str, seconds: float, seed: int, file: Path, keep: Path) -> None:
    """Fuzz one reader until the time is up; with atheris, the process ends then.

    Args:
        reader: What reads.
        engine: ``"hypothesis"``: contents that are nearly right, and more bytes of each changed;
            ``"atheris"``: bytes that reach new lines of the code, from small valid files on.
        seconds: To take.
        seed: Of every choice.
        file: Where the counts are kept.
        keep: For inputs that were trouble.
    """
    _limit_memory()
    tally = Tally(file, keep)
    top = Path(tempfile.mkdtemp())
    folder = top / "reader"
    folder.mkdir()

    def one(content: bytes) -> None:
        begun = time.perf_counter()
        try:
            tally.add(attempt(reader, content, folder), time.perf_counter() - begun)
        except FoundError as error:
            tally.add("found", time.perf_counter() - begun)
            tally.find(error, content)

    if engine == "hypothesis":
        _generate(one, reader, seconds, seed)
    else:
        _mutate(one, reader, seconds, seed, top)
    tally.write()


def _generate(one: Callable[[bytes], None], reader: Reader, seconds: float, seed: int) -> None:
    end, turn = time.monotonic() + seconds, 0
    chance = random.Random(seed)
    while time.monotonic() < end:
        # Short turns: a seed alone decides what a turn tries.
        @seeded(seed * 1_000_003 + turn)
        @settings(
            max_examples=250,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(reader.contents)
        def run(content: bytes) -> None:
            if time.monotonic() < end:
                one(content)
                for _ in range(MUTANTS):
                    one(_mutant(content, chance))

        run()
        turn += 1


def _mutant(content: bytes, chance: random.Random) -> bytes:
    """One to four bytes changed, or a part cut out: cheaper than drawing a new content."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        if changed:
            changed[chance.randrange(len(changed))] = chance.choice((0, 255, chance.randrange(256)))
    if chance.random() < 0.25 and changed:
        begin = chance.randrange(len(changed))
        del changed[begin : begin + chance.randint(1, 30)]
    return bytes(changed)


def _mutate(
    one: Callable[[bytes], None], reader: Reader, seconds: float, seed: int, top: Path
) -> None:
    import atheris

    corpus = top / "corpus"
    corpus.mkdir()
    for number, content in enumerate(reader.seeds):
        (corpus / str(number)).write_bytes(content)
    options = [f"-max_total_time={max(1, round(seconds))}", f"-seed={seed + 1}"]
    options += ["-rss_limit_mb=0", f"-timeout={LONGEST_SECONDS}", "-max_len=20000"]
    atheris.Setup(["fuzz", *options, str(corpus)], one)
    # It ends the process.
    atheris.Fuzz()


def silence() -> None:
    """Pillow, torch and libFuzzer talk to the terminal, at each of thousands of files."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _limit_memory() -> None:
    with open("/proc/self/statm") as stream:
        taken = int(stream.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + HEADROOM_BYTES, resource.RLIM_INFINITY))

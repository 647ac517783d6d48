"""Plays the first hour of a new user: a clone, the two commands, the code, the notebooks and the commands of the
documentation, and the site in a browser at the widths of a desk and of a phone.

    python tests/first_hour.py                     # everything; screenshots in build/first-hour
    python tests/first_hour.py --quick             # what .ci/run has time for
    python tests/first_hour.py --only commands     # one step; may be given several times
    python tests/first_hour.py --folder /tmp/hour  # in parts: what was fine there is not played again

What is committed is cloned. Steps for which a program is missing (git, a browser) are skipped, and said. A folder that is
given is kept, with the environment in it and the steps that were fine; another commit starts over.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WIDTHS = (390, 1280)
SCHEMES = {"dark": 0, "light": 1}  # the numbers that Chromium has for what a reader prefers
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_QUICK_PAGES = ("", "gallery/softmax/", "performance/")
_FENCE = re.compile(r"^```(?:sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Files that the commands of the documentation name.
_PROGRAM = """
import numpy as np
import {module} as ct

@ct.kernel
def add(a, b, out):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(a, (i,), (16,)) + ct.load(b, (i,), (16,)))

if __name__ == "__main__":
    a, b, out = np.arange(64, dtype=np.float32), np.ones(64, np.float32), np.zeros(64, np.float32)
    ct.launch(None, (4,), add, (a, b, out))
    assert (out == a + 1).all()
"""
# A program of one file, and one of two with a header.
_CUDA_PROGRAMS = {
    "prog.cu": """
#include <cuda_tile.h>
#include <cstdio>

__tile_global__ void fill(float* out) {
  namespace ct = cuda::tiles;
  ct::store(out + ct::iota<ct::tile<int, ct::shape<16>>>(), ct::full<ct::tile<float, ct::shape<16>>>(2.0f));
}

int main() {
  float* out;
  cudaMalloc(&out, 16 * sizeof(float));
  fill<<<1, 1>>>(out);
  if (cudaDeviceSynchronize() != cudaSuccess || out[15] != 2.0f) return 1;
  return std::puts("filled") < 0;
}
""",
    "include/half.h": "int half(int);\n",
    "main.cu": "#include <half.h>\n\nint main() { return half(N) != N / 2; }\n",
    "other.cpp": "#include <half.h>\n\nint half(int n) { return n / 2; }\n",
}
_TILE_IR = """\
entry @add(%a: tile<ptr<f32>>, %an: tile<i32>, %as: tile<i32>, %b: tile<ptr<f32>>, %bn: tile<i32>, %bs: tile<i32>, \
%c: tile<ptr<f32>>, %cn: tile<i32>, %cs: tile<i32>) {
  VIEW(a)
  VIEW(b)
  VIEW(c)
  %i, %j, %k = get_tile_block_id : tile<i32>
  %x, %t = load_view_tko weak %pa[%i] : PARTS, tile<i32> -> tile<16xf32>, token
  %y, %u = load_view_tko weak %pb[%i] : PARTS, tile<i32> -> tile<16xf32>, token
  %d = addf %x, %y : tile<16xf32>
  %s = store_view_tko weak %d, %pc[%i] : tile<16xf32>, PARTS, tile<i32> -> token
  return
}
""".replace("PARTS", "partition_view<tile=(16), tensor_view<?xf32, strides=[1]>>")
_VIEW = """%v{name} = make_tensor_view %{name}, shape = [%{name}n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %p{name} = make_partition_view %v{name} : partition_view<tile=(16), tensor_view<?xf32, strides=[1]>>"""


# What a command holds that needs a package which the two commands need not have installed.
_NEEDS = {"triton": "--target", "ziglang": ".cu"}


class Failed(Exception):
    """A step that did not do what the documentation says."""


class Skipped(Exception):
    """A step for which something is missing here."""


def call(words: list[str], cwd: Path, timeout: float = 3600, shown: bool = False, **environment: str) -> str:
    """Run a program with nothing to read; its output, unless it is shown."""
    given = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | environment
    done = subprocess.run(
        words,
        cwd=cwd,
        env=given,
        stdin=subprocess.DEVNULL,
        stdout=None if shown else subprocess.PIPE,
        stderr=None if shown else subprocess.PIPE,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode:
        said = "".join((done.stdout or "", done.stderr or ""))[-4000:]
        raise Failed(f"{shlex.join(words)} ended with {done.returncode}:\n{said}")
    return done.stdout or ""


class Hour:
    """A clone, and what is done in it."""

    def __init__(self, folder: Path, out: Path, quick: bool) -> None:
        self.clone, self.out, self.quick = folder / "tilewright", out, quick
        self.scratch, self._fine = folder / "scratch", folder / "fine.txt"
        if shutil.which("git") is None or not (ROOT / ".git").exists():
            raise Skipped("there is no repository to clone")
        trusted = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        try:
            commit = call(["git", "rev-parse", "HEAD"], ROOT, **trusted).strip()
            if not self._fine.exists() or self.fine()[0] != commit:
                shutil.rmtree(self.clone, ignore_errors=True)
                call(["git", "clone", "--quiet", "--local", str(ROOT), str(self.clone)], folder, **trusted)
                self._fine.write_text(commit + "\n", encoding="utf-8")
        except Failed as e:
            raise Skipped(f"this repository cannot be cloned: {e}") from None
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()

    def fine(self) -> list[str]:
        """The commit that is cloned, and the steps that were fine with it."""
        return self._fine.read_text(encoding="utf-8").split()

    def note(self, step: str) -> None:
        with self._fine.open("a", encoding="utf-8") as file:
            print(step, file=file)

    @property
    def _bin(self) -> Path:
        return self.clone / ".venv" / ("Scripts" if os.name == "nt" else "bin")

    def demo(self) -> str:
        """The first of the two commands that the README starts with."""
        shown = call(["./run", "demo", *(["--small"] if self.quick else [])], self.clone)
        if "softmax" not in shown:
            raise Failed(f"./run demo printed:\n{shown}")
        return ""

    def suite(self) -> str:
        """The other one, which tells how far it is."""
        if self.quick:
            raise Skipped("what calls this runs the suite itself")
        call(["./run", "test", "-q"], self.clone, timeout=3 * 3600, shown=True)  # on a busy machine
        return ""

    def pasted(self) -> str:
        """Each block of code of each page, alone."""
        if self.quick or "suite" in self.fine():
            raise Skipped("tests/docs/test_examples.py is part of the suite")
        call(["./run", "test", "-q", "tests/docs/test_examples.py", "tests/test_readme.py"], self.clone, shown=True)
        return ""

    def notebooks(self) -> str:
        """Each notebook, executed by Jupyter; those for a library that is not installed only read."""
        if self.quick:
            raise Skipped("tests/docs/test_notebooks.py is part of the suite")
        call(["./run", "docs", "--help"], self.clone)  # installs what documentation is made with
        python, written = str(self._bin / "python"), self.scratch / "notebooks"
        shown = call([python, "docs/generator/notebooks.py", str(written)], self.clone)
        sources = {path.stem for path in (self.clone / "docs" / "notebooks").glob("*.py")}
        executed = shown.count(": executed")
        if {path.stem for path in written.glob("*.ipynb")} != sources or executed < 3:
            raise Failed(f"docs/generator/notebooks.py printed:\n{shown}")
        return f"{executed} executed; {len(sources) - executed} need what is not here"

    def commands(self) -> str:
        """Each command of the documentation that needs no GPU and no other program."""
        call(["./run", "--version"], self.clone)  # makes the environment where no step before has
        (self.scratch / "prog.py").write_text(_PROGRAM.format(module="cuda.tile"), encoding="utf-8")
        (self.scratch / "train.py").write_text(_PROGRAM.format(module="tilewright"), encoding="utf-8")
        shutil.copytree(self.clone / "examples", self.scratch / "examples", dirs_exist_ok=True)
        (self.scratch / "test_nothing.py").write_text("def test_nothing():\n    pass\n", encoding="utf-8")
        for name, text in _CUDA_PROGRAMS.items():
            (self.scratch / name).parent.mkdir(exist_ok=True)
            (self.scratch / name).write_text(text, encoding="utf-8")
        program = str(self._bin / "tilewright")
        self._bytecode()
        absent = ["[arguments]", "--backend tileir", "llama.py", "-m pytest", "$("]
        absent += [
            words
            for package, words in _NEEDS.items()
            if not list(self.clone.glob(f".venv/lib/*/site-packages/{package}"))
        ]
        ran, left = 0, 0
        for line in documented_commands(self.clone / "docs"):
            words = shlex.split(line, comments=True)
            if any(w in line for w in absent):
                left += 1
                continue
            call([program, *words[1:]], self.scratch, timeout=300)
            ran += 1
        if ran < 8:
            raise Failed(f"only {ran} commands were found")
        return f"{ran} commands; {left} need what is not here"

    def _bytecode(self) -> None:
        """The file ``kernels.tilebc``, which the page on CUDA Tile IR starts from."""
        text = _TILE_IR
        for name in ("a", "b", "c"):
            text = text.replace(f"VIEW({name})", _VIEW.format(name=name))
        (self.scratch / "kernels.tilebc").write_text(text, encoding="utf-8")

    def screenshots(self) -> str:
        """Every page of the site, in a browser, at both widths, in dark and light colours."""
        browser = next((b for b in BROWSERS if shutil.which(b)), None)
        if browser is None:
            raise Skipped(f"none of {', '.join(BROWSERS)} is there")
        quick = {"TILEWRIGHT_DOCS_QUICK": "1"} if self.quick else {}
        call(["./run", "docs", "--quiet"], self.clone, **quick)
        site = self.clone / "site"
        pages = [str(p.parent.relative_to(site)).rstrip(".") for p in sorted(site.rglob("index.html"))]
        shown = [p.rstrip("/") for p in _QUICK_PAGES] if self.quick else pages
        self.out.mkdir(parents=True, exist_ok=True)
        with served(site) as address:
            for page in shown:
                print(f"first hour, screenshots: /{page}", flush=True)
                for width in WIDTHS:
                    for scheme in SCHEMES:
                        photograph(browser, f"{address}/{page}", width, scheme, self.out)
        return f"{len(shown) * len(WIDTHS) * len(SCHEMES)} pictures in {self.out}"


def documented_commands(docs: Path) -> Iterator[str]:
    """The lines of the pages that call ``tilewright``; those that go on are joined."""
    for page in sorted(docs.glob("*.md")):
        for block in _FENCE.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("tilewright "):
                    yield line


class served:
    """The site at an address of this machine."""

    def __init__(self, site: Path) -> None:
        handler = functools.partial(_Silent, directory=str(site))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def photograph(browser: str, address: str, width: int, scheme: str, out: Path) -> None:
    name = address.split("/", 3)[3].strip("/").replace("/", "_") or "home"
    path = out / f"{width}-{scheme}-{name}.png"
    path.unlink(missing_ok=True)
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=2500"]
    options.append(f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}")
    words = [browser, *options, f"--window-size={width},2400", f"--screenshot={path}", address]
    try:
        call(words, out, timeout=300)
    except subprocess.TimeoutExpired:  # browsers on busy machines hang at times
        call(words, out, timeout=300)
    if not path.exists() or path.stat().st_size < 5000:
        raise Failed(f"no picture of {address}")


STEPS: tuple[Callable[[Hour], str], ...] = (
    Hour.demo,
    Hour.suite,
    Hour.pasted,
    Hour.notebooks,
    Hour.commands,
    Hour.screenshots,
)


def play(hour: Hour, step: Callable[[Hour], str]) -> bool:
    """Whether a step did not fail; says what it is, how it ended and how long it took."""
    name = step.__name__
    if name in hour.fine():
        print(f"first hour, {name}: was fine before", flush=True)
        return True
    print(f"first hour, {name} ...", flush=True)
    started, failed = time.monotonic(), False
    try:
        outcome = step(hour) or "fine"
        hour.note(name)
    except Skipped as e:
        outcome = f"skipped, {e}"
    except (Failed, OSError, subprocess.TimeoutExpired) as e:
        outcome, failed = f"failed: {e}", True
    print(f"first hour, {name}: {outcome} ({time.monotonic() - started:.0f} s)", flush=True)
    return not failed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    names = [step.__name__ for step in STEPS]
    parser.add_argument("--quick", action="store_true", help="what takes no more than three minutes")
    parser.add_argument("--only", metavar="STEP", action="append", choices=names, help=", ".join(names))
    parser.add_argument("--folder", type=Path, help="where the clone and its environment are kept from call to call")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "first-hour", help="the folder for screenshots")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="first-hour-") as temporary:
        folder = (args.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["TILEWRIGHT_CACHE_DIR"] = str(folder / "cache")
        try:
            hour = Hour(folder, args.out.resolve(), args.quick)
        except Skipped as e:
            print(f"first hour: skipped, {e}")
            return 0
        played = [play(hour, step) for step in STEPS if not args.only or step.__name__ in args.only]
    print("first hour:", "clean" if all(played) else "failed")
    return not all(played)


if __name__ == "__main__":
    sys.exit(main())

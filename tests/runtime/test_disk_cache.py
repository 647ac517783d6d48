"""The disk cache: hits, damage, bounds, and processes that write at once."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as ct
from tilewright.backends.registry import get_backend
from tilewright.runtime.cache import SOURCES, DiskCache, cache_key, code_key, disk_cache, fingerprint


@ct.kernel
def scale(x, out, by: ct.Constant[int]):
    ct.store(out, (0,), ct.load(x, (0,), (8,)) * by)


def fresh_launch(by: int) -> None:
    """A launch by a kernel object that has compiled nothing yet."""
    x, out = np.arange(8.0), np.zeros(8)
    ct.launch(None, (1,), scale.replace_hints(), (x, out, by), backend="cpu")
    np.testing.assert_array_equal(out, by * x)


def test_every_source_is_part_of_the_keys(tmp_path: Path) -> None:
    """In every language that the compiler and the runtimes of its programs are written in."""
    suffixes = {path.suffix for path in Path(ct.__file__).parent.rglob("*.*") if path.is_file()}
    assert suffixes - {".pyc", ".typed", ".cmake", ".css", ".html", ".js"} == set(SOURCES)
    seen = {fingerprint(str(tmp_path))}
    (tmp_path / "folder").mkdir()
    for suffix in SOURCES:
        for text in ("one", "other one"):
            (tmp_path / "folder" / f"file{suffix}").write_text(text)
            seen.add(fingerprint(str(tmp_path)))
    (tmp_path / "notes.md").write_text("one")
    assert fingerprint(str(tmp_path)) in seen and len(seen) == 1 + 2 * len(SOURCES)


def test_what_comes_before_the_ir_is_no_part_of_the_names_of_code(tmp_path: Path) -> None:
    for folder in ("ops", "ir/ops"):
        (tmp_path / folder).mkdir(parents=True)
    seen = [fingerprint(str(tmp_path), frozenset({"ops"}))]
    for folder in ("ops", "ir/ops"):
        (tmp_path / folder / "file.py").write_text("one")
        seen.append(fingerprint(str(tmp_path), frozenset({"ops"})))
    assert seen[0] == seen[1] != seen[2]
    assert code_key("text") == code_key("text") not in (code_key("another"), cache_key("text"))


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that the CPU backend compiles."""
    backend, names = get_backend("cpu"), []
    compile_ = backend.compile

    def counted(function: Any, options: Any) -> Any:
        names.append(function.name)
        return compile_(function, options)

    monkeypatch.setattr(backend, "compile", counted)
    return names


def test_second_kernel_object_finds_the_code(cache_folder: Path, compilations: list[str]) -> None:
    fresh_launch(3)
    fresh_launch(3)
    assert compilations == ["scale"]
    fresh_launch(4)
    assert compilations == ["scale", "scale"]
    assert len(list(cache_folder.iterdir())) == 2
    assert cache_folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("value", ["0", "off", "none", ""])
def test_switched_off(value: str, compilations: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", value)
    assert disk_cache() is None
    fresh_launch(3)
    fresh_launch(3)
    assert len(compilations) == 2


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TILEWRIGHT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = disk_cache()
    assert cache is not None and cache.folder == tmp_path / "tilewright"
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "lots")
    with pytest.raises(
        ValueError, match="TILEWRIGHT_CACHE_SIZE: 'lots' is no size; write a number such as 4096, 64K, 512M or 1G"
    ):
        disk_cache()


DAMAGE = {
    "shorter": lambda b: b[:-1],
    "changed": lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:],
    "empty": lambda b: b"",
    "longer": lambda b: b + b"x",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_entries_are_rebuilt(cache_folder: Path, compilations: list[str], damage: Any) -> None:
    fresh_launch(3)
    (entry,) = cache_folder.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    fresh_launch(3)
    assert len(compilations) == 2
    assert entry.read_bytes() == whole
    fresh_launch(3)
    assert len(compilations) == 2


def test_unusable_folder_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    fresh_launch(3)
    fresh_launch(3)
    assert len(compilations) == 2
    said = capsys.readouterr().err
    assert (
        said.count("\n") == 1 and f"the disk cache {tmp_path}/file/cache is not used: it cannot be read (Not a" in said
    )


def test_size_is_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=1000)
    for i in range(8):
        cache.put(str(i), b"x" * 62)
        os.utime(tmp_path / f"{i}.kernel", (i, i))
    assert cache.get("0") == b"x" * 62  # used now, so that it is the last to go
    cache.put("big", b"y" * 500)
    kept = {e.path.stem for e in cache.entries()}
    assert sum(e.size for e in cache.entries()) <= 1000
    assert kept == {"big", "0", "5", "6", "7"}
    assert len(cache.clear()) == len(kept)
    assert list(cache.entries()) == [] and cache.get("big") is None


def test_keys_depend_on_every_part() -> None:
    keys = {cache_key("ab", "c"), cache_key("a", "bc"), cache_key("abc"), cache_key("ab", "d")}
    assert len(keys) == 4 and cache_key("ab", "c") in keys


def test_processes_share_it(cache_folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, tilewright as ct\n"
        "@ct.kernel\n"
        "def f(x, n: ct.Constant[int]):\n"
        "    ct.store(x, (0,), ct.full((8,), n, ct.int32))\n"
        "for n in range(3):\n"
        "    x = np.zeros(8, np.int32)\n"
        "    ct.launch(None, (1,), f, (x, n))\n"
        "    assert (x == n).all()\n"
        "print('done')\n"
    )
    running = [subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [p.communicate(timeout=300)[0] for p in running] == ["done\n"] * 2
    assert len(list(cache_folder.glob("*.kernel"))) == 3
    assert len(list(cache_folder.iterdir())) == 3


def test_places_that_a_program_may_print_are_part_of_the_key(compilations: list[str]) -> None:
    @ct.kernel
    def first(x):
        ct.assert_(ct.load(x, (0,), ()) > 0, "positive")

    @ct.kernel
    def second(x):
        ct.assert_(ct.load(x, (0,), ()) > 0, "positive")

    second.name = first.name
    lines = []
    for kernel in (first, second):
        with pytest.raises(ct.TileError, match="positive") as caught:
            ct.launch(None, (1,), kernel, (np.zeros(1),), backend="cpu")
        assert caught.value.loc is not None
        lines.append(caught.value.loc.line)
    assert lines[1] == lines[0] + 4 and len(compilations) == 2


HOSTILE: dict[str, Any] = {
    "a pipe": lambda path: os.mkfifo(path),
    "a folder": lambda path: path.mkdir(),
    "a link": lambda path: path.symlink_to("/dev/zero"),
    "a device": lambda path: path.symlink_to("/dev/full"),
    "too large": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), 1 << 40),
    "no kernel": lambda path: path.write_bytes(hashlib.sha256(b"not a kernel").digest() + b"not a kernel"),
    "a pickle": lambda path: path.write_bytes(hashlib.sha256(PICKLE).digest() + PICKLE),
}
PICKLE = b"cos\nabort\n(tR."  # ends the process that unpickles it


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_entry_is_passed_over(cache_folder: Path, compilations: list[str], make: Any) -> None:
    fresh_launch(3)
    (entry,) = cache_folder.iterdir()
    entry.unlink()
    make(entry)
    fresh_launch(3)
    assert len(compilations) == 2


MODES = {"group": 0o770, "others": 0o707, "all": 0o777}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("what", ["folder", "entry"])
def test_nothing_is_read_that_others_can_write(
    cache_folder: Path, compilations: list[str], capsys: pytest.CaptureFixture[str], mode: int, what: str
) -> None:
    fresh_launch(3)
    changed = cache_folder if what == "folder" else next(cache_folder.iterdir())
    changed.chmod(mode)
    for _ in range(2):
        fresh_launch(3)
    assert len(compilations) == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"may be written by other users (mode {mode:o})" in said


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["folder", "entry"])
def test_nothing_of_other_users_is_read(cache_folder: Path, compilations: list[str], what: str) -> None:
    fresh_launch(3)
    os.chown(cache_folder if what == "folder" else next(cache_folder.iterdir()), 12345, -1)
    fresh_launch(3)
    assert len(compilations) == 2


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit=1 << 20)
    left, fresh = tmp_path / "tmpabcdefgh", tmp_path / "tmpbeingwri"
    for path in (left, fresh):
        path.write_bytes(b"x" * 100)
    os.utime(left, (1, 1))
    assert [e.unfinished for e in cache.entries()] == [True, True]
    cache.put("a", b"y")
    assert {p.name for p in tmp_path.iterdir()} == {"tmpbeingwri", "a.kernel"}
    assert len(cache.clear()) == 2 and not list(tmp_path.iterdir())


PROGRAM = """
import os, resource, sys
import numpy as np
import tilewright as ct

@ct.kernel
def k(x):
    ct.store(x, (0,), ct.load(x, (0,), (4,)) + 1)

if "files" in sys.argv:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.environ["TILEWRIGHT_CACHE_DIR"] = "off"
    ct.launch(None, (1,), k, (np.zeros(4),), backend="reference")
    del os.environ["TILEWRIGHT_CACHE_DIR"]
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
x = np.zeros(4)
for n in range(3):
    ct.launch(None, (1,), k.replace_hints(), (x,), backend="reference")
assert (x == 3).all()
"""


@pytest.mark.parametrize("how", ["no home", "no file descriptor"])
def test_programs_go_on_without_a_cache(tmp_path: Path, how: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME", "TILEWRIGHT_CACHE_DIR")}
    if how == "no home":
        command = f"import pathlib, runpy, sys; pathlib.Path.home = classmethod(lambda c: (_ for _ in ()).throw(RuntimeError('Could not determine home directory.'))); runpy.run_path({str(program)!r})"
        done = [sys.executable, "-c", command]
    else:
        environment["XDG_CACHE_HOME"] = str(tmp_path)
        done = [sys.executable, str(program), "files"]
    ran = subprocess.run(done, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("the disk cache") == 1 and ran.stderr.count("\n") == 1

"""The gallery: a page for each kernel of the examples, made by running them while the site is built."""

from __future__ import annotations

import ast
import html
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from diagrams import blocks_of
from plots import STAND_IN, plot
from svg import PALETTE, figure

from tilewright.sanitizer import sanitize
from tilewright.viewer import Recorder, render

EXAMPLES = Path(__file__).parents[2] / "examples"
_REPOSITORY = "examples"
PEERS = ("NumPy", "torch", "numba")
RESULTS = EXAMPLES.parent / "benchmarks" / "results" / "gallery.md"


@dataclass(frozen=True)
class Entry:
    """A kernel of the gallery: the example that has it, the array whose blocks are shown, and what is plotted.

    ``plot`` gets the module and the axes of a figure, and draws a result that the kernel has computed. ``cost`` says
    what a kernel spends that its peers do not.
    """

    name: str
    title: str
    out: str
    plot: Callable[[Any, Any], None]
    cost: str = ""


def _image(axes: Any, values: Any, **options: Any) -> None:
    axes.imshow(np.asarray(values), interpolation="nearest", **options)
    axes.set_xticks([])
    axes.set_yticks([])


def _vector_add(m: Any, axes: Any) -> None:
    x = np.linspace(0, 4 * np.pi, 500, dtype=np.float32)
    a, b = np.sin(x), np.sin(3.1 * x) / 2
    for values, name in ((a, "a"), (b, "b"), (m.add(a, b, np.empty_like(a)), "a + b")):
        axes.plot(x, values, label=name, linewidth=2.5 if "+" in name else 1)
    axes.legend()


def _softmax(m: Any, axes: Any) -> None:
    x = np.random.default_rng(0).standard_normal((24, 60), dtype=np.float32) * 2
    _image(axes, m.softmax(x), cmap="viridis")
    axes.set_title("each row sums to 1")


def _layer_norm(m: Any, axes: Any) -> None:
    x = np.random.default_rng(0).gamma(2, 2, (4, 4000)).astype(np.float32) + np.arange(4, dtype=np.float32)[:, None]
    one, zero = np.ones(4000, np.float32), np.zeros(4000, np.float32)
    y = m.layer_norm(x, one, zero)
    for row in range(4):
        axes.hist(x[row], 80, histtype="step", color=PALETTE[-1])
        axes.hist(y[row], 80, histtype="step", color=PALETTE[0])
    axes.set_title("rows before (grey) and after (blue)")


def _matmul(m: Any, axes: Any) -> None:
    t = np.linspace(-1, 1, 120, dtype=np.float32)
    a = np.exp(-((t[:, None] - t[None, :]) ** 2) * 30)
    _image(axes, m.matmul(a, np.ascontiguousarray(np.sign(np.sin(9 * t))[:, None] * a)), cmap="coolwarm")


def _attention(m: Any, axes: Any) -> None:
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((1, 128, 64), dtype=np.float32) for _ in range(2))
    v = np.zeros((1, 128, 64), np.float32)
    v[0, np.arange(128), np.arange(128) // 2] = 1
    weights = m.attention(q, k + 0.5 * q, v, False)[0]
    _image(axes, np.sqrt(np.maximum(weights, 0)), cmap="magma", aspect="auto")  # the root: most weights are small
    axes.set_title("weights of pairs of keys, by query")


def _histogram(m: Any, axes: Any) -> None:
    values = np.clip(np.random.default_rng(0).normal(32, 9, 100_000), 0, 63).astype(np.int32)
    axes.bar(np.arange(64), m.histogram(values, 64), width=1.0)


def _embedding(m: Any, axes: Any) -> None:
    table = np.sin(np.arange(40, dtype=np.float32)[:, None] * np.linspace(0.02, 1, 64, dtype=np.float32))
    rows = np.random.default_rng(0).integers(0, 40, 30).astype(np.int32)
    _image(axes, m.embedding(table, rows), cmap="viridis")
    axes.set_title("rows that were looked up")


def _convolution(m: Any, axes: Any) -> None:
    image = np.zeros((90, 160), np.float32)
    image[20:60, 30:70], image[35:80, 100:140] = 1, 0.6
    edges = np.full((5, 5), -1, np.float32)
    edges[2, 2] = 24
    _image(axes, m.convolution(image, edges), cmap="gray")


def _transpose(m: Any, axes: Any) -> None:
    x = np.add.outer(np.arange(60), np.arange(120) ** 1.3).astype(np.float32) % 40
    _image(axes, m.transpose(x), cmap="viridis")


def _mandelbrot(m: Any, axes: Any) -> None:
    _image(axes, np.log1p(m.mandelbrot(500, 600, 200)), cmap="magma")


def _heat(m: Any, axes: Any) -> None:
    _image(axes, m.heat(m.plate(120, 200), 300), cmap="inferno")


def _prefix_sum(m: Any, axes: Any) -> None:
    steps = np.random.default_rng(3).integers(-1, 2, 40_000).astype(np.int32)
    axes.plot(m.prefix_sum(steps), linewidth=0.8)
    axes.set_title("a random walk")


def _monte_carlo(m: Any, axes: Any) -> None:
    x, y = m.positions(2000, 1)
    colours = np.where(x * x + y * y < 1, PALETTE[0], PALETTE[1])
    axes.scatter(x, y, s=2, c=colours, rasterized=True)
    axes.set_aspect("equal")
    axes.set_title(f"a million darts: {m.pi(1_000_000):.4f}")


def _nbody(m: Any, axes: Any) -> None:
    bodies = np.random.default_rng(1).standard_normal((3, 200)).astype(np.float32)
    pull = m.gravity(bodies, np.ones(200, np.float32))
    axes.quiver(bodies[0], bodies[1], pull[0], pull[1], width=0.003, color=STAND_IN)
    axes.set_aspect("equal")


ENTRIES: Sequence[Entry] = (
    Entry("vector_add", "Vector addition", "out", _vector_add),
    Entry("transpose", "Transpose", "out", _transpose),
    Entry("softmax", "Softmax", "out", _softmax),
    Entry("layer_norm", "Layer norm", "out", _layer_norm),
    Entry(
        "matmul",
        "Matrix product",
        "c",
        _matmul,
        "NumPy and PyTorch call libraries with kernels for each processor. Blocks that split K lock tiles of c, too.",
    ),
    Entry("attention", "Attention", "out", _attention),
    Entry("histogram", "Histogram", "counts", _histogram),
    Entry("embedding", "Embedding", "out", _embedding),
    Entry("convolution", "Convolution", "out", _convolution),
    Entry("mandelbrot", "Mandelbrot set", "out", _mandelbrot),
    Entry(
        "heat",
        "Heat on a plate",
        "out",
        _heat,
        "Inside of its edge the plate is 1022 elements wide: tiles of 1024 stick out, so that every load is masked, "
        "which costs a tenth of the time.",
    ),
    Entry("prefix_sum", "Running sums", "out", _prefix_sum),
    Entry("monte_carlo", "Monte Carlo", "hits", _monte_carlo),
    Entry("nbody", "Gravity", "out", _nbody),
)


@contextmanager
def _examples() -> Any:
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield
    finally:
        sys.path.remove(str(EXAMPLES))


def pages() -> dict[str, str]:
    """Path to text of every page of the gallery, and of the recordings that they show."""
    found: dict[str, str] = {}
    with _examples():
        for entry in ENTRIES:
            module = importlib.import_module(entry.name)
            recordings = _recordings(module)
            found[f"gallery/{entry.name}-recording.html"] = render(entry.title, recordings[:1])
            found[f"gallery/{entry.name}.md"] = _page(entry, module, recordings[0])
        found["gallery/index.md"] = _overview()
    return found


def _recordings(module: Any) -> Any:
    recorder = Recorder()
    with sanitize(sinks=[recorder]):
        for case in module.cases(small=True)[:1]:
            case.ours()
    return recorder.finish()


def _idea(module: Any) -> str:
    return inspect.cleandoc(module.__doc__)


def _page(entry: Entry, module: Any, recording: Any) -> str:
    parts = [f"# {entry.title}", _idea(module), "## The kernel", f"```python\n{_kernels(module)}\n```"]
    parts.append(f"The whole program, with the same in NumPy, is `{_REPOSITORY}/{entry.name}.py`.")
    picture = blocks_of(recording, entry.out)
    if picture is not None:
        caption = (
            f"The block that writes each element of {entry.out} last, on a small input: a colour for each block, "
            "grey where none does."
        )
        parts += ["## Who writes what", figure(picture, caption)]
    parts += ["## What it computes", _plotted(entry, module), "## How fast it is", _speed(module, entry.cost)]
    parts += [
        "## Step by step",
        "Every access to memory of a small run, in the order of the blocks: move the slider, or point at an element "
        f"([alone in a window]({entry.name}-recording.html)).",
        f'<iframe class="tw-view" src="../{entry.name}-recording.html" title="Recording of {entry.title}" '
        'loading="lazy"></iframe>',
    ]
    return "\n\n".join(parts) + "\n"


def _kernels(module: Any) -> str:
    """The kernels of the example, and the functions and constants that they use."""
    source = Path(module.__file__).read_text(encoding="utf-8")
    tree, lines = ast.parse(source), source.splitlines()
    definitions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    kernels = [n for n in definitions if any("kernel" in ast.unparse(d) for d in n.decorator_list)]
    used = {n.id for k in kernels for n in ast.walk(k) if isinstance(n, ast.Name)}
    shown = [n for n in definitions if n in kernels or n.name in used]
    return "\n\n\n".join(
        "\n".join(lines[(n.decorator_list[0] if n.decorator_list else n).lineno - 1 : n.end_lineno]) for n in shown
    )


def _plotted(entry: Entry, module: Any) -> str:
    drawn = plot(lambda axes: entry.plot(module, axes), 5.2, 3.0, entry.name, f"A result of {entry.title}")
    return f'<figure class="tw-figure">{drawn}</figure>'


def _thumbnail(entry: Entry, module: Any) -> str:
    """The plot without its words, for the overview."""

    def draw(axes: Any) -> None:
        entry.plot(module, axes)
        axes.set_title("")
        axes.set_axis_off()
        if (legend := axes.get_legend()) is not None:
            legend.remove()

    return plot(draw, 2.4, 1.5, entry.name, f"A result of {entry.title}")


def _results() -> tuple[str, str, dict[str, str]]:
    """What the benchmark wrote: its introduction, the head of its table, and the row of each kernel."""
    text = RESULTS.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = {line.split("|")[1].strip(): line for line in lines[2:]}
    return text[: text.index("|")].strip(), "\n".join(lines[:2]), rows


def _cases(module: Any) -> list[str]:
    return [case.name for case in module.cases(small=True)]


def _speed(module: Any, cost: str) -> str:
    said, head, rows = _results()
    shown = [rows[name] for name in _cases(module)]
    slower = " ".join(filter(None, (*(_faster_peer(head, row) for row in shown), cost)))
    return "\n\n".join(filter(None, ["\n".join([head, *shown]), slower, said]))


def _faster_peer(head: str, row: str) -> str:
    """A sentence on the peer that is faster than the kernel of a row, where one is."""
    of = dict(zip((c.strip() for c in head.splitlines()[0].split("|")), (c.strip() for c in row.split("|"))))
    ours = float(of["tilewright"])
    times = {peer: float(of[peer]) for peer in PEERS if of.get(peer)}
    best = min(times, key=times.__getitem__)
    if ours / times[best] < 1.05:
        return ""
    return f"The fastest here is {best}: {of['kernel']} takes tilewright {ours / times[best]:.2f} times as long."


def _overview() -> str:
    said, head, results = _results()
    column = [c.strip() for c in head.splitlines()[0].split("|")].index("ratio")
    cards = []
    for entry in ENTRIES:
        module = importlib.import_module(entry.name)
        ratio = results[_cases(module)[0]].split("|")[column].strip()
        speed = f"{ratio} times as fast as the fastest peer"
        words = f"<b>{entry.title}</b><span>{html.escape(_idea(module))}</span><small>{speed}</small>"
        cards.append(f'<a href="{entry.name}/">{_thumbnail(entry, module)}{words}</a>')
    head = (
        "# Gallery\n\nKernels with the idea, a picture, what they compute, and how fast they are beside NumPy, PyTorch "
        "and Numba. All pages are made by running the kernels."
    )
    return f'{head}\n\n<div class="tw-cards">{"".join(cards)}</div>\n\n{said}\n'

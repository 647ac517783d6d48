"""Random SIMT kernels. Each has a twin with so many barriers before it that its threads are fibers, which run the code as
it is written; both must give the same. What threads share is written between barriers only, so that there is one result."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

# Statements of device code, with `{0}`, `{1}`, ... for expressions, `{v}` and `{w}` for variables of the thread, `{s}` for an
# array in shared memory, `{m}` for the lanes that are here and `{n}` for a small number.
_PLAIN = (
    "{v} = {0};",
    "{v} += {0};",
    "{v} ^= {0} >> ({1} & 31u);",
    "own[{0} & 3u] = {1};",
    "at = own + ({0} & 3u);",
    "*at += {0};",
    "pair = step(pair, {0});",
    "pair.second = pair.first * 0.5f + ({0} & 255u);",
    "{v} ^= deep({n}u, {0});",
    "wide = wide * 6364136223846793005ull + {0};",
    "switch ({0} % 5u) {{ case 0: {v} += 3u; break; case 2: {w} ^= {1}; [[fallthrough]]; case 3: {v} = {w}; break; "
    "default: {v} -= {n}u; }}",
    "{v} = twice([&](unsigned x) {{ return x + {w}; }}, {0});",
    "for (unsigned i = {0} & 3u; i < 4u; ++i) {{ if (own[i] % 7u == {n}u) break; own[i] = own[i] * 3u + {v}; }}",
    "for (unsigned i = threadIdx.x; i < {n}u * 9u + (arg & 7u); i += blockDim.x) {{ {v} = {v} * 5u + i; wide ^= {w}; }}",
    "for (unsigned i = tid; i < {n}u * 13u; i += blockDim.x * blockDim.y) {{ if (i % 11u == {n}u % 11u) continue; "
    "{v} ^= {0} + i; if (i > 150u + {w} % 64u) break; }}",
    "do {{ {v} = {v} / 3u + {n}u; }} while ({v} > 40u && (wide += {v}) % 5u);",
    "atomicAdd(&out[TT], {0});",
    "atomicMax(&out[TT + 1u], {0});",
)
_IN_BLOCK = (  # where all threads of the block are
    "__syncthreads(); {{ unsigned x = {0}; __syncthreads(); {s}[(tid + {n}u) % TT] = x; }} __syncthreads();",
    "__syncthreads(); if (tid < TT / 2u) {s}[tid] += {s}[tid + TT / 2u]; __syncthreads();",
    "__syncthreads(); if (tid >= {n}u) {s}[tid] = {0} ^ tid; __syncthreads();",
    "{v} = __syncthreads_count({0} & 1u);",
    "{v} += __syncthreads_or({0} % 50u == 7u) + 2 * __syncthreads_and({1} % 9u != 0u);",
    "__syncthreads(); if (tid == 0u) total = {n}u; __syncthreads(); atomicAdd(&total, {0}); __syncthreads(); "
    "{v} ^= total; __syncthreads();",
    "__syncthreads(); if (tid == 0u) total = {n}u; __syncthreads(); if ({1} & 1u) atomicMin(&total, {0}); "
    "__syncthreads(); {v} += total; __syncthreads();",
    "{v} = meeting({s}, {0}, tid, TT);",
    "at = own + ({0} & 3u); __syncthreads(); *at = {1};",
    "for (unsigned h = TT / 2u; h > 0u; h /= 2u) {{ __syncthreads(); unsigned x = tid < h ? {s}[tid + h] : 0u; "
    "__syncthreads(); if (tid < h) {s}[tid] ^= x; }} __syncthreads();",
)
_IN_WARP = (  # where the lanes {m} are
    "{{ unsigned x = __shfl_xor_sync({m}, {0}, {n}); {v} += {m} >> ((lane ^ {n}u) & 31u) & 1u ? x : 7u; }}",
    "{{ unsigned x = __shfl_down_sync({m}, {0}, {n}u); {v} ^= {m} >> ((lane + {n}u) & 31u) & 1u ? x : 9u; }}",
    "{{ unsigned x = __shfl_up_sync({m}, {0}, {n}u, 16); {v} ^= {m} >> ((lane - {n}u) & 31u) & 1u ? x : 9u; }}",
    "{{ unsigned long long x = __shfl_sync({m}, wide, 31 - lane); wide ^= {m} >> (31u - lane) & 1u ? x : 5u; }}",
    "{v} += __ballot_sync({m}, {0} & 1u);",
    "{v} ^= __any_sync({m}, {0} % 9u == 1u) + 2 * __all_sync({m}, {1} % 9u != 1u);",
    "{v} = __reduce_add_sync({m}, {0}) + __reduce_max_sync({m}, {1});",
    "{v} ^= __match_any_sync({m}, {0} & 3u);",
    "__syncwarp({m}); lanes[tid] = {0}; __syncwarp({m}); "
    "if ({m} >> (lane ^ {n}u) & 1u) {v} += lanes[tid ^ {n}u]; __syncwarp({m});",
)
_EXPRESSIONS = (
    "{v}", "{w}", "{n}u", "tid", "lane", "bid", "arg", "own[{v} & 3u]", "*at", "{s}[{v} % TT]", "unsigned(wide >> 9)",
    "unsigned(int(pair.second))", "pair.first", "({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} ^ {1})", "({0} / ({1} | 1u))",
    "({0} % ({1} | 1u))", "({0} << ({1} & 31u))", "({0} < {1} ? {2} : {v})", "unsigned(int({0}) >> ({1} & 31u))",
    "min({0}, {1})", "unsigned(__popc({0}))", "__umulhi({0}, {1})",
)  # fmt: skip
_CONDITIONS = ("{0} & 1u", "{0} % 3u == 1u", "tid < {n}u", "{0} > {1}", "lane & 4u", "tid % 7u == {n}u % 7u")
_SAME = ("arg & 1u", "bid == 1u", "(arg + bid) % 3u == {n}u % 3u")  # for all threads of a block
_HEAD = r"""#include <cstdio>
#include <cuda_runtime.h>
struct Pair { unsigned first; float second; };
__device__ Pair step(Pair p, unsigned by) { return {p.first * 5u + by, p.second > 999.f ? 1.f : p.second + float(by & 15u)}; }
__device__ __noinline__ unsigned deep(unsigned n, unsigned x) { return n % 5u == 0u ? x : deep(n - 1u, x * 3u + n) ^ n; }
template <typename F> __device__ unsigned twice(F f, unsigned x) { return f(f(x)); }
__device__ unsigned meeting(unsigned* s, unsigned x, unsigned tid, unsigned TT) {
  __syncthreads();
  if (x == 0u) x = 5u;
  unsigned y = s[TT - 1u - tid];
  __syncthreads();
  s[tid] = x + y;
  __syncthreads();
  return y;
}
#define FOUR __syncthreads(); __syncthreads(); __syncthreads(); __syncthreads();
#define SIXTEEN FOUR FOUR FOUR FOUR
#define MANY SIXTEEN SIXTEEN SIXTEEN SIXTEEN
template <typename K, typename T> int differing(char const* name, K kernel, T twin, int blocks, dim3 block) {
  unsigned size = block.x * block.y * block.z + 2, *out[2];
  int bad = 0;
  for (unsigned** each : {&out[0], &out[1]}) cudaMallocManaged(each, size * blocks * sizeof(unsigned));
  for (unsigned arg : {3u, 12u}) {
    for (unsigned i = 0; i < size * blocks; ++i) out[0][i] = out[1][i] = 1;
    kernel<<<blocks, block>>>(out[0], arg);
    cudaError_t first = cudaDeviceSynchronize();
    twin<<<blocks, block>>>(out[1], arg);
    cudaError_t second = cudaDeviceSynchronize();
    if (first || second) printf("%s(%u): %s, as fibers %s\n", name, arg, cudaGetErrorName(first), cudaGetErrorName(second)), ++bad;
    for (unsigned i = 0; i < size * blocks; ++i)
      if (out[0][i] != out[1][i]) {
        printf("%s(%u): thread %u of block %u gives %x, as a fiber %x\n", name, arg, i % size, i / size, out[0][i], out[1][i]);
        ++bad;
        break;
      }
  }
  return bad;
}
"""
_BEGIN = """  unsigned tid = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x, lane = tid % 32u, bid = blockIdx.x;
  constexpr unsigned TT = {threads};
  out += bid * (TT + 2u);
  unsigned a = tid * 3u + arg, b = bid ^ tid, c = 7u, own[4] = {{1u, tid, 3u, arg}}, *at = own + 1;
  unsigned whole = TT - (tid - lane) >= 32u ? ~0u : (1u << (TT - (tid - lane))) - 1u;
  unsigned long long wide = tid;
  Pair pair = {{tid, 2.f}};
  __shared__ unsigned s[TT], t[TT], lanes[TT], total;
  s[tid] = tid ^ 5u, t[tid] = arg * tid, lanes[tid] = 0u;
  if (tid == 0u) total = 0u;
  __syncthreads();
"""
_END = """  for (unsigned i = 0; i < 4u; ++i) a = a * 31u + own[i];
  out[tid] = ((a * 31u + b) * 31u + c) * 31u + unsigned(wide ^ wide >> 32) + pair.first + unsigned(int(pair.second)) + *at;
"""
_BLOCKS = ((32, 1, 1), (64, 1, 1), (96, 1, 1), (128, 1, 1), (20, 1, 1), (33, 1, 1), (16, 4, 1), (8, 6, 1), (7, 9, 1), (32, 2, 2),
           (4, 4, 4), (5, 3, 2), (1, 1, 1))  # fmt: skip


@dataclass(frozen=True)
class _Context:
    """What may be said where a statement stands: whether all threads are there, and the lanes, if that is known."""

    together: bool = True
    mask: str = "whole"
    depth: int = 0
    in_loop: bool = False


class _Kernel:
    def __init__(self, rng: random.Random, name: str) -> None:
        self._rng, self._name, self._count = rng, name, 0
        self._lines: list[str] = []
        # without operations of warps, the threads of a block are loops
        self._with_warps, self._with_barriers = rng.random() < 0.55, rng.random() < 0.85
        self.block, self.blocks = rng.choice(_BLOCKS), rng.choice((1, 2, 3))

    def _expression(self, depth: int = 0) -> str:
        return self._filled(self._rng.choice(_EXPRESSIONS[: 13 if depth > 1 else None]), depth + 1)

    def _filled(self, text: str, depth: int = 0, mask: str = "") -> str:
        v, w = (self._rng.choice("abc") for _ in range(2))
        given = [self._expression(depth) if f"{{{i}}}" in text else "" for i in range(3)]
        return text.format(*given, v=v, w=w, s=self._rng.choice("st"), m=mask, n=self._rng.randint(1, 15))

    def _new(self) -> str:
        self._count += 1
        return f"x{self._count}"

    def _add(self, line: str, context: _Context) -> None:
        self._lines.append("  " * (context.depth + 1) + line)

    def _body(self, context: _Context, most: int) -> None:
        for _ in range(self._rng.randint(1, most)):
            self._statement(context)

    def _statement(self, context: _Context) -> None:
        nested: tuple[Callable[[_Context], None], ...] = (self._branch, self._loop)
        r = self._rng.random()
        if context.depth < 3 and r < 0.25:
            self._rng.choice(nested)(replace(context, depth=context.depth + 1))
        elif context.together and self._with_barriers and r < 0.45:
            self._add(self._filled(self._rng.choice(_IN_BLOCK)), context)
        elif context.mask and self._with_warps and r < 0.65:
            self._add(self._filled(self._rng.choice(_IN_WARP), mask=context.mask), context)
        elif context.in_loop and r < 0.7:
            condition = self._filled(self._rng.choice(_SAME if context.together else _CONDITIONS))
            self._add(f"if ({condition}) {self._rng.choice(('break', 'continue'))};", context)
        else:
            self._add(self._filled(self._rng.choice(_PLAIN)), context)

    def _branch(self, inner: _Context) -> None:
        outer, name = replace(inner, depth=inner.depth - 1), self._new()
        uniform = inner.together and self._rng.random() < 0.5
        self._add(f"bool {name} = {self._filled(self._rng.choice(_SAME if uniform else _CONDITIONS))};", outer)
        masks = [inner.mask] * 2
        if not uniform:
            masks = [f"{name}m", f"{name}n"] if inner.mask and self._with_warps else ["", ""]
            if masks[0]:
                ballot = f"unsigned {masks[0]} = __ballot_sync({inner.mask}, {name}), {masks[1]} = {inner.mask} & ~{masks[0]};"
                self._add(ballot, outer)
        for mask, head in zip(masks, (f"if ({name}) {{", "} else {")):
            self._add(head, outer)
            # what leaves a loop from here would leave lanes behind that others wait for
            in_loop = inner.in_loop and (uniform or not self._with_warps) and (uniform == inner.together)
            self._body(replace(inner, together=uniform, mask=mask, in_loop=in_loop), 3)
        self._add("}", outer)

    def _loop(self, inner: _Context) -> None:
        outer, name = replace(inner, depth=inner.depth - 1), self._new()
        uniform = inner.together and self._rng.random() < 0.6
        count = self._rng.choice(("3u", "arg % 4u", "bid + 1u") if uniform else ("tid % 4u", "a & 3u", "lane / 8u"))
        self._add(f"unsigned {name}n = {count};", outer)
        if uniform or not (inner.mask and self._with_warps):
            self._add(f"for (unsigned {name} = 0; {name} < {name}n; ++{name}) {{", outer)
            self._body(replace(inner, together=uniform, mask=inner.mask if uniform else "", in_loop=True), 4)
        else:
            self._add(f"for (unsigned {name} = 0, {name}m = {inner.mask}; ; ++{name}) {{", outer)
            self._add(f"{name}m = __ballot_sync({name}m, {name} < {name}n); if ({name} >= {name}n) break;", inner)
            self._body(replace(inner, together=False, mask=f"{name}m", in_loop=False), 4)
        self._add("}", outer)

    def text(self) -> str:
        """The kernel, and its twin."""
        x, y, z = self.block
        self._body(_Context(), self._rng.choice((4, 9, 14)))
        if self._rng.random() < 0.3:  # no barrier follows
            self._add(
                f"if ({self._filled(self._rng.choice(_CONDITIONS))}) {{ out[tid] = {self._expression()}; return; }}",
                _Context(),
            )
        body = "\n".join([_BEGIN.format(threads=x * y * z).rstrip(), *self._lines, _END])
        head = "__global__ void {}(unsigned* out, unsigned arg) {{\n{}"
        return "".join(
            head.format(*each) + body + "}\n" for each in ((self._name, ""), (f"{self._name}_fibers", "  MANY\n"))
        )


def simt_program(seed: int, kernels: int) -> str:
    """A program with ``kernels`` kernels, which prints those that differ from their twins and returns how many do."""
    made = [_Kernel(random.Random(f"{seed} {i}"), f"k{i}") for i in range(kernels)]
    texts = [kernel.text() for kernel in made]
    calls = [
        f'  bad += differing("k{i}", k{i}, k{i}_fibers, {kernel.blocks}, dim3{kernel.block});'
        for i, kernel in enumerate(made)
    ]
    return "\n".join([_HEAD, *texts, "int main() {", "  int bad = 0;", *calls, "  return bad;", "}", ""])

"""Programs with SIMT kernels that several tests run."""

HEAD = """#include <cstdio>
#include "cuda_tile.h"
#include "cuda_fp16.h"
#include "cuda_bf16.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace ct = cuda::tiles;
namespace cg = cooperative_groups;
"""
KERNELS = """
__global__ void fill(float* p, float v, size_t n) { auto i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = v; }
__device__ float twice(float x) { return x * 2 + threadIdx.x; }
__global__ void tr(float* out, float const* in, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
__global__ void sum(float const* in, float* out, int n) {
  extern __shared__ float part[];
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += in[i];
  for (int d = 16; d > 0; d /= 2) s += __shfl_down_sync(0xffffffff, s, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) { float t = 0; for (int i = 0; i < blockDim.x / 32; ++i) t += part[i]; atomicAdd(out, t); }
}
__global__ void half_init(__half* a, float* b, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { a[i] = __half{0.5 * i}; b[i] = twice(powf(2.0f, float(i % 4))); } }
__global__ void bad(int* p) { if (threadIdx.x < 3) __syncthreads(); p[threadIdx.x] = 1; }
__global__ void checked(int* p) { assert(p[0] == 7); }
template <typename T> __global__ void votes(T* out) {
  unsigned lane = threadIdx.x % 32;
  out[threadIdx.x] = __ballot_sync(0xffffffffu, lane % 3 == 0) + __any_sync(0xffffffffu, lane == 40)
      + __all_sync(0xffffffffu, lane < 32) + __shfl_xor_sync(0xffffffffu, int(lane), 1)
      + __shfl_up_sync(0xffffffffu, int(lane), 2, 8) + __shfl_sync(0xffffffffu, int(lane), 5, 16);
  if (lane < 4) out[threadIdx.x] += __shfl_down_sync(0xfu, int(lane), 1, 4);
}
__global__ void counted(int* out) {
  int found = __syncthreads_count(threadIdx.x % 5 == 0), all = __syncthreads_and(1), any = __syncthreads_or(threadIdx.x == 77);
  if (threadIdx.x == 0) { atomicMax(out, found); atomicOr(out + 1, all * 2 + any); atomicInc((unsigned*)out + 2, 1u); }
  atomicCAS(out + 3 + blockIdx.x, 0, int(threadIdx.x) + 1);
}
struct Numbers { double a; int b[5]; };
__constant__ int table[4] = {1, 10, 100, 1000};
__device__ __host__ int recursive(int n) { return n <= 1 ? 1 : n * recursive(n - 1); }
__global__ void several(Numbers n, char c, int* out, dim3 wanted) {
  int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  dim3 shape = blockDim;
  out[i] = int(n.a) + n.b[i % 5] + c + table[i % 4] + recursive(i % 5) + (shape.z == wanted.z && gridDim.y == 1);
}
__global__ void groups(__half* h, __nv_bfloat162* b, int* out) {
  auto block = cg::this_thread_block(); auto half = cg::tiled_partition<16>(block);
  int t = block.thread_rank();
  h[t] = __hfma(h[t], __float2half(2.0f), hexp(__half(0.0f)));
  b[t] = __hadd2(b[t], __floats2bfloat162_rn(1.0f, 2.0f));
  out[t] = cg::reduce(half, t, cg::plus<int>()) + 1000 * half.meta_group_rank() + __popc(half.ballot(t % 2))
      + __mulhi(1 << 30, 8) + __float2int_rn(2.5f) + __reduce_max_sync(~0u, t) + __byte_perm(0x0201u, 0, 0x4441);
  block.sync();
}
__tile_global__ void tile(int* p) { ct::store(p, ct::load(p) + 1); }
"""
MAIN = """
  const int n = 512;
  float *a, *b, *s; __half* h;
  cudaMallocManaged(&a, n * n * 4); cudaMallocManaged(&b, n * n * 4); cudaMallocManaged(&s, 4); cudaMallocManaged(&h, 400);
  fill<<<(n * n + 255) / 256, 256>>>(a, 1.0f, n * n);
  for (int i = 0; i < n * n; ++i) a[i] += i % 7;
  tr<<<dim3(n / 32, n / 32), dim3(32, 8)>>>(b, a, n);
  int wrong = 0; double want = 0;
  for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) { wrong += b[i * n + j] != a[j * n + i]; want += a[i * n + j]; }
  *s = 0;
  sum<<<4, 256, 256 * sizeof(float)>>>(a, s, n * n);
  printf("%d wrong, %g %g, %s\\n", wrong, *s, want, cudaGetErrorName(cudaGetLastError()));
  half_init<<<1, 128>>>(h, b, 100);
  printf("%g %g %g\\n", float(h[9]), b[3], b[6]);
  int* q; cudaMallocManaged(&q, 4096);
  bad<<<1, 64>>>(q);
  printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
  cudaDeviceReset(); cudaMallocManaged(&q, 4096); *q = 3;
  checked<<<1, 32>>>(q);
  printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
"""
MORE = """
  int *p, *host = new int[64];
  cudaMallocManaged(&p, 4096);
  votes<<<1, 64>>>(p);
  tile<<<1>>>(p);
  cudaDeviceSynchronize();
  unsigned ballot = 0, wrong = 0; for (int i = 0; i < 32; i += 3) ballot |= 1u << i;
  for (int t = 0; t < 64; ++t) {
    int lane = t % 32, up = lane % 8 < 2 ? lane : lane - 2;
    wrong += p[t] != int(ballot + 1 + (lane ^ 1) + up + (lane & 16) + 5 + (lane < 3 ? lane + 1 : lane == 3 ? 3 : 0) + (t == 0));
  }
  cudaMemset(p, 0, 4096);
  counted<<<3, 100>>>(p);
  cudaDeviceSynchronize();
  printf("%u wrong, %d %d %d, %d %d %d\\n", wrong, p[0], p[1], p[2], p[3] > 0, p[4] > 0, p[5] > 0);
  several<<<1, dim3(2, 3, 4)>>>(Numbers{7.5, {1, 2, 3, 4, 5}}, 'a', p, dim3(1, 1, 4));
  cudaDeviceSynchronize();
  wrong = 0;
  int const powers[4] = {1, 10, 100, 1000};
  for (int i = 0; i < 24; ++i) wrong += p[i] != 7 + 1 + i % 5 + 'a' + powers[i % 4] + recursive(i % 5) + 1;
  __half* h; __nv_bfloat162* b; cudaMallocManaged(&h, 64); cudaMallocManaged(&b, 128);
  for (int i = 0; i < 32; ++i) { h[i] = __half(i); b[i] = __floats2bfloat162_rn(i, i); }
  groups<<<1, 32>>>(h, b, p);
  cudaDeviceSynchronize();
  printf("%g %g %g %d %d\\n", float(h[5]), float(b[3].x), float(b[3].y), p[0], p[31]);
  fill<<<1, 1025>>>(nullptr, 1, 0);
  printf("%u wrong, %s\\n", wrong, cudaGetErrorName(cudaGetLastError()));
"""

# A kernel runs warp by warp if it has a warp operation (1), and as fibers if it has more than the waits of a set (2).
SPLIT = """#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
struct Numbers { int a; int b[4]; };
#define KERNEL template <int Way> __global__ void
#define W8 __syncwarp(); __syncwarp(); __syncwarp(); __syncwarp(); __syncwarp(); __syncwarp(); __syncwarp(); __syncwarp();
#define BEGIN if constexpr (Way == 1) __syncwarp(); if constexpr (Way == 2) { W8 W8 W8 W8 W8 W8 W8 W8 } int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)
__device__ int rotate(int* s, int t, int n) { s[t] = t * 3; __syncthreads(); int v = s[(t + 1) % n]; __syncthreads(); return v; }
KERNEL reduce(Numbers n, int* out) {
  BEGIN;
  __shared__ int s[128];
  s[t] = t * n.a;
  __syncthreads();
  for (int d = 64; d > 0; d /= 2) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
  out[blockIdx.x * 128 + t] = s[0] + t;
}
KERNEL nested(Numbers n, int* out) {
  BEGIN;
  __shared__ int s[128];
  int sum = 0, own[5] = {t, t + 1, t * t, 7, n.b[1]};
  for (int i = 0; i < 3; ++i) {
    int before = own[i];
    if (n.a > 2) { sum += rotate(s, t, 128) * before; own[(t + i) % 5] += sum; }
    for (int j = 0; j < i; ++j) { s[127 - t] = sum + j; __syncthreads(); sum ^= s[t]; __syncthreads(); if (n.b[0] == j) break; }
    while (sum % 7 != t % 3) ++sum;
  }
  n.b[2] += t;
  __syncthreads();
  for (int v : own) sum = sum * 31 + v;
  out[blockIdx.x * 128 + t] = sum + n.b[2];
}
KERNEL votes(Numbers n, int* out) {
  BEGIN;
  int found = t;
  for (int i = 0; __syncthreads_or(found < 130) && i < 9; ++i) found += __syncthreads_count(t % (i + 2) == 0);
  if (!__syncthreads_and(t < 128 + n.a)) return;
  double wide = found * 0.5; bool odd = t & 1; char small = char(t);
  __syncthreads();
  out[blockIdx.x * 128 + t] = int(wide * 4) + odd + small;
}
KERNEL counters(Numbers n, int* out) {
  BEGIN;
  __shared__ int s[128];
  int same = 0, odd = 0, last = 7, late = 0, rounds = 0;
  for (int d = 64, e = 1; d > 0; d /= 2, e += same & 1) {
    s[t] = t * d + e;
    __syncthreads();
    if (t & d) ++odd;
    if (n.a > 2) { same += d; if (t > d) last = d + e; }
    int v = s[t ^ d];
    for (int k = 0; k < t % 3; ++k) late += same;
    do { ++rounds; } while (rounds % 4 != t % 4);
    __syncthreads();
    odd ^= v + rounds;
    if (same > 110) { same -= 3; s[t] = same; __syncthreads(); odd += s[127 - t]; if (e > 2) break; __syncthreads(); }
    same += blockIdx.x;
  }
  out[blockIdx.x * 128 + t] = same + 31 * odd + 7 * last + late;
}
KERNEL lanes(Numbers n, int* out) {
  BEGIN;
  __shared__ int s[128];
  int lane = t % 32, sum = t;
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (lane < 16) sum += __shfl_down_sync(0xffffu, t, 3, 8);
  else if (n.a > 2) sum -= __shfl_sync(0xffff0000u, sum * t, lane ^ 5);
  unsigned peers = __match_any_sync(~0u, t % 3);
  sum += __reduce_max_sync(peers, t * 7 % 64);
  if (t % 3 == 0) sum += __popc(__ballot_sync(peers, t & 1)) + __any_sync(peers, t == 3);
  s[t] = sum;
  __syncthreads();
  int v = s[127 - t];
  for (int k = 0; k < 5; ++k) {
    if (t / 32 == k) v += __shfl_up_sync(~0u, v, k + 1);
    if (k == 3) { __syncthreads(); s[t] = v; __syncthreads(); v ^= s[t ^ 33]; }
  }
  unsigned left = ~0u;
  for (int k = 0; k < 32 && lane >= k; ++k, left &= left << 1) v += __shfl_sync(left, v, 31);
  if (__syncthreads_count(v & 1) % 2) v = -v;
  if (lane >= 20) { out[blockIdx.x * 128 + t] = v; return; }
  out[blockIdx.x * 128 + t] = v + __shfl_sync(0xfffffu, v, lane / 2) + __all_sync(0xfffffu, v > 0);
}
KERNEL tree(Numbers n, int* out) {
  BEGIN;
  __shared__ int s[256];
  int offset = 1;
  s[2 * t] = t * n.a; s[2 * t + 1] = t ^ 5;
  for (int d = 128; d > 0; d /= 2) {
    __syncthreads();
    if (t < d) { int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1; s[b] += s[a]; }
    offset *= 2;
  }
  if (t == 0) s[255] = offset;
  for (int d = 1; d < 256; d *= 2) {
    offset /= 2;
    __syncthreads();
    if (t < d) { int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1, v = s[a]; s[a] = s[b]; s[b] += v; }
  }
  __syncthreads();
  out[blockIdx.x * 128 + t] = s[2 * t] + 31 * s[2 * t + 1] + t;
}
KERNEL turns(Numbers n, int* out) {
  BEGIN;
  unsigned all = n.a > 2 ? ~0u : 1u;
  int v = __shfl_up_sync(all, t * n.a, 2, 16);
  v += __shfl_sync(all, v, v >> 3 & 31) ^ __reduce_max_sync(all, v * 7 % 64);
  v += __shfl_xor_sync(all, v, 7) - __shfl_sync(~0u, v, 9);
  v = v * 31 + __popc(__ballot_sync(all, v & 1)) + int(__shfl_down_sync(~0u, (long long)v << 20, 5) >> 20);
  out[blockIdx.x * 128 + t] = v;
}
KERNEL left(int* out) {
  BEGIN;
  for (int i = 0; i < t; ++i) { out[t] = i; __syncthreads(); }
}
template <typename K> void same(char const* name, K first, K second, dim3 block) {
  int *a, *b; cudaMallocManaged(&a, 2048); cudaMallocManaged(&b, 2048);
  cudaMemset(a, 0, 2048); cudaMemset(b, 0, 2048);
  first<<<4, block>>>(Numbers{3, {1, 2, 3, 4}}, a); second<<<4, block>>>(Numbers{3, {1, 2, 3, 4}}, b);
  cudaDeviceSynchronize(); int sum = 0; for (int i = 0; i < 512; ++i) sum += a[i] != 0;
  printf("%s %s %d %s\\n", name, memcmp(a, b, 2048) ? "differs" : "same", sum > 400, cudaGetErrorName(cudaGetLastError()));
}
#define SAME(kernel, ...) same(#kernel, kernel<0>, kernel<1>, __VA_ARGS__); same(#kernel, kernel<0>, kernel<2>, __VA_ARGS__)
int main() {
  SAME(reduce, 128);
  SAME(nested, dim3(8, 4, 4));
  SAME(counters, dim3(64, 2));
  SAME(votes, dim3(4, 32));
  SAME(lanes, dim3(128)); SAME(lanes, dim3(8, 16));
  SAME(tree, 128); SAME(turns, dim3(16, 4, 2));
  int* p; cudaMallocManaged(&p, 1024);
  left<0><<<1, 3>>>(p);
  printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""
# Virtual functions and pointers to functions, of which some wait; and what the program prints of each launch.
INDIRECT = """#include <cstdio>
struct Step { __device__ virtual ~Step() {} __device__ virtual int run(int* s, int v) = 0; };
struct Turn : Step { __device__ int run(int* s, int v) override { s[threadIdx.x] = v; __syncthreads(); return s[blockDim.x - 1 - threadIdx.x]; } };
struct Sum : Step { __device__ int run(int* s, int v) override { for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o); return v; } };
struct Add : Step { __device__ int run(int* s, int v) override { return v + threadIdx.x; } };
__global__ void virtually(int* out, int which) {
  __shared__ int s[64]; Turn turn; Sum sum; Step *all[] = {&turn, &sum, new Add};
  out[threadIdx.x] = all[which]->run(s, threadIdx.x);
  delete all[2];
}
__device__ int turned(int* s, int v) { Turn turn; return turn.run(s, v); }
__device__ int twice(int* s, int v) { return v * 2; }
using function = int (*)(int*, int);
__device__ function table[] = {turned, twice};
__global__ void by_table(int* out, int which) { __shared__ int s[64]; out[threadIdx.x] = table[which](s, threadIdx.x); }
__global__ void by_argument(int* out, function f) { __shared__ int s[64]; out[threadIdx.x] = f(s, threadIdx.x); }
int main() {
  int* p; cudaMallocManaged(&p, 256); function f[2]; cudaMemcpyFromSymbol(f, table, sizeof f);
  auto said = [&] { printf("%s %d %d\\n", cudaGetErrorName(cudaDeviceSynchronize()), p[0], p[37]); };
  for (int i = 0; i < 3; ++i) { virtually<<<1, 64>>>(p, i); said(); }
  for (int i = 0; i < 2; ++i) { by_table<<<1, 64>>>(p, i); said(); by_argument<<<1, 64>>>(p, f[i]); said(); }
}
"""
INDIRECTLY = ["63 26", "496 1520", "0 74", "63 26", "63 26", "0 74", "0 74"]
# Objects with copy constructors: kernels get them as bytes, and may change them.
OBJECTS = """#include <cstdio>
#include <cuda_runtime.h>
struct View { float* p; int n, left; View(float* p, int n) : p(p), n(n), left(1) {}
  __host__ __device__ View(View const& o) : p(o.p), n(o.n), left(o.left) {} __host__ __device__ ~View() {} };
struct alignas(32) Wide { float4 v[3]; __host__ __device__ Wide() {}
  __host__ __device__ Wide(Wide const& o) { for (int i = 0; i < 3; i++) v[i] = o.v[i]; } };
__global__ void add(View v, Wide w, View u) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; v.p += i; v.left -= 1;
  if (i < v.n) *v.p += u.p[i] + w.v[1].y + v.left;
  w.v[1].y = 100;
}
__global__ void sum(View v, Wide w) {
  __shared__ float s[128]; int i = threadIdx.x; v.left += i; s[i] = i; __syncthreads();
  w.v[2].x += s[127 - i]; __syncthreads();
  if (i < v.n) v.p[i] += w.v[2].x + v.left;
}
int n = 1000; float *a, *b;
void right(float times, float more, int count) {
  cudaError_t e = cudaDeviceSynchronize(); bool ok = !e;
  for (int i = 0; i < count; i++) ok &= a[i] == times * i + more;
  if (count) puts(ok ? "PASSED" : "FAILED");
  for (int i = 0; i < n; i++) a[i] = i, b[i] = 2 * i;
}
int main() {
  cudaMallocManaged(&a, n * 4); cudaMallocManaged(&b, n * 4); right(0, 0, 0);
  View v(a, n), u(b, n); Wide w; w.v[1].y = 5; w.v[2].x = 0;
  add<<<8, 128>>>(v, w, u); right(3, 5, n);
  void* args[] = {&v, &w, &u}; cudaLaunchKernel((void const*)add, dim3(8), dim3(128), args, 0, nullptr); right(3, 5, n);
  cudaLaunchConfig_t c{}; c.gridDim = 8; c.blockDim = 128; cudaLaunchKernelEx(&c, add, v, w, u); right(3, 5, n);
  cudaLaunchKernelExC(&c, (void const*)add, args); right(3, 5, n);
  void (*k)(View, Wide, View) = add; k<<<8, 128>>>(v, w, u); right(3, 5, n);
  cudaStream_t s; cudaStreamCreate(&s); cudaGraph_t g; cudaGraphExec_t e;
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  { View x(v), y(u); Wide z(w); add<<<8, 128, 0, s>>>(x, z, y); x.p = nullptr; }
  cudaStreamEndCapture(s, &g); cudaGraphInstantiate(&e, g, 0); cudaGraphLaunch(e, s); right(3, 5, n);
  sum<<<1, 128>>>(v, w); cudaDeviceSynchronize(); bool ok = true;
  for (int i = 0; i < 128; i++) ok &= a[i] == 2 * i + 127 - i + 1;
  puts(ok ? "PASSED" : "FAILED");
}
"""

// Measures SIMT kernels of well-known forms beside plain loops of the host that compute the same: the least processor
// time of several runs, in ms, and their ratio. Words after the program's name are those kernels' names that are to run.
//
//     TILEWRIGHT_NUM_THREADS=1 tilewright run benchmarks/simt_blocks.cu
#include <cmath>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <cuda_runtime.h>
namespace cg = cooperative_groups;

#define BLOCK 256
constexpr int count = 1 << 24, side = 4096, matrix = 512, columns = 1024, rows = count / columns;

// Without barriers: the number of a thread with a constant width of blocks, or a stride of the grid.
__global__ void fill(float* out, float v, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) out[i] = v;
}
__global__ void axpy(float* y, float const* x, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i] + y[i];
}
__global__ void axpy_stride(float* y, float const* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = 2.0f * x[i] + y[i];
}
__global__ void product(float* c, float const* a, float const* b, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || column >= n) return;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}
template <int T>
__global__ void product_tiled(float* c, float const* a, float const* b, int n) {
    __shared__ float left[T][T], right[T][T];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, column = blockIdx.x * T + x;
    float sum = 0;
    for (int k = 0; k < n; k += T) {
        left[y][x] = a[row * n + k + x];
        right[y][x] = b[(k + y) * n + column];
        __syncthreads();
        for (int l = 0; l < T; ++l) sum += left[y][l] * right[l][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
template <int Padding>
__global__ void transpose(float* out, float const* in, int n) {
    __shared__ float tile[32][32 + Padding];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

// Sums of blocks, as the steps of a well-known lesson have them.
__global__ void sum_modulo(float* out, float const* in) {
    extern __shared__ float part[];
    unsigned t = threadIdx.x;
    part[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
        if (t % (2 * s) == 0) part[t] += part[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
__global__ void sum_strided(float* out, float const* in) {
    extern __shared__ float part[];
    unsigned t = threadIdx.x;
    part[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
        unsigned at = 2 * s * t;
        if (at < blockDim.x) part[at] += part[at + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
__global__ void sum_halves(float* out, float const* in) {
    extern __shared__ float part[];
    unsigned t = threadIdx.x;
    part[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s) part[t] += part[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
template <int Size>
__global__ void sum_unrolled(float* out, float const* in) {
    __shared__ float part[Size];
    unsigned t = threadIdx.x;
    float mine = in[blockIdx.x * Size + t];
    part[t] = mine;
    __syncthreads();
    if (Size >= 512 && t < 256) part[t] = mine = mine + part[t + 256];
    __syncthreads();
    if (Size >= 256 && t < 128) part[t] = mine = mine + part[t + 128];
    __syncthreads();
    if (Size >= 128 && t < 64) part[t] = mine = mine + part[t + 64];
    __syncthreads();
    if (t < 32) {
        if (Size >= 64) mine += part[t + 32];
        for (int d = 16; d > 0; d /= 2) mine += __shfl_down_sync(0xffffffffu, mine, d);
    }
    if (t == 0) out[blockIdx.x] = mine;
}
__global__ void sum_volatile(float* out, float const* in) {
    __shared__ float part[BLOCK];
    unsigned t = threadIdx.x;
    part[t] = in[blockIdx.x * BLOCK + t];
    __syncthreads();
    for (unsigned s = BLOCK / 2; s > 32; s >>= 1) {
        if (t < s) part[t] += part[t + s];
        __syncthreads();
    }
    if (t < 32) {
        volatile float* last = part;
        last[t] += last[t + 32];
        last[t] += last[t + 16];
        last[t] += last[t + 8];
        last[t] += last[t + 4];
        last[t] += last[t + 2];
        last[t] += last[t + 1];
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
__global__ void sum_stride(float* out, float const* in, int n) {  // few blocks, each thread has many numbers
    extern __shared__ float part[];
    float mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) mine += in[i];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
__device__ float warp_sum(float v) {
    for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
    return v;
}
__device__ float warp_sum_all(float v) {
    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}
__device__ float block_sum(float v) {
    __shared__ float part[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    v = warp_sum(v);
    if (lane == 0) part[warp] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? part[lane] : 0;
    if (warp == 0) v = warp_sum(v);
    return v;
}
__global__ void sum_warps(float* out, float const* in) {
    float v = warp_sum(in[blockIdx.x * blockDim.x + threadIdx.x]);
    if (threadIdx.x % 32 == 0) atomicAdd(out + blockIdx.x, v);
}
__global__ void sum_shuffles(float* out, float const* in) {
    float v = block_sum(in[blockIdx.x * blockDim.x + threadIdx.x]);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}
__global__ void sum_atomic(float* out, float const* in, int n) {
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) v += in[i];
    v = block_sum(v);
    if (threadIdx.x == 0) atomicAdd(out, v);
}
__global__ void sum_group(float* out, float const* in) {
    __shared__ float part[32];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    float v = cg::reduce(warp, in[blockIdx.x * blockDim.x + block.thread_rank()], cg::plus<float>());
    if (warp.thread_rank() == 0) part[warp.meta_group_rank()] = v;
    block.sync();
    if (block.thread_rank() == 0) {
        float all = 0;
        for (int i = 0; i < warp.meta_group_size(); ++i) all += part[i];
        out[blockIdx.x] = all;
    }
}
__global__ void sum_redux(int* out, int const* in) {
    int v = __reduce_add_sync(0xffffffffu, in[blockIdx.x * blockDim.x + threadIdx.x] & 255);
    if (threadIdx.x % 32 == 0) out[blockIdx.x * blockDim.x / 32 + threadIdx.x / 32] = v;
}
__global__ void count_votes(int* out, int const* in) {
    unsigned set = __ballot_sync(0xffffffffu, in[blockIdx.x * blockDim.x + threadIdx.x] & 1);
    if (threadIdx.x % 32 == 0) out[blockIdx.x * blockDim.x / 32 + threadIdx.x / 32] = __popc(set);
}

// Prefix sums of blocks.
__global__ void scan_double(float* out, float const* in) {
    extern __shared__ float part[];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    float *a = part, *b = part + blockDim.x;
    a[t] = in[i];
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        b[t] = t >= d ? a[t] + a[t - d] : a[t];
        __syncthreads();
        float* c = a;
        a = b;
        b = c;
    }
    out[i] = a[t];
}
__global__ void scan_in_place(float* out, float const* in) {
    __shared__ float part[BLOCK];
    int t = threadIdx.x, i = blockIdx.x * BLOCK + t;
    part[t] = in[i];
    for (int d = 1; d < BLOCK; d *= 2) {
        __syncthreads();
        float v = t >= d ? part[t - d] : 0;
        __syncthreads();
        part[t] += v;
    }
    out[i] = part[t];
}
__global__ void scan_tree(float* out, float const* in) {  // of two elements a thread, exclusive, and itself
    extern __shared__ float part[];
    int t = threadIdx.x, m = 2 * blockDim.x, base = blockIdx.x * m, offset = 1;
    part[2 * t] = in[base + 2 * t];
    part[2 * t + 1] = in[base + 2 * t + 1];
    for (int d = m >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) {
            int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
            part[b] += part[a];
        }
        offset *= 2;
    }
    if (t == 0) part[m - 1] = 0;
    for (int d = 1; d < m; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
            float v = part[a];
            part[a] = part[b];
            part[b] += v;
        }
    }
    __syncthreads();
    out[base + 2 * t] = part[2 * t] + in[base + 2 * t];
    out[base + 2 * t + 1] = part[2 * t + 1] + in[base + 2 * t + 1];
}
__global__ void scan_shuffles(float* out, float const* in) {
    __shared__ float part[32];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5, i = blockIdx.x * blockDim.x + t;
    float v = in[i];
    for (int d = 1; d < 32; d *= 2) {
        float u = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d) v += u;
    }
    if (lane == 31) part[warp] = v;
    __syncthreads();
    if (warp == 0) {
        float u = lane < blockDim.x / 32 ? part[lane] : 0;
        for (int d = 1; d < 32; d *= 2) {
            float w = __shfl_up_sync(0xffffffffu, u, d);
            if (lane >= d) u += w;
        }
        part[lane] = u;
    }
    __syncthreads();
    out[i] = v + (warp ? part[warp - 1] : 0);
}

// What networks do with rows, a block each, and other things that blocks share.
__global__ void softmax(float* out, float const* in, int n) {
    __shared__ float part[32];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    float const* row = in + blockIdx.x * n;
    float most = -INFINITY, sum = 0;
    for (int i = t; i < n; i += blockDim.x) most = fmaxf(most, row[i]);
    for (int d = 16; d > 0; d >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, d));
    if (lane == 0) part[warp] = most;
    __syncthreads();
    most = part[0];
    for (int i = 1; i < blockDim.x / 32; ++i) most = fmaxf(most, part[i]);
    __syncthreads();
    for (int i = t; i < n; i += blockDim.x) sum += expf(row[i] - most);
    sum = warp_sum_all(sum);
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < blockDim.x / 32; ++i) sum += part[i];
    for (int i = t; i < n; i += blockDim.x) out[blockIdx.x * n + i] = expf(row[i] - most) / sum;
}
__global__ void layer_norm(float* out, float const* in, int n) {
    __shared__ float mean, scale;
    float const* row = in + blockIdx.x * n;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += row[i], squares += row[i] * row[i];
    sum = block_sum(sum);
    __syncthreads();
    squares = block_sum(squares);
    if (threadIdx.x == 0) {
        mean = sum / n;
        scale = rsqrtf(squares / n - mean * mean + 1e-5f);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = (row[i] - mean) * scale;
}
__global__ void stencil(float* out, float const* in, int n) {
    __shared__ float part[BLOCK + 8];
    int t = threadIdx.x, i = blockIdx.x * BLOCK + t;
    part[t + 4] = in[i];
    if (t < 4) {
        part[t] = i >= 4 ? in[i - 4] : 0;
        part[t + BLOCK + 4] = i + BLOCK < n ? in[i + BLOCK] : 0;
    }
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 9; ++k) sum += part[t + k];
    out[i] = sum;
}
__global__ void stencil_plane(float* out, float const* in, int n) {
    __shared__ float part[18][18];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y, a = threadIdx.x + 1, b = threadIdx.y + 1;
    part[b][a] = in[y * n + x];
    if (threadIdx.x == 0) part[b][0] = x > 0 ? in[y * n + x - 1] : 0;
    if (threadIdx.x == 15) part[b][17] = x < n - 1 ? in[y * n + x + 1] : 0;
    if (threadIdx.y == 0) part[0][a] = y > 0 ? in[(y - 1) * n + x] : 0;
    if (threadIdx.y == 15) part[17][a] = y < n - 1 ? in[(y + 1) * n + x] : 0;
    __syncthreads();
    out[y * n + x] = part[b][a - 1] + part[b][a + 1] + part[b - 1][a] + part[b + 1][a] - 4 * part[b][a];
}
__global__ void histogram(int* out, int const* in, int n) {
    __shared__ int part[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) part[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&part[in[i] & 255], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&out[i], part[i]);
}

// The loops.
static float total(float const* in, int n) {
    float parts[64] = {};
    for (int i = 0; i < n; i += 64)
        for (int j = 0; j < 64; ++j) parts[j] += in[i + j];
    for (int d = 32; d > 0; d /= 2)
        for (int j = 0; j < d; ++j) parts[j] += parts[j + d];
    return parts[0];
}
static void sums_of(float* out, float const* in, int block) {
    for (int b = 0; b < count / block; ++b) {
        float parts[32];
        memcpy(parts, in + b * block, sizeof parts);
        for (int i = 32; i < block; i += 32)
            for (int j = 0; j < 32; ++j) parts[j] += in[b * block + i + j];
        for (int d = 16; d > 0; d /= 2)
            for (int j = 0; j < d; ++j) parts[j] += parts[j + d];
        out[b] = parts[0];
    }
}
static void scans_of(float* out, float const* in, int block) {
    for (int b = 0; b < count / block; ++b) {
        float sum = 0;
        for (int i = b * block; i < (b + 1) * block; ++i) out[i] = sum += in[i];
    }
}
static void product_loops(float* __restrict c, float const* a, float const* b, int n) {
    memset(c, 0, n * n * sizeof(float));
    for (int i = 0; i < n; ++i)
        for (int k = 0; k < n; ++k)
            for (int j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
}
static void transpose_loops(float* __restrict out, float const* in, int n) {
    for (int i = 0; i < n; i += 32)
        for (int j = 0; j < n; j += 32)
            for (int x = j; x < j + 32; ++x)
                for (int y = i; y < i + 32; ++y) out[x * n + y] = in[y * n + x];
}
static void softmax_loops(float* __restrict out, float const* in, int n) {
    for (int r = 0; r < rows; ++r) {
        float most = -INFINITY, sum = 0;
        for (int i = 0; i < n; ++i) most = fmaxf(most, in[r * n + i]);
        for (int i = 0; i < n; ++i) sum += out[r * n + i] = expf(in[r * n + i] - most);
        for (int i = 0; i < n; ++i) out[r * n + i] /= sum;
    }
}
static void layer_norm_loops(float* __restrict out, float const* in, int n) {
    for (int r = 0; r < rows; ++r) {
        float sums[32] = {}, squares[32] = {}, sum = 0, square = 0;
        for (int i = 0; i < n; i += 32)
            for (int j = 0; j < 32; ++j) {
                float v = in[r * n + i + j];
                sums[j] += v, squares[j] += v * v;
            }
        for (int j = 0; j < 32; ++j) sum += sums[j], square += squares[j];
        float mean = sum / n, scale = 1 / sqrtf(square / n - mean * mean + 1e-5f);
        for (int i = 0; i < n; ++i) out[r * n + i] = (in[r * n + i] - mean) * scale;
    }
}

static double processor_ms() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}
template <typename F>
static double best(F run) {
    double found = 1e9;
    for (int i = 0; i < 7; ++i) {
        double start = processor_ms();
        run();
        cudaDeviceSynchronize();
        double taken = processor_ms() - start;
        found = taken < found ? taken : found;
    }
    return found;
}
static char** wanted;
static bool right = true;
// Measures a kernel and its loops, and compares `compared` of the numbers that they write.
template <typename K, typename L>
static void beside(char const* name, float* out, float* expected, int compared, K kernel, L loops) {
    bool run = !*wanted;
    for (char** each = wanted; *each; ++each) run |= strstr(name, *each) != nullptr;
    if (!run) return;
    double own = best(kernel), other = best(loops);
    memset(out, 0, compared * sizeof(float)), memset(expected, 0, compared * sizeof(float));
    kernel(), cudaDeviceSynchronize(), loops();
    double error = 0, size = 0;
    for (int i = 0; i < compared; ++i) error += fabs(out[i] - expected[i]), size += fabs(expected[i]);
    bool fine = error <= 1e-5 * size;
    right &= fine;
    printf("%-16s %8.2f  loops %8.2f  %6.2f%s\n", name, own, other, own / other, fine ? "" : "  wrong");
    fflush(stdout);
}

int main(int, char** words) {
    wanted = words + 1;
    float *in, *out, *expected;
    for (float** each : {&in, &out, &expected}) cudaMallocManaged(each, count * sizeof(float));
    for (int i = 0; i < count; ++i) in[i] = float((i * 7 + i / 1000) % 13), out[i] = expected[i] = 0;
    int* numbers = (int*)in;
    auto beside_sums = [&](char const* name, int block, auto kernel) {
        char text[32];
        snprintf(text, sizeof text, "%s %d", name, block);
        beside(text, out, expected, count / block, kernel, [&] { sums_of(expected, in, block); });
    };
    beside("fill", out, expected, count, [&] { fill<<<count / BLOCK, BLOCK>>>(out, 2, count); },
           [&] { for (int i = 0; i < count; ++i) expected[i] = 2; });
    beside("axpy", out, expected, count, [&] { axpy<<<count / BLOCK, BLOCK>>>(out, in, count); },
           [&] { for (int i = 0; i < count; ++i) expected[i] = 2.0f * in[i] + expected[i]; });
    beside("axpy stride", out, expected, count, [&] { axpy_stride<<<1024, BLOCK>>>(out, in, count); },
           [&] { for (int i = 0; i < count; ++i) expected[i] = 2.0f * in[i] + expected[i]; });
    auto const squares = [&] { product_loops(expected, in, in + matrix * matrix, matrix); };
    beside("product", out, expected, matrix * matrix,
           [&] { product<<<dim3(matrix / 16, matrix / 16), dim3(16, 16)>>>(out, in, in + matrix * matrix, matrix); }, squares);
    beside("product tiled 16", out, expected, matrix * matrix,
           [&] { product_tiled<16><<<dim3(matrix / 16, matrix / 16), dim3(16, 16)>>>(out, in, in + matrix * matrix, matrix); }, squares);
    beside("product tiled 32", out, expected, matrix * matrix,
           [&] { product_tiled<32><<<dim3(matrix / 32, matrix / 32), dim3(32, 32)>>>(out, in, in + matrix * matrix, matrix); }, squares);
    beside("transpose", out, expected, count, [&] { transpose<0><<<dim3(side / 32, side / 32), dim3(32, 8)>>>(out, in, side); },
           [&] { transpose_loops(expected, in, side); });
    beside("transpose padded", out, expected, count, [&] { transpose<1><<<dim3(side / 32, side / 32), dim3(32, 8)>>>(out, in, side); },
           [&] { transpose_loops(expected, in, side); });
    for (int b : {32, 64, 128, 256, 512, 1024}) {
        int const blocks = count / b, bytes = b * 4;
        if (b == 256 || b == 1024) {
            beside_sums("sum modulo", b, [&] { sum_modulo<<<blocks, b, bytes>>>(out, in); });
            beside_sums("sum strided", b, [&] { sum_strided<<<blocks, b, bytes>>>(out, in); });
        }
        beside_sums("sum halves", b, [&] { sum_halves<<<blocks, b, bytes>>>(out, in); });
        beside_sums("sum shuffles", b, [&] { sum_shuffles<<<blocks, b>>>(out, in); });
        beside_sums("sum group", b, [&] { sum_group<<<blocks, b>>>(out, in); });
    }
    beside_sums("sum unrolled", 128, [&] { sum_unrolled<128><<<count / 128, 128>>>(out, in); });
    beside_sums("sum unrolled", 512, [&] { sum_unrolled<512><<<count / 512, 512>>>(out, in); });
    beside_sums("sum volatile", BLOCK, [&] { sum_volatile<<<count / BLOCK, BLOCK>>>(out, in); });
    beside_sums("sum warps", BLOCK, [&] {
        memset(out, 0, count / BLOCK * 4);
        sum_warps<<<count / BLOCK, BLOCK>>>(out, in);
    });
    auto const all = [&] { *expected = total(in, count); };
    beside("sum stride", out, expected, 1, [&] { *out = 0; sum_stride<<<64, BLOCK, BLOCK * 4>>>(out, in, count); }, all);
    beside("sum atomic", out, expected, 1, [&] { *out = 0; sum_atomic<<<64, BLOCK>>>(out, in, count); }, all);
    beside("sum redux", out, expected, count / 32, [&] { sum_redux<<<count / BLOCK, BLOCK>>>((int*)out, numbers); }, [&] {
        for (int i = 0; i < count / 32; ++i) {
            int sum = 0;
            for (int j = 0; j < 32; ++j) sum += numbers[i * 32 + j] & 255;
            ((int*)expected)[i] = sum;
        }
    });
    beside("votes", out, expected, count / 32, [&] { count_votes<<<count / BLOCK, BLOCK>>>((int*)out, numbers); }, [&] {
        for (int i = 0; i < count / 32; ++i) {
            int sum = 0;
            for (int j = 0; j < 32; ++j) sum += numbers[i * 32 + j] & 1;
            ((int*)expected)[i] = sum;
        }
    });
    for (int b : {64, 256, 1024}) {
        int const blocks = count / b, bytes = b * 8;
        auto const scans = [&](char const* name, int size, auto kernel) {
            char text[32];
            snprintf(text, sizeof text, "%s %d", name, size);
            beside(text, out, expected, count, kernel, [&] { scans_of(expected, in, size); });
        };
        scans("scan double", b, [&] { scan_double<<<blocks, b, bytes>>>(out, in); });
        if (b == BLOCK) scans("scan in place", b, [&] { scan_in_place<<<blocks, b>>>(out, in); });
        if (b < 1024) scans("scan tree", 2 * b, [&] { scan_tree<<<blocks / 2, b, bytes>>>(out, in); });
        scans("scan shuffles", b, [&] { scan_shuffles<<<blocks, b>>>(out, in); });
    }
    beside("softmax", out, expected, count, [&] { softmax<<<rows, BLOCK>>>(out, in, columns); }, [&] { softmax_loops(expected, in, columns); });
    beside("layer norm", out, expected, count, [&] { layer_norm<<<rows, BLOCK>>>(out, in, columns); }, [&] { layer_norm_loops(expected, in, columns); });
    beside("stencil", out, expected, count, [&] { stencil<<<count / BLOCK, BLOCK>>>(out, in, count); }, [&] {
        for (int i = 0; i < count; ++i) {
            float sum = 0;
            if (i >= 4 && i < count - 4) for (int k = -4; k <= 4; ++k) sum += in[i + k];
            else for (int k = -4; k <= 4; ++k) sum += i + k >= 0 && i + k < count ? in[i + k] : 0;
            expected[i] = sum;
        }
    });
    beside("stencil plane", out, expected, count, [&] { stencil_plane<<<dim3(side / 16, side / 16), dim3(16, 16)>>>(out, in, side); }, [&] {
        for (int y = 0; y < side; ++y)
            for (int x = 0; x < side; ++x) {
                float const* p = in + y * side + x;
                expected[y * side + x] = (x > 0 ? p[-1] : 0) + (x < side - 1 ? p[1] : 0) + (y > 0 ? p[-side] : 0) + (y < side - 1 ? p[side] : 0) - 4 * *p;
            }
    });
    int *found = (int*)out, *known = (int*)expected;
    beside("histogram", out, expected, 256, [&] { memset(found, 0, 1024); histogram<<<64, BLOCK>>>(found, numbers, count); }, [&] {
        memset(known, 0, 1024);
        for (int i = 0; i < count; ++i) ++known[numbers[i] & 255];
    });
    return !right || cudaGetLastError() != cudaSuccess;
}

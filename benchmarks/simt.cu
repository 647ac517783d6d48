// Measures SIMT kernels beside the same loops written for a CPU: the least processor time of ten runs, in ms. Kernels run
// on all cores, so that their wall clock is less.
//
//     tilewright run benchmarks/simt.cu
#include <cstdio>
#include <cstring>
#include <ctime>
#include <cuda_runtime.h>

constexpr int tile = 32, rows = 8, threads = 256, size = 4096, count = size * size;

__global__ void transpose(float* out, float const* in) {
    __shared__ float part[tile][tile + 1];
    int x = blockIdx.x * tile + threadIdx.x, y = blockIdx.y * tile + threadIdx.y;
    for (int j = 0; j < tile; j += rows) part[threadIdx.y + j][threadIdx.x] = in[(y + j) * size + x];
    __syncthreads();
    x = blockIdx.y * tile + threadIdx.x, y = blockIdx.x * tile + threadIdx.y;
    for (int j = 0; j < tile; j += rows) out[(y + j) * size + x] = part[threadIdx.x][threadIdx.y + j];
}
__global__ void reduce(float* out, float const* in) {
    __shared__ float part[threads];
    int t = threadIdx.x;
    part[t] = in[blockIdx.x * threads + t];
    __syncthreads();
    for (int d = threads / 2; d > 0; d /= 2) {
        if (t < d) part[t] += part[t + d];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
__global__ void sum(float* out, float const* in) {
    __shared__ float part[threads];
    float mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) mine += in[i];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int d = threads / 2; d > 0; d /= 2) {
        if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
__global__ void fill(float* out, float value) { out[blockIdx.x * threads + threadIdx.x] = value; }

__global__ void warps(float* out, float const* in) {
    int i = blockIdx.x * threads + threadIdx.x;
    float sum = in[i];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (i % 32 == 0) out[i / 32] = sum;
}

__device__ float warp_sum(float sum) {
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    return sum;
}
__global__ void shuffles(float* out, float const* in) {
    __shared__ float part[threads / 32];
    int t = threadIdx.x;
    float sum = warp_sum(in[blockIdx.x * threads + t]);
    if (t % 32 == 0) part[t / 32] = sum;
    __syncthreads();
    if (t >= 32) return;
    sum = warp_sum(t < threads / 32 ? part[t] : 0.0f);
    if (t == 0) out[blockIdx.x] = sum;
}
__global__ void unrolled(float* out, float const* in) {  // the lanes of the last warp in step, as on older GPUs
    __shared__ float part[threads];
    int t = threadIdx.x;
    part[t] = in[blockIdx.x * threads + t];
    __syncthreads();
    for (int d = threads / 2; d > 32; d /= 2) {
        if (t < d) part[t] += part[t + d];
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
__global__ void atomics(float* out, float const* in) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, in[blockIdx.x * threads + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

static void transpose_loops(float* out, float const* in) {
    for (int i = 0; i < size; i += tile)
        for (int j = 0; j < size; j += tile)
            for (int y = i; y < i + tile; ++y)
                for (int x = j; x < j + tile; ++x) out[x * size + y] = in[y * size + x];
}
static void reduce_loops(float* out, float const* in) {
    for (int block = 0; block < count / threads; ++block) {
        float part[threads];
        memcpy(part, in + block * threads, sizeof part);
        for (int d = threads / 2; d > 0; d /= 2)
            for (int t = 0; t < d; ++t) part[t] += part[t + d];
        out[block] = part[0];
    }
}

static void atomics_loops(float* out, float const* in) {
    for (int block = 0; block < count / threads; ++block) {
        float sum = 0;
        for (int t = 0; t < threads; ++t) sum += in[block * threads + t];
        out[block] = sum;
    }
}

static void warp_loops(float* out, float const* in) {
    for (int i = 0; i < count; i += 32) {
        float sum = 0;
        for (int j = i; j < i + 32; ++j) sum += in[j];
        out[i / 32] = sum;
    }
}

static void sum_loops(float* out, float const* in) {
    float part[threads] = {};
    for (int i = 0; i < count; i += threads)
        for (int j = 0; j < threads; ++j) part[j] += in[i + j];
    for (int d = threads / 2; d > 0; d /= 2)
        for (int t = 0; t < d; ++t) part[t] += part[t + d];
    out[0] = part[0];
}

static double processor_ms() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}
template <typename F>
static double best(F run) {
    double found = 1e9;
    for (int i = 0; i < 10; ++i) {
        double start = processor_ms();
        run();
        double taken = processor_ms() - start;
        found = taken < found ? taken : found;
    }
    return found;
}

int main() {
    float *in, *out, *expected;
    for (float** each : {&in, &out, &expected}) cudaMallocManaged(each, count * sizeof(float));
    for (int i = 0; i < count; ++i) in[i] = float(i % 17);
    bool right = true;
    double kernel = best([&] { transpose<<<dim3(size / tile, size / tile), dim3(tile, rows)>>>(out, in); });
    double loops = best([&] { transpose_loops(expected, in); });
    right &= memcmp(out, expected, count * sizeof(float)) == 0;
    printf("transpose  %8.2f  loops  %8.2f\n", kernel, loops);
    kernel = best([&] { reduce<<<count / threads, threads>>>(out, in); });
    loops = best([&] { reduce_loops(expected, in); });
    right &= memcmp(out, expected, count / threads * sizeof(float)) == 0;
    printf("reduce     %8.2f  loops  %8.2f\n", kernel, loops);
    struct {
        char const* name;
        void (*kernel)(float*, float const*);
        void (*loops)(float*, float const*);
    } const others[] = {{"shuffles", shuffles, reduce_loops}, {"unrolled", unrolled, reduce_loops}, {"atomics", atomics, atomics_loops}};
    for (auto const& each : others) {
        kernel = best([&] { each.kernel<<<count / threads, threads>>>(out, in); });
        loops = best([&] { each.loops(expected, in); });
        right &= memcmp(out, expected, count / threads * sizeof(float)) == 0;
        printf("%-10s %8.2f  loops  %8.2f\n", each.name, kernel, loops);
    }
    kernel = best([&] { sum<<<64, threads>>>(out, in); });
    loops = best([&] { sum_loops(expected, in); });
    float all = 0;
    for (int i = 0; i < 64; ++i) all += out[i];
    right &= all > 0.999f * expected[0] && all < 1.001f * expected[0];  // in another order
    printf("sum        %8.2f  loops  %8.2f\n", kernel, loops);
    kernel = best([&] { warps<<<count / threads, threads>>>(out, in); });
    loops = best([&] { warp_loops(expected, in); });
    right &= memcmp(out, expected, count / 32 * sizeof(float)) == 0;
    printf("warps      %8.2f  loops  %8.2f\n", kernel, loops);
    constexpr int wide = 100000000 / threads * threads;
    float* large;
    cudaMallocManaged(&large, wide * sizeof(float));
    kernel = best([&] { fill<<<wide / threads, threads>>>(large, 1); });
    loops = best([&] { memset(large, 1, wide * sizeof(float)); });
    printf("fill       %8.2f  memset %8.2f\n", kernel, loops);
    if (!right) printf("wrong results\n");
    return !right || cudaGetLastError() != cudaSuccess;
}

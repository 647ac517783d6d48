// A tile kernel in C++ and the host code that launches it:
//   tilewright run examples/scale.cu 1000 2.5
#include <cstdio>
#include <cstdlib>

#include "cuda_tile.h"

namespace ct = cuda::tiles;
using namespace ct::literals;

template <typename T, int N>
__tile_global__ void scale(T* values, T factor, int count) {
    auto places = int(ct::bid().x) * N + ct::iota<ct::tile<int, ct::shape<N>>>();
    auto inside = places < count;
    ct::store_masked(values + places, factor * ct::load_masked(values + places, inside), inside);
}

static void check(cudaError_t error, char const* what) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}

int main(int argc, char** argv) {
    int const count = argc > 1 ? std::atoi(argv[1]) : 1000;
    float const factor = argc > 2 ? float(std::atof(argv[2])) : 2.0f;
    size_t const size = count * sizeof(float);
    float* host = static_cast<float*>(std::malloc(size));
    for (int i = 0; i < count; ++i) host[i] = float(i);

    float* device;
    check(cudaMalloc(&device, size), "cudaMalloc");
    check(cudaMemcpy(device, host, size, cudaMemcpyHostToDevice), "cudaMemcpy");
    scale<float, 128><<<(count + 127) / 128, 1>>>(device, factor, count);
    check(cudaGetLastError(), "launch");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaMemcpy(host, device, size, cudaMemcpyDeviceToHost), "cudaMemcpy");
    check(cudaFree(device), "cudaFree");

    int wrong = 0;
    for (int i = 0; i < count; ++i) wrong += host[i] != float(i) * factor;
    std::printf("scaled %d numbers by %g: %d are wrong\n", count, factor, wrong);
    std::free(host);
    return wrong != 0;
}

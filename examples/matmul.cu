// A matrix product in C++, over views that are cut into tiles:
//   tilewright run examples/matmul.cu 200 150 300
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "cuda_tile.h"

namespace ct = cuda::tiles;
using namespace ct::literals;

template <int TM, int TN, int TK>
__tile_global__ void matmul(float const* a, float const* b, float* c, int m, int n, int k) {
    auto A = ct::partition_view{ct::tensor_span{a, ct::extents{m, k}}, ct::shape<TM, TK>{}};
    auto B = ct::partition_view{ct::tensor_span{b, ct::extents{k, n}}, ct::shape<TK, TN>{}};
    auto C = ct::partition_view{ct::tensor_span{c, ct::extents{m, n}}, ct::shape<TM, TN>{}};
    int row = ct::bid().x, column = ct::bid().y;
    auto sum = ct::zeros<ct::tile<float, ct::shape<TM, TN>>>();
    for (int i = 0; i < (k + TK - 1) / TK; ++i)
        sum = ct::mma(A.load_masked(row, i), B.load_masked(i, column), sum);
    C.store_masked(sum, row, column);
}

int main(int argc, char** argv) {
    int const m = argc > 1 ? std::atoi(argv[1]) : 100, n = argc > 2 ? std::atoi(argv[2]) : 70;
    int const k = argc > 3 ? std::atoi(argv[3]) : 50;
    float *a, *b, *c;  // managed memory: the host reads and writes it too
    if (cudaMallocManaged(&a, sizeof(float) * m * k) || cudaMallocManaged(&b, sizeof(float) * k * n) ||
        cudaMallocManaged(&c, sizeof(float) * m * n)) {
        std::printf("no memory for these matrices\n");
        return 1;
    }
    for (int i = 0; i < m * k; ++i) a[i] = float(i % 7 - 3);
    for (int i = 0; i < k * n; ++i) b[i] = float(i % 5 - 2);

    matmul<32, 32, 32><<<dim3((m + 31) / 32, (n + 31) / 32), 1>>>(a, b, c, m, n, k);
    cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) {
        std::printf("%s\n", cudaGetErrorString(error));
        return 1;
    }
    int wrong = 0;
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            float sum = 0;
            for (int l = 0; l < k; ++l) sum += a[i * k + l] * b[l * n + j];
            wrong += sum != c[i * n + j];
        }
    std::printf("%d x %d x %d: %d are wrong\n", m, n, k, wrong);
    return wrong != 0;
}

// Kernels of gpu_kernels.py in C++, op by op, for compilers of Tile C++: see cpp_gpu.py.
#include "cuda_tile.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace ct = cuda::tiles;
using namespace ct::literals;

template <typename T, int N>
__tile_global__ void softmax(T const* __restrict__ x, T* __restrict__ out, int rows, int length) {
    x = ct::assume_aligned(x, 16_ic);
    out = ct::assume_aligned(out, 16_ic);
    length = ct::assume_divisible(length, 16_ic);
    auto X = ct::partition_view{ct::tensor_span{x, ct::extents{rows, length}}, ct::shape<1, N>{}};
    auto O = ct::partition_view{ct::tensor_span{out, ct::extents{rows, length}}, ct::shape<1, N>{}};
    for (auto row : ct::irange(int(ct::bid().x), rows, int(ct::num_blocks().x))) {
        auto loaded = X.load_masked(ct::view_padding_negative_inf_t{}, row, 0);
        auto values = ct::element_cast<float>(loaded) * 1.44269504f;
        values = ct::exp2(values - ct::reduce_max(values, 1_ic), ct::round_subnormals_to_zero_t{});
        O.store_masked(ct::element_cast<T>(values * (1.0f / ct::sum(values, 1_ic))), row, 0);
    }
}

template <typename T, int TM, int TN, int TK>
__tile_global__ void matmul(T const* __restrict__ a, T const* __restrict__ b, T* __restrict__ c, int m, int n, int k) {
    constexpr int group = 8;
    a = ct::assume_aligned(a, 16_ic);
    b = ct::assume_aligned(b, 16_ic);
    c = ct::assume_aligned(c, 16_ic);
    n = ct::assume_divisible(n, 16_ic);
    k = ct::assume_divisible(k, 16_ic);
    auto A = ct::partition_view{ct::tensor_span{a, ct::extents{m, k}}, ct::shape<TM, TK>{}};
    auto B = ct::partition_view{ct::tensor_span{b, ct::extents{k, n}}, ct::shape<TK, TN>{}};
    auto C = ct::partition_view{ct::tensor_span{c, ct::extents{m, n}}, ct::shape<TM, TN>{}};
    int rows = ct::ceildiv(m, TM), columns = ct::ceildiv(n, TN);
    int block = ct::bid().x, wide = group * columns;
    int first = block / wide * group;
    int height = ct::min(rows - first, group);
    int i = first + block % wide % height, j = block % wide / height;
    auto total = ct::zeros<ct::tile<float, ct::shape<TM, TN>>>();
    for (auto step : ct::irange(0, ct::ceildiv(k, TK)))
        total = ct::mma(A.load_masked(i, step), B.load_masked(step, j), total);
    C.store_masked(ct::element_cast<T>(total), i, j);
}

// `scale` includes log2(e); `length` is a multiple of both tile lengths.
template <typename T, int D, int TQ, int TK>
__tile_global__ void attention(T const* __restrict__ q, T const* __restrict__ k, T const* __restrict__ v,
                               T* __restrict__ out, int heads, int length, float scale) {
    q = ct::assume_aligned(q, 16_ic);
    k = ct::assume_aligned(k, 16_ic);
    v = ct::assume_aligned(v, 16_ic);
    out = ct::assume_aligned(out, 16_ic);
    length = ct::assume_divisible(length, 16_ic);
    auto width = ct::integral_constant<D>{};
    ct::extents shape{heads, length, width};
    auto Q = ct::partition_view{ct::tensor_span{q, shape}, ct::shape<1, TQ, D>{}};
    auto K = ct::partition_view{ct::tensor_span{k, shape}, ct::shape<1, TK, D>{}};
    auto V = ct::partition_view{ct::tensor_span{v, shape}, ct::shape<1, TK, D>{}};
    auto O = ct::partition_view{ct::tensor_span{out, shape}, ct::shape<1, TQ, D>{}};
    int block = ct::bid().x, head = ct::bid().y;
    using Column = ct::tile<float, ct::shape<TQ, 1>>;
    auto queries = ct::reshape(Q.load(head, block, 0), ct::shape<TQ, D>{});
    auto top = ct::full<Column>(-__builtin_inff());
    auto total = ct::zeros<Column>();
    auto result = ct::zeros<ct::tile<float, ct::shape<TQ, D>>>();
    for (auto j : ct::irange(0, length / TK)) {
        auto keys = ct::transpose(ct::reshape(K.load(head, j, 0), ct::shape<TK, D>{}));
        auto scores = ct::mma(queries, keys, ct::zeros<ct::tile<float, ct::shape<TQ, TK>>>());
        auto new_top = ct::max(top, ct::reduce_max(scores, 1_ic) * scale);
        auto weights = ct::exp2(scores * scale - new_top, ct::round_subnormals_to_zero_t{});
        auto correction = ct::exp2(top - new_top, ct::round_subnormals_to_zero_t{});
        total = total * correction + ct::sum(weights, 1_ic);
        auto values = ct::reshape(V.load(head, j, 0), ct::shape<TK, D>{});
        result = ct::mma(ct::element_cast<T>(weights), values, result * correction);
        top = new_top;
    }
    O.store(ct::reshape(ct::element_cast<T>(result / total), ct::shape<1, TQ, D>{}), head, block, 0);
}

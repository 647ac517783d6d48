// The kernel of examples/attention.py in C++, op by op.
#include "cuda_tile.h"

namespace ct = cuda::tiles;
using namespace ct::literals;

template <int D, int TQ, int TK, bool Causal>
__tile_global__ void attend(float const* q, float const* k, float const* v, float* out, int heads, int length,
                            float scale) {
    auto width = ct::integral_constant<D>{};
    auto view = [=](auto* p, auto shape) {
        return ct::partition_view{ct::tensor_span{p, ct::extents{heads, length, width}}, shape};
    };
    auto Q = view(q, ct::shape<1, TQ, D>{});
    // The axes of k in another order: a tile of it is transposed as it is loaded.
    ct::layout_strided_mapping transposed{ct::extents{heads, width, length}, ct::extents{length * D, 1_ic, width}};
    auto K = ct::partition_view{ct::tensor_span{k, transposed}, ct::shape<1, D, TK>{}};
    auto V = view(v, ct::shape<1, TK, D>{});
    auto O = view(out, ct::shape<1, TQ, D>{});
    int block = ct::bid().x, head = ct::bid().y;
    using Column = ct::tile<float, ct::shape<TQ, 1>>;
    using Scores = ct::tile<float, ct::shape<TQ, TK>>;
    auto queries = ct::reshape(Q.load_masked(head, block, 0), ct::shape<TQ, D>{}) * scale;
    auto rows = ct::reshape(block * TQ + ct::iota<ct::tile<int, ct::shape<TQ>>>(), ct::shape<TQ, 1>{});
    auto top = ct::full<Column>(-__builtin_inff());
    auto total = ct::zeros<Column>();
    auto result = ct::zeros<ct::tile<float, ct::shape<TQ, D>>>();
    int last = (length + TK - 1) / TK;
    if constexpr (Causal) last = ct::min(last, ((block + 1) * TQ + TK - 1) / TK);
    for (int j = 0; j < last; ++j) {
        auto keys = ct::reshape(K.load_masked(head, 0, j), ct::shape<D, TK>{});
        auto values = ct::reshape(V.load_masked(head, j, 0), ct::shape<TK, D>{});
        auto scores = ct::mma(queries, keys, ct::zeros<Scores>());
        auto columns = ct::reshape(j * TK + ct::iota<ct::tile<int, ct::shape<TK>>>(), ct::shape<1, TK>{});
        if constexpr (Causal) {
            scores = ct::select((columns < length) & (columns <= rows), scores, ct::full<Scores>(-__builtin_inff()));
        } else {
            scores = ct::select(columns < length, scores, ct::full<Scores>(-__builtin_inff()));
        }
        auto new_top = ct::max(top, ct::reduce_max(scores, 1_ic));
        auto weights = ct::exp(scores - new_top);
        auto correction = ct::exp(top - new_top);
        total = total * correction + ct::sum(weights, 1_ic);
        result = ct::mma(weights, values, result * correction);
        top = new_top;
    }
    O.store_masked(ct::reshape(result / total, ct::shape<1, TQ, D>{}), head, block, 0);
}

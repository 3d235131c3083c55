#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "core/model/layers/attention_head.h"
#include "core/numerics/kernels/narrow_native.h"
#include "core/numerics/kernels/tile_products.h"
#include "core/numerics/threads.h"
#include "core/numerics/row_math.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

// Queries handled at a time, and keys of a block of their scores in the backward pass.
constexpr int kUnitBlock = 64;
static_assert(kUnitBlock % kUnitRows == 0 && kUnitBlock % kUnitDepth == 0);

// Numbers of keys and head dims as products take them: as results, and as contracting dimension.
struct PaddedShape {
  explicit PaddedShape(const HeadShape& shape)
      : keys(to_tiles(shape.length, kUnitBlock)),
        qk(to_tiles(shape.qk(), kUnitRows)),
        qk_depth(to_tiles(shape.qk(), kUnitDepth)),
        value(to_tiles(shape.value, kUnitRows)),
        value_depth(to_tiles(shape.value, kUnitDepth)) {}
  int keys, qk, qk_depth, value, value_depth;
};

// Matrices in one block of memory, each on a cache line of its own. Laid out twice: first without memory, to count it.
class Pieces {
 public:
  explicit Pieces(std::byte* memory) : memory_(memory) {}
  template <class N>
  N* take(int rows, int cols) {
    N* piece = memory_ ? reinterpret_cast<N*>(memory_ + bytes_) : nullptr;
    bytes_ += (size(rows) * size(cols) * sizeof(N) + 63) / 64 * 64;
    return piece;
  }
  // An operand whose padding is never written: zeros.
  Bf16* padded(int rows, int cols) {
    Bf16* piece = take<Bf16>(rows, cols);
    if (piece) std::fill_n(piece, size(rows) * size(cols), Bf16{0});
    return piece;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::size_t bytes_ = 0;
};

template <class Scratch>
Scratch scratch_of(const PaddedShape& padded) {
  Pieces counted(nullptr);
  (void)Scratch(padded, counted);
  Pieces pieces(static_cast<std::byte*>(thread_scratch_bytes(counted.bytes())));
  return Scratch(padded, pieces);
}

// `across`: transposed. Pairs are those of tile_products.h.
struct ForwardScratch {
  ForwardScratch(const PaddedShape& p, Pieces& pieces)
      : key_rows(pieces.padded(p.keys, p.qk_depth)),
        key_pairs_across(pieces.take<Bf16>(p.keys, p.qk_depth)),
        value_pairs(pieces.padded(p.keys, p.value)),
        q_rows(pieces.padded(kUnitBlock, p.qk_depth)),
        probability_rows(pieces.take<Bf16>(kUnitBlock, p.keys)),
        scores(pieces.take<float>(kUnitBlock, p.keys)),
        o(pieces.take<float>(kUnitBlock, p.value)) {}
  Bf16 *key_rows, *key_pairs_across, *value_pairs, *q_rows, *probability_rows;
  float *scores, *o;
};

struct BackwardScratch {
  BackwardScratch(const PaddedShape& p, Pieces& pieces)
      : key_rows(pieces.padded(p.keys, p.qk_depth)),
        key_pairs(pieces.padded(p.keys, p.qk)),
        value_rows(pieces.padded(p.keys, p.value_depth)),
        q_rows(pieces.padded(kUnitBlock, p.qk_depth)),
        q_pairs_across(pieces.take<Bf16>(kUnitBlock, p.qk_depth)),
        q_pairs(pieces.padded(kUnitBlock, p.qk)),
        d_o_rows(pieces.padded(kUnitBlock, p.value_depth)),
        d_o_pairs_across(pieces.take<Bf16>(kUnitBlock, p.value_depth)),
        d_o_pairs(pieces.padded(kUnitBlock, p.value)),
        p_rows(pieces.take<Bf16>(kUnitBlock, kUnitBlock)),
        ds_rows(pieces.take<Bf16>(kUnitBlock, kUnitBlock)),
        ds_pairs(pieces.take<Bf16>(p.keys, kUnitBlock)),
        ds_rows_across(pieces.take<Bf16>(kUnitBlock, p.keys)),
        s(pieces.take<float>(kUnitBlock, kUnitBlock)),
        dp(pieces.take<float>(kUnitBlock, kUnitBlock)),
        dq(pieces.take<float>(kUnitBlock, p.qk)),
        dk(pieces.take<float>(p.keys, p.qk)),
        dv(pieces.take<float>(p.keys, p.value)) {}
  Bf16 *key_rows, *key_pairs, *value_rows;
  Bf16 *q_rows, *q_pairs_across, *q_pairs, *d_o_rows, *d_o_pairs_across, *d_o_pairs;
  Bf16 *p_rows, *ds_rows, *ds_pairs, *ds_rows_across;  // [keys, queries], ds_rows_across [queries, keys]
  float *s, *dp;                                       // [keys of a block, queries]
  float *dq, *dk, *dv;
};

void narrow_rows(HeadRows<const float> in, int width, int first, int rows, Bf16* out, int stride) {
  for (int r = 0; r < rows; ++r) narrow_natively(in.row(first + r), size(width), out + size(r) * size(stride));
}

void narrow_pairs(HeadRows<const float> in, int width, int first, int rows, Bf16* out, int stride) {
  thread_local std::vector<float> nothing;
  nothing.resize(size(width));
  for (int r = 0; r < rows; r += 2)
    narrow_pair_natively(in.row(first + r), r + 1 < rows ? in.row(first + r + 1) : nothing.data(), size(width),
                         out + size(r) * size(stride));
}

// Pairs of the transpose of rows, which are `stride` elements long.
void transpose_to_pairs(const Bf16* in, int rows, int stride, Bf16* out) {
  transpose_words(in, rows, stride / 2, stride / 2, out, rows);
}

void copy_rows(const float* in, int stride, int width, int first, int rows, HeadRows<float> out) {
  for (int r = 0; r < rows; ++r) std::copy_n(in + size(r) * size(stride), width, out.row(first + r));
}

// Fetched while something is computed, so that writing them does not wait for memory. Always inlined, because GCC 12
// leaves out calls of functions that do nothing else.
[[gnu::always_inline]] inline void fetch_rows(HeadRows<float> out, int width, int first, int rows) {
  constexpr int kLine = 64 / sizeof(float);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < width; c += kLine) __builtin_prefetch(out.row(first + r) + c, 1);
}

// A product whose rows are those of a block's queries, the first `width` columns: in place, or through `padded_rows`
// where they do not fill whole tiles.
struct QueryProduct {
  const TileProducts& tiles;
  int first, rows;

  void multiply(int depth, const Bf16* a, int lda, const Bf16* pairs, int padded, int width, float* padded_rows,
                HeadRows<float> out) const {
    if (rows == kUnitBlock && width == padded)
      return tiles.multiply(kUnitBlock, width, depth, a, lda, paired(pairs, width), false, out.row(first), out.stride,
                            1, Results::in_memory);
    tiles.multiply(kUnitBlock, padded, depth, a, lda, paired(pairs, padded), false, padded_rows, padded);
    copy_rows(padded_rows, padded, width, first, rows, out);
  }
};

// Of a block's queries. Those after the end of the sequence have probabilities of 0.
struct QuerySums {
  std::array<float, kUnitBlock> lse, delta{};

  QuerySums(const HeadShape& shape, const HeadGradients<float>& g, int first, int rows) {
    lse.fill(std::numeric_limits<float>::infinity());
    std::copy_n(g.lse + first, rows, lse.begin());
    for (int r = 0; r < rows; ++r) delta[size(r)] = dot(g.o.row(first + r), g.d_o.row(first + r), size(shape.value));
  }
};

// Probabilities and gradients of the scores of a block of keys, of which a query sees those up to its own.
void score_gradients(const BackwardScratch& w, const QuerySums& queries, float scale, int first_key, int first_query) {
  softmax_backward_columns(w.s, w.dp, kUnitBlock, kUnitBlock, scale, queries.lse.data(), queries.delta.data());
  for (int key = std::max(first_query - first_key + 1, 0); key < kUnitBlock; ++key) {
    const int hidden = first_key + key - first_query;
    std::fill_n(w.s + size(key) * kUnitBlock, hidden, 0.0f);
    std::fill_n(w.dp + size(key) * kUnitBlock, hidden, 0.0f);
  }
  narrow_natively(w.s, kUnitBlock * kUnitBlock, w.p_rows);
  narrow_natively(w.dp, kUnitBlock * kUnitBlock, w.ds_rows);
  for (int key = 0; key < kUnitBlock; key += 2) {
    const float* ds = w.dp + size(key) * kUnitBlock;
    narrow_pair_natively(ds, ds + kUnitBlock, kUnitBlock, w.ds_pairs + size(first_key + key) * kUnitBlock);
  }
}

}  // namespace

void head_forward_on_units(const HeadShape& shape, const HeadInputs<float>& in, const HeadOutputs<float>& out) {
  const PaddedShape p(shape);
  const auto w = scratch_of<ForwardScratch>(p);
  const TileProducts tiles;
  narrow_rows(in.k_nope, shape.nope, 0, shape.length, w.key_rows, p.qk_depth);
  narrow_rows(in.k_rope, shape.rope, 0, shape.length, w.key_rows + shape.nope, p.qk_depth);
  transpose_to_pairs(w.key_rows, p.keys, p.qk_depth, w.key_pairs_across);
  narrow_pairs(in.v, shape.value, 0, shape.length, w.value_pairs, p.value);
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.qk()));
  *out.largest = -std::numeric_limits<float>::infinity();
  for (int first = 0; first < shape.length; first += kUnitBlock) {
    const int rows = std::min(kUnitBlock, shape.length - first), visible = first + kUnitBlock;
    narrow_rows(in.q, shape.qk(), first, rows, w.q_rows, p.qk_depth);
    tiles.multiply(kUnitBlock, visible, shape.qk(), w.q_rows, p.qk_depth, paired(w.key_pairs_across, p.keys), false,
                   w.scores, p.keys);
    for (int r = 0; r < rows; ++r) {
      float *s = w.scores + size(r) * size(p.keys), most = 0;
      Bf16* probabilities = w.probability_rows + size(r) * size(p.keys);
      const int count = first + r + 1;
      out.lse[first + r] = softmax_row(s, size(count), scale, s, &most);
      *out.largest = std::max(*out.largest, most);
      narrow_natively(s, size(count), probabilities);
      std::fill(probabilities + count, probabilities + visible, Bf16{0});
    }
    QueryProduct{tiles, first, rows}.multiply(visible, w.probability_rows, p.keys, w.value_pairs, p.value, shape.value,
                                              w.o, out.o);
  }
}

void head_backward_on_units(const HeadShape& shape, const HeadInputs<float>& in, const HeadGradients<float>& g) {
  const PaddedShape p(shape);
  const auto w = scratch_of<BackwardScratch>(p);
  const TileProducts tiles;
  narrow_rows(in.k_nope, shape.nope, 0, shape.length, w.key_rows, p.qk_depth);
  narrow_rows(in.k_rope, shape.rope, 0, shape.length, w.key_rows + shape.nope, p.qk_depth);
  narrow_pairs(in.k_nope, shape.nope, 0, shape.length, w.key_pairs, p.qk);
  narrow_pairs(in.k_rope, shape.rope, 0, shape.length, w.key_pairs + 2 * shape.nope, p.qk);
  narrow_rows(in.v, shape.value, 0, shape.length, w.value_rows, p.value_depth);
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.qk()));
  // The last block sees every key, so it writes dK and dV and the others add to them.
  for (int first = p.keys - kUnitBlock; first >= 0; first -= kUnitBlock) {
    const int rows = std::min(kUnitBlock, shape.length - first), visible = first + kUnitBlock;
    const bool adds = visible < p.keys;
    fetch_rows(g.dk_nope, shape.nope, first, rows);
    fetch_rows(g.dk_rope, shape.rope, first, rows);
    fetch_rows(g.dv, shape.value, first, rows);
    narrow_rows(in.q, shape.qk(), first, rows, w.q_rows, p.qk_depth);
    transpose_to_pairs(w.q_rows, kUnitBlock, p.qk_depth, w.q_pairs_across);
    narrow_pairs(in.q, shape.qk(), first, rows, w.q_pairs, p.qk);
    narrow_rows(g.d_o, shape.value, first, rows, w.d_o_rows, p.value_depth);
    transpose_to_pairs(w.d_o_rows, kUnitBlock, p.value_depth, w.d_o_pairs_across);
    narrow_pairs(g.d_o, shape.value, first, rows, w.d_o_pairs, p.value);
    const QuerySums queries(shape, g, first, rows);
    for (int key = 0; key < visible; key += kUnitBlock) {
      tiles.multiply(kUnitBlock, kUnitBlock, shape.qk(), w.key_rows + size(key) * size(p.qk_depth), p.qk_depth,
                     paired(w.q_pairs_across, kUnitBlock), false, w.s, kUnitBlock);
      tiles.multiply(kUnitBlock, kUnitBlock, shape.value, w.value_rows + size(key) * size(p.value_depth), p.value_depth,
                     paired(w.d_o_pairs_across, kUnitBlock), false, w.dp, kUnitBlock);
      score_gradients(w, queries, scale, key, first);
      tiles.multiply(kUnitBlock, p.value, kUnitBlock, w.p_rows, kUnitBlock, paired(w.d_o_pairs, p.value), adds,
                     w.dv + size(key) * size(p.value), p.value);
      tiles.multiply(kUnitBlock, p.qk, kUnitBlock, w.ds_rows, kUnitBlock, paired(w.q_pairs, p.qk), adds,
                     w.dk + size(key) * size(p.qk), p.qk);
    }
    transpose_words(w.ds_pairs, visible / 2, kUnitBlock, kUnitBlock, w.ds_rows_across, p.keys / 2);
    QueryProduct{tiles, first, rows}.multiply(visible, w.ds_rows_across, p.keys, w.key_pairs, p.qk, shape.qk(), w.dq,
                                              g.dq);
    // No query before these sees the keys of the block.
    const float *dk = w.dk + size(first) * size(p.qk), *dv = w.dv + size(first) * size(p.value);
    copy_rows(dk, p.qk, shape.nope, first, rows, g.dk_nope);
    copy_rows(dk + shape.nope, p.qk, shape.rope, first, rows, g.dk_rope);
    copy_rows(dv, p.value, shape.value, first, rows, g.dv);
  }
}

}  // namespace moescope

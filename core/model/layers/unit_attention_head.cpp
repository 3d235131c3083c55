#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <vector>

#include "core/model/layers/attention_head.h"
#include "core/numerics/kernels/narrow_native.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/kernels/tile_products.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

// Number of queries handled at a time, and, in the backward pass, of keys in a block of their scores.
constexpr Index kUnitBlock = 64;
static_assert(kUnitBlock % kUnitRows == 0 && kUnitBlock % kUnitDepth == 0);

// Numbers of keys and head dims, padded to the tiles of products: as a dimension of results, and (`_depth`) as
// contracting dimension.
struct PaddedShape {
  explicit PaddedShape(const HeadInputs<float>& in)
      : keys(to_tiles(in.v.rows, kUnitBlock)),
        qk(to_tiles(in.q.cols, kUnitRows)),
        qk_depth(to_tiles(in.q.cols, kUnitDepth)),
        value(to_tiles(in.v.cols, kUnitRows)),
        value_depth(to_tiles(in.v.cols, kUnitDepth)) {}
  Index keys, qk, qk_depth, value, value_depth;
};

// Matrices in one block of memory, each of which begins on a cache line. The caller lays them out twice: first without
// memory, to count the bytes.
class Pieces {
 public:
  explicit Pieces(std::byte* memory) : memory_(memory) {}
  template <class N>
  Matrix<N> take(Index rows, Index cols) {
    N* piece = memory_ ? reinterpret_cast<N*>(memory_ + bytes_) : nullptr;
    bytes_ += (rows * cols * sizeof(N) + 63) / 64 * 64;
    return {piece, rows, cols};
  }
  // Returns an operand of zeros, whose padding is never written and stays zero.
  Matrix<Bf16> padded(Index rows, Index cols) {
    const Matrix<Bf16> piece = take<Bf16>(rows, cols);
    if (piece.data) std::fill_n(piece.data, piece.size(), Bf16{0});
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

// `across` means transposed. Pairs are those of tile_products.h.
struct ForwardScratch {
  ForwardScratch(const PaddedShape& p, Pieces& pieces)
      : key_rows(pieces.padded(p.keys, p.qk_depth)),
        key_pairs_across(pieces.take<Bf16>(p.qk_depth, p.keys)),
        value_pairs(pieces.padded(p.keys, p.value)),
        q_rows(pieces.padded(kUnitBlock, p.qk_depth)),
        probability_rows(pieces.take<Bf16>(kUnitBlock, p.keys)),
        scores(pieces.take<float>(kUnitBlock, p.keys)),
        o(pieces.take<float>(kUnitBlock, p.value)) {}
  Matrix<Bf16> key_rows, key_pairs_across, value_pairs, q_rows, probability_rows;
  Matrix<float> scores, o;
};

struct BackwardScratch {
  BackwardScratch(const PaddedShape& p, Pieces& pieces)
      : key_rows(pieces.padded(p.keys, p.qk_depth)),
        key_pairs(pieces.padded(p.keys, p.qk)),
        value_rows(pieces.padded(p.keys, p.value_depth)),
        q_rows(pieces.padded(kUnitBlock, p.qk_depth)),
        q_pairs_across(pieces.take<Bf16>(p.qk_depth, kUnitBlock)),
        q_pairs(pieces.padded(kUnitBlock, p.qk)),
        d_o_rows(pieces.padded(kUnitBlock, p.value_depth)),
        d_o_pairs_across(pieces.take<Bf16>(p.value_depth, kUnitBlock)),
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
  Matrix<Bf16> key_rows, key_pairs, value_rows;
  Matrix<Bf16> q_rows, q_pairs_across, q_pairs, d_o_rows, d_o_pairs_across, d_o_pairs;
  Matrix<Bf16> p_rows, ds_rows, ds_pairs, ds_rows_across;  // [keys, queries], ds_rows_across [queries, keys]
  Matrix<float> s, dp;                                     // [keys of a block, queries]
  Matrix<float> dq, dk, dv;
};

// Writes BF16 numbers into columns of `out`, from `first_col` on.
void narrow_rows(const Matrix<const float>& in, const Matrix<Bf16>& out, Index first_col = 0) {
  for (Index r = 0; r < in.rows; ++r) narrow_natively(in.row(r), in.cols, out.row(r) + first_col);
}

// Writes BF16 numbers in pairs of rows, from column `first_col` on.
void narrow_pairs(const Matrix<const float>& in, const Matrix<Bf16>& out, Index first_col = 0) {
  thread_local std::vector<float> nothing;
  nothing.resize(in.cols);
  for (Index r = 0; r < in.rows; r += 2)
    narrow_pair_natively(in.row(r), r + 1 < in.rows ? in.row(r + 1) : nothing.data(), in.cols,
                         out.row(r) + 2 * first_col);
}

// Writes the pairs of the transpose.
void transpose_to_pairs(const Matrix<Bf16>& in, const Matrix<Bf16>& out) {
  transpose_words(in.data, in.rows, in.cols / 2, in.cols / 2, out.data, in.rows);
}

PackedMatrix pairs_of(const Matrix<Bf16>& pairs) {
  return paired(pairs.data, pairs.cols);
}

void copy_rows(const Matrix<float>& in, const Matrix<float>& out) {
  for (Index r = 0; r < out.rows; ++r) std::copy_n(in.row(r), out.cols, out.row(r));
}

// Prefetches rows during a computation, so that writing them does not wait for memory. Always inlined, because GCC 12
// removes calls of functions that only prefetch.
[[gnu::always_inline]] inline void fetch_rows(const Matrix<float>& out, Index first, Index rows) {
  constexpr Index kLine = 64 / sizeof(float);
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < out.cols; c += kLine) __builtin_prefetch(out.row(first + r) + c, 1);
}

// Multiplies `a` by the first rows of `pairs` and writes the rows of a block's queries to `out`: directly if they fill
// whole tiles, otherwise through `whole`, which has whole tiles.
void multiply_queries(const TileProducts& tiles, const Matrix<const Bf16>& a, const Matrix<Bf16>& pairs,
                      const Matrix<float>& whole, const Matrix<float>& out) {
  if (out.rows == kUnitBlock && out.cols == pairs.cols)
    return tiles.multiply(a, pairs_of(pairs), false, out, 1, Results::in_memory);
  tiles.multiply(a, pairs_of(pairs), false, whole);
  copy_rows(whole, out);
}

// Log-sum-exp and delta = o . do of the queries of a block. Queries after the end of the sequence have an infinite
// log-sum-exp, so that their probabilities are 0.
struct QuerySums {
  std::array<float, kUnitBlock> lse, delta{};

  QuerySums(const HeadGradients<float>& g, Index first, Index rows) {
    lse.fill(std::numeric_limits<float>::infinity());
    std::copy_n(g.lse.begin() + first, rows, lse.begin());
    for (Index r = 0; r < rows; ++r) delta[r] = dot(g.o.row(first + r), g.d_o.row(first + r), g.o.cols);
  }
};

// Computes probabilities and gradients of the scores of a block of keys; a query sees the keys up to its own.
void score_gradients(const BackwardScratch& w, const QuerySums& queries, float scale, Index first_key,
                     Index first_query) {
  softmax_backward_columns(w.s.data, w.dp.data, kUnitBlock, kUnitBlock, scale, queries.lse.data(),
                           queries.delta.data());
  for (Index key = std::max<Index>(first_query - first_key + 1, 0); key < kUnitBlock; ++key) {
    const Index hidden = first_key + key - first_query;
    std::fill_n(w.s.row(key), hidden, 0.0f);
    std::fill_n(w.dp.row(key), hidden, 0.0f);
  }
  narrow_natively(w.s.data, w.s.size(), w.p_rows.data);
  narrow_natively(w.dp.data, w.dp.size(), w.ds_rows.data);
  for (Index key = 0; key < kUnitBlock; key += 2)
    narrow_pair_natively(w.dp.row(key), w.dp.row(key + 1), kUnitBlock, w.ds_pairs.row(first_key + key));
}

}  // namespace

void head_forward_on_units(const HeadInputs<float>& in, const HeadOutputs<float>& out) {
  const PaddedShape p(in);
  const Index length = in.q.rows, nope = in.k_nope.cols;
  const auto w = scratch_of<ForwardScratch>(p);
  const TileProducts tiles;
  narrow_rows(in.k_nope, w.key_rows);
  narrow_rows(in.k_rope, w.key_rows, nope);
  transpose_to_pairs(w.key_rows, w.key_pairs_across);
  narrow_pairs(in.v, w.value_pairs);
  out.largest = -std::numeric_limits<float>::infinity();
  for (Index first = 0; first < length; first += kUnitBlock) {
    const Index rows = std::min(kUnitBlock, length - first), visible = first + kUnitBlock;
    narrow_rows(in.q.row_block(first, rows), w.q_rows);
    tiles.multiply(w.q_rows.col_block(0, in.q.cols), pairs_of(w.key_pairs_across), false,
                   w.scores.col_block(0, visible));
    for (Index r = 0; r < rows; ++r) {
      float *s = w.scores.row(r), row_largest = 0;
      Bf16* probabilities = w.probability_rows.row(r);
      const Index count = first + r + 1;
      out.lse[first + r] = softmax_row(s, count, in.scale, s, &row_largest);
      out.largest = std::max(out.largest, row_largest);
      narrow_natively(s, count, probabilities);
      std::fill(probabilities + count, probabilities + visible, Bf16{0});
    }
    multiply_queries(tiles, w.probability_rows.col_block(0, visible), w.value_pairs, w.o, out.o.row_block(first, rows));
  }
}

void head_backward_on_units(const HeadInputs<float>& in, const HeadGradients<float>& g) {
  const PaddedShape p(in);
  const Index length = in.q.rows, nope = in.k_nope.cols;
  const auto w = scratch_of<BackwardScratch>(p);
  const TileProducts tiles;
  narrow_rows(in.k_nope, w.key_rows);
  narrow_rows(in.k_rope, w.key_rows, nope);
  narrow_pairs(in.k_nope, w.key_pairs);
  narrow_pairs(in.k_rope, w.key_pairs, nope);
  narrow_rows(in.v, w.value_rows);
  // The last block sees every key, so it writes dK and dV, and the other blocks add to them.
  for (Index first = p.keys - kUnitBlock; first >= 0; first -= kUnitBlock) {
    const Index rows = std::min(kUnitBlock, length - first), visible = first + kUnitBlock;
    const bool adds = visible < p.keys;
    for (const Matrix<float>& written : {g.dk_nope, g.dk_rope, g.dv}) fetch_rows(written, first, rows);
    const Matrix<const float> q = in.q.row_block(first, rows), d_o = g.d_o.row_block(first, rows);
    narrow_rows(q, w.q_rows);
    transpose_to_pairs(w.q_rows, w.q_pairs_across);
    narrow_pairs(q, w.q_pairs);
    narrow_rows(d_o, w.d_o_rows);
    transpose_to_pairs(w.d_o_rows, w.d_o_pairs_across);
    narrow_pairs(d_o, w.d_o_pairs);
    const QuerySums queries(g, first, rows);
    for (Index key = 0; key < visible; key += kUnitBlock) {
      tiles.multiply(w.key_rows.block(key, 0, kUnitBlock, in.q.cols), pairs_of(w.q_pairs_across), false, w.s);
      tiles.multiply(w.value_rows.block(key, 0, kUnitBlock, in.v.cols), pairs_of(w.d_o_pairs_across), false, w.dp);
      score_gradients(w, queries, in.scale, key, first);
      tiles.multiply(w.p_rows, pairs_of(w.d_o_pairs), adds, w.dv.row_block(key, kUnitBlock));
      tiles.multiply(w.ds_rows, pairs_of(w.q_pairs), adds, w.dk.row_block(key, kUnitBlock));
    }
    transpose_words(w.ds_pairs.data, visible / 2, kUnitBlock, kUnitBlock, w.ds_rows_across.data, p.keys / 2);
    multiply_queries(tiles, w.ds_rows_across.col_block(0, visible), w.key_pairs, w.dq, g.dq.row_block(first, rows));
    // Earlier queries do not see the block's keys, so the gradients of these keys are complete.
    copy_rows(w.dk.block(first, 0, rows, nope), g.dk_nope.row_block(first, rows));
    copy_rows(w.dk.block(first, nope, rows, in.k_rope.cols), g.dk_rope.row_block(first, rows));
    copy_rows(w.dv.block(first, 0, rows, in.v.cols), g.dv.row_block(first, rows));
  }
}

}  // namespace moescope

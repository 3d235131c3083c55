#include "core/numerics/kernels/hadamard.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/numerics/kernels/hadamard.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <utility>
#include <vector>

#include "core/numerics/bf16_rounding.h"
#include "core/numerics/kernels/lanes.h"
#include "core/numerics/rng.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

// The destination of rotated values: memory, the largest magnitude, or both.
class Sink {
 public:
  HWY_INLINE Sink(float* out, std::int32_t* amax_bits) : out_(out), amax_bits_(amax_bits), top_(zero<std::int32_t>()) {}
  HWY_INLINE void put(Index at, Floats v, Index count) {
    if (out_) store_first(out_ + at, v, count);
    if (amax_bits_) top_ = larger(top_, magnitude_bits(v));
  }
  HWY_INLINE void close() const {
    if (amax_bits_) *amax_bits_ = std::max(*amax_bits_, max_of(top_));
  }

 private:
  float* out_;
  std::int32_t* amax_bits_;
  Ints top_;
};

// The fast Walsh-Hadamard transform computes a + b and a - b for values that are 1 apart, then 2, 4, and so on. Rows
// and columns are added in this order, so that their results agree to the bit.

HWY_INLINE void join(Floats& a, Floats& b) {
  const Floats sum = a + b;
  b = a - b;
  a = sum;
}
template <std::size_t kStep, std::size_t kCount, std::size_t... kPair>
HWY_INLINE void join_pairs(Floats (&v)[kCount], std::index_sequence<kPair...>) {
  (join(v[kPair / kStep * 2 * kStep + kPair % kStep], v[kPair / kStep * 2 * kStep + kPair % kStep + kStep]), ...);
}
// Transforms the values that the vectors have in one lane, for each lane.
template <std::size_t kStep = 1, std::size_t kCount>
HWY_INLINE void join_vectors(Floats (&v)[kCount]) {
  if constexpr (kStep < kCount) {
    join_pairs<kStep>(v, std::make_index_sequence<kCount / 2>());
    join_vectors<2 * kStep>(v);
  }
}

// Joins the values that are `kStep` apart among sixteen values of a row.
template <Index kStep>
HWY_INLINE Floats join_lanes(Floats v) {
  constexpr Index kWidth = Floats::kWidth;
  if constexpr (kStep >= kWidth) {
    constexpr Index kPartDistance = kStep / kWidth;
    Floats joined;
    for (std::size_t k = 0; k < v.kParts; ++k)
      joined.part[k] = k & kPartDistance ? hn::Sub(v.part[k - kPartDistance], v.part[k])
                                         : hn::Add(v.part[k], v.part[k + kPartDistance]);
    return joined;
  } else {
    alignas(64) std::int32_t partner[kWidth];
    alignas(64) float sign[kWidth];
    for (Index l = 0; l < kWidth; ++l) {
      partner[l] = to_int(l ^ kStep);
      sign[l] = l & kStep ? -1.0f : 1.0f;
    }
    const auto partners = hn::SetTableIndices(Tag<float>(), partner);
    const auto signs = hn::Load(Tag<float>(), sign);
    for (auto& part : v.part) part = hn::MulAdd(part, signs, hn::TableLookupLanes(part, partners));  // exact product
    return v;
  }
}

// Rotates a block along a row: kVectors times sixteen neighbours.
template <Index kVectors>
HWY_INLINE void rotate_row_block(const float* in, const float* factor, Index at, Sink& sink) {
  Floats v[kVectors];
  for (Index k = 0; k < kVectors; ++k) {
    const Floats scaled = load(in + k * kSixteen) * load(factor + k * kSixteen);
    v[k] = join_lanes<8>(join_lanes<4>(join_lanes<2>(join_lanes<1>(scaled))));
  }
  join_vectors(v);
  for (Index k = 0; k < kVectors; ++k) sink.put(at + k * kSixteen, v[k], kSixteen);
}
template <Index kVectors>
HWY_INLINE void rotate_row(const float* in, Index count, const float* factor, Index at, Sink& sink) {
  for (Index i = 0; i < count; i += kVectors * kSixteen) rotate_row_block<kVectors>(in + i, factor + i, at + i, sink);
}
// Rotates blocks of n columns that fill the rows; n is 16, 32, 64 or 128.
void rotate_rows(const Matrix<const float>& in, Index n, const float* factor, const Matrix<float>& out,
                 std::int32_t* amax_bits) {
  Sink sink(out.data, amax_bits);
  for (Index r = 0; r < in.rows; ++r) {
    const float* from = in.row(r);
    const Index at = r * out.stride;
    if (n == 16) rotate_row<1>(from, in.cols, factor, at, sink);
    if (n == 32) rotate_row<2>(from, in.cols, factor, at, sink);
    if (n == 64) rotate_row<4>(from, in.cols, factor, at, sink);
    if (n == 128) rotate_row<8>(from, in.cols, factor, at, sink);
  }
  sink.close();
}

// Rotates a block down columns: kCount rows, `stride` apart, of up to sixteen columns.
template <Index kCount>
HWY_INLINE void rotate_sixteen(const float* in, Index stride, Index cols, const float* factor, Index at,
                               Index at_stride, Sink& sink) {
  Floats v[kCount];
  for (Index k = 0; k < kCount; ++k) v[k] = load_first(in + k * stride, cols) * factor[k];
  join_vectors(v);
  for (Index k = 0; k < kCount; ++k) sink.put(at + k * at_stride, v[k], cols);
}

// Rotates a longer block in two steps: sixteen neighbours at a time, then values sixteen rows apart.
template <Index kTimes>
HWY_INLINE void rotate_long(const float* in, Index stride, Index cols, const float* factor, Index at, Index at_stride,
                            Sink& sink) {
  Floats turned[kTimes][16];
  for (Index i = 0; i < kTimes; ++i) {
    for (Index k = 0; k < 16; ++k) turned[i][k] = load_first(in + (i * 16 + k) * stride, cols) * factor[i * 16 + k];
    join_vectors(turned[i]);
  }
  for (Index k = 0; k < 16; ++k) {
    Floats vectors[kTimes];
    for (Index i = 0; i < kTimes; ++i) vectors[i] = turned[i][k];
    join_vectors(vectors);
    for (Index i = 0; i < kTimes; ++i) sink.put(at + (i * 16 + k) * at_stride, vectors[i], cols);
  }
}

// Rotates all rows as one block.
void rotate_columns(const Matrix<const float>& in, const float* factor, const Matrix<float>& out,
                    std::int32_t* amax_bits) {
  Sink sink(out.data, amax_bits);
  const Index n = in.rows, stride = in.stride;
  for (Index c = 0; c < in.cols; c += kSixteen) {
    const Index count = std::min(kSixteen, in.cols - c);
    const float* from = in.data + c;
    if (n == 1) rotate_sixteen<1>(from, stride, count, factor, c, out.stride, sink);
    if (n == 2) rotate_sixteen<2>(from, stride, count, factor, c, out.stride, sink);
    if (n == 4) rotate_sixteen<4>(from, stride, count, factor, c, out.stride, sink);
    if (n == 8) rotate_sixteen<8>(from, stride, count, factor, c, out.stride, sink);
    if (n == 16) rotate_sixteen<16>(from, stride, count, factor, c, out.stride, sink);
    if (n == 32) rotate_long<2>(from, stride, count, factor, c, out.stride, sink);
    if (n == 64) rotate_long<4>(from, stride, count, factor, c, out.stride, sink);
    if (n == 128) rotate_long<8>(from, stride, count, factor, c, out.stride, sink);
  }
  sink.close();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moescope {
namespace {

HWY_EXPORT(rotate_rows);
HWY_EXPORT(rotate_columns);

constexpr Index kMaxBlock = 128;

// Bit i is 1 if the sign of value i is minus (TransformerEngine, get_wgrad_sign_vector).
constexpr std::uint32_t kFixedSigns = 0xD7E8;

float sign_of(const Rotation& rotation, Index index) {
  if (rotation.form != RotationForm::drawn) return kFixedSigns >> index % 16 & 1 ? -1.0f : 1.0f;
  return mix_bits(mix_bits(rotation.seed) ^ index) & 1 ? -1.0f : 1.0f;
}

float norm_of(Index n) {
  return static_cast<float>(1 / std::sqrt(n));
}

// Returns the signs of values [first, first + count), times 1 / sqrt(n) for blocks of n. Each thread keeps a table of
// them, because it rotates tiles of one tensor one after the other.
const float* factors_of(const Rotation& rotation, Index n, Index first, Index count) {
  thread_local std::vector<float> factors;
  thread_local std::uint64_t factor_seed = 0;
  thread_local Index factor_count = 0;
  thread_local bool factors_drawn = true;
  const bool drawn = rotation.form == RotationForm::drawn;
  if (rotation.seed != factor_seed || n != factor_count || drawn != factors_drawn) {
    factors.clear();
    factor_seed = rotation.seed;
    factor_count = n;
    factors_drawn = drawn;
  }
  for (Index i = factors.size(); i < first + count; ++i) factors.push_back(norm_of(n) * sign_of(rotation, i));
  return factors.data() + first;
}

// Rotates a block of less than sixteen values of a row.
void rotate_few(const float* in, Index n, const float* factor, float* out, std::int32_t* amax_bits) {
  float v[16];
  for (Index k = 0; k < n; ++k) v[k] = in[k] * factor[k];
  for (Index half_size = 1; half_size < n; half_size *= 2)
    for (Index i = 0; i < n; i += 2 * half_size)
      for (Index k = i; k < i + half_size; ++k) {
        const float a = v[k], b = v[k + half_size];
        v[k] = a + b;
        v[k + half_size] = a - b;
      }
  if (out) std::copy_n(v, n, out);
  if (amax_bits)
    for (Index k = 0; k < n; ++k) *amax_bits = std::max(*amax_bits, std::bit_cast<std::int32_t>(v[k]) & 0x7FFFFFFF);
}

// Calls body(first value, number of values, size n of their blocks, factors of the values) for each stretch of blocks
// of one size in `length` values.
void for_each_size(Index length, const Rotation& rotation, Index first, const auto& body) {
  const int block = rotation.block;
  assert(block > 0 && block <= kMaxBlock && std::has_single_bit(static_cast<unsigned>(block)));
  assert(first % block == 0);
  const Index whole = block;
  for (Index k = 0, count = 0; k < length; k += count) {
    const Index n = std::min(whole, static_cast<Index>(std::bit_floor(static_cast<std::size_t>(length - k))));
    count = n == whole ? (length - k) / n * n : n;
    float factors[kMaxBlock];
    if (n != whole)
      for (Index i = 0; i < n; ++i) factors[i] = norm_of(n) * sign_of(rotation, first + k + i);
    body(k, count, n, n == whole ? factors_of(rotation, n, first + k, count) : factors);
  }
}

void rotate_along_rows(const Matrix<const float>& in, const Rotation& rotation, Index first, const Matrix<float>& out,
                       std::int32_t* amax_bits) {
  for_each_size(in.cols, rotation, first, [&](Index k, Index count, Index n, const float* factor) {
    if (n >= 16)
      return HWY_DYNAMIC_DISPATCH(rotate_rows)(in.col_block(k, count), n, factor, out.col_block(k, count), amax_bits);
    for (Index r = 0; r < in.rows; ++r)
      for (Index i = k; i < k + count; i += n)
        rotate_few(in.row(r) + i, n, factor + (i - k), out.data ? out.row(r) + i : nullptr, amax_bits);
  });
}

void rotate_down_columns(const Matrix<const float>& in, const Rotation& rotation, Index first, const Matrix<float>& out,
                         std::int32_t* amax_bits) {
  for_each_size(in.rows, rotation, first, [&](Index k, Index count, Index n, const float* factor) {
    for (Index i = 0; i < count; i += n) HWY_DYNAMIC_DISPATCH(rotate_columns)
    (in.row_block(k + i, n), factor + i, out.row_block(k + i, n), amax_bits);
  });
}

void rotate(const Matrix<const float>& in, BlockAxis axis, const Rotation& rotation, Index first,
            const Matrix<float>& out, std::int32_t* amax_bits) {
  if (axis == BlockAxis::row)
    rotate_along_rows(in, rotation, first, out, amax_bits);
  else
    rotate_down_columns(in, rotation, first, out, amax_bits);
  if (rotation.form == RotationForm::fixed_bf16 && out.data) round_to_bf16(out);
}

}  // namespace

void hadamard_rotate(ConstMatrix<float> in, BlockAxis axis, const Rotation& rotation, Index first, Matrix<float> out) {
  rotate(in, axis, rotation, first, out, nullptr);
}

float rotated_amax(ConstMatrix<float> in, BlockAxis axis, const Rotation& rotation, Index first, Matrix<float> out) {
  if (!out.data) out = {out.data, in.rows, in.cols};
  std::int32_t bits = 0;
  rotate(in, axis, rotation, first, out, &bits);
  const float amax = std::bit_cast<float>(bits);  // rounding to BF16 keeps the order of magnitudes
  return rotation.form == RotationForm::fixed_bf16 ? bf16_rounded(amax) : amax;
}

}  // namespace moescope
#endif

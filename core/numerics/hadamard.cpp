#include "core/numerics/hadamard.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/numerics/hadamard.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <utility>
#include <vector>

#include "core/numerics/kernels/lanes.h"
#include "core/numerics/kernels/random_bits.h"

#ifndef MOESCOPE_ROTATED_TO
#define MOESCOPE_ROTATED_TO
namespace moescope {
namespace {

// Where rotated values go: to memory, into the largest magnitude, or to both.
struct RotatedTo {
  float* out = nullptr;
  std::size_t stride = 0;
  std::int32_t* amax_bits = nullptr;

  RotatedTo at(std::size_t row, std::size_t col) const {
    return {out ? out + row * stride + col : nullptr, stride, amax_bits};
  }
};

}  // namespace
}  // namespace moescope
#endif

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

class Sink {
 public:
  HWY_INLINE explicit Sink(const RotatedTo& to) : to_(to), top_(zero<std::int32_t>()) {}
  HWY_INLINE void put(std::size_t at, Floats v, std::size_t count) {
    if (to_.out) store_first(to_.out + at, v, count);
    if (to_.amax_bits) top_ = larger(top_, magnitude_bits(v));
  }
  HWY_INLINE void close() const {
    if (to_.amax_bits) *to_.amax_bits = std::max(*to_.amax_bits, max_of(top_));
  }

 private:
  RotatedTo to_;
  Ints top_;
};

// The fast Walsh-Hadamard transform: a + b and a - b of values that are 1 apart, then 2, 4, and so on. Rows and columns
// add in this order, and so agree to the bit.

HWY_INLINE void join(Floats& a, Floats& b) {
  const Floats sum = a + b;
  b = a - b;
  a = sum;
}
template <std::size_t kHalf, std::size_t kCount, std::size_t... kPair>
HWY_INLINE void join_pairs(Floats (&v)[kCount], std::index_sequence<kPair...>) {
  (join(v[kPair / kHalf * 2 * kHalf + kPair % kHalf], v[kPair / kHalf * 2 * kHalf + kPair % kHalf + kHalf]), ...);
}
// Values of the same lane of all vectors.
template <std::size_t kHalf = 1, std::size_t kCount>
HWY_INLINE void join_vectors(Floats (&v)[kCount]) {
  if constexpr (kHalf < kCount) {
    join_pairs<kHalf>(v, std::make_index_sequence<kCount / 2>());
    join_vectors<2 * kHalf>(v);
  }
}

// Sixteen values of one row that are `kHalf` apart.
template <std::size_t kHalf>
HWY_INLINE Floats join_lanes(Floats v) {
  constexpr std::size_t kWidth = Floats::kWidth;
  if constexpr (kHalf >= kWidth) {
    constexpr std::size_t kApart = kHalf / kWidth;
    Floats joined;
    for (std::size_t k = 0; k < v.kParts; ++k)
      joined.part[k] = k & kApart ? hn::Sub(v.part[k - kApart], v.part[k]) : hn::Add(v.part[k], v.part[k + kApart]);
    return joined;
  } else {
    alignas(64) std::int32_t partner[kWidth];
    alignas(64) float sign[kWidth];
    for (std::size_t l = 0; l < kWidth; ++l) {
      partner[l] = static_cast<std::int32_t>(l ^ kHalf);
      sign[l] = l & kHalf ? -1.0f : 1.0f;
    }
    const auto partners = hn::SetTableIndices(Tag<float>(), partner);
    const auto signs = hn::Load(Tag<float>(), sign);
    for (auto& part : v.part) part = hn::MulAdd(part, signs, hn::TableLookupLanes(part, partners));  // product is exact
    return v;
  }
}

// Along rows: kVectors times sixteen neighbours are a block.
template <std::size_t kVectors>
HWY_INLINE void rotate_row_block(const float* in, const float* factor, std::size_t at, Sink& sink) {
  Floats v[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) {
    const Floats scaled = load(in + k * kSixteen) * load(factor + k * kSixteen);
    v[k] = join_lanes<8>(join_lanes<4>(join_lanes<2>(join_lanes<1>(scaled))));
  }
  join_vectors(v);
  for (std::size_t k = 0; k < kVectors; ++k) sink.put(at + k * kSixteen, v[k], kSixteen);
}
template <std::size_t kVectors>
HWY_INLINE void rotate_row(const float* in, std::size_t count, const float* factor, std::size_t at, Sink& sink) {
  for (std::size_t i = 0; i < count; i += kVectors * kSixteen)
    rotate_row_block<kVectors>(in + i, factor + i, at + i, sink);
}
// Columns [first, first + count), a multiple of n, which is 16, 32, 64 or 128.
void rotate_rows(const MatrixView& in, std::size_t first, std::size_t count, std::size_t n, const float* factor,
                 const RotatedTo& to) {
  Sink sink(to);
  for (std::size_t r = 0; r < in.rows; ++r) {
    const float* from = in.data + r * in.stride + first;
    const std::size_t at = r * to.stride + first;
    if (n == 16) rotate_row<1>(from, count, factor, at, sink);
    if (n == 32) rotate_row<2>(from, count, factor, at, sink);
    if (n == 64) rotate_row<4>(from, count, factor, at, sink);
    if (n == 128) rotate_row<8>(from, count, factor, at, sink);
  }
  sink.close();
}

// Down columns: kCount rows, `stride` apart, of up to sixteen columns.
template <std::size_t kCount>
HWY_INLINE void rotate_sixteen(const float* in, std::size_t stride, std::size_t cols, const float* factor,
                               std::size_t at, std::size_t at_stride, Sink& sink) {
  Floats v[kCount];
  for (std::size_t k = 0; k < kCount; ++k) v[k] = load_first(in + k * stride, cols) * factor[k];
  join_vectors(v);
  for (std::size_t k = 0; k < kCount; ++k) sink.put(at + k * at_stride, v[k], cols);
}

// A longer block takes two turns: sixteen neighbours at a time, then what is sixteen rows apart.
template <std::size_t kTimes>
HWY_INLINE void rotate_long(const float* in, std::size_t stride, std::size_t cols, const float* factor, std::size_t at,
                            std::size_t at_stride, Sink& sink) {
  Floats turned[kTimes][16];
  for (std::size_t i = 0; i < kTimes; ++i) {
    for (std::size_t k = 0; k < 16; ++k)
      turned[i][k] = load_first(in + (i * 16 + k) * stride, cols) * factor[i * 16 + k];
    join_vectors(turned[i]);
  }
  for (std::size_t k = 0; k < 16; ++k) {
    Floats apart[kTimes];
    for (std::size_t i = 0; i < kTimes; ++i) apart[i] = turned[i][k];
    join_vectors(apart);
    for (std::size_t i = 0; i < kTimes; ++i) sink.put(at + (i * 16 + k) * at_stride, apart[i], cols);
  }
}

// A block of n rows.
void rotate_columns(const float* in, std::size_t stride, std::size_t n, std::size_t cols, const float* factor,
                    const RotatedTo& to) {
  Sink sink(to);
  for (std::size_t c = 0; c < cols; c += kSixteen) {
    const std::size_t count = std::min(kSixteen, cols - c);
    if (n == 1) rotate_sixteen<1>(in + c, stride, count, factor, c, to.stride, sink);
    if (n == 2) rotate_sixteen<2>(in + c, stride, count, factor, c, to.stride, sink);
    if (n == 4) rotate_sixteen<4>(in + c, stride, count, factor, c, to.stride, sink);
    if (n == 8) rotate_sixteen<8>(in + c, stride, count, factor, c, to.stride, sink);
    if (n == 16) rotate_sixteen<16>(in + c, stride, count, factor, c, to.stride, sink);
    if (n == 32) rotate_long<2>(in + c, stride, count, factor, c, to.stride, sink);
    if (n == 64) rotate_long<4>(in + c, stride, count, factor, c, to.stride, sink);
    if (n == 128) rotate_long<8>(in + c, stride, count, factor, c, to.stride, sink);
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

constexpr std::size_t kMaxBlock = 128;

// Bit i: the sign of value i is minus (TransformerEngine, get_wgrad_sign_vector).
constexpr std::uint32_t kFixedSigns = 0xD7E8;

float sign_of(const Rotation& rotation, std::size_t index) {
  if (rotation.form != RotationForm::drawn) return kFixedSigns >> index % 16 & 1 ? -1.0f : 1.0f;
  return mix_bits(mix_bits(rotation.seed) ^ index) & 1 ? -1.0f : 1.0f;
}

float norm_of(std::size_t n) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(n)));
}

// Signs of values [first, first + count) of blocks of n, times 1 / sqrt(n), from a table of this thread: tiles of one
// tensor come one after the other.
const float* factors_of(const Rotation& rotation, std::size_t n, std::size_t first, std::size_t count) {
  thread_local std::vector<float> factors;
  thread_local std::uint64_t of_seed = 0;
  thread_local std::size_t of_n = 0;
  thread_local bool of_drawn = true;
  const bool drawn = rotation.form == RotationForm::drawn;
  if (rotation.seed != of_seed || n != of_n || drawn != of_drawn)
    factors.clear(), of_seed = rotation.seed, of_n = n, of_drawn = drawn;
  for (std::size_t i = factors.size(); i < first + count; ++i) factors.push_back(norm_of(n) * sign_of(rotation, i));
  return factors.data() + first;
}

// A block of less than sixteen values of a row.
void rotate_few(const float* in, std::size_t n, const float* factor, const RotatedTo& to) {
  float v[16];
  for (std::size_t k = 0; k < n; ++k) v[k] = in[k] * factor[k];
  for (std::size_t half = 1; half < n; half *= 2)
    for (std::size_t i = 0; i < n; i += 2 * half)
      for (std::size_t k = i; k < i + half; ++k) {
        const float a = v[k], b = v[k + half];
        v[k] = a + b;
        v[k + half] = a - b;
      }
  if (to.out) std::copy_n(v, n, to.out);
  if (to.amax_bits)
    for (std::size_t k = 0; k < n; ++k)
      *to.amax_bits = std::max(*to.amax_bits, std::bit_cast<std::int32_t>(v[k]) & 0x7FFFFFFF);
}

// body(first value, count of values, size n of their blocks, factor of each) for the stretches of `length` values.
void for_each_size(std::size_t length, const Rotation& rotation, std::size_t first, const auto& body) {
  const int block = rotation.block;
  assert(block > 0 && static_cast<std::size_t>(block) <= kMaxBlock &&
         std::has_single_bit(static_cast<unsigned>(block)));
  assert(first % static_cast<std::size_t>(block) == 0);
  const std::size_t whole = static_cast<std::size_t>(block);
  for (std::size_t k = 0, count = 0; k < length; k += count) {
    const std::size_t n = std::min(whole, std::bit_floor(length - k));
    count = n == whole ? (length - k) / n * n : n;
    float few[kMaxBlock];
    if (n != whole)
      for (std::size_t i = 0; i < n; ++i) few[i] = norm_of(n) * sign_of(rotation, first + k + i);
    body(k, count, n, n == whole ? factors_of(rotation, n, first + k, count) : few);
  }
}

void rotate(MatrixView in, BlockAxis axis, const Rotation& rotation, std::size_t first, const RotatedTo& to) {
  if (axis == BlockAxis::row)
    return for_each_size(in.cols, rotation, first,
                         [&](std::size_t k, std::size_t count, std::size_t n, const float* factor) {
                           if (n >= 16) return HWY_DYNAMIC_DISPATCH(rotate_rows)(in, k, count, n, factor, to);
                           for (std::size_t r = 0; r < in.rows; ++r)
                             for (std::size_t i = k; i < k + count; i += n)
                               rotate_few(in.data + r * in.stride + i, n, factor + (i - k), to.at(r, i));
                         });
  for_each_size(in.rows, rotation, first, [&](std::size_t k, std::size_t count, std::size_t n, const float* factor) {
    for (std::size_t i = 0; i < count; i += n) HWY_DYNAMIC_DISPATCH(rotate_columns)
    (in.data + (k + i) * in.stride, in.stride, n, in.cols, factor + i, to.at(k + i, 0));
  });
}

float amax_of(std::int32_t bits, const Rotation& rotation) {
  const float amax = std::bit_cast<float>(bits);  // rounding keeps the order
  return rotation.form == RotationForm::fixed_bf16 ? round_bf16(amax) : amax;
}

}  // namespace

void hadamard_rotate(MatrixView in, BlockAxis axis, const Rotation& rotation, std::size_t first, float* out,
                     std::size_t out_stride, float* amax) {
  std::int32_t bits = 0;
  rotate(in, axis, rotation, first, {.out = out, .stride = out_stride, .amax_bits = amax ? &bits : nullptr});
  if (rotation.form == RotationForm::fixed_bf16)
    for (std::size_t r = 0; r < in.rows; ++r) round_bf16(out + r * out_stride, in.cols, out + r * out_stride);
  if (amax) *amax = amax_of(bits, rotation);
}

float rotated_amax(MatrixView in, BlockAxis axis, const Rotation& rotation, std::size_t first) {
  std::int32_t bits = 0;
  rotate(in, axis, rotation, first, {.amax_bits = &bits});
  return amax_of(bits, rotation);
}

}  // namespace moescope
#endif

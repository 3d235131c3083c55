// Sixteen floats side by side: one vector of AVX-512, two of AVX2, four of SSE4 and NEON. Written once with Highway and
// compiled for each of these; the program chooses the best one at run time.
//
// Kernels are written over Lanes, not over vectors of the processor's length, so that a sum always has sixteen partial
// sums in one order, and every processor gives the same bits. Multiplications and additions are fused only by fused(),
// and where this does not change the result (exactly_fused(), quotient()).
//
// Files that begin with foreach_target.h include this file once per target, hence no #pragma once. Every function here
// is inlined into a function that has the target's instructions.
#if defined(MOESCOPE_LANES_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MOESCOPE_LANES_H
#undef MOESCOPE_LANES_H
#else
#define MOESCOPE_LANES_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/numerics/matrix.h"

// Written before each function of lanes. The scalar target, for processors from before 2008, would take half of the
// compile time if it were inlined everywhere.
#undef MOESCOPE_ON_LANES
#if HWY_TARGET == HWY_SCALAR
#define MOESCOPE_ON_LANES [[gnu::noinline, maybe_unused]] static
#else
#define MOESCOPE_ON_LANES HWY_INLINE
#endif

// Exports the kernels NAME_float and NAME_double, and chooses the one of the scalar type T for this processor.
#undef MOESCOPE_EXPORT_KERNEL
#undef MOESCOPE_KERNEL
#define MOESCOPE_EXPORT_KERNEL(name) \
  HWY_EXPORT(name##_float);          \
  HWY_EXPORT(name##_double)
#define MOESCOPE_KERNEL(name, T)                  \
  [] {                                            \
    if constexpr (std::is_same_v<T, float>)       \
      return HWY_DYNAMIC_DISPATCH(name##_float);  \
    else                                          \
      return HWY_DYNAMIC_DISPATCH(name##_double); \
  }()

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
inline constexpr std::size_t kLanes = 64 / sizeof(T);

template <class T>
struct Lanes {
  using Tag = hn::CappedTag<T, kLanes<T>>;
  static constexpr std::size_t kWidth = hn::MaxLanes(Tag()), kParts = kLanes<T> / kWidth;
  hn::Vec<Tag> part[kParts];

  HWY_INLINE Lanes() {}  // not defaulted: the compiler would generate it without the target's instructions
};
template <class T>
using Tag = typename Lanes<T>::Tag;

using Floats = Lanes<float>;
using Ints = Lanes<std::int32_t>;
using Words = Lanes<std::uint32_t>;
inline constexpr Index kSixteen = kLanes<float>;

template <class T>
MOESCOPE_ON_LANES Lanes<T> splat(T value) {
  Lanes<T> r;
  for (auto& part : r.part) part = hn::Set(Tag<T>(), value);
  return r;
}
template <class T>
MOESCOPE_ON_LANES Lanes<T> zero() {
  return splat(T{0});
}

template <class T>
MOESCOPE_ON_LANES Lanes<T> load(const T* p) {
  Lanes<T> r;
  for (std::size_t k = 0; k < r.kParts; ++k) r.part[k] = hn::LoadU(Tag<T>(), p + k * r.kWidth);
  return r;
}
template <class T>
MOESCOPE_ON_LANES void store(T* p, Lanes<T> v) {
  for (std::size_t k = 0; k < v.kParts; ++k) hn::StoreU(v.part[k], Tag<T>(), p + k * v.kWidth);
}
#undef MOESCOPE_MASKS_MEMORY
#define MOESCOPE_MASKS_MEMORY (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)  // lanes without mask bit are not accessed

// Loads the first `count` lanes; the others are zero.
template <class T>
MOESCOPE_ON_LANES Lanes<T> load_first(const T* p, std::size_t count) {
  if (count >= kLanes<T>) return load(p);
#if MOESCOPE_MASKS_MEMORY
  Lanes<T> r;
  r.part[0] = hn::MaskedLoad(hn::FirstN(Tag<T>(), count), Tag<T>(), p);
  return r;
#else
  alignas(64) T whole[kLanes<T>] = {};
  std::memcpy(whole, p, count * sizeof(T));
  return load(whole);
#endif
}
template <class T>
MOESCOPE_ON_LANES void store_first(T* p, Lanes<T> v, std::size_t count) {
  if (count >= kLanes<T>) return store(p, v);
#if MOESCOPE_MASKS_MEMORY
  hn::BlendedStore(v.part[0], hn::FirstN(Tag<T>(), count), Tag<T>(), p);
#else
  alignas(64) T whole[kLanes<T>];
  store(whole, v);
  std::memcpy(p, whole, count * sizeof(T));
#endif
}

MOESCOPE_ON_LANES Lanes<double> load_doubles(const float* p) {
  Lanes<double> r;
  const hn::Rebind<float, Tag<double>> floats;
  for (std::size_t k = 0; k < r.kParts; ++k)
    r.part[k] = hn::PromoteTo(Tag<double>(), hn::LoadU(floats, p + k * r.kWidth));
  return r;
}

// Stores the upper 16 bits of each of the first `count` floats. If a float is a BF16 number, these bits are that
// number.
MOESCOPE_ON_LANES void store_upper_halves(std::uint16_t* p, Floats v, std::size_t count) {
  alignas(64) std::uint16_t whole[kLanes<float>];
  std::uint16_t* to = count >= kLanes<float> ? p : whole;
  for (std::size_t k = 0; k < v.kParts; ++k) {
    const hn::Repartition<std::int32_t, Tag<float>> words;
    const hn::Rebind<std::uint16_t, decltype(words)> halves;
    const auto bits = hn::ShiftRight<16>(hn::BitCast(hn::RebindToUnsigned<decltype(words)>(), v.part[k]));
    hn::StoreU(hn::DemoteTo(halves, hn::BitCast(words, bits)), halves, to + k * v.kWidth);
  }
  if (to == whole) std::memcpy(p, whole, count * sizeof(std::uint16_t));
}
// Stores the upper halves of all of `v` and then of all of `next`, in half the operations.
MOESCOPE_ON_LANES void store_upper_halves(std::uint16_t* p, Floats v, Floats next) {
#if HWY_TARGET == HWY_SCALAR
  store_upper_halves(p, v, kLanes<float>);
  store_upper_halves(p + kLanes<float>, next, kLanes<float>);
#else
  const hn::Repartition<std::uint16_t, Tag<float>> halves;
  for (std::size_t k = 0; k < 2 * v.kParts; k += 2) {
    const auto& from = k < v.kParts ? v : next;
    const auto low = from.part[k % v.kParts], high = v.kParts == 1 ? next.part[0] : from.part[k % v.kParts + 1];
    hn::StoreU(hn::ConcatOdd(halves, hn::BitCast(halves, high), hn::BitCast(halves, low)), halves, p + k * v.kWidth);
  }
#endif
}

#define MOESCOPE_LANEWISE(name, op)                                                      \
  template <class T>                                                                     \
  MOESCOPE_ON_LANES Lanes<T> name(Lanes<T> a, Lanes<T> b) {                              \
    for (std::size_t k = 0; k < a.kParts; ++k) a.part[k] = hn::op(a.part[k], b.part[k]); \
    return a;                                                                            \
  }
MOESCOPE_LANEWISE(operator+, Add)
MOESCOPE_LANEWISE(operator-, Sub)
MOESCOPE_LANEWISE(operator*, Mul)
MOESCOPE_LANEWISE(operator/, Div)
MOESCOPE_LANEWISE(operator&, And)
MOESCOPE_LANEWISE(operator|, Or)
MOESCOPE_LANEWISE(operator^, Xor)
MOESCOPE_LANEWISE(smaller, Min)
MOESCOPE_LANEWISE(larger, Max)
#undef MOESCOPE_LANEWISE

template <class T>
MOESCOPE_ON_LANES Lanes<T> operator*(Lanes<T> a, T b) {
  return a * splat(b);
}
template <class T>
MOESCOPE_ON_LANES Lanes<T> operator-(Lanes<T> a, T b) {
  return a - splat(b);
}
template <class T>
MOESCOPE_ON_LANES Lanes<T>& operator+=(Lanes<T>& a, Lanes<T> b) {
  return a = a + b;
}
template <class T>
MOESCOPE_ON_LANES Lanes<T> operator-(Lanes<T> a) {
  for (auto& part : a.part) part = hn::Neg(part);
  return a;
}

template <class T>
MOESCOPE_ON_LANES Lanes<T> square_root(Lanes<T> a) {
  for (auto& part : a.part) part = hn::Sqrt(part);
  return a;
}
template <int kBits, class T>
MOESCOPE_ON_LANES Lanes<T> shifted_left(Lanes<T> a) {
  for (auto& part : a.part) part = hn::ShiftLeft<kBits>(part);
  return a;
}
template <int kBits, class T>
MOESCOPE_ON_LANES Lanes<T> shifted_right(Lanes<T> a) {
  for (auto& part : a.part) part = hn::ShiftRight<kBits>(part);
  return a;
}

template <class To, class From>
MOESCOPE_ON_LANES Lanes<To> bits_as(Lanes<From> a) {
  Lanes<To> r;
  for (std::size_t k = 0; k < r.kParts; ++k) r.part[k] = hn::BitCast(Tag<To>(), a.part[k]);
  return r;
}
MOESCOPE_ON_LANES Floats to_floats(Ints a) {
  Floats r;
  for (std::size_t k = 0; k < r.kParts; ++k) r.part[k] = hn::ConvertTo(Tag<float>(), a.part[k]);
  return r;
}

// Returns a < b ? yes : no for each lane.
template <class T>
MOESCOPE_ON_LANES Lanes<T> if_less(Lanes<T> a, Lanes<T> b, Lanes<T> yes, Lanes<T> no) {
  for (std::size_t k = 0; k < a.kParts; ++k)
    a.part[k] = hn::IfThenElse(hn::Lt(a.part[k], b.part[k]), yes.part[k], no.part[k]);
  return a;
}
template <class T>
MOESCOPE_ON_LANES Lanes<T> if_equal(Lanes<T> a, Lanes<T> b, Lanes<T> yes, Lanes<T> no) {
  for (std::size_t k = 0; k < a.kParts; ++k)
    a.part[k] = hn::IfThenElse(hn::Eq(a.part[k], b.part[k]), yes.part[k], no.part[k]);
  return a;
}
// Returns the number of lanes with a > b.
template <class T>
MOESCOPE_ON_LANES std::uint32_t count_greater(Lanes<T> a, Lanes<T> b) {
  std::size_t count = 0;
  for (std::size_t k = 0; k < a.kParts; ++k) count += hn::CountTrue(Tag<T>(), hn::Gt(a.part[k], b.part[k]));
  return static_cast<std::uint32_t>(count);
}

// Returns a * b + c, rounded once.
template <class T>
MOESCOPE_ON_LANES Lanes<T> fused(Lanes<T> a, Lanes<T> b, Lanes<T> c) {
#if HWY_NATIVE_FMA
  for (std::size_t k = 0; k < a.kParts; ++k) a.part[k] = hn::MulAdd(a.part[k], b.part[k], c.part[k]);
  return a;
#else  // processors from before 2013
  alignas(64) T x[kLanes<T>], y[kLanes<T>], z[kLanes<T>];
  store(x, a);
  store(y, b);
  store(z, c);
  for (std::size_t l = 0; l < kLanes<T>; ++l) x[l] = std::fma(x[l], y[l], z[l]);
  return load(x);
#endif
}

// Returns a * b + c. The product must be exact, or c must add only the sign of a zero, so that rounding once or twice
// gives equal results.
MOESCOPE_ON_LANES Floats exactly_fused(Floats a, Floats b, Floats c) {
  for (std::size_t k = 0; k < a.kParts; ++k) a.part[k] = hn::MulAdd(a.part[k], b.part[k], c.part[k]);
  return a;
}
// Returns c - a * b under the condition of exactly_fused().
MOESCOPE_ON_LANES Floats exactly_fused_minus(Floats a, Floats b, Floats c) {
  for (std::size_t k = 0; k < a.kParts; ++k) a.part[k] = hn::NegMulAdd(a.part[k], b.part[k], c.part[k]);
  return a;
}

// Returns a / b, rounded once, in half the time of a division. `reciprocal` is 1 / b, rounded; no product of the
// numbers may be subnormal. The remainder of the first guess is exact and corrects it (Markstein, IBM J. Res. Dev. 34,
// 1990).
HWY_INLINE float quotient(float a, float b, [[maybe_unused]] float reciprocal) {
#if HWY_NATIVE_FMA
  const float guess = a * reciprocal;
  return __builtin_fmaf(__builtin_fmaf(-guess, b, a), reciprocal, guess);
#else
  return a / b;
#endif
}
MOESCOPE_ON_LANES Floats quotient(Floats a, Floats b, [[maybe_unused]] Floats reciprocal) {
#if HWY_NATIVE_FMA
  for (std::size_t k = 0; k < a.kParts; ++k) {
    const auto guess = hn::Mul(a.part[k], reciprocal.part[k]);
    a.part[k] = hn::MulAdd(hn::NegMulAdd(guess, b.part[k], a.part[k]), reciprocal.part[k], guess);
  }
  return a;
#else
  return a / b;
#endif
}

MOESCOPE_ON_LANES Ints magnitude_bits(Floats x) {
  return bits_as<std::int32_t>(x) & splat(0x7FFFFFFF);
}

// Returns the magnitudes of `values` with the signs of x.
MOESCOPE_ON_LANES Floats with_signs_of(Floats x, Floats values) {
  for (std::size_t k = 0; k < x.kParts; ++k) x.part[k] = hn::CopySign(values.part[k], x.part[k]);
  return x;
}

struct Sum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct Smallest {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Min(a, b);
  }
};
struct Largest {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
};

// Joins the lanes of a vector to one value, first its upper half with the lower one.
template <class D, class V, class Join>
MOESCOPE_ON_LANES hn::TFromD<D> joined_vector([[maybe_unused]] D d, V v, [[maybe_unused]] Join join) {
  constexpr std::size_t kWidth = hn::MaxLanes(D());
  if constexpr (kWidth == 1) {
    return hn::GetLane(v);
#if HWY_TARGET != HWY_SCALAR
  } else if constexpr (kWidth * sizeof(hn::TFromD<D>) > 16) {
    const hn::Half<D> half_lanes;
    return joined_vector(half_lanes, join(hn::LowerHalf(half_lanes, v), hn::UpperHalf(half_lanes, v)), join);
  } else if constexpr (kWidth == 4) {
    const auto pairs = join(v, hn::Shuffle1032(v));
    return hn::GetLane(join(pairs, hn::Shuffle2301(pairs)));
  } else {
    return hn::GetLane(join(v, hn::Shuffle01(v)));
#endif
  }
}
template <class T, class Join>
MOESCOPE_ON_LANES T joined(Lanes<T> v, Join join) {
  for (std::size_t half_parts = v.kParts / 2; half_parts > 0; half_parts /= 2)
    for (std::size_t k = 0; k < half_parts; ++k) v.part[k] = join(v.part[k], v.part[k + half_parts]);
  return joined_vector(Tag<T>(), v.part[0], join);
}
template <class T>
MOESCOPE_ON_LANES T sum_of(Lanes<T> v) {
  return joined(v, Sum());
}
template <class T>
MOESCOPE_ON_LANES T max_of(Lanes<T> v) {
  return joined(v, Largest());
}
template <class T>
MOESCOPE_ON_LANES T min_of(Lanes<T> v) {
  return joined(v, Smallest());
}

// Joins neighbouring groups of `kGroup` lanes of two vectors: groups of `a` into the even groups of the result, groups
// of `b` into the odd ones.
#if HWY_TARGET != HWY_SCALAR
template <std::size_t kGroup, class D, class V, class Join>
MOESCOPE_ON_LANES V joined_groups(D d, V a, V b, Join join) {
  [[maybe_unused]] const hn::RepartitionToWide<D> pairs;
  if constexpr (2 * kGroup == hn::MaxLanes(D())) {
    return join(hn::ConcatUpperLower(d, b, a), hn::ConcatLowerUpper(d, b, a));
  } else if constexpr (kGroup == 1) {
    return join(hn::OddEven(b, a), hn::Shuffle2301(hn::OddEven(a, b)));
  } else if constexpr (kGroup == 2) {
    const auto x = hn::BitCast(pairs, a), y = hn::BitCast(pairs, b);
    return join(hn::BitCast(d, hn::OddEven(y, x)), hn::BitCast(d, hn::Shuffle01(hn::OddEven(x, y))));
  } else {
    static_assert(kGroup == 4);
    return join(hn::OddEvenBlocks(b, a), hn::SwapAdjacentBlocks(hn::OddEvenBlocks(a, b)));
  }
}
template <std::size_t kCount, class D, class V, class Join>
MOESCOPE_ON_LANES V joined_vectors(D d, V (&v)[kCount], Join join) {
  if constexpr (kCount == 1) {
    return v[0];
  } else {
    V met[kCount / 2];
    for (std::size_t k = 0; k < kCount / 2; ++k) met[k] = joined_groups<kCount / 2>(d, v[k], v[k + kCount / 2], join);
    return joined_vectors(d, met, join);
  }
}
#endif
// Returns joined() of each of sixteen rows of sixteen lanes with equal bits, in a third of the operations.
template <class T, class Join>
MOESCOPE_ON_LANES Lanes<T> joined_rows(const T* rows, Join join) {
  static_assert(kLanes<T> == kSixteen);
  Lanes<T> r;
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t k = 0; k < kSixteen; ++k) r.part[k] = hn::Set(Tag<T>(), joined(load(rows + k * kSixteen), join));
#else
  constexpr std::size_t kWidth = Lanes<T>::kWidth;
  for (std::size_t part = 0; part < r.kParts; ++part) {
    hn::Vec<Tag<T>> v[kWidth];
    for (std::size_t k = 0; k < kWidth; ++k) {
      Lanes<T> row = load(rows + (part * kWidth + k) * kSixteen);
      for (std::size_t half_parts = row.kParts / 2; half_parts > 0; half_parts /= 2)
        for (std::size_t i = 0; i < half_parts; ++i) row.part[i] = join(row.part[i], row.part[i + half_parts]);
      v[k] = row.part[0];
    }
    r.part[part] = joined_vectors(Tag<T>(), v, join);
  }
#endif
  return r;
}

}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#endif

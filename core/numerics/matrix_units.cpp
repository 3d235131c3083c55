#include "core/numerics/matrix_units.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>

#include "core/telemetry/frame/kernel_names.h"

#if defined(MOESCOPE_ONEDNN)
#include <cpuid.h>
#include <omp.h>

#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>
#endif

namespace moescope {
namespace {

#if defined(MOESCOPE_ONEDNN)

std::string_view asked_for() {
  const char* set = std::getenv(kMatrixUnitsVariable);
  return set ? set : "auto";
}

// Not by oneDNN, which answers as it was last told to behave.
bool cpu_has_avx512_bf16() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

// With the operating system keeping the tiles of a process that it interrupts.
bool cpu_has_amx() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!cpu_has_avx512_bf16() || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  constexpr unsigned kBf16Tiles = 1u << 22, kTiles = 1u << 24, kInt8Tiles = 1u << 25,
                     kAll = kBf16Tiles | kTiles | kInt8Tiles;
  unsigned kept = 0, kept_above = 0;
  __asm__("xgetbv" : "=a"(kept), "=d"(kept_above) : "c"(0));
  constexpr unsigned kTileConfigAndData = 3u << 17;
  return (edx & kAll) == kAll && (kept & kTileConfigAndData) == kTileConfigAndData;
}

// Of those that there are.
MatrixUnit chosen_of(bool amx, bool avx512_bf16, std::string_view choice) {
  if (choice == "off") return MatrixUnit::none;
  if (choice != "avx512_bf16" && amx) return MatrixUnit::amx;
  if (choice == "amx" || !avx512_bf16) return MatrixUnit::none;
  // Zen 4 multiplies BF16 twice as fast as FP32. Intel's processors do not: without AMX sgemm is the faster one.
  return choice == "avx512_bf16" || __builtin_cpu_is("amd") ? MatrixUnit::avx512_bf16 : MatrixUnit::none;
}

MatrixUnit unit_of(std::string_view choice) {
  return chosen_of(cpu_has_amx(), cpu_has_avx512_bf16(), choice);
}

std::string not_here(std::string_view choice) {
  return "this processor has no " + std::string(choice) + " units";
}

MatrixUnit found_unit() {
  const std::string_view choice = asked_for();
  if (choice == "off") return MatrixUnit::none;
  // oneDNN takes no notice once it has looked at the processor; ONEDNN_MAX_CPU_ISA, where the user sets it, goes first.
  if (choice == "avx512_bf16") dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
  const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  const auto has = [&](dnnl_cpu_isa_t wanted) { return (isa & wanted) == wanted; };
  return chosen_of(has(dnnl_cpu_isa_avx512_core_amx), has(dnnl_cpu_isa_avx512_core_bf16), choice);
}

// oneDNN compiles a kernel for a product's shape. Numbers of an expert's rows differ from step to step: whole tiles of
// rows have kernels of their own, what remains goes through one that takes any shape.
constexpr int kRowTile = 32;

struct ProductKey {
  Trans ta, tb;
  bool adds;
  int m, n, k, lda, ldb, ldc;  // 0 in all but adds: of any shape
  bool operator==(const ProductKey&) const = default;
};
struct HashOfKey {
  std::size_t operator()(const ProductKey& key) const {
    std::size_t hash = static_cast<std::size_t>(key.ta) * 4 + static_cast<std::size_t>(key.tb) * 2 + key.adds;
    for (const int value : {key.m, key.n, key.k, key.lda, key.ldb, key.ldc})
      hash = hash * 0x9E3779B97F4A7C15u + static_cast<std::size_t>(value);
    return hash ^ hash >> 29;
  }
};

using Desc = dnnl::memory::desc;
constexpr auto kAny = DNNL_RUNTIME_DIM_VAL;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

Desc desc_of(dnnl::memory::data_type type, Trans trans, dnnl_dim_t rows, dnnl_dim_t cols, dnnl_dim_t stride) {
  return {{rows, cols}, type, trans == Trans::yes ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1}};
}

struct Descs {
  Desc a, b, c;
};
Descs descs_of(const ProductKey& key) {
  using enum dnnl::memory::data_type;
  const auto known = [&](int value) { return key.m == 0 ? kAny : dnnl_dim_t{value}; };
  return {desc_of(bf16, key.ta, known(key.m), known(key.k), known(key.lda)),
          desc_of(bf16, key.tb, known(key.k), known(key.n), known(key.ldb)),
          desc_of(f32, Trans::no, known(key.m), known(key.n), known(key.ldc))};
}

struct Product {
  dnnl::matmul primitive;
  std::size_t scratch_bytes = 0;
  bool slow = false;  // oneDNN has only its reference loops for this shape
};

Product make_product(const ProductKey& key) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (key.adds) {
    dnnl::post_ops sum;
    sum.append_sum(1);
    attr.set_post_ops(sum);
  }
  const Descs descs = descs_of(key);
  const dnnl::matmul::primitive_desc made(dnnl::matmul::desc(descs.a, descs.b, descs.c), attr, cpu());
  return {dnnl::matmul(made), made.scratchpad_desc().get_size(), std::strstr(made.impl_info_str(), "ref") != nullptr};
}

// Kept until the program ends.
const Product& product_of(const ProductKey& key) {
  static std::mutex mutex;
  static std::unordered_map<ProductKey, std::unique_ptr<Product>, HashOfKey> all;
  const std::scoped_lock lock(mutex);
  std::unique_ptr<Product>& product = all[key];
  if (!product) product = std::make_unique<Product>(make_product(key));
  return *product;
}

// The product that is compiled for this shape, or else the one that takes any.
const Product& best_product(const ProductKey& key) {
  const bool small = key.m < kRowTile || key.n < kRowTile || key.k < kRowTile;
  const bool ragged = (key.ta == Trans::yes ? key.k : key.m) % kRowTile != 0;
  if (!small && !ragged) {
    const Product& product = product_of(key);
    if (!product.slow) return product;
  }
  return product_of({key.ta, key.tb, key.adds, 0, 0, 0, 0, 0, 0});
}

// A product as one thread calls it, over and over: making oneDNN's descriptions of three matrices anew takes as long as
// multiplying small ones.
class ProductCall {
 public:
  explicit ProductCall(const ProductKey& key) : ProductCall(best_product(key), descs_of(key)) {}

  void operator()(const Bf16* a, const Bf16* b, float* c) {
    thread_local const dnnl::stream stream(cpu());
    a_.set_data_handle(const_cast<Bf16*>(a));
    b_.set_data_handle(const_cast<Bf16*>(b));
    c_.set_data_handle(c);
    scratch_.set_data_handle(scratch_space());
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, a_.get()},
                                         {DNNL_ARG_WEIGHTS, b_.get()},
                                         {DNNL_ARG_DST, c_.get()},
                                         {DNNL_ARG_SCRATCHPAD, scratch_.get()}};
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(product_.primitive.get(), stream.get(), std::size(arguments), arguments),
        "oneDNN could not multiply");
  }

 private:
  ProductCall(const Product& product, const Descs& descs)
      : product_(product),
        a_(descs.a, cpu(), nullptr),
        b_(descs.b, cpu(), nullptr),
        c_(descs.c, cpu(), nullptr),
        scratch_(bytes_desc(product.scratch_bytes), cpu(), nullptr) {}

  static Desc bytes_desc(std::size_t bytes) {
    return {{static_cast<dnnl_dim_t>(bytes)}, dnnl::memory::data_type::u8, dnnl::memory::dims{1}};
  }

  // Of all calls of a thread.
  void* scratch_space() const {
    thread_local std::vector<std::byte> space;
    if (space.size() < product_.scratch_bytes + 64) space.resize(product_.scratch_bytes + 64);
    void* aligned = space.data();
    std::size_t left = space.size();
    return std::align(64, product_.scratch_bytes, aligned, left);
  }

  const Product& product_;
  dnnl::memory a_, b_, c_, scratch_;
};

// oneDNN makes products for as many threads as OpenMP would start from this one.
void keep_onednn_on_this_thread() {
  thread_local const bool said = (omp_set_num_threads(1), true);
  (void)said;
}

void multiply(const ProductKey& key, const Bf16* a, const Bf16* b, float* c) {
  thread_local std::unordered_map<ProductKey, ProductCall, HashOfKey> calls;
  calls.try_emplace(key, key).first->second(a, b, c);
}

// Whole tiles of the rows that an expert got, then what remains: of the product's rows, or of its sum.
void multiply_tiled(ProductKey key, const Bf16* a, const Bf16* b, float* c) {
  const int rows = key.ta == Trans::yes ? key.k : key.m, whole = rows / kRowTile * kRowTile;
  if (whole > 0 && whole < rows) {
    ProductKey first = key;
    (key.ta == Trans::yes ? first.k : first.m) = whole;
    multiply(first, a, b, c);
    const auto done = static_cast<std::size_t>(whole);
    a += done * static_cast<std::size_t>(key.lda);
    if (key.ta == Trans::yes) {
      b += done * static_cast<std::size_t>(key.ldb);
      key.k -= whole, key.adds = true;
    } else {
      c += done * static_cast<std::size_t>(key.ldc);
      key.m -= whole;
    }
  }
  multiply(key, a, b, c);
}

#else

MatrixUnit unit_of(std::string_view) {
  return MatrixUnit::none;
}

std::string not_here(std::string_view choice) {
  return "this program was built without oneDNN, so it has no " + std::string(choice);
}

MatrixUnit found_unit() {
  return MatrixUnit::none;
}

#endif

// "auto" and "off" can always be had.
bool gives(std::string_view choice, MatrixUnit unit) {
  return choice == "auto" || choice == "off" || choice == kMatrixUnitNames[static_cast<int>(unit)];
}

}  // namespace

MatrixUnit matrix_unit() {
  static const MatrixUnit unit = found_unit();
  return unit;
}

std::string matrix_unit_text(MatrixUnit unit) {
#if defined(MOESCOPE_ONEDNN)
  if (unit != MatrixUnit::none) {
    const dnnl_version_t& v = *dnnl_version();
    return "oneDNN " + std::to_string(v.major) + '.' + std::to_string(v.minor) + '.' + std::to_string(v.patch) + ' ' +
           kMatrixUnitNames[static_cast<int>(unit)];
  }
#endif
  (void)unit;
  return std::string(kNoMatrixUnits);
}

const std::string& matrix_unit_text() {
  static const std::string text = matrix_unit_text(matrix_unit());
  return text;
}

std::vector<MatrixUnitChoice> matrix_unit_choices() {
  std::vector<MatrixUnitChoice> choices;
  for (const std::string_view name : kMatrixUnitChoices) {
    const MatrixUnit unit = unit_of(name);
    choices.push_back({name, unit, gives(name, unit) ? "" : not_here(name)});
  }
  return choices;
}

std::string choose_matrix_unit(std::string_view choice) {
  if (std::ranges::find(kMatrixUnitChoices, choice) == std::end(kMatrixUnitChoices))
    return "matrix units '" + std::string(choice) + "': allowed are auto, amx, avx512_bf16, off";
  setenv(kMatrixUnitsVariable, std::string(choice).c_str(), 1);
  return gives(choice, matrix_unit()) ? "" : not_here(choice);
}

#if defined(MOESCOPE_ONEDNN)

void gemm(Trans ta, Trans tb, int m, int n, int k, float alpha, const Bf16* a, int lda, const Bf16* b, int ldb,
          float beta, float* c, int ldc) {
  assert(has_matrix_unit() && (beta == 0 || beta == 1));
  if (m == 0 || n == 0) return;
  const auto row = [&](float* of, int r, int stride) {
    return of + static_cast<std::size_t>(r) * static_cast<std::size_t>(stride);
  };
  if (k == 0) {
    for (int r = 0; beta == 0 && r < m; ++r) std::fill_n(row(c, r, ldc), n, 0.0f);
    return;
  }
  keep_onednn_on_this_thread();
  const ProductKey key{ta, tb, beta == 1, m, n, k, lda, ldb, ldc};
  if (alpha == 1 || beta == 0) {
    multiply_tiled(key, a, b, c);
    for (int r = 0; alpha != 1 && r < m; ++r)
      for (float *to = row(c, r, ldc), *end = to + n; to != end; ++to) *to *= alpha;
    return;
  }
  thread_local std::vector<float> unscaled;
  unscaled.resize(std::max(unscaled.size(), static_cast<std::size_t>(m) * static_cast<std::size_t>(n)));
  multiply_tiled({ta, tb, false, m, n, k, lda, ldb, n}, a, b, unscaled.data());
  for (int r = 0; r < m; ++r) {
    const float* from = row(unscaled.data(), r, n);
    float* to = row(c, r, ldc);
    for (int i = 0; i < n; ++i) to[i] += alpha * from[i];
  }
}

#else

void gemm(Trans, Trans, int, int, int, float, const Bf16*, int, const Bf16*, int, float, float*, int) {
  assert(false);  // there are no matrix units
}

#endif

}  // namespace moescope

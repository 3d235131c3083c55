#include "core/history/frame_pack.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "core/frame/describe.h"

namespace moescope {

static_assert(std::endian::native == std::endian::little, "wide counts are copied in the byte order of memory");

namespace {

class Packer {
 public:
  template <class T>
  void put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(grow(sizeof value), &value, sizeof value);
  }
  void put_text(const char* text, std::size_t size) {
    if (size) std::memcpy(grow(size), text, size);
  }
  void put_string(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    put_text(text.data(), text.size());
  }
  void put_floats(const std::vector<float>& values) {
    put(static_cast<std::uint32_t>(values.size()));
    const std::size_t bytes = values.size() * sizeof(float);
    if (bytes) std::memcpy(grow(bytes), values.data(), bytes);
  }
  void put_counts(std::span<const std::uint32_t> counts) {
    std::uint32_t bits = 0;
    for (const std::uint32_t n : counts) bits |= n;
    const std::uint8_t width = bits < 1u << 8 ? 1 : bits < 1u << 16 ? 2 : 4;
    put(static_cast<std::uint32_t>(counts.size()));
    put(width);
    std::uint8_t* out = grow(counts.size() * width);
    if (width == 1) {
      for (const std::uint32_t n : counts) *out++ = static_cast<std::uint8_t>(n);
    } else if (width == 2) {
      for (std::size_t i = 0; i < counts.size(); ++i) {
        const auto n = static_cast<std::uint16_t>(counts[i]);
        std::memcpy(out + 2 * i, &n, sizeof n);
      }
    } else if (!counts.empty()) {
      std::memcpy(out, counts.data(), counts.size() * width);
    }
  }
  void put_scalars(const TelemetryFrame& frame) {
    put(frame.run);
    put(frame.step);
    put(frame.wall_s);
    put(frame.tokens);
    figures(frame, kFrameFigures);
    put(frame.phase_ms);
  }
  // Of describe().
  void layer(int layer, LayerColumn) { put(layer); }
  template <class Frame, std::size_t N>
  void figures(const Frame& frame, const std::array<FrameFigure<Frame>, N>& table) {
    for (const auto& figure : table) put(frame.*figure.member);
  }
  void by_expert(const std::vector<float>& values, Column) { put_floats(values); }
  void by_expert(const std::vector<std::uint32_t>& counts, Column) { put_counts(counts); }
  void bins(std::span<const std::uint32_t> counts, Column) { put_counts(counts); }
  template <class Enum>
  void name(Enum value, Column, Names<Enum>) {
    put(value);
  }
  void text(const std::string& text, Column) { put_string(text); }
  void gemm(Gemm gemm) { put(gemm); }
  void gemm_class(Gemm) {}
  void scales(const std::array<std::uint32_t, 256>& e8m0_blocks) {
    const ByteRange range = occupied_bytes(e8m0_blocks);
    put(static_cast<std::uint8_t>(range.first));
    put_counts(
        std::span(e8m0_blocks).subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.count)));
  }
  std::size_t size() const { return size_; }
  void put_at(std::size_t place, std::uint32_t value) { std::memcpy(bytes_.get() + place, &value, sizeof value); }
  PackedFrame packed() const { return {bytes_.get(), bytes_.get() + size_}; }

 private:
  std::uint8_t* grow(std::size_t size) {
    if (size_ + size > capacity_) make_room(size);
    return bytes_.get() + std::exchange(size_, size_ + size);
  }
  void make_room(std::size_t size) {
    capacity_ = std::max(2 * capacity_, size_ + size);
    auto larger = std::make_unique_for_overwrite<std::uint8_t[]>(capacity_);
    std::memcpy(larger.get(), bytes_.get(), size_);
    bytes_ = std::move(larger);
  }
  // No std::vector, which would fill with zeros what is written right after.
  std::size_t size_ = 0, capacity_ = std::size_t{64} << 10;
  std::unique_ptr<std::uint8_t[]> bytes_ = std::make_unique_for_overwrite<std::uint8_t[]>(capacity_);
};

class Unpacker {
 public:
  explicit Unpacker(const PackedFrame& packed) : at_(packed.data()), end_(at_ + packed.size()) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  std::string get_string() {
    const auto size = get<std::uint32_t>();
    return {reinterpret_cast<const char*>(take(size)), size};
  }
  void get_floats(std::vector<float>& values) {
    values.resize(get<std::uint32_t>());
    const std::size_t bytes = values.size() * sizeof(float);
    if (bytes) std::memcpy(values.data(), take(bytes), bytes);
  }
  std::uint32_t get_count_header() { return get<std::uint32_t>(); }
  void get_counts(std::uint32_t* counts, std::size_t size) {
    const int width = get<std::uint8_t>();
    const std::uint8_t* bytes = take(size * width);
    if (width == 1) {
      std::copy_n(bytes, size, counts);
    } else if (width == 2) {
      for (std::size_t i = 0; i < size; ++i) counts[i] = bytes[2 * i] | std::uint32_t{bytes[2 * i + 1]} << 8;
    } else if (size) {
      std::memcpy(counts, bytes, size * sizeof(std::uint32_t));
    }
  }
  void get_counts(std::vector<std::uint32_t>& counts) {
    counts.resize(get_count_header());
    get_counts(counts.data(), counts.size());
  }
  void skip_counts() {
    const std::size_t size = get_count_header();
    const std::size_t width = get<std::uint8_t>();
    take(size * width);
  }
  void get_scalars(TelemetryFrame& frame) {
    frame.run = get<int>();
    frame.step = get<std::int64_t>();
    frame.wall_s = get<double>();
    frame.tokens = get<std::int64_t>();
    figures(frame, kFrameFigures);
    frame.phase_ms = get<std::array<float, kNumPhases>>();
  }
  // Of describe().
  void layer(int& layer, LayerColumn) { layer = get<int>(); }
  template <class Frame, std::size_t N>
  void figures(Frame& frame, const std::array<FrameFigure<Frame>, N>& table) {
    for (const auto& figure : table) frame.*figure.member = get<float>();
  }
  void by_expert(std::vector<float>& values, Column) { get_floats(values); }
  void by_expert(std::vector<std::uint32_t>& counts, Column) { get_counts(counts); }
  void bins(std::vector<std::uint32_t>& counts, Column) { get_counts(counts); }
  void bins(HalfOctaves& counts, Column) { get_counts(counts.data(), get_count_header()); }
  template <class Enum>
  void name(Enum& value, Column, Names<Enum>) {
    value = get<Enum>();
  }
  void text(std::string& text, Column) { text = get_string(); }
  void gemm(Gemm& gemm) { gemm = get<Gemm>(); }
  void gemm_class(Gemm) {}
  void scales(std::array<std::uint32_t, 256>& e8m0_blocks) {
    const int first = get<std::uint8_t>();
    get_counts(e8m0_blocks.data() + first, get_count_header());
  }
  const std::uint8_t* take(std::size_t bytes) {
    assert(static_cast<std::size_t>(end_ - at_) >= bytes);
    const std::uint8_t* begin = at_;
    at_ += bytes;
    return begin;
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

template <class Row>
void put_rows(Packer& packer, const std::vector<Row>& rows) {
  packer.put(static_cast<std::uint32_t>(rows.size()));
  for (const Row& row : rows) describe(row, packer);
}

template <class Row>
void get_rows(Unpacker& unpacker, std::vector<Row>& rows) {
  rows.resize(unpacker.get<std::uint32_t>());
  for (Row& row : rows) describe(row, unpacker);
}

// The frame's scalars, then each list.
template <class... Rows>
PackedFrame pack_lists(const TelemetryFrame& frame, const std::vector<Rows>&... lists) {
  Packer packer;
  packer.put_scalars(frame);
  (put_rows(packer, lists), ...);
  return packer.packed();
}

template <class... Rows>
void unpack_lists(const PackedFrame& packed, TelemetryFrame& frame, std::vector<Rows>&... lists) {
  Unpacker unpacker(packed);
  unpacker.get_scalars(frame);
  (get_rows(unpacker, lists), ...);
}

}  // namespace

PackedFrame pack_routers(const TelemetryFrame& frame) {
  Packer packer;
  packer.put_scalars(frame);
  packer.put(static_cast<std::uint32_t>(frame.routers.size()));
  for (const RouterFrame& router : frame.routers) {
    const std::size_t begin = packer.size();
    packer.put(std::uint32_t{0});  // bytes of this router, for skipping it
    describe(router, packer);
    packer.put(router.volume.ranks);
    packer.put(router.volume.ranks_per_node);
    packer.put_counts(router.volume.copies_RR);
    packer.put_counts(router.volume.distinct_RR);
    packer.put_counts(router.volume.nodes_RN);
    packer.put_at(begin, static_cast<std::uint32_t>(packer.size() - begin));
  }
  const WireFrame& wire = frame.wire;
  packer.put(wire.ranks);
  packer.put(wire.over_nodes);
  for (const std::uint64_t bytes : wire.sent_RR) packer.put(bytes);
  for (const float ms : wire.all_to_all_ms_R) packer.put(ms);
  return packer.packed();
}

void unpack_routers(const PackedFrame& packed, TelemetryFrame& frame) {
  Unpacker unpacker(packed);
  unpacker.get_scalars(frame);
  frame.routers.resize(unpacker.get<std::uint32_t>());
  for (RouterFrame& router : frame.routers) {
    unpacker.get<std::uint32_t>();
    describe(router, unpacker);
    router.volume.ranks = unpacker.get<int>();
    router.volume.ranks_per_node = unpacker.get<int>();
    unpacker.get_counts(router.volume.copies_RR);
    unpacker.get_counts(router.volume.distinct_RR);
    unpacker.get_counts(router.volume.nodes_RN);
  }
  WireFrame& wire = frame.wire;
  wire.ranks = unpacker.get<int>();
  wire.over_nodes = unpacker.get<bool>();
  const auto ranks = static_cast<std::size_t>(wire.ranks);
  wire.sent_RR.resize(ranks * ranks);
  wire.all_to_all_ms_R.resize(ranks);
  for (std::uint64_t& bytes : wire.sent_RR) bytes = unpacker.get<std::uint64_t>();
  for (float& ms : wire.all_to_all_ms_R) ms = unpacker.get<float>();
}

PackedFrame pack_quants(const TelemetryFrame& frame) {
  return pack_lists(frame, frame.quants);
}

void unpack_quants(const PackedFrame& packed, TelemetryFrame& frame) {
  unpack_lists(packed, frame, frame.quants);
}

PackedFrame pack_flips(const TelemetryFrame& frame) {
  return pack_lists(frame, frame.flips);
}

void unpack_flips(const PackedFrame& packed, TelemetryFrame& frame) {
  unpack_lists(packed, frame, frame.flips);
}

PackedFrame pack_gradients(const TelemetryFrame& frame) {
  return pack_lists(frame, frame.gradients, frame.rounding_flips);
}

void unpack_gradients(const PackedFrame& packed, TelemetryFrame& frame) {
  unpack_lists(packed, frame, frame.gradients, frame.rounding_flips);
}

bool unpack_bias(const PackedFrame& packed, int layer, std::vector<float>& bias) {
  Unpacker unpacker(packed);
  TelemetryFrame scalars;
  unpacker.get_scalars(scalars);
  const auto size = unpacker.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < size; ++i) {
    const auto bytes = unpacker.get<std::uint32_t>();
    if (unpacker.get<int>() == layer) {
      unpacker.take(kRouterFigures.size() * sizeof(float));
      unpacker.skip_counts();  // tokens_per_expert
      unpacker.get_floats(bias);
      return !bias.empty();
    }
    unpacker.take(bytes - sizeof(std::uint32_t) - sizeof(int));
  }
  return false;
}

// together_EE is symmetric: its upper triangle is kept.
PackedFrame pack_specialisation(const TelemetryFrame& frame) {
  Packer packer;
  packer.put_scalars(frame);
  packer.put(static_cast<std::uint32_t>(frame.specialisation.size()));
  std::vector<std::uint32_t> upper;
  for (const SpecialisationFrame& special : frame.specialisation) {
    packer.put(special.layer);
    packer.put_counts(special.domain_DE);
    const std::size_t experts = special.n_experts();
    upper.clear();
    for (std::size_t i = 0; i < experts && !special.together_EE.empty(); ++i) {
      const auto row = special.together_EE.begin() + static_cast<std::ptrdiff_t>(i * experts);
      upper.insert(upper.end(), row + static_cast<std::ptrdiff_t>(i), row + static_cast<std::ptrdiff_t>(experts));
    }
    packer.put(static_cast<std::uint32_t>(experts));
    packer.put_counts(upper);
    packer.put_counts(special.byte_256E);
    packer.put_floats(special.weight_norm_E);
    packer.put_floats(special.weight_sqnr_E);
    packer.put_floats(special.bias_for_share_EQ);
  }
  return packer.packed();
}

namespace {

void get_specialisation(Unpacker& unpacker, SpecialisationFrame& special) {
  unpacker.get_counts(special.domain_DE);
  const auto experts = std::size_t{unpacker.get<std::uint32_t>()};
  std::vector<std::uint32_t> upper;
  unpacker.get_counts(upper);
  special.experts = static_cast<int>(experts);
  if (!upper.empty()) special.together_EE.resize(experts * experts);
  const std::uint32_t* next = upper.data();
  for (std::size_t i = 0; i < experts && !upper.empty(); ++i) {
    for (std::size_t j = i; j < experts; ++j) {
      special.together_EE[i * experts + j] = special.together_EE[j * experts + i] = *next++;
    }
  }
  unpacker.get_counts(special.byte_256E);
  unpacker.get_floats(special.weight_norm_E);
  unpacker.get_floats(special.weight_sqnr_E);
  unpacker.get_floats(special.bias_for_share_EQ);
}

}  // namespace

void unpack_specialisation(const PackedFrame& packed, TelemetryFrame& frame) {
  Unpacker unpacker(packed);
  unpacker.get_scalars(frame);
  frame.specialisation.resize(unpacker.get<std::uint32_t>());
  for (SpecialisationFrame& special : frame.specialisation) {
    special.layer = unpacker.get<int>();
    get_specialisation(unpacker, special);
  }
}

bool unpack_specialisation_of(const PackedFrame& packed, int layer, SpecialisationFrame& special) {
  Unpacker unpacker(packed);
  TelemetryFrame scalars;
  unpacker.get_scalars(scalars);
  const auto size = unpacker.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < size; ++i) {
    special.layer = unpacker.get<int>();
    if (special.layer == layer) {
      get_specialisation(unpacker, special);
      return true;
    }
    unpacker.skip_counts();
    unpacker.get<std::uint32_t>();
    unpacker.skip_counts();
    unpacker.skip_counts();
    for (int arrays = 0; arrays < 3; ++arrays) unpacker.take(unpacker.get<std::uint32_t>() * sizeof(float));
  }
  return false;
}

PackedFrame pack_text(const TelemetryFrame& frame, const TokenFrame& text) {
  Packer packer;
  packer.put_scalars(frame);
  packer.put(text.kind);
  packer.put_string(text.text);
  packer.put(text.prompt);
  packer.put_string(text.domain);
  packer.put_floats(text.loss_T);
  packer.put(static_cast<std::uint32_t>(text.layers.size()));
  for (const TokenLayer& layer : text.layers) {
    packer.put(layer.layer);
    packer.put(layer.top_k);
    packer.put_counts(std::vector<std::uint32_t>(layer.experts_TK.begin(), layer.experts_TK.end()));
    packer.put_floats(layer.scores_TK);
    packer.put_floats(layer.margin_T);
  }
  return packer.packed();
}

void unpack_text(const PackedFrame& packed, TelemetryFrame& frame) {
  Unpacker unpacker(packed);
  unpacker.get_scalars(frame);
  TokenFrame& text = frame.texts.emplace_back();
  text.kind = unpacker.get<TextKind>();
  text.text = unpacker.get_string();
  text.prompt = unpacker.get<int>();
  text.domain = unpacker.get_string();
  unpacker.get_floats(text.loss_T);
  text.layers.resize(unpacker.get<std::uint32_t>());
  std::vector<std::uint32_t> experts;
  for (TokenLayer& layer : text.layers) {
    layer.layer = unpacker.get<int>();
    layer.top_k = unpacker.get<int>();
    unpacker.get_counts(experts);
    layer.experts_TK.assign(experts.begin(), experts.end());
    unpacker.get_floats(layer.scores_TK);
    unpacker.get_floats(layer.margin_T);
  }
}

bool unpack_scales(const PackedFrame& packed, const OperandPlace& place, std::uint32_t* counts) {
  Unpacker unpacker(packed);
  TelemetryFrame scalars;
  unpacker.get_scalars(scalars);
  const auto size = unpacker.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < size; ++i) {
    OperandPlace here;
    here.layer = unpacker.get<int>();
    here.gemm = unpacker.get<Gemm>();
    here.operand = unpacker.get<OperandRole>();
    here.direction = unpacker.get<Direction>();
    unpacker.take(unpacker.get<std::uint32_t>());  // format
    unpacker.take(kQuantFigures.size() * sizeof(float));
    const int first = unpacker.get<std::uint8_t>();
    if (here == place) {
      const std::uint32_t count = unpacker.get_count_header();
      std::fill_n(counts, 256, 0u);
      unpacker.get_counts(counts + first, count);
      return true;
    }
    unpacker.skip_counts();
  }
  return false;
}

}  // namespace moescope

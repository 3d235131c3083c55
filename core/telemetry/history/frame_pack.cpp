#include "core/telemetry/history/frame_pack.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <span>
#include <type_traits>

#include "core/telemetry/frame/frame_fields.h"

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
    const std::uint32_t largest = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
    const std::uint8_t width = largest < 1u << 8 ? 1 : largest < 1u << 16 ? 2 : 4;
    put(static_cast<std::uint32_t>(counts.size()));
    put(width);
    std::uint8_t* out = grow(counts.size() * width);
    if (width == 1) {
      for (const std::uint32_t n : counts) *out++ = static_cast<std::uint8_t>(n);
    } else if (width == 2) {
      for (const std::uint32_t n : counts) {
        *out++ = static_cast<std::uint8_t>(n);
        *out++ = static_cast<std::uint8_t>(n >> 8);
      }
    } else {
      std::memcpy(out, counts.data(), counts.size() * width);
    }
  }
  void put_scalars(const TelemetryFrame& frame) {
    put(frame.run);
    put(frame.step);
    put(frame.wall_s);
    put(frame.tokens);
    for (const auto& field : kFrameFields) put(frame.*field.member);
    put(frame.phase_ms);
  }
  std::size_t size() const { return bytes_.size(); }
  void put_at(std::size_t place, std::uint32_t value) { std::memcpy(bytes_.data() + place, &value, sizeof value); }
  PackedFrame take() {
    bytes_.shrink_to_fit();
    return std::move(bytes_);
  }

 private:
  std::uint8_t* grow(std::size_t size) {
    bytes_.resize(bytes_.size() + size);
    return bytes_.data() + bytes_.size() - size;
  }
  PackedFrame bytes_;
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
    for (const auto& field : kFrameFields) frame.*field.member = get<float>();
    frame.phase_ms = get<std::array<float, kNumPhases>>();
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

// What identifies an operand, in front of each packed QuantFrame.
struct QuantKey {
  std::int32_t layer;
  GemmClass gemm_class;
  ExpertWeight weight;
  Operand operand;
  Direction direction;
  std::uint8_t gemm_length;
  std::uint8_t format_length;
  std::uint16_t unused = 0;
};
static_assert(std::has_unique_object_representations_v<QuantKey>);

void put_flips(Packer& packer, const std::vector<FlipFrame>& flips) {
  packer.put(static_cast<std::uint32_t>(flips.size()));
  for (const FlipFrame& flip : flips) {
    packer.put(flip.layer);
    packer.put(flip.flip_rate);
    packer.put_counts(flip.margin_tokens);
    packer.put_counts(flip.margin_flipped);
  }
}

void get_flips(Unpacker& unpacker, std::vector<FlipFrame>& flips) {
  flips.resize(unpacker.get<std::uint32_t>());
  for (FlipFrame& flip : flips) {
    flip.layer = unpacker.get<int>();
    flip.flip_rate = unpacker.get<float>();
    for (auto* histogram : {&flip.margin_tokens, &flip.margin_flipped}) {
      const std::uint32_t bins = unpacker.get_count_header();
      unpacker.get_counts(histogram->data(), bins);
    }
  }
}

}  // namespace

PackedFrame pack_routers(const TelemetryFrame& frame) {
  Packer packer;
  packer.put_scalars(frame);
  packer.put(static_cast<std::uint32_t>(frame.routers.size()));
  for (const RouterFrame& router : frame.routers) {
    const std::size_t begin = packer.size();
    packer.put(std::uint32_t{0});  // bytes of this router, for skipping it
    packer.put(router.layer);
    packer.put_floats(router.expert_bias);
    for (const auto& field : kRouterFields) packer.put(router.*field.member);
    packer.put_counts(router.tokens_per_expert);
    packer.put_floats(router.score_mass);
    packer.put_floats(router.gate_mass);
    packer.put(router.volume.ranks);
    packer.put(router.volume.ranks_per_node);
    packer.put_counts(router.volume.copies_RR);
    packer.put_counts(router.volume.distinct_RR);
    packer.put_counts(router.volume.nodes_RN);
    packer.put_counts(router.score_chosen);
    packer.put_counts(router.score_rejected);
    packer.put_counts(router.margin_tokens);
    packer.put_at(begin, static_cast<std::uint32_t>(packer.size() - begin));
  }
  const WireFrame& wire = frame.wire;
  packer.put(wire.ranks);
  packer.put(wire.over_nodes);
  for (const std::uint64_t bytes : wire.sent_RR) packer.put(bytes);
  for (const float ms : wire.all_to_all_ms_R) packer.put(ms);
  return packer.take();
}

void unpack_routers(const PackedFrame& packed, TelemetryFrame& frame) {
  Unpacker unpacker(packed);
  unpacker.get_scalars(frame);
  frame.routers.resize(unpacker.get<std::uint32_t>());
  for (RouterFrame& router : frame.routers) {
    unpacker.get<std::uint32_t>();
    router.layer = unpacker.get<int>();
    unpacker.get_floats(router.expert_bias);
    for (const auto& field : kRouterFields) router.*field.member = unpacker.get<float>();
    unpacker.get_counts(router.tokens_per_expert);
    unpacker.get_floats(router.score_mass);
    unpacker.get_floats(router.gate_mass);
    router.volume.ranks = unpacker.get<int>();
    router.volume.ranks_per_node = unpacker.get<int>();
    unpacker.get_counts(router.volume.copies_RR);
    unpacker.get_counts(router.volume.distinct_RR);
    unpacker.get_counts(router.volume.nodes_RN);
    unpacker.get_counts(router.score_chosen);
    unpacker.get_counts(router.score_rejected);
    unpacker.get_counts(router.margin_tokens);
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
  Packer packer;
  packer.put_scalars(frame);
  packer.put(static_cast<std::uint32_t>(frame.quants.size()));
  for (const QuantFrame& quant : frame.quants) {
    const std::size_t gemm_length = std::min<std::size_t>(quant.gemm.size(), 255);
    const std::size_t format_length = std::min<std::size_t>(quant.format.size(), 255);
    packer.put(QuantKey{quant.layer, quant.gemm_class, quant.weight, quant.operand, quant.direction,
                        static_cast<std::uint8_t>(gemm_length), static_cast<std::uint8_t>(format_length)});
    packer.put_text(quant.gemm.data(), gemm_length);
    packer.put_text(quant.format.data(), format_length);
    for (const auto& field : kQuantFields) packer.put(quant.*field.member);
    const ByteRange range = occupied_bytes(quant.e8m0_blocks);
    packer.put(static_cast<std::uint8_t>(range.first));
    packer.put_counts(std::span(quant.e8m0_blocks).subspan(range.first, range.count));
  }
  return packer.take();
}

void unpack_quants(const PackedFrame& packed, TelemetryFrame& frame) {
  Unpacker unpacker(packed);
  unpacker.get_scalars(frame);
  frame.quants.resize(unpacker.get<std::uint32_t>());
  for (QuantFrame& quant : frame.quants) {
    const auto key = unpacker.get<QuantKey>();
    quant.layer = key.layer;
    quant.gemm_class = key.gemm_class;
    quant.weight = key.weight;
    quant.operand = key.operand;
    quant.direction = key.direction;
    quant.gemm.assign(reinterpret_cast<const char*>(unpacker.take(key.gemm_length)), key.gemm_length);
    quant.format.assign(reinterpret_cast<const char*>(unpacker.take(key.format_length)), key.format_length);
    for (const auto& field : kQuantFields) quant.*field.member = unpacker.get<float>();
    const int first = unpacker.get<std::uint8_t>();
    const std::uint32_t count = unpacker.get_count_header();
    unpacker.get_counts(quant.e8m0_blocks.data() + first, count);
  }
}

PackedFrame pack_flips(const TelemetryFrame& frame) {
  Packer packer;
  packer.put_scalars(frame);
  put_flips(packer, frame.flips);
  return packer.take();
}

void unpack_flips(const PackedFrame& packed, TelemetryFrame& frame) {
  Unpacker unpacker(packed);
  unpacker.get_scalars(frame);
  get_flips(unpacker, frame.flips);
}

PackedFrame pack_gradients(const TelemetryFrame& frame) {
  Packer packer;
  packer.put_scalars(frame);
  packer.put(static_cast<std::uint32_t>(frame.gradients.size()));
  for (const GradientFrame& gradient : frame.gradients) packer.put(gradient);
  put_flips(packer, frame.rounding_flips);
  return packer.take();
}

void unpack_gradients(const PackedFrame& packed, TelemetryFrame& frame) {
  Unpacker unpacker(packed);
  unpacker.get_scalars(frame);
  frame.gradients.resize(unpacker.get<std::uint32_t>());
  for (GradientFrame& gradient : frame.gradients) gradient = unpacker.get<GradientFrame>();
  get_flips(unpacker, frame.rounding_flips);
}

bool unpack_bias(const PackedFrame& packed, int layer, std::vector<float>& bias) {
  Unpacker unpacker(packed);
  TelemetryFrame scalars;
  unpacker.get_scalars(scalars);
  const auto size = unpacker.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < size; ++i) {
    const auto bytes = unpacker.get<std::uint32_t>();
    if (unpacker.get<int>() == layer) {
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
  }
  return packer.take();
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
    for (int i = 0; i < 2; ++i) unpacker.take(unpacker.get<std::uint32_t>() * sizeof(float));
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
  return packer.take();
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
    const auto key = unpacker.get<QuantKey>();
    const auto* name = reinterpret_cast<const char*>(unpacker.take(key.gemm_length));
    const std::string_view gemm =
        key.gemm_class == GemmClass::experts ? expert_weight_name(key.weight) : std::string_view(name, key.gemm_length);
    unpacker.take(key.format_length + kQuantFields.size() * sizeof(float));
    const int first = unpacker.get<std::uint8_t>();
    if (key.layer == place.layer && key.gemm_class == place.gemm_class && gemm == place.gemm &&
        key.operand == place.operand && key.direction == place.direction) {
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

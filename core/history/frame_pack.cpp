#include "core/history/frame_pack.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "core/frame/describe.h"

namespace moescope {

static_assert(std::endian::native == std::endian::little, "wide counts are copied in the byte order of memory");

namespace {

// Large rows begin with their size, so that a row can be found without unpacking those before it.
template <class Row>
constexpr bool kHasSize = std::is_same_v<Row, RouterFrame> || std::is_same_v<Row, SpecialisationFrame>;

// Packer and Unpacker have the same functions, so that transfer() and describe() both write and read a row.
class Packer {
 public:
  Packer() { bytes_.reserve(std::size_t{64} << 10); }
  template <class T>
  void value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(grow(sizeof value), &value, sizeof value);
  }
  template <class Array>
  void array(const Array& values) {
    value(static_cast<std::uint32_t>(values.size()));
    const std::size_t size = values.size() * sizeof(values[0]);
    if (size) std::memcpy(grow(size), values.data(), size);
  }
  void counts(std::span<const std::uint32_t> counts) {
    std::uint32_t bits = 0;
    for (const std::uint32_t n : counts) bits |= n;
    const std::uint8_t width = bits < 1u << 8 ? 1 : bits < 1u << 16 ? 2 : 4;
    value(static_cast<std::uint32_t>(counts.size()));
    value(width);
    std::uint8_t* const out = grow(counts.size() * width);
    if (width == 1)
      std::ranges::transform(counts, out, [](std::uint32_t n) { return static_cast<std::uint8_t>(n); });
    else if (width == 2)
      for (std::size_t i = 0; i < counts.size(); ++i) std::memcpy(out + 2 * i, &counts[i], 2);
    else
      std::memcpy(out, counts.data(), counts.size_bytes());
  }
  // Stores the upper triangle of `matrix` [n, n], or nothing if it is empty.
  void symmetric(const std::vector<std::uint32_t>& matrix, std::size_t n) {
    std::vector<std::uint32_t> upper;
    for (std::size_t i = 0; i < n && !matrix.empty(); ++i)
      upper.insert(upper.end(), matrix.begin() + static_cast<std::ptrdiff_t>(i * n + i),
                   matrix.begin() + static_cast<std::ptrdiff_t>((i + 1) * n));
    counts(upper);
  }
  template <class Row>
  void rows(const std::vector<Row>& rows) {
    value(static_cast<std::uint32_t>(rows.size()));
    for (const Row& row : rows) {
      const std::size_t begin = bytes_.size();
      if (kHasSize<Row>) value(std::uint32_t{0});
      transfer(*this, row);
      const auto size = static_cast<std::uint32_t>(bytes_.size() - begin);
      if (kHasSize<Row>) std::memcpy(bytes_.data() + begin, &size, sizeof size);
    }
  }
  // Called by describe().
  void layer(int layer, LayerColumn) { value(layer); }
  template <class Frame, std::size_t N>
  void figures(const Frame& frame, const std::array<FrameFigure<Frame>, N>& table) {
    for (const auto& figure : table) value(frame.*figure.member);
  }
  void by_expert(const std::vector<float>& values, Column) { array(values); }
  void by_expert(const std::vector<std::uint32_t>& by_expert, Column) { counts(by_expert); }
  void bins(std::span<const std::uint32_t> bins, Column) { counts(bins); }
  template <class Enum>
  void name(Enum name, Column, Names<Enum>) {
    value(name);
  }
  void text(const std::string& text, Column) { array(text); }
  void gemm(Gemm gemm) { value(gemm); }
  void scales(const std::array<std::uint32_t, 256>& e8m0_blocks) {
    const ByteRange range = occupied_bytes(e8m0_blocks);
    value(static_cast<std::uint8_t>(range.first));
    counts(
        std::span(e8m0_blocks).subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.count)));
  }
  PackedFrame packed() const { return {bytes_.begin(), bytes_.end()}; }  // without reserved memory

 private:
  std::uint8_t* grow(std::size_t size) {
    bytes_.resize(bytes_.size() + size);
    return bytes_.data() + bytes_.size() - size;
  }
  std::vector<std::uint8_t> bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(const PackedFrame& packed) : at_(packed.data()), end_(at_ + packed.size()) {}
  template <class T>
  void value(T& value) {
    std::memcpy(&value, take(sizeof value), sizeof value);
  }
  template <class T>
  T get() {
    T read;
    value(read);
    return read;
  }
  template <class Array>
  void array(Array& values) {
    values.resize(get<std::uint32_t>());
    const std::size_t size = values.size() * sizeof(values[0]);
    if (size) std::memcpy(values.data(), take(size), size);
  }
  void counts(std::vector<std::uint32_t>& counts) {
    counts.resize(get<std::uint32_t>());
    counts_into(counts.data(), counts.size());
  }
  void symmetric(std::vector<std::uint32_t>& matrix, std::size_t n) {
    std::vector<std::uint32_t> upper;
    counts(upper);
    if (!upper.empty()) matrix.resize(n * n);
    const std::uint32_t* next = upper.data();
    for (std::size_t i = 0; i < n && !upper.empty(); ++i)
      for (std::size_t j = i; j < n; ++j) matrix[i * n + j] = matrix[j * n + i] = *next++;
  }
  template <class Row>
  void rows(std::vector<Row>& rows) {
    rows.resize(get<std::uint32_t>());
    for (Row& row : rows) {
      if (kHasSize<Row>) get<std::uint32_t>();
      transfer(*this, row);
    }
  }
  // Returns the first row of `layer` in a list of rows for which `is_it` holds. Rows begin with their layer.
  template <class Row, class Is>
  std::optional<Row> find(int layer, Is is_it) {
    for (auto rows = get<std::uint32_t>(); rows > 0; --rows) {
      if constexpr (kHasSize<Row>) {
        const std::uint8_t* const begin = at_;
        const std::size_t size = get<std::uint32_t>();
        if (Unpacker(*this).template get<int>() != layer) {
          at_ = begin + size;
          continue;
        }
      }
      Row row;
      transfer(*this, row);
      if (row.layer == layer && is_it(row)) return row;
    }
    return std::nullopt;
  }
  // Called by describe().
  void layer(int& layer, LayerColumn) { value(layer); }
  template <class Frame, std::size_t N>
  void figures(Frame& frame, const std::array<FrameFigure<Frame>, N>& table) {
    for (const auto& figure : table) value(frame.*figure.member);
  }
  void by_expert(std::vector<float>& values, Column) { array(values); }
  void by_expert(std::vector<std::uint32_t>& by_expert, Column) { counts(by_expert); }
  void bins(std::vector<std::uint32_t>& bins, Column) { counts(bins); }
  void bins(HalfOctaves& bins, Column) { counts_into(bins.data(), get<std::uint32_t>()); }
  template <class Enum>
  void name(Enum& name, Column, Names<Enum>) {
    value(name);
  }
  void text(std::string& text, Column) { array(text); }
  void gemm(Gemm& gemm) { value(gemm); }
  void scales(std::array<std::uint32_t, 256>& e8m0_blocks) {
    const std::uint8_t first = get<std::uint8_t>();
    counts_into(e8m0_blocks.data() + first, get<std::uint32_t>());
  }

 private:
  void counts_into(std::uint32_t* counts, std::size_t size) {
    const std::size_t width = get<std::uint8_t>();
    const std::uint8_t* const bytes = take(size * width);
    if (width == 1)
      std::copy_n(bytes, size, counts);
    else if (width == 2)
      for (std::size_t i = 0; i < size; ++i) counts[i] = bytes[2 * i] | std::uint32_t{bytes[2 * i + 1]} << 8;
    else if (size)
      std::memcpy(counts, bytes, size * sizeof(std::uint32_t));
  }
  const std::uint8_t* take(std::size_t bytes) {
    assert(static_cast<std::size_t>(end_ - at_) >= bytes);
    return std::exchange(at_, at_ + bytes);
  }
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

void transfer(auto& archive, RowOf<RouterFrame> auto& router) {
  describe(router, archive);
  archive.value(router.volume.ranks);
  archive.value(router.volume.ranks_per_node);
  archive.counts(router.volume.copies_RR);
  archive.counts(router.volume.distinct_RR);
  archive.counts(router.volume.nodes_RN);
}

void transfer(auto& archive, RowOf<QuantFrame> auto& quant) {
  describe(quant, archive);
}

void transfer(auto& archive, RowOf<FlipFrame> auto& flip) {
  describe(flip, archive);
}

void transfer(auto& archive, RowOf<GradientFrame> auto& gradient) {
  describe(gradient, archive);
}

void transfer(auto& archive, RowOf<RouterRoundingFrame> auto& rounding) {
  describe(rounding, archive);
}

void transfer(auto& archive, RowOf<SpecialisationFrame> auto& special) {
  archive.value(special.layer);
  archive.value(special.experts);
  archive.counts(special.domain_DE);
  archive.counts(special.byte_256E);
  archive.symmetric(special.together_EE, special.n_experts());
  archive.array(special.weight_norm_E);
  archive.array(special.weight_sqnr_E);
  archive.array(special.gradient_norm_E);
  archive.array(special.update_norm_E);
  archive.array(special.bias_for_share_EQ);
}

void transfer(auto& archive, RowOf<TokenLayer> auto& layer) {
  archive.value(layer.layer);
  archive.value(layer.top_k);
  archive.array(layer.experts_TK);
  archive.array(layer.scores_TK);
  archive.array(layer.margin_T);
}

void transfer(auto& archive, RowOf<TokenFrame> auto& text) {
  archive.value(text.kind);
  archive.array(text.text);
  archive.value(text.prompt);
  archive.array(text.domain);
  archive.array(text.loss_T);
  archive.rows(text.layers);
}

TextKind kind_of(FramePart text) {
  return static_cast<TextKind>(static_cast<int>(text) - static_cast<int>(FramePart::probe));
}

// Returns the text to pack, or a new text to unpack into.
const TokenFrame& text_of(const TelemetryFrame& frame, TextKind kind) {
  return *find_text(frame, kind);
}

TokenFrame& text_of(TelemetryFrame& frame, TextKind) {
  return frame.texts.emplace_back();
}

void transfer_scalars(auto& archive, RowOf<TelemetryFrame> auto& frame) {
  archive.value(frame.run);
  archive.value(frame.step);
  archive.value(frame.wall_s);
  archive.value(frame.tokens);
  archive.figures(frame, kFrameFigures);
  archive.value(frame.phase_ms);
}

void transfer_part(auto& archive, RowOf<TelemetryFrame> auto& frame, FramePart part) {
  transfer_scalars(archive, frame);
  switch (part) {
    case FramePart::routers:
      archive.rows(frame.routers);
      archive.value(frame.wire.ranks);
      archive.value(frame.wire.over_nodes);
      archive.array(frame.wire.sent_RR);
      archive.array(frame.wire.all_to_all_ms_R);
      break;
    case FramePart::quants:
      archive.rows(frame.quants);
      break;
    case FramePart::flips:
      archive.rows(frame.flips);
      break;
    case FramePart::gradients:
      archive.rows(frame.gradients);
      archive.rows(frame.rounding_flips);
      archive.rows(frame.router_roundings);
      break;
    case FramePart::specialisation:
      archive.rows(frame.specialisation);
      break;
    case FramePart::probe:
    case FramePart::sample:
    case FramePart::batch:
      transfer(archive, text_of(frame, kind_of(part)));
      break;
  }
}

bool has_part(const TelemetryFrame& frame, FramePart part) {
  switch (part) {
    case FramePart::routers:
      return std::ranges::any_of(frame.routers,
                                 [](const RouterFrame& router) { return !router.tokens_per_expert.empty(); });
    case FramePart::quants:
      return !frame.quants.empty();
    case FramePart::flips:
      return !frame.flips.empty();
    case FramePart::gradients:
      return !frame.gradients.empty();
    case FramePart::specialisation:
      return !frame.specialisation.empty();
    default:
      return find_text(frame, kind_of(part)) != nullptr;
  }
}

template <class Row, class Is>
std::optional<Row> unpack_row(const PackedFrame& packed, int layer, Is is_it) {
  Unpacker unpacker(packed);
  TelemetryFrame scalars;
  transfer_scalars(unpacker, scalars);
  return unpacker.find<Row>(layer, is_it);
}

}  // namespace

FramePart text_part(TextKind kind) {
  return static_cast<FramePart>(static_cast<int>(FramePart::probe) + static_cast<int>(kind));
}

const TokenFrame* find_text(const TelemetryFrame& frame, TextKind kind) {
  const auto text = std::ranges::find(frame.texts, kind, &TokenFrame::kind);
  return text == frame.texts.end() ? nullptr : &*text;
}

std::optional<PackedFrame> pack(const TelemetryFrame& frame, FramePart part) {
  if (!has_part(frame, part)) return std::nullopt;
  Packer packer;
  transfer_part(packer, frame, part);
  return packer.packed();
}

void unpack(const PackedFrame& packed, FramePart part, TelemetryFrame& frame) {
  Unpacker unpacker(packed);
  transfer_part(unpacker, frame, part);
}

std::optional<RouterFrame> unpack_router(const PackedFrame& routers, int layer) {
  return unpack_row<RouterFrame>(routers, layer, [](const RouterFrame&) { return true; });
}

std::optional<QuantFrame> unpack_quant(const PackedFrame& quants, const OperandPlace& place) {
  return unpack_row<QuantFrame>(
      quants, place.layer, [&](const QuantFrame& quant) { return static_cast<const OperandPlace&>(quant) == place; });
}

std::optional<SpecialisationFrame> unpack_specialisation(const PackedFrame& specialisation, int layer) {
  return unpack_row<SpecialisationFrame>(specialisation, layer, [](const SpecialisationFrame&) { return true; });
}

}  // namespace moescope

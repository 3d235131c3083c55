#include "core/recording/history/frame_pack.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "core/frame/describe.h"
#include "core/frame/narrow_counts.h"

namespace moescope {
namespace {

// Large rows begin with their size, so that a row can be found without unpacking those before it.
template <class Row>
constexpr bool kHasSize = std::is_same_v<Row, RouterFrame> || std::is_same_v<Row, SpecialisationFrame>;

// Visitor of describe(). `Archive` is Packer or Unpacker, which have the same functions, so that one list of calls both
// writes and reads a row.
template <class Archive>
class PackedRow {
 public:
  void layer(auto& layer, LayerColumn) { archive().value(layer); }
  void figures(auto& row, const auto& table) {
    for (const auto& figure : table) archive().value(row.*figure.member);
  }
  void size(auto& size, Size, Column) { archive().value(size); }
  void array(auto& values, Column, Extent extent) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(values[0])>, std::uint32_t>)
      extent.is_symmetric ? archive().symmetric(values) : archive().counts(values);
    else
      archive().values(values);
  }
  void count_bytes(Column, const auto&...) {}
  void bins(auto& bins, Column) { archive().counts(bins); }
  void name(auto& name, Column, const auto&) { archive().value(name); }
  void text(auto& text, Column) { archive().values(text); }
  void bytes(auto& text, Column) { archive().values(text); }
  void position(auto& position, Column) { archive().value(position); }
  void flag(auto& flag, Column) { archive().value(flag); }
  void gemm(auto& gemm) { archive().value(gemm); }
  void experts(RowOf<SpecialisationFrame> auto& special) { archive().value(special.experts); }
  void nested(auto& rows, const char*) {
    if constexpr (requires { rows.size(); })
      archive().rows(rows);
    else
      describe(rows, archive());
  }

 private:
  Archive& archive() { return static_cast<Archive&>(*this); }
};

class Packer : public PackedRow<Packer> {
 public:
  Packer() { bytes_.reserve(std::size_t{64} << 10); }
  template <class T>
  void value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(grow(sizeof value), &value, sizeof value);
  }
  void values(const auto& values) {
    value(static_cast<std::uint32_t>(values.size()));
    const std::size_t size = values.size() * sizeof(values[0]);
    if (size) std::memcpy(grow(size), values.data(), size);
  }
  void counts(std::span<const std::uint32_t> counts) {
    const std::size_t width = count_width(counts);
    value(static_cast<std::uint32_t>(counts.size()));
    value(static_cast<std::uint8_t>(width));
    narrow_counts(counts, width, grow(counts.size() * width));
  }
  // Stores the upper triangle of `matrix` [n, n].
  void symmetric(const std::vector<std::uint32_t>& matrix) {
    const std::size_t n = std::lround(std::sqrt(matrix.size()));
    std::vector<std::uint32_t> upper;
    for (std::size_t i = 0; i < n; ++i)
      upper.insert(upper.end(), matrix.begin() + i * n + i, matrix.begin() + (i + 1) * n);
    value(static_cast<std::uint32_t>(n));
    counts(upper);
  }
  template <class Row>
  void rows(const std::vector<Row>& rows) {
    value(static_cast<std::uint32_t>(rows.size()));
    for (const Row& row : rows) {
      const std::size_t begin = bytes_.size();
      if (kHasSize<Row>) value(std::uint32_t{0});
      describe(row, *this);
      const auto size = static_cast<std::uint32_t>(bytes_.size() - begin);
      if (kHasSize<Row>) std::memcpy(bytes_.data() + begin, &size, sizeof size);
    }
  }
  void scales(const std::array<std::uint32_t, 256>& e8m0_blocks) {
    const ByteRange range = occupied_bytes(e8m0_blocks);
    value(static_cast<std::uint8_t>(range.first));
    counts(std::span(e8m0_blocks).subspan(range.first, range.count));
  }
  PackedFrame packed() const { return {bytes_.begin(), bytes_.end()}; }  // without reserved memory

 private:
  std::uint8_t* grow(std::size_t size) {
    bytes_.resize(bytes_.size() + size);
    return bytes_.data() + bytes_.size() - size;
  }
  std::vector<std::uint8_t> bytes_;
};

class Unpacker : public PackedRow<Unpacker> {
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
  void values(auto& values) {
    values.resize(get<std::uint32_t>());
    const std::size_t size = values.size() * sizeof(values[0]);
    if (size) std::memcpy(values.data(), take(size), size);
  }
  void counts(std::vector<std::uint32_t>& counts) {
    counts.resize(get<std::uint32_t>());
    counts_into(counts);
  }
  void counts(HalfOctaves& counts) { counts_into(std::span(counts).first(get<std::uint32_t>())); }
  void symmetric(std::vector<std::uint32_t>& matrix) {
    const std::size_t n = get<std::uint32_t>();
    std::vector<std::uint32_t> upper;
    counts(upper);
    matrix.resize(n * n);
    const std::uint32_t* next = upper.data();
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = i; j < n; ++j) matrix[i * n + j] = matrix[j * n + i] = *next++;
  }
  template <class Row>
  void rows(std::vector<Row>& rows) {
    rows.resize(get<std::uint32_t>());
    for (Row& row : rows) {
      if (kHasSize<Row>) get<std::uint32_t>();
      describe(row, *this);
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
      describe(row, *this);
      if (row.layer == layer && is_it(row)) return row;
    }
    return std::nullopt;
  }
  void scales(std::array<std::uint32_t, 256>& e8m0_blocks) {
    const std::uint8_t first = get<std::uint8_t>();
    counts_into(std::span(e8m0_blocks).subspan(first, get<std::uint32_t>()));
  }

 private:
  void counts_into(std::span<std::uint32_t> counts) {
    const std::size_t width = get<std::uint8_t>();
    widen_counts(take(counts.size() * width), width, counts);
  }
  const std::uint8_t* take(std::size_t bytes) {
    assert(static_cast<std::size_t>(end_ - at_) >= bytes);
    return std::exchange(at_, at_ + bytes);
  }
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

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
      describe(frame.wire, archive);
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
      describe(text_of(frame, kind_of(part)), archive);
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

#include "core/recording/frame_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "core/frame/narrow_counts.h"
#include "core/recording/limits.h"
#include "core/recording/schema.h"

namespace moescope {
namespace {

void check_bytes(std::span<const std::uint8_t> blob, std::size_t bytes, const char* what) {
  if (blob.size() != bytes)
    throw std::runtime_error(fmt::format("{} has {} bytes, expected {}", what, blob.size(), bytes));
}

template <class T>
std::vector<T> array_of(std::span<const std::uint8_t> blob, std::size_t size, const char* what) {
  check_bytes(blob, size * sizeof(T), what);
  std::vector<T> values(size);
  if (size) std::memcpy(values.data(), blob.data(), blob.size());
  return values;
}

// Reads counts of `width` bytes each.
std::vector<std::uint32_t> counts_of(std::span<const std::uint8_t> blob, std::size_t size, std::size_t width,
                                     const char* what) {
  check_bytes(blob, size * width, what);
  std::vector<std::uint32_t> counts(size);
  widen_counts(blob.data(), width, counts);
  return counts;
}

float get_float(Statement& row) {
  double value;
  return row.get_real(value) ? static_cast<float>(value) : kNoValue;
}

auto enumerator(const std::string& name, const auto& names, const char* what) {
  if (const auto found = names.find(name)) return *found;
  throw std::runtime_error(std::string(what) + " is '" + name + "'");
}

bool is_sought_by_id(Connection& connection, const char* table) {
  Statement key(connection, "SELECT pk = 1 AND upper(type) = 'INTEGER' FROM pragma_table_xinfo(?) WHERE cid = 0");
  return key.bind(table).next() && key.get_integer() != 0;
}

// Visitor of describe() that reads a row of a table.
class RowReader {
 public:
  RowReader(Statement& row, const Sizes& sizes) : row_(row), sizes_(sizes) {}

  void layer(int& layer, LayerColumn column) { layer = narrow(row_.get_integer(), column.lowest, kMaxLayers, "layer"); }
  void size(int& value, Size size, Column column) {
    const std::size_t highest = size == Size::top_k ? std::max<std::size_t>(1, sizes_[Size::experts]) : kMaxRanks;
    value = narrow(row_.get_integer(), 1, highest, column.name);
    sizes_.set(size, value);
  }
  void position(int& position, Column column) {
    position = narrow(row_.get_integer(), 0, sizes_[Size::tokens], column.name);
  }
  void flag(bool& flag, Column) { flag = row_.get_integer() != 0; }
  // Reads the figures of the table, and the nan_mask after them.
  void figures(auto& row, const auto& table) {
    for (const auto& figure : table) row.*figure.member = get_float(row_);
    const std::int64_t nan_mask = row_.get_integer();
    for (std::size_t i = 0; i < table.size(); ++i)
      if (nan_mask >> i & 1) row.*table[i].member = std::numeric_limits<float>::quiet_NaN();
  }
  void count_bytes(Column column, const auto&...) {
    const std::int64_t width = row_.get_integer();
    if (width != 1 && width != 2 && width != 4)
      throw std::runtime_error(fmt::format("{} is {}, expected 1, 2 or 4", column.name, width));
    row_width_ = width;
  }
  template <class T>
  void array(std::vector<T>& values, Column column, Extent extent) {
    const auto blob = row_.get_blob();
    values = array_of<T>(blob, size_of(blob, sizeof(T), extent), column.name);
    if constexpr (std::is_same_v<T, std::uint16_t>)
      for (const int expert : values) narrow(expert, 0, static_cast<std::int64_t>(sizes_[Size::experts]) - 1, "expert");
  }
  void array(std::vector<std::uint32_t>& counts, Column column, Extent extent) {
    const auto blob = row_.get_blob();
    const std::size_t size = size_of(blob, sizeof(std::uint32_t), extent);
    counts = counts_of(blob, size, width_of(blob, size, extent.count_width), column.name);
  }
  void bins(std::vector<std::uint32_t>& counts, Column column) {
    const auto blob = row_.get_blob();
    const auto bins = blob.size() == kWideHalfOctaves * sizeof(std::uint32_t) ? kWideHalfOctaves : kHalfOctaves;
    counts = array_of<std::uint32_t>(blob, blob.empty() ? 0 : bins, column.name);
  }
  void bins(HalfOctaves& bins, Column column) {
    const auto counts = array_of<std::uint32_t>(row_.get_blob(), kHalfOctaves, column.name);
    std::copy(counts.begin(), counts.end(), bins.begin());
  }
  void name(auto& value, Column column, const auto& names) { value = enumerator(row_.get_text(), names, column.name); }
  void text(std::string& text, Column) { text = row_.get_text(); }
  void bytes(std::string& text, Column) {
    const auto blob = row_.get_blob();
    text.assign(blob.begin(), blob.end());
    sizes_.set(Size::tokens, to_int(text.size()));
  }
  void experts(SpecialisationFrame& special) { special.experts = to_int(sizes_[Size::experts]); }
  void nested(const auto&, const char*) {}
  void gemm(Gemm& gemm) {
    const GemmClass gemm_class = enumerator(row_.get_text(), gemm_class_name, "gemm_class");
    const std::string name = row_.get_text();
    const auto found = find_gemm(gemm_class, name);
    if (!found) throw std::runtime_error("weight is '" + name + "'");
    gemm = *found;
  }
  void scales(std::array<std::uint32_t, 256>& e8m0_blocks) {
    const int first = narrow(row_.get_integer(), 0, 255, "first_byte");
    const auto blob = row_.get_blob();
    const int count = narrow(blob.size() / 4, 0, 256 - first, "number of counts in blocks");
    const auto counts = array_of<std::uint32_t>(blob, static_cast<std::size_t>(count), "blocks");
    std::copy(counts.begin(), counts.end(), e8m0_blocks.begin() + first);
  }

 private:
  // The number of domains is that of the blob: a run that was imported may not name them.
  std::size_t size_of(std::span<const std::uint8_t> blob, std::size_t value_bytes, Extent extent) const {
    if (extent.presence == Presence::optional && blob.empty()) return 0;
    const std::size_t columns = sizes_[extent.columns];
    if (extent.rows != Size::domains) return sizes_[extent.rows] * columns;
    return columns == 0 ? 0 : blob.size() / (columns * value_bytes) * columns;
  }
  std::size_t width_of(std::span<const std::uint8_t> blob, std::size_t size, CountWidth width) const {
    if (width == CountWidth::by_row) return row_width_;
    return width == CountWidth::narrow && blob.size() == size * sizeof(std::uint16_t) ? 2 : 4;
  }

  Statement& row_;
  Sizes sizes_;
  std::size_t row_width_ = sizeof(std::uint32_t);  // bytes of a count with CountWidth::by_row
};

template <class Row>
void read_row(Statement& statement, const Sizes& sizes, Row& row) {
  RowReader reader(statement, sizes);
  describe(row, reader);
}

void check_layer(const RouterFrame& router, const RunInfo& info) {
  constexpr int kAllLayers = -1;  // figures of a log that has them only over all layers
  if (router.layer == kAllLayers) return;
  if (std::find(info.moe_layers.begin(), info.moe_layers.end(), router.layer) == info.moe_layers.end())
    throw std::runtime_error(fmt::format("layer {} is not among the run's MoE layers", router.layer));
}

// Reads a flip and adds it to the frame's list for its reference.
void read_flip(Statement& row, const Sizes& sizes, TelemetryFrame& frame) {
  FlipFrame flip;
  read_row(row, sizes, flip);
  const std::string reference = row.get_text();
  if (reference != kRun0Reference && reference != kFp32Reference)
    throw std::runtime_error("reference is '" + reference + "', known are '" + kRun0Reference + "' and '" +
                             kFp32Reference + '\'');
  (reference == kFp32Reference ? frame.rounding_flips : frame.flips).push_back(flip);
}

void read_text_layer(Statement& row, Sizes sizes, std::vector<TokenFrame>& texts) {
  const int position = narrow(row.get_integer(), 0, static_cast<std::int64_t>(texts.size()) - 1, "position");
  TokenFrame& text = texts[position];
  sizes.set(Size::tokens, to_int(text.text.size()));
  read_row(row, sizes, text.layers.emplace_back());
}

template <std::size_t... kIndex>
std::array<FrameRows, sizeof...(kIndex)> rows_of_tables(Connection& connection, int run,
                                                        std::index_sequence<kIndex...>) {
  return {FrameRows(connection, kFrameTables[kIndex], run)...};
}

}  // namespace

FrameRows::FrameRows(Connection& connection, const char* table, int run)
    : table_(table),
      seeks_(is_sought_by_id(connection, table)),
      rows_(connection, std::string("SELECT * FROM ") + table + " WHERE id >= ? AND id <= ? AND run = ? ORDER BY id"),
      run_(run) {}

void FrameRows::seek(std::int64_t first_frame, std::int64_t last_frame) {
  constexpr std::int64_t kLastFrame = INT64_MAX >> 16;  // largest frame id that can have rows in other tables
  id_ = -1;
  if (first_frame > kLastFrame) return;
  rows_.reset();
  const bool to_end = last_frame > kLastFrame;
  rows_.bind_all(first_frame << 16, to_end ? INT64_MAX : last_frame << 16 | 0xffff, run_);
  advance();
}

void FrameRows::fail(const char* reason) const {
  throw std::runtime_error(fmt::format("damaged: table {}, id {}: {}", table_, id_, reason));
}

FrameReader::FrameReader(Connection& connection, const RunInfo& info, std::int64_t interval)
    : info_(info),
      interval_(interval),
      frames_(connection, "SELECT * FROM frame WHERE run = ? AND id >= ? AND id <= ? ORDER BY id"),
      tables_(rows_of_tables(connection, info.run, std::make_index_sequence<kNumFrameTables>())) {}

bool FrameReader::seeks() {
  return std::ranges::all_of(tables_, &FrameRows::seeks);
}

void FrameReader::seek(std::int64_t first, std::int64_t last) {
  frames_.reset();
  frames_.bind_all(info_.run, first, last);
  n_ = 0;
  for (FrameRows& table : tables_)
    if (interval_ == 1 || !table.seeks()) table.seek(first, last);
}

std::shared_ptr<const TelemetryFrame> FrameReader::next(std::int64_t& id) {
  if (!frames_.next()) return nullptr;
  auto frame = std::make_shared<TelemetryFrame>();
  id = frames_.get_integer();
  frame->run = to_int(frames_.get_integer());
  frame->step = frames_.get_integer();
  if (!frames_.get_real(frame->wall_s)) frame->wall_s = kNoValue;
  frame->tokens = frames_.get_integer();
  RowReader(frames_, {}).figures(*frame, kFrameFigures);
  for (float& ms : frame->phase_ms) ms = get_float(frames_);
  if (n_++ % interval_ != 0) return frame;
  for (FrameRows& table : tables_)
    if (interval_ > 1 && table.seeks()) table.seek(id, id);
  read_rows(id, *frame);
  return frame;
}

void FrameReader::read_rows(std::int64_t id, TelemetryFrame& frame) {
  const Sizes sizes(info_);
  const auto append_rows = [&]<class Row>(std::vector<Row>& rows) {
    tables_[kTableIndex<Row>].visit_rows(
        id, [&](Statement& row, std::int64_t) { read_row(row, sizes, rows.emplace_back()); });
  };
  frame.routers.reserve(info_.moe_layers.size());
  tables_[kTableIndex<RouterFrame>].visit_rows(id, [&](Statement& row, std::int64_t) {
    read_row(row, sizes, frame.routers.emplace_back());
    check_layer(frame.routers.back(), info_);
  });
  tables_[kTableIndex<VolumeFrame>].visit_rows(id, [&](Statement& row, std::int64_t row_id) {
    const std::size_t position = row_id & 0xffff;
    if (position >= frame.routers.size()) throw std::runtime_error("there is no such router row");
    row.skip();  // layer
    read_row(row, sizes, frame.routers[position].volume);
  });
  append_rows(frame.quants);
  tables_[kTableIndex<FlipFrame>].visit_rows(id, [&](Statement& row, std::int64_t) { read_flip(row, sizes, frame); });
  append_rows(frame.gradients);
  append_rows(frame.router_roundings);
  append_rows(frame.specialisation);
  append_rows(frame.texts);
  tables_[kTableIndex<TokenLayer>].visit_rows(
      id, [&](Statement& row, std::int64_t) { read_text_layer(row, sizes, frame.texts); });
  tables_[kTableIndex<WireFrame>].visit_rows(id,
                                             [&](Statement& row, std::int64_t) { read_row(row, sizes, frame.wire); });
}

}  // namespace moescope

#include "core/recording/frame_reader.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "core/frame/describe.h"
#include "core/frame/specialisation.h"
#include "core/recording/limits.h"
#include "core/recording/schema.h"

namespace moescope {

namespace {

template <class T>
std::vector<T> array_of(std::span<const std::uint8_t> blob, std::size_t size, const char* what) {
  if (blob.size() != size * sizeof(T)) {
    throw std::runtime_error(std::string(what) + " has " + std::to_string(blob.size()) + " bytes, expected " +
                             std::to_string(size * sizeof(T)));
  }
  std::vector<T> values(size);
  if (size) std::memcpy(values.data(), blob.data(), blob.size());
  return values;
}

// Reads integers of `width` bytes each.
std::vector<std::uint32_t> counts_of(std::span<const std::uint8_t> blob, std::size_t size, int width,
                                     const char* what) {
  if (width == 4) return array_of<std::uint32_t>(blob, size, what);
  const auto widened = [](const auto& narrow) { return std::vector<std::uint32_t>(narrow.begin(), narrow.end()); };
  return width == 2 ? widened(array_of<std::uint16_t>(blob, size, what))
                    : widened(array_of<std::uint8_t>(blob, size, what));
}

float get_float(Statement& row) {
  double value;
  return row.get_real(value) ? static_cast<float>(value) : kNoValue;
}

// Reads the figures of the table, and the nan_mask after them.
template <class Frame, std::size_t N>
void get_figures(Statement& row, Frame& frame, const std::array<FrameFigure<Frame>, N>& table) {
  for (const auto& figure : table) frame.*figure.member = get_float(row);
  const std::int64_t nan_mask = row.get_integer();
  for (std::size_t i = 0; i < N; ++i)
    if (nan_mask >> i & 1) frame.*table[i].member = std::numeric_limits<float>::quiet_NaN();
}

template <class Enum>
Enum enumerator(const std::string& name, Names<Enum> names, const char* what) {
  if (const auto found = find_named(name, names)) return *found;
  throw std::runtime_error(std::string(what) + " is '" + name + "'");
}

bool is_sought_by_id(Connection& connection, const char* table) {
  Statement key(connection, "SELECT pk = 1 AND upper(type) = 'INTEGER' FROM pragma_table_xinfo(?) WHERE cid = 0");
  return key.bind(table).next() && key.get_integer() != 0;
}

// Visitor of describe() that reads a row of a table.
class RowReader {
 public:
  RowReader(Statement& row, const RunInfo& info) : row_(row), info_(info) {}

  void layer(int& layer, LayerColumn column) { layer = narrow(row_.get_integer(), column.lowest, kMaxLayers, "layer"); }
  template <class Frame, std::size_t N>
  void figures(Frame& frame, const std::array<FrameFigure<Frame>, N>& table) {
    get_figures(row_, frame, table);
  }
  void by_expert(std::vector<float>& values, Column column) {
    const auto blob = row_.get_blob();
    values = array_of<float>(blob, experts_in(blob), column.name);
  }
  void by_expert(std::vector<std::uint32_t>& counts, Column column) {
    const auto blob = row_.get_blob();
    const bool narrow = blob.size() == experts_in(blob) * sizeof(std::uint16_t);
    counts = counts_of(blob, experts_in(blob), narrow ? 2 : 4, column.name);
  }
  void bins(std::vector<std::uint32_t>& counts, Column column) {
    const auto blob = row_.get_blob();
    const bool wide = blob.size() == kWideHalfOctaves * sizeof(std::uint32_t);
    counts = array_of<std::uint32_t>(blob, blob.empty() ? 0 : wide ? kWideHalfOctaves : kHalfOctaves, column.name);
  }
  void bins(HalfOctaves& bins, Column column) {
    const auto counts = array_of<std::uint32_t>(row_.get_blob(), kHalfOctaves, column.name);
    std::copy(counts.begin(), counts.end(), bins.begin());
  }
  template <class Enum>
  void name(Enum& value, Column column, Names<Enum> names) {
    value = enumerator(row_.get_text(), names, column.name);
  }
  void text(std::string& text, Column) { text = row_.get_text(); }
  void gemm(Gemm& gemm) {
    const GemmClass of = enumerator(row_.get_text(), Names{gemm_class_name, kNumQuantClasses}, "gemm_class");
    const std::string name = row_.get_text();
    const auto found = find_gemm(of, name);
    if (!found) throw std::runtime_error("weight is '" + name + "'");
    gemm = *found;
  }
  void scales(std::array<std::uint32_t, 256>& e8m0_blocks) {
    const int first = narrow(row_.get_integer(), 0, 255, "first_byte");
    const auto blob = row_.get_blob();
    const int count = narrow(static_cast<std::int64_t>(blob.size() / 4), 0, 256 - first, "number of counts in blocks");
    const auto counts = array_of<std::uint32_t>(blob, static_cast<std::size_t>(count), "blocks");
    std::copy(counts.begin(), counts.end(), e8m0_blocks.begin() + first);
  }

 private:
  std::size_t experts_in(std::span<const std::uint8_t> blob) const {
    return blob.empty() ? 0 : static_cast<std::size_t>(info_.n_experts);
  }

  Statement& row_;
  const RunInfo& info_;
};

void check_layer(const RouterFrame& router, const RunInfo& info) {
  if (std::find(info.moe_layers.begin(), info.moe_layers.end(), router.layer) == info.moe_layers.end())
    throw std::runtime_error("layer " + std::to_string(router.layer) + " is not among the run's MoE layers");
}

void read_volume(Statement& row, VolumeFrame& volume) {
  row.skip();  // layer
  volume.ranks = narrow(row.get_integer(), 1, kMaxRanks, "ranks");
  volume.ranks_per_node = narrow(row.get_integer(), 1, kMaxRanks, "ranks_per_node");
  const int width = narrow(row.get_integer(), 1, 4, "count_bytes");
  const std::size_t ranks = volume.ranks;
  const std::size_t nodes = (ranks + volume.ranks_per_node - 1) / volume.ranks_per_node;
  volume.copies_RR = counts_of(row.get_blob(), ranks * ranks, width, "copies");
  volume.distinct_RR = counts_of(row.get_blob(), ranks * ranks, width, "distinct_ranks");
  volume.nodes_RN = counts_of(row.get_blob(), ranks * nodes, width, "distinct_nodes");
}

void read_wire(Statement& row, WireFrame& wire) {
  wire.ranks = narrow(row.get_integer(), 1, kMaxRanks, "ranks");
  wire.over_nodes = row.get_integer() != 0;
  const auto ranks = static_cast<std::size_t>(wire.ranks);
  wire.sent_RR = array_of<std::uint64_t>(row.get_blob(), ranks * ranks, "sent_bytes");
  wire.all_to_all_ms_R = array_of<float>(row.get_blob(), ranks, "all_to_all_ms");
}

// Reads the reference of `flip` and adds `flip` to the frame's list for this reference.
void add_flip(Statement& row, const FlipFrame& flip, TelemetryFrame& frame) {
  const std::string reference = row.get_text();
  if (reference != kRun0Reference && reference != kFp32Reference)
    throw std::runtime_error("reference is '" + reference + "', known are '" + kRun0Reference + "' and '" +
                             kFp32Reference + '\'');
  (reference == kFp32Reference ? frame.rounding_flips : frame.flips).push_back(flip);
}

void read_specialisation(Statement& row, const RunInfo& info, SpecialisationFrame& special) {
  special.layer = narrow(row.get_integer(), 0, kMaxLayers, "layer");
  const auto experts = static_cast<std::size_t>(info.n_experts);
  const auto domains = row.get_blob();
  const std::size_t row_bytes = experts * sizeof(std::uint32_t);
  const std::size_t rows = row_bytes == 0 ? 0 : domains.size() / row_bytes;
  special.domain_DE = array_of<std::uint32_t>(domains, rows * experts, "domain_experts");
  const auto together = row.get_blob();
  if (!together.empty()) special.together_EE = array_of<std::uint32_t>(together, experts * experts, "together");
  const auto bytes = row.get_blob();
  if (!bytes.empty()) special.byte_256E = array_of<std::uint32_t>(bytes, 256 * experts, "byte_experts");
  special.experts = info.n_experts;
  const auto by_expert = [&](std::vector<float>& values, const char* column) {
    const auto blob = row.get_blob();
    if (!blob.empty()) values = array_of<float>(blob, experts, column);
  };
  by_expert(special.weight_norm_E, "weight_norm");
  by_expert(special.weight_sqnr_E, "weight_sqnr");
  const auto biases = row.get_blob();
  if (!biases.empty()) special.bias_for_share_EQ = array_of<float>(biases, experts * kBiasShares, "bias_for_share");
  by_expert(special.gradient_norm_E, "gradient_norm");
  by_expert(special.update_norm_E, "update_norm");
}

void read_text(Statement& row, TokenFrame& text) {
  text.kind = enumerator(row.get_text(), Names{text_kind_name, kNumTextKinds}, "kind");
  const auto bytes = row.get_blob();
  text.text.assign(bytes.begin(), bytes.end());
  text.prompt = narrow(row.get_integer(), 0, static_cast<std::int64_t>(text.text.size()), "prompt");
  text.domain = row.get_text();
  text.loss_T = array_of<float>(row.get_blob(), text.text.size(), "loss");
}

void read_text_layer(Statement& row, const RunInfo& info, std::vector<TokenFrame>& texts) {
  const int position = narrow(row.get_integer(), 0, static_cast<std::int64_t>(texts.size()) - 1, "position");
  TokenFrame& text = texts[static_cast<std::size_t>(position)];
  TokenLayer& layer = text.layers.emplace_back();
  layer.layer = narrow(row.get_integer(), 0, kMaxLayers, "layer");
  layer.top_k = narrow(row.get_integer(), 1, std::max(1, info.n_experts), "top_k");
  const std::size_t slots = text.text.size() * static_cast<std::size_t>(layer.top_k);
  layer.experts_TK = array_of<std::uint16_t>(row.get_blob(), slots, "experts");
  for (const std::uint16_t expert : layer.experts_TK) narrow(expert, 0, info.n_experts - 1, "expert");
  layer.scores_TK = array_of<float>(row.get_blob(), slots, "scores");
  layer.margin_T = array_of<float>(row.get_blob(), text.text.size(), "margin");
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

void FrameRows::fail(const char* why) const {
  throw std::runtime_error(std::string("damaged: table ") + table_ + ", id " + std::to_string(id_) + ": " + why);
}

FrameReader::FrameReader(Connection& connection, const RunInfo& info, std::int64_t every)
    : info_(info),
      every_(every),
      frames_(connection, "SELECT * FROM frame WHERE run = ? AND id >= ? AND id <= ? ORDER BY id"),
      routers_(connection, "router", info.run),
      volumes_(connection, "volume", info.run),
      quants_(connection, "quant", info.run),
      flips_(connection, "flip", info.run),
      gradients_(connection, "gradient", info.run),
      router_roundings_(connection, "router_rounding", info.run),
      specialisation_(connection, "specialisation", info.run),
      texts_(connection, "text", info.run),
      text_layers_(connection, "text_layer", info.run),
      wires_(connection, "wire", info.run) {}

template <class Do>
void FrameReader::each_table(Do what) {
  for (FrameRows* table : {&routers_, &volumes_, &quants_, &flips_, &gradients_, &router_roundings_, &specialisation_,
                           &texts_, &text_layers_, &wires_})
    what(*table);
}

bool FrameReader::seeks() {
  bool all = true;
  each_table([&](const FrameRows& table) { all = all && table.seeks(); });
  return all;
}

void FrameReader::seek(std::int64_t first, std::int64_t last) {
  frames_.reset();
  frames_.bind_all(info_.run, first, last);
  n_ = 0;
  each_table([&](FrameRows& table) {
    if (every_ == 1 || !table.seeks()) table.seek(first, last);
  });
}

std::shared_ptr<const TelemetryFrame> FrameReader::next(std::int64_t& id) {
  if (!frames_.next()) return nullptr;
  auto frame = std::make_shared<TelemetryFrame>();
  id = frames_.get_integer();
  frame->run = static_cast<int>(frames_.get_integer());
  frame->step = frames_.get_integer();
  if (!frames_.get_real(frame->wall_s)) frame->wall_s = kNoValue;
  frame->tokens = frames_.get_integer();
  get_figures(frames_, *frame, kFrameFigures);
  for (float& ms : frame->phase_ms) ms = get_float(frames_);
  if (n_++ % every_ != 0) return frame;
  each_table([&](FrameRows& table) {
    if (every_ > 1 && table.seeks()) table.seek(id, id);
  });
  read_rows(id, *frame);
  return frame;
}

template <class Row>
Row FrameReader::get(Statement& statement) const {
  Row row;
  RowReader reader(statement, info_);
  describe(row, reader);
  return row;
}

void FrameReader::read_rows(std::int64_t id, TelemetryFrame& frame) {
  frame.routers.reserve(info_.moe_layers.size());
  routers_.of_frame(
      id, [&](Statement& row, std::int64_t) { check_layer(frame.routers.emplace_back(get<RouterFrame>(row)), info_); });
  volumes_.of_frame(id, [&](Statement& row, std::int64_t row_id) {
    const std::size_t position = row_id & 0xffff;
    if (position >= frame.routers.size()) throw std::runtime_error("there is no such router row");
    read_volume(row, frame.routers[position].volume);
  });
  quants_.of_frame(id, [&](Statement& row, std::int64_t) { frame.quants.push_back(get<QuantFrame>(row)); });
  flips_.of_frame(id, [&](Statement& row, std::int64_t) { add_flip(row, get<FlipFrame>(row), frame); });
  gradients_.of_frame(id, [&](Statement& row, std::int64_t) { frame.gradients.push_back(get<GradientFrame>(row)); });
  router_roundings_.of_frame(
      id, [&](Statement& row, std::int64_t) { frame.router_roundings.push_back(get<RouterRoundingFrame>(row)); });
  specialisation_.of_frame(
      id, [&](Statement& row, std::int64_t) { read_specialisation(row, info_, frame.specialisation.emplace_back()); });
  texts_.of_frame(id, [&](Statement& row, std::int64_t) { read_text(row, frame.texts.emplace_back()); });
  text_layers_.of_frame(id, [&](Statement& row, std::int64_t) { read_text_layer(row, info_, frame.texts); });
  wires_.of_frame(id, [&](Statement& row, std::int64_t) { read_wire(row, frame.wire); });
}

}  // namespace moescope

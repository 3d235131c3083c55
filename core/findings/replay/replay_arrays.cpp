#include "core/findings/replay/replay_arrays.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <vector>

namespace moescope {
namespace {

// Indices in QuantFrame::e8m0_blocks of blocks that mostly hold zeros, and of blocks with NaN or Inf.
constexpr int kMinScale = 0, kNanScale = 255;
constexpr std::uint8_t kNoFormat = 255;       // not measured
constexpr double kDecades = 5;                // range of the share codes
constexpr std::size_t kBytesOfAnOperand = 7;  // without its histogram of scales
constexpr int kFramesForShape = 32;           // frames that are searched for matrices

using FramePtr = std::shared_ptr<const TelemetryFrame>;

void append_little_endian(std::uint32_t bits, int bytes, std::vector<std::uint8_t>& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<std::uint8_t>(bits >> (8 * i)));
}

// Rows of cells; each cell is stored as a share of the largest cell of its row.
struct ByteTable {
  std::vector<float> largest;  // [rows]
  std::vector<std::uint8_t> shares;
};

void append_row(std::span<const float> row, ByteTable& load) {
  float largest = kNoValue;
  for (const float u : row)
    if (std::isfinite(u)) largest = std::isfinite(largest) ? std::max(largest, u) : u;
  load.largest.push_back(largest);
  for (const float u : row)
    load.shares.push_back(largest > 0 && u > 0 ? static_cast<std::uint8_t>(std::lround(255 * u / largest)) : 0);
}

bool is_whole(const VolumeFrame& volume) {
  const std::size_t cells = volume.ranks * static_cast<std::size_t>(volume.ranks);
  return volume.ranks > 0 && volume.copies_RR.size() == cells && volume.distinct_RR.size() == cells;
}

struct MatrixShape {
  int ranks = 0, per_node = 0;  // 0: not found
};
MatrixShape shape_of_matrices(const History& history, StepRange range) {
  for (int i = kFramesForShape; i > 0; --i) {
    const FramePtr frame = history.frame_at(slice_begin(range, kFramesForShape, i) - 1);
    if (!frame || frame->step < range.first) break;
    for (const RouterFrame& router : frame->routers)
      if (is_whole(router.volume)) return {router.volume.ranks, router.volume.ranks_per_node};
  }
  return {};
}

void append_matrix(std::span<const std::uint32_t> counts, ByteTable& table) {
  const double top = *std::ranges::max_element(counts);
  table.largest.push_back(static_cast<float>(top));
  for (const std::uint32_t count : counts)
    table.shares.push_back(top > 0 ? static_cast<std::uint8_t>(std::lround(255.0 * count / top)) : 0);
}
void append_no_matrix(std::size_t cells, ByteTable& table) {
  table.largest.push_back(kNoValue);
  table.shares.resize(table.shares.size() + cells);
}

// Copies of the standard all-to-all, and de-duplicated copies as in DeepEP.
struct MatrixTables {
  ByteTable copies, distinct;
  void append(const RouterFrame* router, std::size_t cells) {
    if (router && is_whole(router->volume) && router->volume.copies_RR.size() == cells) {
      append_matrix(router->volume.copies_RR, copies);
      append_matrix(router->volume.distinct_RR, distinct);
    } else {
      append_no_matrix(cells, copies);
      append_no_matrix(cells, distinct);
    }
  }
};

bool has_matrix(const TelemetryFrame& frame) {
  return std::ranges::any_of(frame.routers, [](const RouterFrame& router) { return is_whole(router.volume); });
}

int slices_that_fit(StepRange range, int points, std::size_t bytes, std::size_t bytes_of_one) {
  const std::int64_t fit = bytes / std::max<std::size_t>(1, bytes_of_one);
  return to_int(std::min({range.size(), std::int64_t{points}, fit}));
}

// Key that sorts the operands of a table by layer, GEMM, direction and operand.
using PlaceKey = std::tuple<int, Gemm, Direction, OperandRole>;
PlaceKey key_of(const OperandPlace& place) {
  return {place.layer, place.gemm, place.direction, place.operand};
}

struct ScaleBins {
  int low = kNanScale, high = -1;  // smallest and largest scale byte that a block has; low > high: no block
  std::size_t o = 0, begin = 0;    // index of the operand in the list; index of its first bin in `blocks` of a step
  std::size_t size() const { return high < low ? 0 : static_cast<std::size_t>(high - low + 1); }
};

// The operands of a run as a table with a row for each measured step.
class OperandTable {
 public:
  // First pass over all frames: collects operands and scales.
  void see(const TelemetryFrame& frame) {
    steps_.push_back(frame.step);
    for (const QuantFrame& quant : frame.quants) {
      ScaleBins& bins = places_[key_of(quant)];
      for (int byte = kMinScale + 1; byte < kNanScale; ++byte) {
        if (quant.e8m0_blocks[byte] == 0) continue;
        bins.low = std::min(bins.low, byte);
        bins.high = std::max(bins.high, byte);
      }
    }
  }
  // Returns evenly spaced steps of the first pass that fit in `bytes`; empty if not even one fits.
  std::vector<std::int64_t> place(std::size_t bytes) {
    for (auto& [key, bins] : places_) {
      bins.o = list_.size();
      bins.begin = row_;
      row_ += bins.size();
      const auto& [layer, gemm, direction, operand] = key;
      list_.push_back({layer, class_text(gemm), gemm_name(gemm), operand_name(operand), direction_name(direction),
                       bins.size() ? bins.low : 0, bins.size()});
    }
    const std::size_t bytes_of_one = row_ + kBytesOfAnOperand * places_.size();
    if (bytes_of_one > bytes) return {};
    const std::size_t interval = (steps_.size() * bytes_of_one + bytes - 1) / bytes;
    std::vector<std::int64_t> kept_steps;
    for (std::size_t i = 0; i < steps_.size(); i += interval) kept_steps.push_back(steps_[i]);
    return kept_steps;
  }
  // Second pass, over the frames of the steps from place(), in order: collects the statistics.
  void take(const TelemetryFrame& frame) {
    taken_steps_.push_back(frame.step);
    const std::size_t at = format_.size(), blocks_at = blocks_.size();
    format_.resize(at + places_.size(), kNoFormat);
    underflow_.resize(format_.size());
    clipped_.resize(format_.size());
    nan_blocks_.resize(format_.size());
    least_blocks_.resize(format_.size());
    sqnr_.resize(2 * format_.size());
    blocks_.resize(blocks_at + row_);
    for (const QuantFrame& quant : frame.quants) {
      const auto found = places_.find(key_of(quant));
      if (found != places_.end()) take(quant, found->second, at + found->second.o, blocks_at + found->second.begin);
    }
  }
  ReplayJson json() const {
    ReplayJson names = ReplayJson::array(), powers = ReplayJson::array();
    for (const QuantFormat& format : formats_) {
      names.push_back(format.name);
      if (format.scale == QuantScale::power_of_two) powers.push_back(format.name);
    }
    return {{"steps", taken_steps_},
            {"formats", names},
            {"powers_of_two", powers},
            {"list", list_},
            {"format", base64(format_)},
            {"sqnr", base64(sqnr_)},
            {"underflow", base64(underflow_)},
            {"clipped", base64(clipped_)},
            {"nan_blocks", base64(nan_blocks_)},
            {"least_blocks", base64(least_blocks_)},
            {"blocks", base64(blocks_)}};
  }

 private:
  static std::string class_text(Gemm gemm) {
    std::string text = gemm_class_name(gemm_class_of(gemm));
    std::ranges::replace(text, '_', ' ');
    return text;
  }
  std::uint8_t format_index(const QuantFormat& format) {
    const auto found = std::ranges::find(formats_, format);
    if (found != formats_.end()) return static_cast<std::uint8_t>(found - formats_.begin());
    if (formats_.size() < kNoFormat) formats_.push_back(format);
    return static_cast<std::uint8_t>(formats_.size() - 1);
  }
  void take(const QuantFrame& quant, const ScaleBins& bins, std::size_t at, std::size_t blocks_at) {
    const double all = std::accumulate(quant.e8m0_blocks.begin(), quant.e8m0_blocks.end(), 0.0);
    const auto share = [&](int byte) { return share_code(all > 0 ? quant.e8m0_blocks[byte] / all : 0); };
    format_[at] = format_index(quant.format);
    underflow_[at] = share_code(quant.underflow);
    clipped_[at] = share_code(quant.clipped);
    nan_blocks_[at] = share(kNanScale);
    least_blocks_[at] = share(kMinScale);
    const double hundredths = 100 * static_cast<double>(quant.sqnr_db);
    int sqnr = -32768;  // NaN
    if (!std::isnan(hundredths)) sqnr = static_cast<int>(std::clamp(std::round(hundredths), -32e3, 32e3));
    if (std::isinf(hundredths) && hundredths > 0) sqnr = 32767;
    sqnr_[2 * at] = static_cast<std::uint8_t>(sqnr);
    sqnr_[2 * at + 1] = static_cast<std::uint8_t>(sqnr >> 8);
    for (std::size_t i = 0; i < bins.size(); ++i) blocks_[blocks_at + i] = share(bins.low + to_int(i));
  }

  std::map<PlaceKey, ScaleBins> places_;
  std::vector<std::int64_t> steps_, taken_steps_;
  std::vector<ReplayJson> list_;
  std::vector<QuantFormat> formats_;
  std::size_t row_ = 0;  // number of bins of all operands
  std::vector<std::uint8_t> format_, sqnr_, underflow_, clipped_, nan_blocks_, least_blocks_, blocks_;
};

}  // namespace

std::string base64(std::span<const float> values) {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(4 * values.size());
  for (const float value : values) append_little_endian(std::bit_cast<std::uint32_t>(value), 4, bytes);
  return base64(bytes);
}

std::uint8_t share_code(double share) {
  if (std::isnan(share)) return 255;
  if (share <= 0) return 0;
  return static_cast<std::uint8_t>(std::lround(std::clamp(254 + 253 / kDecades * std::log10(share), 1.0, 254.0)));
}

void add_load(const History& history, StepRange range, int points, const ReplayTick& tick, ReplayJson& run) {
  ByteTable load;
  const std::size_t experts = history.info().n_experts;
  const auto& layers = history.info().moe_layers;
  for (const int layer : layers) {
    tick(load.largest.size() / static_cast<double>(layers.size() * points));
    std::vector<float> u = history.utilisation(layer, range, points, Summary::mean);
    u.resize(points * experts, kNoValue);
    for (std::size_t p = 0; p < static_cast<std::size_t>(points); ++p)
      append_row(std::span(u).subspan(p * experts, experts), load);
  }
  run["load_max"] = base64(load.largest);
  run["load"] = base64(load.shares);
}

ReplayJson matrices_of(const History& history, StepRange range, int points, std::size_t bytes, const ReplayTick& tick) {
  const MatrixShape shape = shape_of_matrices(history, range);
  const auto cells = shape.ranks * static_cast<std::size_t>(shape.ranks);
  const auto& layers = history.info().moe_layers;
  const int slices =
      cells == 0 ? 0 : slices_that_fit(range, points, bytes, 2 * layers.size() * (cells + sizeof(float)));
  std::vector<std::int64_t> steps;
  MatrixTables tables;
  for (int i = 0; i < slices; ++i) {
    tick(static_cast<double>(i) / slices);
    const FramePtr frame = history.frame_at(slice_begin(range, slices, i + 1) - 1);
    if (!frame || frame->step < slice_begin(range, slices, i) || !has_matrix(*frame)) continue;
    steps.push_back(frame->step);
    for (const int layer : layers) tables.append(find_router(frame.get(), layer), cells);
  }
  if (steps.empty()) return nullptr;
  return {{"steps", steps},
          {"ranks", shape.ranks},
          {"per_node", shape.per_node},
          {"dim", history.info().dim},
          {"copies_largest", base64(tables.copies.largest)},
          {"copies", base64(tables.copies.shares)},
          {"distinct_largest", base64(tables.distinct.largest)},
          {"distinct", base64(tables.distinct.shares)}};
}

ReplayJson operands_of(const History& history, StepRange range, int points, std::size_t bytes, const ReplayTick& tick) {
  const FramePtr newest = history.quant_frame_at(range.last);
  if (!newest || newest->quants.empty()) return nullptr;
  const int slices = slices_that_fit(range, points, bytes, kBytesOfAnOperand * newest->quants.size());
  OperandTable table;
  for (int i = 0; i < slices; ++i) {
    tick(0.5 * i / slices);
    const FramePtr frame = history.quant_frame_at(slice_begin(range, slices, i + 1) - 1);
    if (frame && frame->step >= slice_begin(range, slices, i)) table.see(*frame);
  }
  const std::vector<std::int64_t> kept_steps = table.place(bytes);
  for (std::size_t i = 0; i < kept_steps.size(); ++i) {
    tick(0.5 + 0.5 * i / kept_steps.size());
    const FramePtr frame = history.quant_frame_at(kept_steps[i]);
    if (frame && frame->step == kept_steps[i])
      table.take(*frame);  // the history of a run in training may have dropped it
  }
  return kept_steps.empty() ? ReplayJson(nullptr) : table.json();
}

}  // namespace moescope

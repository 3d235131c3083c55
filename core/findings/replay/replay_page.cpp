#include "core/findings/replay/replay_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/files/assets.h"
#include "core/files/text/text_escape.h"
#include "core/files/unreadable.h"
#include "core/findings/comparison/operand_sqnr.h"
#include "core/findings/comparison/verdict_words.h"
#include "core/findings/findings.h"
#include "core/frame/describe.h"
#include "core/frame/frame.h"
#include "core/frame/metrics.h"

namespace moescope {

namespace {

// Indices in QuantFrame::e8m0_blocks of blocks that mostly hold zeros, and of blocks with NaN or Inf.
constexpr int kMinScale = 0, kNanScale = 255;
constexpr std::uint8_t kNoFormat = 255;       // not measured
constexpr double kDecades = 5;                // range of the share codes
constexpr std::size_t kBytesOfAnOperand = 7;  // without its histogram of scales
constexpr int kFramesForShape = 32;           // frames that are searched for matrices

using FramePtr = std::shared_ptr<const TelemetryFrame>;

// Rows of cells; each cell is stored as a share of the largest cell of its row.
struct ByteTable {
  std::vector<float> largest;  // [rows]; NaN: the row has no value
  std::vector<std::uint8_t> shares;

  template <class Value>
  void append(std::span<const Value> row) {
    using Real = std::conditional_t<std::is_integral_v<Value>, double, Value>;
    Real top = kNoValue;
    for (const Value value : row)
      if (std::isfinite(Real(value))) top = std::fmax(top, Real(value));
    largest.push_back(static_cast<float>(top));
    for (const Value value : row)
      shares.push_back(top > 0 && value > 0 ? static_cast<std::uint8_t>(std::lround(255 * Real(value) / top)) : 0);
  }
};

bool is_whole(const VolumeFrame& volume) {
  const std::size_t cells = volume.ranks * static_cast<std::size_t>(volume.ranks);
  return volume.ranks > 0 && volume.copies_RR.size() == cells && volume.distinct_RR.size() == cells;
}

// Returns the newest matrices, of 0 ranks if none are found.
VolumeFrame newest_volume(const History& history, StepRange range) {
  for (int i = kFramesForShape; i > 0; --i) {
    const FramePtr frame = history.frame_at(slice_begin(range, kFramesForShape, i) - 1);
    if (!frame || frame->step < range.first) break;
    for (const RouterFrame& router : frame->routers)
      if (is_whole(router.volume)) return router.volume;
  }
  return {};
}

// The matrices [R, R] of the layers by their keys in JSON lines. A visitor of describe().
class MatrixTables {
 public:
  // A router without matrices of this size has NaN and zeros.
  void append(const RouterFrame* router, int ranks) {
    static const VolumeFrame kNoVolume;
    cells_ = static_cast<std::size_t>(ranks) * ranks;
    next_ = 0;
    describe(router && router->volume.ranks == ranks && is_whole(router->volume) ? router->volume : kNoVolume, *this);
  }
  void size(int, Size, Column) {}
  void count_bytes(Column, const auto&...) {}
  void array(const std::vector<std::uint32_t>& counts, Column column, Extent extent) {
    if (extent.columns != Size::ranks) return;
    if (next_ == tables_.size()) tables_.push_back({column.key, {}});
    ByteTable& table = tables_[next_++].second;
    table.append(std::span(counts));
    if (counts.empty()) table.shares.resize(table.shares.size() + cells_);
  }
  void write(ReplayJson& matrices) const {
    for (const auto& [key, table] : tables_) {
      matrices[std::string(key) + "_largest"] = base64_of(table.largest);
      matrices[key] = base64_of(table.shares);
    }
  }

 private:
  std::vector<std::pair<const char*, ByteTable>> tables_;
  std::size_t cells_ = 0, next_ = 0;
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

// The shares that the page shows of each operand, which has `blocks` blocks.
constexpr struct {
  const char* key;
  double (*share)(const QuantFrame& quant, double blocks);
} kShares[] = {
    {"underflow", [](const QuantFrame& quant, double) -> double { return quant.underflow; }},
    {"clipped", [](const QuantFrame& quant, double) -> double { return quant.clipped; }},
    {"nan_blocks", [](const QuantFrame& quant, double blocks) { return quant.e8m0_blocks[kNanScale] / blocks; }},
    {"least_blocks", [](const QuantFrame& quant, double blocks) { return quant.e8m0_blocks[kMinScale] / blocks; }},
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
      std::string class_text = gemm_class_name(gemm_class_of(gemm));
      std::ranges::replace(class_text, '_', ' ');
      list_.push_back({layer, class_text, gemm_name(gemm), operand_name(operand), direction_name(direction),
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
    sqnr_.resize(format_.size());
    for (auto& codes : shares_) codes.resize(format_.size());
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
    ReplayJson operands = {{"steps", taken_steps_},        {"formats", names},
                           {"powers_of_two", powers},      {"list", list_},
                           {"format", base64_of(format_)}, {"sqnr", base64_of(sqnr_)}};
    for (std::size_t i = 0; i < shares_.size(); ++i) operands[kShares[i].key] = base64_of(shares_[i]);
    operands["blocks"] = base64_of(blocks_);
    return operands;
  }

 private:
  std::uint8_t format_index(const QuantFormat& format) {
    const auto found = std::ranges::find(formats_, format);
    if (found != formats_.end()) return static_cast<std::uint8_t>(found - formats_.begin());
    if (formats_.size() < kNoFormat) formats_.push_back(format);
    return static_cast<std::uint8_t>(formats_.size() - 1);
  }
  void take(const QuantFrame& quant, const ScaleBins& bins, std::size_t at, std::size_t blocks_at) {
    format_[at] = format_index(quant.format);
    const double hundredths = std::round(100 * static_cast<double>(quant.sqnr_db));
    sqnr_[at] = static_cast<std::int16_t>(std::isnan(hundredths) ? -32768 : std::clamp(hundredths, -32e3, 32e3));
    if (std::isinf(hundredths) && hundredths > 0) sqnr_[at] = 32767;
    const double blocks = std::max(1.0, std::accumulate(quant.e8m0_blocks.begin(), quant.e8m0_blocks.end(), 0.0));
    for (std::size_t i = 0; i < shares_.size(); ++i) shares_[i][at] = share_code(kShares[i].share(quant, blocks));
    for (std::size_t i = 0; i < bins.size(); ++i)
      blocks_[blocks_at + i] = share_code(quant.e8m0_blocks[bins.low + i] / blocks);
  }

  std::map<PlaceKey, ScaleBins> places_;
  std::vector<std::int64_t> steps_, taken_steps_;
  std::vector<ReplayJson> list_;
  std::vector<QuantFormat> formats_;
  std::size_t row_ = 0;  // number of bins of all operands
  std::vector<std::uint8_t> format_, blocks_;
  std::vector<std::int16_t> sqnr_;
  std::array<std::vector<std::uint8_t>, std::size(kShares)> shares_;
};

}  // namespace

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
      load.append(std::span<const float>(u).subspan(p * experts, experts));
  }
  run["load_max"] = base64_of(load.largest);
  run["load"] = base64_of(load.shares);
}

ReplayJson matrices_of(const History& history, StepRange range, int points, std::size_t bytes, const ReplayTick& tick) {
  const VolumeFrame shape = newest_volume(history, range);
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
    for (const int layer : layers) tables.append(find_router(frame.get(), layer), shape.ranks);
  }
  if (steps.empty()) return nullptr;
  ReplayJson matrices = {
      {"steps", steps}, {"ranks", shape.ranks}, {"per_node", shape.ranks_per_node}, {"dim", history.info().dim}};
  tables.write(matrices);
  return matrices;
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
namespace {

struct Cancelled {};

// Returns a function that reports the progress of a part, 0 to 1, as `begin` to `end` of the whole.
ReplayTick part_of(const ReplayTick& whole, double begin, double end) {
  return [=](double share) { whole(begin + share * (end - begin)); };
}

std::string scalar_of(const History& history, Metric metric, const std::vector<int>& layers, StepRange range,
                      int points) {
  std::vector<float> means;
  for (const int layer : layers)
    for (const PyramidBin& bin : history.series(metric, layer, range, points))
      means.push_back(bin.finite ? bin.mean() : kNoValue);
  return base64_of(means);
}

// Returns the number of points, so that load, three scalars of each layer and two of the run fit in `bytes`.
int points_of(const History& history, std::int64_t steps, std::size_t bytes, int max_points) {
  const RunInfo& info = history.info();
  const std::size_t layer = info.n_experts + 3 * sizeof(float);
  const std::size_t point = info.moe_layers.size() * layer + 2 * sizeof(float);
  const std::int64_t affordable = std::max<std::size_t>(1, bytes / point);
  return to_int(std::min({steps, std::int64_t{max_points}, affordable}));
}

ReplayJson findings_of(const HistoryPtr& history, StepRange range, const ReplayTick& tick) {
  constexpr int kParts = 50;
  FindingsScan scan(history);
  for (int part = 1; part <= kParts; ++part) {
    scan.advance(slice_begin(range, kParts, part) - 1);
    tick(static_cast<double>(part) / kParts);
  }
  ReplayJson list = ReplayJson::array();
  for (const Finding& finding : scan.findings())
    list.push_back({{"severity", severity_name(finding.severity)},
                    {"first", finding.steps.first},
                    {"last", finding.steps.last},
                    {"title", printable(finding.title)},
                    {"observation", printable(finding.observation)},
                    {"why", printable(finding.meaning)}});
  return list;
}

ReplayJson lacks_of(const ReplayJson& run, const History& history, StepRange range) {
  ReplayJson lacks = ReplayJson::array();
  if (history.series(Metric::ce_loss, kWholeRun, range, 1).front().finite == 0) lacks.push_back("loss");
  if (!history.frame_at(range.last)) lacks.push_back("expert load");
  if (run["matrices"].is_null()) lacks.push_back("copies between ranks (all-to-all)");
  if (run["operands"].is_null()) lacks.push_back("quantization statistics (errors, block scales)");
  return lacks;
}

ReplayJson run_of(const HistoryPtr& history, std::size_t bytes, int most_points, const ReplayTick& tick) {
  const RunInfo& info = history->info();
  const StepRange range = history->steps();  // the present steps, if the run is training
  if (range.empty()) refuse(info.name, "has no step to export");
  ReplayJson run = {{"name", printable(info.name)},
                    {"source", printable(info.source)},
                    {"from_log", run_origin(info) == RunOrigin::log},
                    {"experts", info.n_experts},
                    {"top_k", info.top_k},
                    {"window", info.window},
                    {"layers", info.moe_layers}};
  run["findings"] = findings_of(history, range, part_of(tick, 0, 0.4));
  // If a run has no matrices or operands, their bytes are left for loads and scalars.
  const std::size_t for_matrices = bytes / 7, for_operands = bytes / 8;
  run["matrices"] = matrices_of(*history, range, most_points, for_matrices, part_of(tick, 0.4, 0.55));
  run["operands"] = operands_of(*history, range, most_points, for_operands, part_of(tick, 0.55, 0.8));
  const std::size_t taken_bytes =
      (run["matrices"].is_null() ? 0 : for_matrices) + (run["operands"].is_null() ? 0 : for_operands);
  const std::int64_t steps = std::ssize(history->steps_in(range));
  const int points = points_of(*history, steps, bytes - taken_bytes, most_points);
  run["logged"] = steps;
  run["edges"] = slice_edges(range, points);
  run["loss"] = scalar_of(*history, Metric::ce_loss, {kWholeRun}, range, points);
  run["val_loss"] = scalar_of(*history, Metric::val_loss, {kWholeRun}, range, points);
  run["max_vio"] = scalar_of(*history, Metric::max_vio, info.moe_layers, range, points);
  run["max_vio_window"] = scalar_of(*history, Metric::max_vio_window, info.moe_layers, range, points);
  add_load(*history, range, points, part_of(tick, 0.8, 1), run);
  run["lacks"] = lacks_of(run, *history, range);
  return run;
}

// Returns the verdict on each run other than the first.
ReplayJson verdicts_of(std::span<const ReplayRun> runs) {
  std::vector<PairedRun> twins;
  for (const ReplayRun& run : runs)
    if (run.twin) twins.push_back({run.twin, run.same_start});
  const auto candidates = std::ranges::count_if(runs.subspan(1), [](const ReplayRun& run) { return !run.twin; });
  const Judging judging{kRelevantGap, to_int(candidates)};
  ReplayJson verdicts = ReplayJson::array();
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const PairedRun run{runs[i].history, runs[i].same_start};
    ReplayJson verdict = {{"run", i}, {"severity", severity_name(Severity::note)}};
    if (runs[i].twin) {
      verdict["sentence"] =
          printable(runs[i].history->info().name + " is a noise twin of " + runs.front().history->info().name) +
          ": they differ by chance alone.";
    } else {
      const Conclusion c = conclude(runs.front().history, run, twins, judging);
      verdict["sentence"] = printable(verdict_sentence(c)) + ".";
      if (verdict_word(c) == VerdictWord::worse) verdict["severity"] = severity_name(Severity::warning);
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

// Returns the classes of GEMMs that any run quantizes, in the order of their first operand.
ReplayJson gemm_classes(const ReplayJson& runs) {
  ReplayJson classes = ReplayJson::array();
  for (const ReplayJson& run : runs) {
    if (run["operands"].is_null()) continue;
    for (const ReplayJson& operand : run["operands"]["list"])
      if (std::ranges::find(classes, operand[1]) == classes.end()) classes.push_back(operand[1]);
  }
  return classes;
}

// Replaces "<", which would begin a tag or a comment in the page, by \u003c, which is equivalent in JSON; in JSON it
// occurs only in texts.
std::string json_for_page(const ReplayJson& json) {
  std::string safe;
  for (const char c : json.dump())
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  return safe;
}

std::string page_with(const ReplayJson& data) {
  std::string page(asset("replay/page.html"));
  page.append("<style>\n").append(page_look()).append(asset("replay/page.css")).append("</style>\n");
  page.append("<script type=\"application/json\" id=\"data\">").append(json_for_page(data)).append("</script>\n");
  page.append("<script>\n");
  for (const char* part : {"values", "plots", "figures", "controls"})
    page.append(asset("replay/page." + std::string(part) + ".js"));
  return page.append("</script>\n</body>\n</html>\n");
}

}  // namespace

std::string replay_page(std::span<const ReplayRun> runs, const ReplayLimits& limits,
                        const std::function<bool(double)>& progress) {
  const ReplayTick tick = [&](double share) {
    if (progress && !progress(share)) throw Cancelled();
  };
  try {
    ReplayJson written = ReplayJson::array();
    const double n = runs.size();
    for (std::size_t i = 0; i < runs.size(); ++i)
      written.push_back(
          run_of(runs[i].history, limits.bytes / runs.size(), limits.points, part_of(tick, i / n, (i + 1) / n)));
    const ReplayJson classes = gemm_classes(written);
    return page_with({{"setup", runs.empty() ? std::string() : runs.front().setup},
                      {"verdicts", verdicts_of(runs)},
                      {"gemms", classes},
                      {"sqnr_scale", {kStrongSqnrDb, kPaleSqnrDb}},
                      {"runs", std::move(written)}});
  } catch (const Cancelled&) {
    return {};
  }
}

}  // namespace moescope

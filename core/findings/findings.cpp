#include "core/findings/findings.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "core/files/text/words.h"
#include "core/findings/auxiliary_watch.h"
#include "core/findings/comparison/verdict_words.h"
#include "core/findings/drop_watch.h"
#include "core/findings/expert_watch.h"
#include "core/findings/fault_watch.h"
#include "core/findings/gate_watch.h"
#include "core/findings/interventions.h"
#include "core/findings/load_watch.h"
#include "core/findings/loss_watch.h"
#include "core/findings/quant_watch.h"
#include "core/findings/recent_load.h"
#include "core/findings/shift_watch.h"
#include "core/findings/swap_watch.h"
#include "core/recording/history/step_axis.h"

namespace moescope {
namespace {

constexpr std::int64_t kCopiedSteps = 20 * FindingsScan::kBlock;  // steps that are copied from a history at once
constexpr int kLookedAt = 11;                                     // frames of a window that are searched for a bias
constexpr std::int64_t kSuccessive = 2;  // largest distance of two frames whose biases show the step of the bias

// Values of one step that identify a rewound run.
using Fingerprint = std::pair<std::uint32_t, std::uint32_t>;

Fingerprint fingerprint(const History& history, std::int64_t step) {
  const std::int64_t at[] = {step};
  const auto bits = [&](Metric metric) {
    return std::bit_cast<std::uint32_t>(history.values_at(metric, kWholeRun, at).front());
  };
  return {bits(Metric::ce_loss), bits(Metric::max_vio)};
}

}  // namespace

Finding finding_of(FindingKind kind, int run, StepRange steps) {
  Finding finding;
  finding.kind = kind;
  finding.severity = finding_kind_info(kind).severity;
  finding.run = run;
  finding.steps = steps;
  return finding;
}

Finding layer_finding(FindingKind kind, int run, int layer, StepRange steps) {
  Finding finding = finding_of(kind, run, steps);
  finding.layers = {layer};
  finding.title = fmt::format("Layer {}", layer);
  return finding;
}

std::string finding_id(const Finding& finding) {
  std::string id = fmt::format("{}/{}", finding.run, finding_kind_info(finding.kind).name);
  if (!finding.layers.empty()) id += fmt::format("/{}", finding.layers.front());
  if (finding.tensor) id += std::string("/") + operand_name(finding.tensor->operand);
  if (finding.kind == FindingKind::auxiliary_dominates) id += "/" + finding.knobs.front().key();
  if (!finding.ongoing || finding.kind == FindingKind::loss_spike) id += fmt::format("@{}", finding.steps.first);
  return id;
}

namespace {

// The watches over a run. Copyable, so that the steps after the last whole block can be read into a copy.
struct Watches {
  struct Layer {
    LoadWatch load;
    GateWatch gate;
    FaultWatch faults;
  };

  Watches(const RunInfo& info, const StepAxis& axis)
      : shifts(info, axis),
        swaps(info.moe_layers, info.run, axis),
        losses(info.run, !info.config_toml.empty(), axis),
        gradients(info.run, axis),
        auxiliaries(info.run),
        quants(info.run) {
    for (const int layer : info.moe_layers) {
      drops.emplace_back(layer, info.run);
      if (info.n_experts > 0)
        layers.push_back({LoadWatch(layer, info, axis), GateWatch(layer, info), FaultWatch(layer, info)});
    }
    if (drops.empty()) drops.emplace_back(kWholeRun, info.run);  // a log may have the share of all layers only
  }

  std::vector<Layer> layers;
  std::vector<DropWatch> drops;
  ShiftWatch shifts;
  SwapWatch swaps;
  LossWatch losses;
  GradientWatch gradients;
  AuxiliaryWatch auxiliaries;
  QuantWatch quants;
};

bool has_bias(const TelemetryFrame& frame) {
  return std::ranges::any_of(frame.routers, [](const RouterFrame& router) { return !router.expert_bias.empty(); });
}

// Reads the steps at the positions [first, last] of a history.
class Reading {
 public:
  Reading(const History& history, const Interventions& settings, const StepAxis& axis, StepRange range)
      : history_(history),
        settings_(settings),
        axis_(axis),
        range_(range),
        steps_(axis.list(range)),
        edges_(edges_of(steps_)),
        first_step_(axis.step(std::max(axis.positions().first, range.first - kMeanBlocks * kBlock))),
        phase_((range.first - axis.positions().first) / kBlock) {}
  // If `stop` is requested, the caller must discard `watches`: some layers have been read, others not.
  void into(Watches& watches, const std::stop_token& stop) {
    read_frames(watches.quants);
    assignments_ = history_.assignments(edges_);
    losses_ = history_.values_at(Metric::ce_loss, kWholeRun, steps_);
    const bool nothing_balances = settings_.nothing_balances(axis_.step(block(blocks() - 1).first));
    for (Watches::Layer& layer : watches.layers) {
      if (stop.stop_requested()) return;
      // A layer is read if it has a frame in the range, or in the window that ends in the range.
      if (history_.has_layer(layer.load.layer(), {first_step_, steps_.back()})) {
        read_layer(layer);
      } else {
        max_vio_.emplace_back();
        pass_layer(layer, nothing_balances);
      }
    }
    read_drops(watches);
    read_losses(watches);
    read_whole(watches);
  }

 private:
  static constexpr std::int64_t kBlock = FindingsScan::kBlock;
  using FramePtr = std::shared_ptr<const TelemetryFrame>;

  std::int64_t blocks() const { return (range_.size() + kBlock - 1) / kBlock; }
  StepRange block(std::int64_t b) const {
    const std::int64_t first = range_.first + b * kBlock;
    return {first, std::min(range_.last, first + kBlock - 1)};
  }
  // Whole blocks only, because routers and quantizers are checked once per window.
  bool completes_window(std::int64_t b) const {
    return block(b).size() == kBlock && (phase_ + b + 1) % kMeanBlocks == 0;
  }
  template <class Values>
  auto block_values(const Values& values, std::int64_t b, std::size_t width = 1) const {
    const std::size_t from = b * kBlock * width;
    return std::span(values).subspan(from, block(b).size() * width);
  }
  // `first`: the frame of a window's first step; if only some frames have biases, the first frame with a bias. `next`:
  // the next frame with a bias, at most kSuccessive steps later.
  struct WindowFrames {
    FramePtr first, next;
    std::int64_t steps_between = 1;
  };

  void read_frames(QuantWatch& quants) {
    frames_.resize(blocks());
    for (std::int64_t b = 0; b < blocks(); ++b) {
      const bool is_counted = completes_window(b);
      if (!is_counted && b + 1 < blocks()) continue;  // panels show the newest figures, and findings state them
      const std::int64_t begin = std::max(axis_.positions().first, block(b).last + 1 - kMeanBlocks * kBlock);
      if (is_counted) frames_[b] = frames_of({begin, block(b).last});
      const auto quant = history_.quant_frame_at(axis_.step(block(b).last));
      if (quant && quant->step >= axis_.step(begin)) quants.frame(*quant, is_counted);
    }
  }

  WindowFrames frames_of(StepRange window) const {
    WindowFrames found;
    std::int64_t at = window.first;
    bool with_bias = false;
    int looked_at = 0;
    for (std::int64_t position = window.first; position <= window.last && looked_at < kLookedAt; ++position) {
      const FramePtr frame = history_.frame_at(axis_.step(position));
      if (!frame || frame->step != axis_.step(position)) continue;
      ++looked_at;
      const bool has = has_bias(*frame);
      if (with_bias && has) {
        if (position - at <= kSuccessive) {
          found.next = frame;
          found.steps_between = position - at;
        }
        break;
      }
      if (!found.first || has) {
        found.first = frame;
        at = position;
      }
      with_bias = has;
    }
    return found;
  }

  void read_layer(Watches::Layer& watch) {
    const int layer = watch.load.layer();
    max_vio_.push_back(history_.values_at(Metric::max_vio, layer, steps_));
    const std::vector<float> rows = history_.utilisation(layer, edges_, Summary::mean);
    const std::size_t width = rows.size() / range_.size();
    for (std::int64_t b = 0; b < blocks(); ++b)
      read_block(watch, b,
                 {block(b).first, block_values(rows, b, width), block_values(max_vio_.back(), b),
                  block_values(assignments_, b), block_values(losses_, b)});
  }

  // Passes over the range for a layer that has no loads in it.
  void pass_layer(Watches::Layer& watch, bool nothing_balances) const {
    const std::int64_t step = axis_.step(block(blocks() - 1).first);
    const std::vector<std::uint8_t> killed = settings_.killed(watch.load.layer(), step);
    watch.gate.pass(range_.last);
    watch.faults.pass(range_.last);
    watch.load.pass(range_, LoadSettings{killed, nothing_balances});
  }

  void read_block(Watches::Layer& watch, std::int64_t b, const LoadBlock& load) {
    const int layer = watch.load.layer();
    const std::int64_t step = axis_.step(load.first);
    const WindowFrames& frames = frames_[b];
    if (const RouterFrame* router = find_router(frames.first.get(), layer))
      watch.gate.router({axis_.position(frames.first->step), router, find_router(frames.next.get(), layer),
                         frames.steps_between, settings_.softmax(step), settings_.bias_rate(step),
                         settings_.sign_rule(step)});
    watch.gate.pass(block(b).last);
    const std::vector<std::uint8_t> killed = settings_.killed(layer, step);
    LoadSettings settings{killed, settings_.nothing_balances(step)};
    settings.bias_step = watch.gate.says_nothing() ? BiasStep{true} : watch.gate.bias_step();
    watch.load.block(load, settings);
    const RecentLoad& read = watch.load.load();
    if (completes_window(b)) read_faults(watch, b);
    watch.faults.pass(block(b).last);
    if (!read.completes_window()) return;
    LayerMeans& means = means_[b];
    means.steps = {read.first_step(), read.last_step()};
    means.shares.resize(max_vio_.size());
    means.shares.back().assign(read.mean().begin(), read.mean().end());
  }

  void read_faults(Watches::Layer& watch, std::int64_t b) const {
    const int layer = watch.load.layer();
    const FramePtr& frame = frames_[b].first;
    FaultReading reading;
    reading.step = frame ? axis_.position(frame->step) : block(b).first;
    const std::int64_t step = axis_.step(reading.step);
    reading.router = find_router(frame.get(), layer);
    reading.load = &watch.load.load();
    reading.bias_rate = settings_.bias_rate(step);
    reading.bias_is_held = settings_.holds_bias(layer, step);
    reading.aux_coeff = settings_.aux_coeff(step);
    reading.aux_is_ours = settings_.even_aux(step).has_value();
    if (frame) reading.aux_of_all = frame->aux_loss;
    reading.slots = static_cast<double>(history_.info().tokens_per_step) * settings_.top_k(step);
    const std::int64_t begin = axis_.step(std::max(axis_.positions().first, block(b).last + 1 - kMeanBlocks * kBlock));
    const FramePtr experts = history_.specialisation_layer_at(layer, axis_.step(block(b).last));
    if (experts && experts->step >= begin) {
      const auto found = std::ranges::find(experts->specialisation, layer, &SpecialisationFrame::layer);
      if (found != experts->specialisation.end()) reading.experts = &*found;
      const std::int64_t at[] = {experts->step};
      reading.lr = history_.values_at(Metric::lr, kWholeRun, at).front();
    }
    watch.faults.window(reading);
  }

  // Copies beyond the capacity are counted also if the settings of a run say that they are not dropped.
  void read_drops(Watches& watches) const {
    if (!settings_.may_drop(steps_.back())) return;
    for (DropWatch& drops : watches.drops) {
      const std::vector<float> shares = history_.values_at(Metric::dropped_fraction, drops.layer(), steps_);
      drops.block(range_.first, shares);
    }
  }

  void read_losses(Watches& watches) const {
    LossWatch& losses = watches.losses;
    const auto values = [&](Metric metric) { return history_.values_at(metric, kWholeRun, steps_); };
    const std::vector<float> ce = values(Metric::ce_loss), aux = values(Metric::aux_loss), z = values(Metric::z_loss),
                             grad_norm = values(Metric::grad_norm), max_vio = values(Metric::max_vio);
    // If only means of old steps are kept, their bins still count values that were NaN or infinite.
    const auto bins = history_.series(Metric::ce_loss, kWholeRun, edges_);
    for (std::int64_t b = 0; b < blocks(); ++b) {
      losses.block(block(b).first, {block_values(ce, b), block_values(aux, b), block_values(z, b),
                                    block_values(grad_norm, b), block_values(max_vio, b)});
      watches.gradients.block(block(b).first, block_values(grad_norm, b));
      watches.auxiliaries.block(block(b).first, block_values(ce, b), block_values(aux, b), block_values(z, b),
                                settings_.auxiliary_factors(axis_.step(block(b).first)));
      const auto non_finite = [](float value) { return !std::isfinite(value) && !is_missing(value); };
      const bool has_non_finite = std::ranges::any_of(block_values(ce, b), non_finite);
      const bool counted =
          std::ranges::any_of(block_values(bins, b), [](const PyramidBin& bin) { return bin.non_finite > 0; });
      if (counted && !has_non_finite) losses.non_finite_among(block(b));
    }
  }

  // Updates the watches over all layers.
  void read_whole(Watches& watches) const {
    const std::vector<float> whole = history_.values_at(Metric::max_vio, kWholeRun, steps_);
    for (std::int64_t b = 0; b < blocks() && !max_vio_.empty(); ++b) {
      std::vector<std::span<const float>> by_layer;
      for (const auto& values : max_vio_)
        by_layer.push_back(values.empty() ? std::span<const float>() : block_values(values, b));
      watches.shifts.block(block(b).first, block_values(whole, b), by_layer, block_values(assignments_, b));
    }
    const auto loads_of = [this](int layer, StepRange positions) {
      return history_.utilisation(layer, edges_of(axis_.list(positions)), Summary::mean);
    };
    for (const auto& [b, means] : means_) watches.swaps.window(means, loads_of);
  }

  const History& history_;
  const Interventions& settings_;
  const StepAxis& axis_;
  StepRange range_;                           // positions, like all steps of the watches
  std::vector<std::int64_t> steps_, edges_;   // steps at these positions, and edges of bins of one step each
  std::int64_t first_step_;                   // first step of the window that ends in the range
  std::int64_t phase_;                        // blocks before the range
  std::vector<WindowFrames> frames_;          // indexed by block that completes a window
  std::vector<float> assignments_, losses_;   // indexed by step
  std::vector<std::vector<float>> max_vio_;   // indexed by layer and step
  std::map<std::int64_t, LayerMeans> means_;  // indexed by block that completes a window of loads
};

}  // namespace

struct FindingsScan::State {
  explicit State(HistoryPtr followed) : history(std::move(followed)) { restart(); }
  void restart() {
    whole = positions = {};
    axis.restart();
    watches.emplace(history->info(), axis);
    ahead.reset();
  }

  HistoryPtr history;
  StepAxis axis;
  Interventions settings;
  StepRange whole;      // positions of steps in whole blocks
  StepRange positions;  // positions of all steps that were read
  Fingerprint newest;
  std::optional<Watches> watches;  // state after `whole`
  std::optional<Watches> ahead;    // state after `seen`, if `seen` has more steps
  const Watches& newest_watches() const { return ahead ? *ahead : *watches; }
};

FindingsScan::FindingsScan(HistoryPtr history) : state_(std::make_unique<State>(std::move(history))) {}

FindingsScan::~FindingsScan() = default;

void FindingsScan::advance(std::int64_t last_step, std::stop_token stop) {
  State& s = *state_;
  const StepRange history_steps = s.history->steps();
  if (history_steps.empty()) return s.restart();
  if (const StepRange read_steps = this->read_steps();
      !read_steps.empty() && (history_steps.last < read_steps.last || history_steps.first != read_steps.first ||
                              last_step < read_steps.last || fingerprint(*s.history, read_steps.last) != s.newest)) {
    s.restart();
  }
  s.axis.update(*s.history);
  s.settings = Interventions(*s.history);
  const std::int64_t first = s.axis.positions().first;
  if (s.whole.empty()) s.whole = {first, first - 1};
  const std::int64_t last = std::min(s.axis.position(last_step), s.axis.positions().last);
  while (last - s.whole.last >= kBlock && !stop.stop_requested()) {
    const std::int64_t blocks = std::min((last - s.whole.last) / kBlock, kCopiedSteps / kBlock);
    const StepRange range{s.whole.last + 1, s.whole.last + blocks * kBlock};
    Reading(*s.history, s.settings, s.axis, range).into(*s.watches, stop);
    if (stop.stop_requested()) return s.restart();
    s.whole.last = range.last;
  }
  s.ahead.reset();
  s.positions = s.whole;
  if (last > s.whole.last && last - s.whole.last < kBlock && !stop.stop_requested()) {
    s.ahead = s.watches;
    Reading(*s.history, s.settings, s.axis, {s.whole.last + 1, last}).into(*s.ahead, stop);
    if (stop.stop_requested()) return s.restart();
    s.positions.last = last;
  }
  if (!s.positions.empty()) s.newest = fingerprint(*s.history, read_steps().last);
}

std::vector<Finding> FindingsScan::findings() const {
  const State& s = *state_;
  const Watches& watches = s.newest_watches();
  std::vector<Finding> out;
  const StepRange read_steps = this->read_steps();
  watches.losses.findings(out);
  watches.gradients.findings(out);
  watches.auxiliaries.findings(out, s.settings.even_aux(read_steps.last));
  watches.shifts.findings(out);
  watches.swaps.findings(out);
  for (const Watches::Layer& layer : watches.layers) {
    layer.load.findings(out);
    layer.gate.findings(out);
    layer.faults.findings(out);
  }
  for (const DropWatch& drops : watches.drops) drops.findings(out);
  for (Finding& finding : out) {
    finding.steps = s.axis.steps(finding.steps);
    add_origin(*s.history, finding);
  }
  watches.quants.findings(out);
  // Layers already reported as not recovering are not reported as uneven as well.
  std::vector<int> not_recovering;
  for (const Finding& finding : out)
    if (finding.kind == FindingKind::no_recovery)
      not_recovering.insert(not_recovering.end(), finding.layers.begin(), finding.layers.end());
  std::erase_if(out, [&](const Finding& finding) {
    return finding.kind == FindingKind::uneven &&
           std::ranges::find(not_recovering, finding.layers.front()) != not_recovering.end();
  });
  for (Finding& finding : out) s.settings.add_causes(finding);
  s.settings.findings(out, read_steps);
  for (Finding& finding : out) finding.settings = s.settings.names_of(finding.knobs);
  sort_findings(out);
  return out;
}

std::vector<Finding> FindingsScan::not_yet() const {
  std::vector<Finding> out;
  for (const Watches::Layer& layer : state_->newest_watches().layers) layer.load.not_yet(out);
  for (Finding& finding : out) finding.steps = state_->axis.steps(finding.steps);
  return out;
}

std::vector<LayerLoad> FindingsScan::loads() const {
  std::vector<LayerLoad> loads;
  for (const Watches::Layer& layer : state_->newest_watches().layers) {
    const RecentLoad& load = layer.load.load();
    if (load.no_load()) continue;
    LayerLoad& layer_load = loads.emplace_back();
    layer_load.layer = load.layer();
    layer_load.every_step = load.every_step();
    layer_load.evidence = {load.all_loads(), load.expected(), load.are_totals()};
    layer_load.living = static_cast<float>(load.living()) / load.n_experts();
    for (std::size_t e = 0; e < load.mean().size(); ++e) layer_load.shares.push_back(static_cast<float>(load.share(e)));
    layer_load.settles = layer.load.still_settles();
  }
  return loads;
}

StepRange FindingsScan::read_steps() const {
  return state_->positions.empty() ? state_->positions : state_->axis.steps(state_->positions);
}

const HistoryPtr& FindingsScan::history() const {
  return state_->history;
}

std::vector<Finding> find_all(const HistoryPtr& history, std::int64_t last_step) {
  FindingsScan scan(history);
  scan.advance(last_step);
  return scan.findings();
}

bool says_the_same(const Finding& a, const Finding& b) {
  return a.kind == b.kind && a.title == b.title && a.observation == b.observation && a.steps.first == b.steps.first &&
         a.ongoing == b.ongoing;
}

void sort_findings(std::vector<Finding>& findings) {
  std::ranges::stable_sort(findings, [](const Finding& a, const Finding& b) {
    if (a.ongoing != b.ongoing) return a.ongoing;
    if (a.severity != b.severity) return a.severity > b.severity;
    if (a.kind != b.kind) return a.kind < b.kind;
    return a.ongoing ? false : a.steps.last > b.steps.last;
  });
}

std::string steps_read(const History& history) {
  const StepRange steps = history.steps();
  return steps.empty() ? "nothing yet" : steps_in_words(steps.first, steps.last);
}

std::string to_text(std::span<const Finding> findings, std::span<const HistoryPtr> histories) {
  std::string text;
  for (const Finding& finding : findings) {
    for (const HistoryPtr& history : histories)
      if (histories.size() > 1 && history->info().run == finding.run) text += history->info().name + ": ";
    text += std::string(severity_name(finding.severity)) + (finding.ongoing ? "" : ", over") + ": " + finding.title +
            "\n  " + steps_in_words(finding.steps.first, finding.steps.last) + ". " + finding.observation + "\n  " +
            finding.meaning + "\n";
    if (!finding.settings.empty()) text += "  Settings that affect it: " + joined(finding.settings, ", ") + "\n";
  }
  if (findings.empty()) {
    text += "No finding.\n";
    for (const HistoryPtr& history : histories) {
      if (histories.size() > 1) text += history->info().name + "\n";
      text += "  Read: " + steps_read(*history) + ".\n";
      const Checks checks = checks_of(*history, {});
      for (const std::string& line : checks.passed) text += "  Passed: " + line + "\n";
      for (const std::string& line : checks.not_checked) text += "  Not checked: " + line + "\n";
    }
  }
  return text;
}

}  // namespace moescope

#include "core/telemetry/findings.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/telemetry/load_watch.h"
#include "core/telemetry/loss_watch.h"
#include "core/telemetry/quant_watch.h"
#include "core/telemetry/shift_watch.h"
#include "core/telemetry/words.h"

namespace moescope {

namespace {

constexpr std::int64_t kChunk = 20 * FindingsScan::kBlock;  // steps that are copied out of a history at a time

struct KindName {
  FindingKind kind;
  const char* name;
};
constexpr std::array<KindName, 15> kKindNames = {{
    {FindingKind::loss_lost, "loss lost"},
    {FindingKind::collapsed, "collapsed"},
    {FindingKind::collapsing, "collapsing"},
    {FindingKind::dead, "dead experts"},
    {FindingKind::no_recovery, "no recovery"},
    {FindingKind::starved, "starved experts"},
    {FindingKind::hot, "hot experts"},
    {FindingKind::oscillating_bias, "oscillating bias"},
    {FindingKind::bias_against_gate, "bias against gate"},
    {FindingKind::loss_spike, "loss spike"},
    {FindingKind::underflow, "underflow"},
    {FindingKind::clipping, "clipping"},
    {FindingKind::low_sqnr, "low SQNR"},
    {FindingKind::comparison, "comparison"},
    {FindingKind::load_shift, "load shift"},
}};

// One step's values that a rewound run cannot have kept by chance.
struct Fingerprint {
  std::int64_t step = -1;
  std::uint32_t loss = 0, max_vio = 0;
  bool operator==(const Fingerprint&) const = default;
};

Fingerprint fingerprint(const History& history, std::int64_t step) {
  const StepRange at{step, step};
  return {step, std::bit_cast<std::uint32_t>(history.values(Metric::ce_loss, kWholeRun, at).front()),
          std::bit_cast<std::uint32_t>(history.values(Metric::max_vio, kWholeRun, at).front())};
}

const RouterFrame* router_of(const std::shared_ptr<const TelemetryFrame>& frame, int layer) {
  if (!frame) return nullptr;
  for (const RouterFrame& router : frame->routers) {
    if (router.layer == layer) return &router;
  }
  return nullptr;
}

}  // namespace

const char* finding_kind_name(FindingKind kind) {
  for (const KindName& each : kKindNames) {
    if (each.kind == kind) return each.name;
  }
  return "";
}

const char* severity_name(Severity severity) {
  static constexpr const char* kNames[] = {"note", "warning", "severe"};
  return kNames[static_cast<int>(severity)];
}

std::string finding_id(const Finding& finding) {
  std::string id = std::to_string(finding.run) + "/" + finding_kind_name(finding.kind);
  if (!finding.layers.empty()) id += "/" + std::to_string(finding.layers.front());
  if (finding.tensor) id += std::string("/") + operand_name(finding.tensor->operand);
  if (!finding.ongoing || finding.kind == FindingKind::loss_spike) id += "@" + std::to_string(finding.steps.first);
  return id;
}

struct FindingsScan::State {
  explicit State(HistoryPtr of) : history(std::move(of)) { restart(); }

  void restart();
  void read(std::int64_t first, std::int64_t last, const std::stop_token& stop);

  HistoryPtr history;
  StepRange seen;
  Fingerprint newest;
  std::vector<LoadWatch> loads;
  std::optional<ShiftWatch> shifts;
  std::optional<LossWatch> losses;
  std::optional<QuantWatch> quants;
};

void FindingsScan::State::restart() {
  const RunInfo& info = history->info();
  seen = {};
  newest = {};
  loads.clear();
  for (const int layer : info.moe_layers) {
    if (info.n_experts > 0) loads.emplace_back(layer, info);
  }
  shifts.emplace(info.moe_layers, info.run);
  losses.emplace(info.run);
  quants.emplace(info.run);
}

// Steps [first, last], whole blocks.
void FindingsScan::State::read(std::int64_t first, std::int64_t last, const std::stop_token& stop) {
  const StepRange range{first, last};
  const auto steps = static_cast<int>(range.size());
  const std::int64_t blocks = range.size() / kBlock;
  const auto of_block = [](const auto& values, std::int64_t block, std::size_t width = 1) {
    return std::span(values).subspan(static_cast<std::size_t>(block * kBlock) * width,
                                     static_cast<std::size_t>(kBlock) * width);
  };
  std::vector<std::vector<float>> max_vio;
  const int window_phase = static_cast<int>((first - seen.first) / kBlock % kMeanBlocks);
  const auto completes = [&](std::int64_t block) { return (window_phase + block + 1) % kMeanBlocks == 0; };
  // By block that completes a window: routers of its first step, on which logs have gates and biases if on any, and of
  // the next.
  using FramePtr = std::shared_ptr<const TelemetryFrame>;
  std::vector<std::pair<FramePtr, FramePtr>> frames(static_cast<std::size_t>(blocks));
  for (std::int64_t b = 0; b < blocks; ++b) {
    if (!completes(b)) continue;
    const std::int64_t begin = first + (b + 1 - kMeanBlocks) * kBlock;
    auto& [now, next] = frames[static_cast<std::size_t>(b)];
    now = history->frame_at(begin), next = history->frame_at(begin + 1);
    if (now && now->step != begin) now = nullptr;
    if (next && next->step != begin + 1) next = nullptr;
    const auto quant = history->quant_frame_at(first + (b + 1) * kBlock - 1);
    if (quant && quant->step >= begin) quants->frame(*quant);
  }
  for (LoadWatch& load : loads) {
    if (stop.stop_requested()) break;  // read() is all or nothing for the caller: see advance()
    const int layer = load.layer();
    max_vio.push_back(history->values(Metric::max_vio, layer, range));
    const std::vector<float> entropy = history->values(Metric::entropy_norm, layer, range);
    const std::vector<float> rows = history->utilisation(layer, range, steps, Summary::mean);
    const std::size_t width = rows.size() / static_cast<std::size_t>(steps);
    for (std::int64_t b = 0; b < blocks; ++b) {
      const auto& [now, next] = frames[static_cast<std::size_t>(b)];
      if (const RouterFrame* router = router_of(now, layer)) load.router(now->step, *router, router_of(next, layer));
      load.block(first + b * kBlock, of_block(rows, b, width), of_block(max_vio.back(), b), of_block(entropy, b));
    }
  }
  const std::vector<float> whole = history->values(Metric::max_vio, kWholeRun, range);
  const std::vector<float> loss = history->values(Metric::ce_loss, kWholeRun, range);
  const std::vector<float> grad_norm = history->values(Metric::grad_norm, kWholeRun, range);
  if (stop.stop_requested()) return;
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::vector<std::vector<float>> by_layer;
    for (const auto& values : max_vio) {
      const auto part = of_block(values, b);
      by_layer.emplace_back(part.begin(), part.end());
    }
    if (!by_layer.empty()) shifts->block(first + b * kBlock, of_block(whole, b), by_layer);
    losses->block(first + b * kBlock, of_block(loss, b), of_block(grad_norm, b));
  }
}

FindingsScan::FindingsScan(HistoryPtr history) : state_(std::make_unique<State>(std::move(history))) {}

FindingsScan::~FindingsScan() = default;

void FindingsScan::advance(std::int64_t upto, std::stop_token stop) {
  State& s = *state_;
  const StepRange there = s.history->steps();
  if (there.empty()) return s.restart();
  if (!s.seen.empty() && (there.last < s.seen.last || there.first != s.seen.first || upto < s.seen.last ||
                          fingerprint(*s.history, s.seen.last) != s.newest)) {
    s.restart();
  }
  if (s.seen.empty()) s.seen = {there.first, there.first - 1};
  const std::int64_t last = std::min(upto, there.last);
  while (last - s.seen.last >= kBlock && !stop.stop_requested()) {
    const std::int64_t blocks = std::min((last - s.seen.last) / kBlock, kChunk / kBlock);
    const std::int64_t first = s.seen.last + 1, end = s.seen.last + blocks * kBlock;
    s.read(first, end, stop);
    if (stop.stop_requested()) return s.restart();  // layers have come differently far
    s.seen.last = end;
  }
  if (!s.seen.empty()) s.newest = fingerprint(*s.history, s.seen.last);
}

std::vector<Finding> FindingsScan::findings() const {
  std::vector<Finding> out;
  const std::vector<Marker> markers = state_->history->markers();
  state_->losses->findings(out, markers);
  state_->shifts->findings(out, markers);
  for (const LoadWatch& load : state_->loads) load.findings(out);
  state_->quants->findings(out);
  sort_findings(out);
  return out;
}

StepRange FindingsScan::seen() const {
  return state_->seen;
}

const HistoryPtr& FindingsScan::history() const {
  return state_->history;
}

std::vector<Finding> find_all(const HistoryPtr& history, std::int64_t upto) {
  FindingsScan scan(history);
  scan.advance(upto);
  return scan.findings();
}

std::vector<Finding> compare_findings(const HistoryPtr& a, const HistoryPtr& b,
                                      std::span<const HistoryPtr> same_settings) {
  const Conclusion conclusion = conclude(*a, *b, same_settings);
  Finding finding;
  finding.kind = FindingKind::comparison;
  finding.run = b->info().run;
  finding.steps = conclusion.steps;
  finding.metric = "ce_loss";
  finding.saw = conclusion.text + ".";
  const std::string names = b->info().name + " against " + a->info().name;
  switch (conclusion.verdict) {
    case Verdict::too_short:
    case Verdict::no_band:
      return {};
    case Verdict::identical:
      finding.title = names + ": identical losses";
      finding.why = "The two differ in nothing that training sees.";
      break;
    case Verdict::inside:
      finding.title = names + ": inside the noise band";
      finding.why = "Runs that differ by chance alone differ as much: this comparison gives no reason to prefer one.";
      break;
    case Verdict::returned:
      finding.title = names + ": was outside the noise band, and came back";
      finding.steps = conclusion.out;
      finding.why = "A real difference for a while; by the end it is within what chance explains.";
      break;
    case Verdict::outside:
      finding.title = names + ": outside the noise band";
      finding.severity = Severity::warning;
      finding.steps = conclusion.out;
      finding.why = "More than chance explains: the settings in which the runs differ change what is learnt.";
      break;
    case Verdict::lost:
      finding.title = names + ": the loss of one is no number";
      finding.severity = Severity::severe;
      finding.steps = conclusion.out;
      finding.why = "One of them diverged.";
      break;
  }
  return {finding};
}

void sort_findings(std::vector<Finding>& findings) {
  std::ranges::stable_sort(findings, [](const Finding& a, const Finding& b) {
    if (a.ongoing != b.ongoing) return a.ongoing;
    if (a.severity != b.severity) return a.severity > b.severity;
    if (a.kind != b.kind) return a.kind < b.kind;
    return a.ongoing ? false : a.steps.last > b.steps.last;
  });
}

std::vector<std::string> findings_checked(const History& history) {
  std::vector<std::string> lines;
  const StepRange steps = history.steps();
  const RunInfo& info = history.info();
  const std::string span = steps.empty() ? "nothing yet" : steps_in_words(steps.first, steps.last);
  lines.push_back("Read: " + span + ".");
  lines.push_back("Loss: NaN, spikes.");
  const auto frame = history.frame_at(INT64_MAX);
  if (info.n_experts == 0 || info.moe_layers.empty()) {
    lines.push_back("Not checked: load of the experts, which is not in this log.");
  } else {
    lines.push_back("Load of " + counted(std::ssize(info.moe_layers), "MoE layer", "MoE layers") + " with " +
                    counted(info.n_experts, "expert", "experts") + " each: dead (" + grouped(kDeadBatches) +
                    " batches without a token), starved (under " + percent(kStarvedShare) + " of the fair share for " +
                    grouped(kStarvedSteps) +
                    " steps), hot, collapsed or collapsing, oscillating, recovery from jumps.");
    const bool gates = frame && !frame->routers.empty() && !frame->routers[0].gate_mass.empty() &&
                       !frame->routers[0].expert_bias.empty();
    lines.push_back(gates ? "Bias against gate mass."
                          : "Not checked: bias against gate mass, which is not in this log.");
  }
  lines.push_back(history.quant_frame_at(INT64_MAX)
                      ? "Number formats: underflow, clipping, SQNR of every quantized operand."
                  : info.config_toml.empty() ? "Not checked: number formats, which are not in this log."
                                             : "Not checked: number formats; nothing is quantized here.");
  return lines;
}

std::string to_text(std::span<const Finding> findings, std::span<const HistoryPtr> histories) {
  std::string text;
  for (const Finding& finding : findings) {
    for (const HistoryPtr& history : histories) {
      if (histories.size() > 1 && history->info().run == finding.run) text += history->info().name + ": ";
    }
    text += std::string(severity_name(finding.severity)) + (finding.ongoing ? "" : ", over") + ": " + finding.title +
            "\n  " + steps_in_words(finding.steps.first, finding.steps.last) + ". " + finding.saw + "\n  " +
            finding.why + "\n";
    if (!finding.knobs.empty()) {
      text += "  Moved by:";
      for (std::size_t i = 0; i < finding.knobs.size(); ++i) text += (i ? ", " : " ") + finding.knobs[i];
      text += "\n";
    }
  }
  if (findings.empty()) {
    text += "No finding.\n";
    for (const HistoryPtr& history : histories) {
      if (histories.size() > 1) text += history->info().name + "\n";
      for (const std::string& line : findings_checked(*history)) text += "  " + line + "\n";
    }
  }
  return text;
}

}  // namespace moescope

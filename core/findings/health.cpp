#include "core/findings/health.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "core/files/text/words.h"
#include "core/findings/expert_watch.h"
#include "core/findings/health/health_facts.h"
#include "core/findings/interventions.h"
#include "core/recording/history/router_window.h"

namespace moescope {
namespace {

// The fullest experts are named if a few take nearly all assignments, or at least half of them.
constexpr double kNearlyAll = 0.9, kHalfShare = 0.5;
constexpr float kLostShare = 0.1f;  // of the experts, which had tokens at first

std::vector<LayerLoad> loads_of(const FindingsScan& scan) {
  std::vector<LayerLoad> loads = scan.loads();
  for (LayerLoad& load : loads) {
    if (!load.every_step) continue;
    std::vector<float> mean = layer_window(*scan.history(), load.layer, scan.read_steps().last).utilisation;
    if (mean.size() != load.shares.size()) continue;
    for (float& share : mean) share *= load.living;
    load.shares = std::move(mean);
  }
  return loads;
}

// Returns the severest ongoing finding on routers; of several, that on the least even layer.
const Finding* worst_of_routers(const ScannedRouters& routers) {
  const Finding* found = nullptr;
  float worst = -std::numeric_limits<float>::infinity();
  for (const Finding& finding : routers.findings) {  // in descending order of severity
    const bool is_router_fault =
        finding_kind_info(finding.kind).layer_phrase || finding.kind == FindingKind::no_gradient;
    if (!finding.ongoing || finding.severity == Severity::note || !is_router_fault) continue;
    if (found && finding.severity < found->severity) break;
    const float value = finding.layers.empty() ? worst : routers.max_vio(finding.layers.front());
    if (found && !(value > worst)) continue;
    found = &finding;
    worst = value;
  }
  return found;
}

// Returns the worst condition that is not a finding yet: that of the layer with most experts without a token; without
// such layers, that of the least even layer. The watches wait until a condition has lasted (expert_watch.h,
// imbalance_watch.h), because a router may still balance itself, but in the meantime it is not healthy either.
const Finding* worst_begun(const ScannedRouters& routers) {
  const auto is_worse = [&](const Finding& a, const Finding& b) {
    if (a.kind != b.kind) return a.kind < b.kind;  // order: dead, hot, uneven
    if (a.kind == FindingKind::dead) return a.experts.size() > b.experts.size();
    return routers.max_vio(a.layers.front()) > routers.max_vio(b.layers.front());
  };
  const auto worst = std::ranges::min_element(routers.not_yet, is_worse);
  return worst == routers.not_yet.end() ? nullptr : &*worst;
}

// Returns the least even layer by the loads that the scan has read; for a log without loads, by its MaxVio.
int least_even(const ScannedRouters& routers) {
  if (routers.loads.empty()) return least_even_layer(routers.history, INT64_MAX).layer;
  const auto max_vio = [&](const LayerLoad& load) { return routers.max_vio(load.layer); };
  return std::ranges::max_element(routers.loads, {}, max_vio)->layer;
}

// True if the sentence is about the fullest experts of the last 50 steps, not about those of the finding.
bool is_of_fullest(const ScannedRouters& routers, const HealthFacts& facts) {
  using enum FindingKind;
  if (!routers.load_of(facts.layer)) return false;
  if (!facts.finding) return routers.max_vio(facts.layer) > 0;
  const FindingKind kind = facts.finding->kind;
  if (facts.reason == HealthReason::begun) return kind != dead && kind != starved;
  return kind == collapsed || kind == collapsing || kind == uneven ||
         (kind == hot && facts.finding->experts.size() == 1);
}

// Chance keeps the share of experts without a token as it is, and a router that settles lowers it.
bool loses_experts(const History& history) {
  const auto without_tokens = [&](std::int64_t step) {
    return history.value_at(Metric::dead_fraction, kWholeRun, step);
  };
  return without_tokens(INT64_MAX) - without_tokens(history.steps().first) >= kLostShare;
}

void judge_begun(const ScannedRouters& routers, const Finding& begun, HealthFacts& facts) {
  facts.reason = HealthReason::begun;
  facts.finding = &begun;
  facts.layer = begun.layers.front();
  const LayerLoad* load = routers.load_of(facts.layer);
  facts.settles = load && load->settles && begun.kind != FindingKind::dead && begun.kind != FindingKind::starved;
  // After 400 steps an expert that is far too full is a finding; an uneven load may still become even.
  const bool is_late = begun.kind == FindingKind::dead ||
                       (begun.kind == FindingKind::hot && routers.evidence.lasts(kHotSteps) && !facts.settles);
  facts.verdict = is_late ? HealthVerdict::attention : HealthVerdict::too_young;
}

void judge_finding(const ScannedRouters& routers, const Finding& worst, HealthFacts& facts) {
  facts.reason = HealthReason::finding;
  facts.verdict = worst.severity == Severity::severe ? HealthVerdict::unhealthy : HealthVerdict::attention;
  facts.finding = &worst;
  std::set<int> layers;
  for (const Finding& finding : routers.findings)
    if (finding.kind == worst.kind && finding.ongoing) layers.insert(finding.layers.begin(), finding.layers.end());
  facts.layers.assign(layers.begin(), layers.end());
  if (!worst.layers.empty()) facts.layer = worst.layers.front();
}

}  // namespace

ScannedRouters::ScannedRouters(const FindingsScan& scan)
    : history(*scan.history()),
      findings(scan.findings()),
      not_yet(scan.not_yet()),
      loads(loads_of(scan)),
      last_step(scan.read_steps().last) {
  for (const LayerLoad& load : loads)
    if (load.evidence.span.loads > evidence.span.loads) evidence = load.evidence;
}

const LayerLoad* ScannedRouters::load_of(int layer) const {
  const auto found = std::ranges::find(loads, layer, &LayerLoad::layer);
  return found == loads.end() ? nullptr : &*found;
}

float ScannedRouters::max_vio(int layer) const {
  if (const LayerLoad* load = load_of(layer)) return *std::ranges::max_element(load->shares) - 1;
  const float window_max_vio = history.value_at(Metric::max_vio_window, layer, INT64_MAX);
  return std::isnan(window_max_vio) ? history.value_at(Metric::max_vio, layer, INT64_MAX) : window_max_vio;
}

// Without loads, figures of the routers are judged by their steps.
bool ScannedRouters::has_settled() const {
  return loads.empty() ? logged_steps(history).lasts(kSettlingSteps) : evidence.lasts(kSettlingSteps);
}

HealthFacts judge(const ScannedRouters& routers) {
  HealthFacts facts;
  if (routers.history.steps().empty()) return facts;
  facts.layer = least_even(routers);
  if (const Finding* worst = worst_of_routers(routers);
      worst && (worst->severity == Severity::severe || routers.has_settled())) {
    judge_finding(routers, *worst, facts);
  } else if (routers.history.info().all_layers_dense()) {
    facts.reason = HealthReason::all_dense;
    facts.layer = -1;
  } else if (routers.loads.empty()) {
    facts.reason = HealthReason::no_loads;
    if (loses_experts(routers.history)) facts.verdict = HealthVerdict::attention;
  } else if (Interventions(routers.history).balance(routers.last_step).is_forced) {
    facts.reason = HealthReason::forced;
    facts.layer = -1;
  } else if (!routers.has_settled() || routers.evidence.expected < kMinToJudge) {
    facts.reason = HealthReason::too_young;
    facts.verdict = HealthVerdict::too_young;
  } else if (const Finding* begun = worst_begun(routers)) {
    judge_begun(routers, *begun, facts);
  } else {
    facts.reason = HealthReason::healthy;
    facts.verdict = HealthVerdict::healthy;
  }
  if (is_of_fullest(routers, facts)) {
    FullestExperts fullest = fullest_experts(routers.load_of(facts.layer)->shares);
    facts.experts = std::move(fullest.experts);
    facts.fullest_share = fullest.share;
  } else if (facts.finding) {
    facts.experts = facts.finding->experts;
  }
  return facts;
}

FullestExperts fullest_experts(std::vector<float> load) {
  std::vector<int> order(load.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{}, [&](int e) { return load[e]; });
  std::ranges::stable_sort(load, std::greater{});
  for (const double share : {kNearlyAll, kHalfShare}) {
    double sum = 0;
    std::size_t n = 0;
    while (n < load.size() && sum < share * load.size()) sum += load[n++];
    if (n < 2 || n > kNamedExperts || 4 * n > order.size()) continue;  // at most a quarter of all experts
    order.resize(n);
    return {std::move(order), sum / load.size()};
  }
  return {{order.front()}, load.front()};
}

namespace {

// Returns the severest ongoing finding on the training that has a sentence of its own, of several the first in the
// order of FindingKind; nullptr: none.
const Finding* worst_of_training(std::span<const Finding> sorted_findings) {
  const auto worst = std::ranges::find_if(sorted_findings, [](const Finding& finding) {
    return finding.ongoing && finding.severity != Severity::note && !finding.brief.empty() &&
           finding_kind_info(finding.kind).subject == FindingSubject::training;
  });
  return worst == sorted_findings.end() ? nullptr : &*worst;
}

// Returns the text of the marker of a run whose loads are assumed; empty if they are not.
std::string assumption_of(const History& history) {
  for (const Marker& marker : history.markers())
    if (marker.kind == kAssumptionMarker) return marker.text;
  return {};
}

Health health_of(const FindingsScan& scan) {
  const ScannedRouters routers(scan);
  const HealthFacts facts = judge(routers);
  Health health;
  health.verdict = facts.verdict;
  health.layer = facts.layer;
  health.experts = facts.experts;
  if (facts.finding) health.first_step = facts.finding->steps.first;
  if (facts.reason == HealthReason::finding) health.finding = finding_id(*facts.finding);
  write_texts(routers, facts, health);
  return health;
}

}  // namespace

Health judge_health(const FindingsScan& scan) {
  const History& history = *scan.history();
  const std::vector<Finding> findings = scan.findings();
  const bool has_texts =
      run_origin(history.info()) == RunOrigin::checkpoint && history.specialisation_frame_at(INT64_MAX);
  Health health = health_of(scan);
  if (has_texts && health.verdict != HealthVerdict::unhealthy) health = judge_texts(history);
  if (const std::string assumption = assumption_of(history); !assumption.empty()) {
    write_assumption(assumption, health);
    health.verdict = HealthVerdict::assumed;
  }
  health.router = health.verdict;
  // A severe finding on the training changes the verdict to `lost`, a warning to `attention` at least.
  if (const Finding* worst = worst_of_training(findings)) {
    write_training(*worst, health);
    const bool is_lost = worst->severity == Severity::severe;
    health.verdict = is_lost ? HealthVerdict::lost : std::max(health.verdict, HealthVerdict::attention);
    health.first_step = worst->steps.first;
    health.finding = finding_id(*worst);
  }
  health.last_step = scan.read_steps().last;
  keep_shorter(health);
  return health;
}

}  // namespace moescope

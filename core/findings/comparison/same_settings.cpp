#include "core/findings/comparison/same_settings.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "core/files/text/words.h"
#include "core/frame/frame.h"

namespace moescope {

namespace {

constexpr char kNotStated[] = "not given";

bool is_name(const std::string& key) {
  return key == "run" || key == "name" || key == "run_name" || key == "seed";
}

// Returns INT64_MAX for 0 (never) and for a missing key; nullopt if the value is not a step.
std::optional<std::int64_t> step_of(const std::map<std::string, std::string>& settings, const std::string& key) {
  const auto found = settings.find(key);
  if (found == settings.end()) return INT64_MAX;
  std::int64_t step = 0;
  if (!read_number(found->second, step) || step < 0) return std::nullopt;
  return step == 0 ? INT64_MAX : step;
}

}  // namespace

std::vector<LogDifference> difference(const std::map<std::string, std::string>& a,
                                      const std::map<std::string, std::string>& b) {
  std::set<std::string> keys;
  for (const auto* settings : {&a, &b})
    for (const auto& [key, value] : *settings) keys.insert(key);
  const auto value = [](const std::map<std::string, std::string>& settings, const std::string& key) {
    const auto found = settings.find(key);
    return found == settings.end() ? std::string(kNotStated) : found->second;
  };
  std::vector<LogDifference> differences;
  for (const std::string& key : keys) {
    const std::string of_a = value(a, key), of_b = value(b, key);
    if (of_a != of_b && key != "run" && key != "name" && key != "run_name") differences.push_back({key, of_a, of_b});
  }
  std::ranges::stable_sort(differences, {},
                           [](const LogDifference& d) { return 2 * (d.b == kNotStated) + (d.a == kNotStated); });
  return differences;
}

std::optional<std::int64_t> same_settings_until(const std::map<std::string, std::string>& a,
                                                const std::map<std::string, std::string>& b) {
  if (a.empty() || b.empty()) return std::nullopt;
  std::int64_t last = INT64_MAX;
  for (const LogDifference& found : difference(a, b)) {
    if (is_name(found.key)) continue;
    const bool is_event = found.key.ends_with("_step") && !found.key.ends_with("_per_step");
    if (!is_event) return std::nullopt;
    const auto of_a = step_of(a, found.key), of_b = step_of(b, found.key);
    if (!of_a || !of_b) return std::nullopt;
    last = std::min({last, *of_a - 1, *of_b - 1});
  }
  return last;
}

std::int64_t same_changes_until(const History& a, const History& b) {
  const auto changes_of = [](const History& history) {
    std::set<std::tuple<std::int64_t, std::string, std::string>> changes;
    for (const Marker& marker : history.markers())
      if (marker.kind == kChangeKind && !marker.key.starts_with("telemetry.") && !marker.key.starts_with("parallel."))
        changes.insert({marker.step, marker.key, marker.value});
    return changes;
  };
  const auto of_a = changes_of(a), of_b = changes_of(b);
  std::vector<std::tuple<std::int64_t, std::string, std::string>> of_one;
  std::ranges::set_symmetric_difference(of_a, of_b, std::back_inserter(of_one));
  return of_one.empty() ? INT64_MAX : std::get<0>(of_one.front()) - 1;
}

std::shared_ptr<History> beginning_of(const History& history, std::int64_t last) {
  RunInfo info = history.info();
  info.moe_layers.clear();
  auto beginning = std::make_shared<History>(info);
  StepRange steps = history.steps();
  steps.last = std::min(steps.last, last);
  if (steps.empty()) return beginning;
  const std::vector<std::int64_t> logged_steps = history.steps_in(steps);
  const auto values_of = [&](Metric metric) { return history.values_at(metric, kWholeRun, logged_steps); };
  const auto loss = values_of(Metric::ce_loss), norm = values_of(Metric::grad_norm), lr = values_of(Metric::lr);
  for (std::size_t i = 0; i < logged_steps.size(); ++i) {
    TelemetryFrame frame;
    frame.step = logged_steps[i];
    frame.aux_loss = frame.z_loss = kNoValue;
    frame.ce_loss = loss[i];
    frame.grad_norm = norm[i];
    frame.lr = lr[i];
    beginning->append(std::make_shared<const TelemetryFrame>(std::move(frame)));
  }
  return beginning;
}

}  // namespace moescope

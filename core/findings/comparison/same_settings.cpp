#include "core/findings/comparison/same_settings.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <tuple>

#include "core/files/text/words.h"
#include "core/findings/comparison/gap_track.h"
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

bool is_event(const std::string& key) {
  return key.ends_with("_step") && !key.ends_with("_per_step");
}

// True if the setting says which text a log's program reads. A path does not: it differs between machines.
bool is_of_text(const std::string& key) {
  static constexpr std::array kWords = {"domain", "dataset", "corpus", "mixture", "tokenizer"};
  return std::ranges::any_of(kWords, [&](const char* word) { return key.find(word) != key.npos; });
}

bool reads_same_data(const DataConfig& a, const DataConfig& b) {
  return a.path == b.path && a.tokenizer == b.tokenizer && a.generator == b.generator && a.mixture == b.mixture;
}

// Returns the step of the first live change that only one of the runs has, of those that `counts` holds for; INT64_MAX
// if there is none.
template <typename Counts>
std::int64_t first_change_of_one(const History& a, const History& b, const Counts& counts) {
  const auto changes_of = [&](const History& history) {
    std::set<std::tuple<std::int64_t, std::string, std::string>> changes;
    for (const Marker& marker : history.markers())
      if (marker.kind == kChangeKind && counts(marker.key)) changes.insert({marker.step, marker.key, marker.value});
    return changes;
  };
  const auto changes_a = changes_of(a), changes_b = changes_of(b);
  std::vector<std::tuple<std::int64_t, std::string, std::string>> unshared_changes;
  std::ranges::set_symmetric_difference(changes_a, changes_b, std::back_inserter(unshared_changes));
  return unshared_changes.empty() ? INT64_MAX : std::get<0>(unshared_changes.front());
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
    const std::string value_a = value(a, key), value_b = value(b, key);
    if (value_a != value_b && key != "run" && key != "name" && key != "run_name")
      differences.push_back({key, value_a, value_b});
  }
  return differences;
}

std::optional<std::int64_t> same_settings_until(const std::map<std::string, std::string>& a,
                                                const std::map<std::string, std::string>& b) {
  if (a.empty() || b.empty()) return std::nullopt;
  std::int64_t last = INT64_MAX;
  for (const LogDifference& found : difference(a, b)) {
    if (is_name(found.key)) continue;
    if (!is_event(found.key)) return std::nullopt;
    const auto step_a = step_of(a, found.key), step_b = step_of(b, found.key);
    if (!step_a || !step_b) return std::nullopt;
    last = std::min({last, *step_a - 1, *step_b - 1});
  }
  return last;
}

std::int64_t same_changes_until(const History& a, const History& b) {
  const std::int64_t first = first_change_of_one(
      a, b, [](const std::string& key) { return !key.starts_with("telemetry.") && !key.starts_with("parallel."); });
  return first == INT64_MAX ? first : first - 1;
}

std::int64_t other_text_from(const History& a, const History& b) {
  const auto settings_a = a.settings_at_start(), settings_b = b.settings_at_start();
  if (settings_a->config() && settings_b->config()) {
    if (!reads_same_data(settings_a->config()->data, settings_b->config()->data)) return 0;
    return first_change_of_one(a, b, [](const std::string& key) { return key.starts_with("data."); });
  }
  std::int64_t first = INT64_MAX;
  for (const LogDifference& found : difference(settings_a->log(), settings_b->log())) {
    if (!is_of_text(found.key)) continue;
    if (is_event(found.key)) {
      const auto step_of_a = step_of(settings_a->log(), found.key), step_of_b = step_of(settings_b->log(), found.key);
      if (step_of_a) first = std::min(first, *step_of_a);
      if (step_of_b && *step_of_b != INT64_MAX) first = std::min(first, step_by_tokens(b, *step_of_b - 1, a) + 1);
    } else if (found.a != kNotStated && found.b != kNotStated) {
      return 0;
    }
  }
  return first;
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

#include "core/files/tagged_run.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/io/unreadable.h"

namespace moescope {

namespace {

constexpr std::size_t kShownTags = 8, kKeptTags = 1000;

void put(std::vector<double>& list, std::size_t place, double value) {
  if (list.size() <= place) list.resize(place + 1, std::nan(""));
  list[place] = value;
}

bool is_whole(const std::vector<double>& list, std::size_t experts) {
  return list.size() == experts && std::none_of(list.begin(), list.end(), [](double v) { return std::isnan(v); });
}

// Counts from shares: if the number of tokens is not known, a share of 1 becomes 10,000, which keeps u.
std::vector<std::uint32_t> to_counts(const std::vector<double>& values, double fair) {
  std::vector<std::uint32_t> counts;
  for (const double value : values)
    counts.push_back(static_cast<std::uint32_t>(std::clamp(std::round(value * fair), 0.0, 4294967295.0)));
  return counts;
}

}  // namespace

bool is_figure(const TagMatch& match) {
  return match.rule->means == TagMeaning::router_figure || match.rule->means == TagMeaning::step_figure;
}

TaggedRun::TaggedRun(const TagMap& tags) : tags_(&tags) {}

const TagMatch* TaggedRun::find(const std::string& tag) {
  const auto [known, is_new] = known_.try_emplace(tag);
  if (is_new) known->second = tags_->find(tag);
  if (known->second) return is_shown(known->second->rule->means) ? &*known->second : nullptr;
  if (unknown_.size() < kKeptTags) unknown_.insert(tag);
  return nullptr;
}

void TaggedRun::take_experts(const TagMatch& match, Step& step, std::vector<std::size_t> shape,
                             std::vector<double> values) {
  while (shape.size() > 1 && shape.front() == 1) shape.erase(shape.begin());
  const auto list = [&](int layer) -> std::vector<double>& {
    Layer& of = step.layers[layer];
    return match.rule->means == TagMeaning::tokens_per_expert ? of.load
           : match.rule->means == TagMeaning::utilization     ? of.utilization
                                                              : of.bias;
  };
  if (match.expert >= 0) {
    if (values.size() != 1) throw Unreadable("of one expert, but has " + std::to_string(values.size()) + " values");
    return put(list(std::max(0, match.layer)), static_cast<std::size_t>(match.expert), values[0]);
  }
  if (match.layer >= 0 || shape.size() <= 1) {
    list(std::max(0, match.layer)) = std::move(values);
    return;
  }
  if (shape.size() != 2)
    throw Unreadable("a tensor of " + std::to_string(shape.size()) + " dimensions, not layers by experts");
  if (shape[0] > kMaxImportedLayers) throw Unreadable("too many layers");
  for (std::size_t l = 0; l < shape[0]; ++l)
    list(static_cast<int>(l))
        .assign(values.begin() + static_cast<std::ptrdiff_t>(l * shape[1]),
                values.begin() + static_cast<std::ptrdiff_t>((l + 1) * shape[1]));
}

void TaggedRun::take(std::int64_t number, double wall_s, const TagMatch& match, std::vector<std::size_t> shape,
                     std::vector<double> values) {
  for (double& each : values) each *= match.rule->scale;
  Step& step = steps_[number];
  step.wall = wall_s;
  if (!is_figure(match)) return take_experts(match, step, std::move(shape), std::move(values));
  if (values.size() != 1) throw Unreadable("a figure, but has " + std::to_string(values.size()) + " values");
  const auto value = static_cast<float>(values[0]);
  if (match.rule->router)
    step.layers[match.layer].figures.*match.rule->router = value;
  else
    step.figures.*match.rule->step = value;
}

std::size_t TaggedRun::n_experts() const {
  std::size_t experts = 0;
  for (const auto& [number, step] : steps_)
    for (const auto& [layer, of] : step.layers)
      experts = std::max({experts, of.load.size(), of.utilization.size(), of.bias.size()});
  return experts;
}

std::shared_ptr<History> TaggedRun::build(RunInfo info, const ImportOptions& options, BadLines& bad) {
  constexpr double kFairShare = 10000;
  const std::size_t experts = n_experts();
  std::set<int> layers;
  for (const auto& [number, step] : steps_)
    for (const auto& [layer, of] : step.layers) layers.insert(layer);
  if (layers.size() * std::max<std::size_t>(1, experts) > kMaxImportedLoads)
    throw std::runtime_error(info.source + ": " + std::to_string(layers.size()) + " layers of " +
                             std::to_string(experts) + " experts are more than can be shown");
  info.moe_layers.assign(layers.begin(), layers.end());
  info.n_layers = layers.empty() ? 0 : *layers.rbegin() + 1;
  info.n_experts = static_cast<int>(experts);
  ImportedRun run(info, options);
  const double start = steps_.begin()->second.wall;
  for (auto& [number, step] : steps_) {
    TelemetryFrame frame = std::move(step.figures);
    frame.step = number;
    frame.wall_s = step.wall - start;
    for (auto& [layer, of] : step.layers) {
      RouterFrame router = std::move(of.figures);
      router.layer = layer;
      const bool some = !of.load.empty() || !of.utilization.empty();
      if (is_whole(of.load, experts))
        router.tokens_per_expert = to_counts(of.load, 1);
      else if (is_whole(of.utilization, experts))
        router.tokens_per_expert = to_counts(of.utilization, kFairShare);
      else if (some)
        bad.add(number, "loads of layer " + std::to_string(layer) + " at this step: not of all " +
                            std::to_string(experts) + " experts, which is what is shown");
      if (is_whole(of.bias, experts)) router.expert_bias.assign(of.bias.begin(), of.bias.end());
      frame.routers.push_back(std::move(router));
    }
    run.add(std::move(frame));
  }
  return run.history();
}

void add_settings(History& history, const ImportOptions& options, const std::string& json) {
  const Marker marker{history.info().run, history.steps().first, kSettingsMarker, json};
  history.append(marker);
  if (options.on_marker) options.on_marker(marker);
}

std::string no_known_tags(const std::string& path, const std::set<std::string>& unknown, const BadLines& bad) {
  std::string message = path + ": ";
  if (unknown.empty()) {
    message += "holds no values";
    if (bad.count() > 0) message += "; " + bad.summary();
  } else {
    message += "none of its tags is known:";
    std::size_t shown = 0;
    for (const std::string& tag : unknown)
      if (++shown <= kShownTags) message += (shown > 1 ? ", \"" : " \"") + tag.substr(0, 100) + "\"";
    if (unknown.size() > kShownTags) message += ", ...";
    message += ". A mapping file, --tags FILE.toml or moescope-tags.toml beside the events, defines what tags mean";
  }
  return message;
}

}  // namespace moescope

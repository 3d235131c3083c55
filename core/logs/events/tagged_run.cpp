#include "core/logs/events/tagged_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "core/files/text/text_escape.h"
#include "core/files/unreadable.h"

namespace moescope {

namespace {

constexpr std::size_t kShownTags = 8, kKeptNotes = 100;
constexpr std::uint64_t kKeptBytes = std::uint64_t{128} << 20, kKeptOfRead = 16;
constexpr std::uint64_t kWorkedBytes = std::uint64_t{1} << 30, kWorkedOfRead = 64;
constexpr std::size_t kNodeBytes = 64;         // node of a map: pointers, key and overhead of the allocator
constexpr std::size_t kLongestShownTag = 100;  // bytes
constexpr double kMostTokens = std::numeric_limits<std::uint32_t>::max();

std::string in_quotes(const std::string& tag) {
  return '"' + printable(tag.substr(0, kLongestShownTag)) + '"';
}

bool is_whole(const std::vector<double>& list, std::size_t experts) {
  return list.size() == experts && std::none_of(list.begin(), list.end(), [](double v) { return std::isnan(v); });
}

std::vector<std::uint32_t> counts_of_load(const std::vector<double>& values) {
  std::vector<std::uint32_t> counts;
  for (const double value : values)
    counts.push_back(static_cast<std::uint32_t>(std::clamp(std::round(value), 0.0, kMostTokens)));
  return counts;
}

// Throws Unreadable if a value is not a number of tokens or a share. Values that a mapping scales need not be whole.
void check_load(const TagMatch& match, const std::vector<double>& values) {
  const bool tokens = match.rule->means == TagMeaning::tokens_per_expert;
  if (!tokens && match.rule->means != TagMeaning::utilization && match.rule->means != TagMeaning::load_share) return;
  for (const double value : values) {
    const bool whole = !tokens || !match.rule->is_as_logged() || value == std::floor(value);
    if (value >= 0 && value <= kMostTokens && whole) continue;
    throw Unreadable(std::to_string(value) +
                     (tokens ? " is not a number of tokens; for shares, a mapping file (--tags) needs "
                               "means = \"utilization\", for other values a scale"
                             : " is not a share of the fair load"));
  }
}

std::string meaning_of(const TagMatch& match) {
  const TagRule& rule = *match.rule;
  std::string meaning = std::to_string(static_cast<int>(rule.means)) + ' ' + std::to_string(match.layer) + ' ' +
                        std::to_string(match.expert);
  for (std::size_t i = 0; i < kRouterFigures.size(); ++i)
    if (rule.router && rule.router == kRouterFigures[i].member) meaning += " r" + std::to_string(i);
  for (std::size_t i = 0; i < kFrameFigures.size(); ++i)
    if (rule.step && rule.step == kFrameFigures[i].member) meaning += " s" + std::to_string(i);
  return meaning;
}

}  // namespace

bool is_figure(const TagMatch& match) {
  return match.rule->means == TagMeaning::router_figure || match.rule->means == TagMeaning::step_figure;
}

TaggedRun::TaggedRun(const TagMap& tags, AccountBook& book, std::string source)
    : tags_(&tags), book_(&book), source_(std::move(source)) {}

Tag& TaggedRun::find(const std::string& name, std::int64_t place) {
  const auto [known, is_new] = known_.try_emplace(name);
  Tag& tag = known->second;
  if (!is_new) return tag;
  tag.name = name;
  tag.match = tags_->find(name).value_or(TagMatch{});
  tag.shown = tag.match.rule && is_shown(tag.match.rule->means);
  tag.counts = book_->add(name, tag.match.rule, place);
  return tag;
}

void TaggedRun::count(const Tag& tag, std::int64_t step, const std::vector<std::size_t>& shape,
                      const std::vector<double>& values) {
  if (values.size() == 1) return AccountBook::take(tag.counts, step, values[0]);
  const std::size_t experts = shape.empty() ? values.size() : shape.back();
  for (std::size_t first = 0; experts > 0 && first + experts <= values.size(); first += experts)
    AccountBook::take(tag.counts, step, std::span(values).subspan(first, experts));
}

// Returns true if the tag is shown. Of several tags with one meaning and with values, the one whose rule is first in
// the mapping is shown.
bool TaggedRun::choose(Tag& tag) {
  if (std::exchange(tag.has_value, true)) return tag.shown;
  AccountBook::show(tag.counts);
  const bool of_layers = tag.match.layer >= 0 || !is_figure(tag.match);
  (tag.match.rule->layers_as_text ? layers_as_text_ : layers_as_numbers_) |= of_layers;
  const auto [place, is_first] = shown_.try_emplace(meaning_of(tag.match), &tag);
  if (is_first) return true;
  Tag& other = *place->second;
  const bool better = tag.match.rule->place < other.match.rule->place;
  (better ? other : tag).shown = false;
  AccountBook::leave_out((better ? other : tag).counts, "another name of the log has this meaning");
  note(in_quotes((better ? other : tag).name) + " is not shown: " + in_quotes((better ? tag : other).name) +
       " has the same meaning");
  if (!better) return false;
  forget(other.match);
  place->second = &tag;
  return true;
}

// Deletes the values of a tag that is no longer shown.
void TaggedRun::forget(const TagMatch& match) {
  const auto forget_expert = [&](std::vector<double>& list) {
    if (match.expert < 0)
      std::ranges::fill(list, std::nan(""));
    else if (static_cast<std::size_t>(match.expert) < list.size())
      list[match.expert] = std::nan("");
  };
  for (auto& [number, step] : steps_) {
    if (match.rule->step) step.figures.*match.rule->step = kNoValue;
    for (auto& [layer, layer_values] : step.layers) {
      if (layer != match.layer && (match.layer >= 0 || match.rule->router)) continue;
      if (match.rule->router) layer_values.figures.*match.rule->router = kNoValue;
      if (!is_figure(match)) forget_expert(list_in(layer_values, match.rule->means));
    }
  }
}

void TaggedRun::note(std::string text) {
  if (notes_.size() < kKeptNotes)
    notes_.push_back({0, steps_.empty() ? 0 : steps_.rbegin()->first, "event", std::move(text)});
  else
    ++more_notes_;
}

std::size_t TaggedRun::Layer::bytes() const {
  return sizeof(Layer) + kNodeBytes + sizeof(double) * (load.size() + ratios.size() + bias.size());
}

std::size_t TaggedRun::Step::bytes() const {
  std::size_t bytes = sizeof(Step) + kNodeBytes;
  for (const auto& [layer, layer_values] : layers) bytes += layer_values.bytes();
  return bytes;
}

// Limits the work separately from the memory: a tensor may claim a million equal values in a few bytes, and values that
// replace earlier ones take no memory.
void TaggedRun::work(std::size_t bytes) {
  worked_bytes_ += bytes;
  if (worked_bytes_ <= kWorkedBytes + kWorkedOfRead * read_bytes_) return;
  throw std::runtime_error(source_ + ": the first " + std::to_string(read_bytes_) + " bytes of the file claim " +
                           std::to_string(worked_bytes_ >> 20) + " MB of values: more than can be read");
}

void TaggedRun::keep(std::size_t bytes) {
  work(bytes);
  kept_bytes_ += bytes;
  if (kept_bytes_ <= kKeptBytes + kKeptOfRead * read_bytes_) return;
  throw std::runtime_error(source_ + ": its values take " + std::to_string(kept_bytes_ >> 20) + " MB, of the first " +
                           std::to_string(read_bytes_) + " bytes of the file: more than can be shown");
}

void TaggedRun::drop(const Restart& restart) {
  const auto first = steps_.lower_bound(restart.step);
  if (first == steps_.end()) return;
  for (auto step = first; step != steps_.end(); ++step) kept_bytes_ -= step->second.bytes();
  steps_.erase(first, steps_.end());
  note(restart_text(restart));
}

void TaggedRun::go_back_to(std::int64_t step) {
  if (const auto restart = restarts_.go_back_to(step)) drop(*restart);
}

TaggedRun::Step& TaggedRun::step_at(std::int64_t number, double wall_s) {
  const auto [step, is_new] = steps_.try_emplace(number);
  if (is_new) {
    step->second.wall = std::isfinite(wall_s) ? wall_s : 0;
    keep(step->second.bytes());
  }
  return step->second;
}

TaggedRun::Layer& TaggedRun::layer_at(Step& step, int layer) {
  const auto [layer_values, is_new] = step.layers.try_emplace(layer);
  if (is_new) keep(layer_values->second.bytes());
  return layer_values->second;
}

std::vector<double>& TaggedRun::list_in(Layer& layer, TagMeaning means) {
  return means == TagMeaning::tokens_per_expert ? layer.load
         : means == TagMeaning::expert_bias     ? layer.bias
                                                : layer.ratios;
}

void TaggedRun::take_figure(const TagMatch& match, Step& step, double value) {
  if (match.rule->router)
    layer_at(step, match.layer).figures.*match.rule->router = static_cast<float>(value);
  else
    step.figures.*match.rule->step = static_cast<float>(value);
}

// `shape`: [], [E] or [L, E].
void TaggedRun::take_experts(const TagMatch& match, Step& step, const std::vector<std::size_t>& shape,
                             const std::vector<double>& values) {
  const auto grown = [&](int layer, std::size_t size) -> std::vector<double>& {
    std::vector<double>& list = list_in(layer_at(step, layer), match.rule->means);
    if (size > list.size()) {
      keep(sizeof(double) * (size - list.size()));
      list.resize(size, std::nan(""));
    }
    return list;
  };
  const int layer = std::max(0, match.layer);
  if (match.expert >= 0) {
    const std::size_t expert = match.expert;
    grown(layer, expert + 1)[expert] = values[0];
    return;
  }
  const bool of_layers = match.layer < 0 && shape.size() == 2;
  const std::size_t layers = of_layers ? shape[0] : 1, experts = of_layers ? shape[1] : values.size();
  for (std::size_t l = 0; l < layers; ++l) {
    std::vector<double>& list = grown(of_layers ? static_cast<int>(l) : layer, experts);
    list.assign(list.size(), std::nan(""));
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(l * experts), experts, list.begin());
  }
}

namespace {

// Throws Unreadable if the values do not fit the rule of the tag.
void check_shape(const TagMatch& match, const std::vector<std::size_t>& shape, std::size_t values) {
  if (is_figure(match) && values != 1)
    throw Unreadable("is a single figure, but has " + std::to_string(values) + " values");
  if (is_figure(match)) return;
  if (match.expert >= 0 && values != 1)
    throw Unreadable("belongs to one expert, but has " + std::to_string(values) + " values");
  if (shape.size() > 2 || (match.layer >= 0 && shape.size() > 1))
    throw Unreadable("a tensor of " + std::to_string(shape.size()) + " dimensions, not layers by experts");
  if (shape.size() == 2 && shape[0] > kMaxImportedLayers) throw Unreadable("too many layers");
  if ((shape.empty() ? values : shape.back()) > kMaxImportedExperts) throw Unreadable("too many experts");
}

}  // namespace

void TaggedRun::take(std::int64_t number, double wall_s, Tag& tag, std::vector<std::size_t> shape,
                     std::vector<double> values) {
  work(sizeof(double) * values.size());
  count(tag, number, shape, values);
  const TagMatch& match = tag.match;
  if (is_list(match) && values.size() == 1) {  // another quantity of this name, such as a machine's load
    if (std::exchange(tag.shown, false))
      note(in_quotes(tag.name) + " is not shown: a single number is not the load of each expert");
    return AccountBook::leave_out(tag.counts, "a single number is not the load of each expert");
  }
  const auto leading = std::ranges::find_if(shape, [](std::size_t extent) { return extent != 1; });
  shape.erase(shape.begin(), leading);
  if (match.layer >= 0) std::erase(shape, std::size_t{1});
  for (double& value : values) value = match.rule->figure_of(value);
  check_shape(match, shape, values.size());
  check_load(match, values);
  if (!choose(tag)) return;
  if (const auto restart = restarts_.take(tag.name, number)) drop(*restart);
  Step& step = step_at(number, wall_s);
  if (is_figure(match))
    take_figure(match, step, values[0]);
  else
    take_experts(match, step, shape, values);
}

std::size_t TaggedRun::n_experts() const {
  std::size_t experts = 0;
  for (const auto& [number, step] : steps_)
    for (const auto& [layer, layer_values] : step.layers)
      experts = std::max({experts, layer_values.load.size(), layer_values.ratios.size(), layer_values.bias.size()});
  return experts;
}

std::map<int, int> TaggedRun::layers_of_model() {
  std::map<int, int> layers;
  for (const auto& [number, step] : steps_)
    for (const auto& [layer, layer_values] : step.layers)
      if (layer >= 0) layers.emplace(layer, layer);
  if (!layers_as_text_ || layers.empty()) return layers;
  const int first = tags_->layer_offset();
  const bool all = layers.begin()->first == 0 && layers.rbegin()->first + 1 == std::ssize(layers);
  const bool fits = first >= 0 && first + std::ssize(layers) <= static_cast<std::ptrdiff_t>(kMaxImportedLayers);
  if (!all || layers_as_numbers_ || !fits) {
    note(
        "The log numbers its layers in the alphabetical order of their names; to which layers of the model they belong "
        "is not known");
    return layers;
  }
  std::vector<std::string> names;
  for (int i = 0; i < std::ssize(layers); ++i) names.push_back(std::to_string(first + i));
  std::ranges::sort(names);
  for (auto& [place, layer] : layers) layer = std::stoi(names[place]);
  note(
      "The log numbers its layers in the alphabetical order of their names (0, 1, 10, 11, 2); they are shown as "
      "layers " +
      std::to_string(first) + " to " + std::to_string(first + std::ssize(layers) - 1) +
      " of the model. If the first MoE layer is another one, set layer_offset in a mapping file (--tags)");
  return layers;
}

TelemetryFrame TaggedRun::frame_of(std::int64_t number, Step step, double start, std::size_t experts,
                                   const std::map<int, int>& layers) {
  TelemetryFrame frame = std::move(step.figures);
  frame.step = number;
  frame.wall_s = step.wall - start;
  for (auto& [layer, layer_values] : step.layers) {
    RouterFrame router = std::move(layer_values.figures);
    if (layer < 0 && !layers.empty()) continue;  // the figures of the layers give that of all
    router.layer = layer < 0 ? layer : layers.at(layer);
    const bool has_loads = !layer_values.load.empty() || !layer_values.ratios.empty();
    if (is_whole(layer_values.load, experts))
      router.tokens_per_expert = counts_of_load(layer_values.load);
    else if (is_whole(layer_values.ratios, experts))
      router.tokens_per_expert =
          counts_of_ratios(std::vector<float>(layer_values.ratios.begin(), layer_values.ratios.end()));
    else if (has_loads && parts_++ == 0)
      first_part_ = "step " + std::to_string(number) + ", layer " + std::to_string(router.layer) +
                    ": loads without values for all " + std::to_string(experts) + " experts are not shown";
    if (is_whole(layer_values.bias, experts))
      router.expert_bias.assign(layer_values.bias.begin(), layer_values.bias.end());
    frame.routers.push_back(std::move(router));
  }
  std::ranges::sort(frame.routers, {}, &RouterFrame::layer);
  return frame;
}

void TaggedRun::add_to(Imported& imported, const std::string& name, const std::string& source,
                       const ImportOptions& options, const nlohmann::json& settings) {
  const std::size_t experts = n_experts();
  const std::map<int, int> layers = layers_of_model();
  if (layers.size() * std::max<std::size_t>(1, experts) > kMaxImportedLoads)
    throw std::runtime_error(source_ + ": " + std::to_string(layers.size()) + " layers of " + std::to_string(experts) +
                             " experts are more than can be shown");
  RunInfo info;
  info.run = options.run + static_cast<int>(imported.runs.size());
  info.name = name.substr(0, kLongestImportedName);
  info.source = source;
  for (const auto& [number, layer] : layers) info.moe_layers.push_back(layer);
  std::ranges::sort(info.moe_layers);
  info.n_layers = layers.empty() ? 0 : info.moe_layers.back() + 1;
  info.n_experts = experts;
  ImportedRun run(info, options);
  const double start = steps_.begin()->second.wall;
  while (!steps_.empty()) {  // each step is freed when its frame is built
    auto node = steps_.extract(steps_.begin());
    run.add(frame_of(node.key(), std::move(node.mapped()), start, experts, layers));
  }
  if (parts_ > 0) note(first_part_ + (parts_ > 1 ? " (and " + std::to_string(parts_ - 1) + " more such places)" : ""));
  if (std::string again_text = restarts_.again_text(); !again_text.empty()) note(std::move(again_text));
  for (std::string& remark : run.remarks()) note(std::move(remark));
  kept_bytes_ = 0;
  if (more_notes_ > 0) notes_.back().text += ", and " + std::to_string(more_notes_) + " more notes";
  for (Marker& marker : std::exchange(notes_, {})) {
    const StepRange kept_steps = run.history()->steps();
    marker.step = std::clamp(marker.step, kept_steps.first, kept_steps.last);
    imported.remarks.push_back(marker.text);
    run.add(std::move(marker));
  }
  if (!settings.empty())
    run.add(Marker{0, run.history()->steps().first, kSettingsMarker,
                   settings.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)});
  imported.runs.push_back(run.history());
  if (imported.runs.size() == 1) imported.account = run.found();
}

RefusedLog no_known_tags(const std::string& path, const AccountBook& book, const BadLines& bad) {
  const std::set<std::string> unknown = book.not_shown();
  std::string message;
  if (unknown.empty()) {
    message = "holds no values" + bad.also();
  } else {
    message = "none of its tags is known:";
    std::size_t count = 0;
    for (const std::string& tag : unknown)
      if (++count <= kShownTags) message += (count > 1 ? ", " : " ") + in_quotes(tag);
    if (unknown.size() > kShownTags) message += ", ...";
    message +=
        std::string(". A mapping file, --tags FILE.toml or ") + kTagsBeside + " beside the log, defines what tags mean";
  }
  return {path, message, book.account(bad.unit())};
}

Imported finished(Imported imported, const std::string& path, const AccountBook& book, const ImportOptions& options) {
  if (imported.runs.empty()) throw no_known_tags(path, book, imported.bad);
  std::set<std::string> unknown;
  imported.account.add(book.account(imported.bad.unit()));
  imported.account.path = path;
  for (const AccountRow& row : imported.account.rows)
    if (!row.is_shown && (row.certainty == Certainty::unknown || row.certainty == Certainty::by_shape))
      unknown.insert(row.name);
  if (!unknown.empty()) imported.remarks.push_back(not_shown_text(unknown));
  if (options.progress) options.progress(1);
  return imported;
}

}  // namespace moescope

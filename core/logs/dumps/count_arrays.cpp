#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/logs/dumps/dump_readers.h"
#include "core/logs/lines/printed_number.h"
#include "core/logs/routing/routed_tokens.h"
#include "core/logs/runs/log_record.h"
#include "core/logs/runs/log_runs.h"
#include "core/logs/tag_map.h"

namespace moescope {

namespace {

struct NamedCounts {
  const CountArray* array;
  CountName name;
};
using CountGroup = std::vector<NamedCounts>;  // arrays with one stem

CountName name_of(const CountArray& array, const std::string& path) {
  CountName name = count_name(array.name, path);
  std::string_view unread = array.name;  // "ITERATION_LAYER" of TensorRT-LLM
  std::int64_t step = -1, layer = -1;
  if (read_number(take_until(unread, '_'), step) && read_number(unread, layer) && layer <= kLastImportedLayer) {
    name.step = step;
    name.layer = to_int(layer);
    name.unnamed_numbers.clear();
    name.stem = "counts";
    name.counts = array.shape.size() == 1;
  }
  const bool is_single_number = array.shape.empty() && name.expert < 0 && name.unnamed_numbers.empty();
  const std::string_view before = std::string_view(array.name).substr(0, array.name.rfind('.'));
  const bool is_keyed_by_expert =  // "layers.3.experts.7" of {"layers.3.experts": {"7": 120}}
      array.shape.empty() && name.expert >= 0 && before.size() < array.name.size() && before.ends_with("experts") &&
      is_digit(array.name.back());
  name.counts = (name.counts && !is_single_number) || is_keyed_by_expert;
  return name;
}

// The arrays beside the counts that list their steps: one array of whole numbers that rise, or a number in each entry
// of a list, "records.0.forward_pass_id".
struct ListedSteps {
  std::vector<const CountArray*> arrays;
  std::vector<double> steps;
  bool are_of_entries() const { return !arrays.empty() && arrays[0]->shape.empty(); }
};
ListedSteps listed_steps(const std::vector<CountArray>& arrays) {
  ListedSteps found, entry_steps;
  for (const CountArray& array : arrays) {
    const std::string name = spelled_alike(array.name.substr(array.name.rfind('.') + 1));
    if (counted_by(name) != Counted::step && name != "forward_pass_id") continue;
    ListedSteps& to = array.shape.empty() ? entry_steps : found;
    if (array.shape.size() > 1 || !found.steps.empty()) continue;
    to.arrays.push_back(&array);
    std::ranges::copy(array.values(), std::back_inserter(to.steps));
  }
  for (ListedSteps* listed : {&found, &entry_steps}) {
    const bool rise = std::ranges::adjacent_find(listed->steps, std::greater_equal{}) == listed->steps.end();
    const auto is_step = [](double step) { return step >= 0 && step <= kLastStep && step == std::floor(step); };
    if (listed->steps.size() > 1 && rise && std::ranges::all_of(listed->steps, is_step)) return *listed;
  }
  return {};
}

// Layers of an axis outside of the experts: its entry i is of step i / layers and layer i % layers.
constexpr std::size_t kUnusedAxis = 0, kSteps = 1, kLayers = SIZE_MAX;

// Assigns step and layer to the axes outside of the experts: first the unnamed numbers of the names, then the axes of
// the arrays.
class CountAxes {
 public:
  // `steps`: numbers of the steps of the counts, if their axis has as many; else it is numbered from 0.
  CountAxes(const std::string& path, const CountGroup& group, const RoutedShape& stated, const ListedSteps& listed);
  bool has_listed_steps() const { return has_listed_steps_; }
  // Adds all counts of an array.
  void add(const NamedCounts& counts, ExpertCounts& to, const std::vector<std::vector<int>>& experts_of_copies) const;
  std::string text() const;  // "layers, experts"

 private:
  struct Place {
    std::int64_t step = 0;
    int layer = 0;
  };
  void put(std::size_t layers, std::size_t number, Place& place) const;
  [[noreturn]] void fail(const std::string& reason) const { refuse(path_, reason); }
  std::size_t layers_of_only_axis(std::size_t extent, bool by_layer) const;
  [[noreturn]] void refuse_axes() const;

  std::string path_, shown_;
  RoutedShape stated_;
  std::vector<std::size_t> axes_;  // layers of the unnamed numbers, then of the axes of the arrays
  std::size_t numbers_ = 0;        // unnamed numbers that are no expert
  std::vector<double> steps_;
  bool has_listed_steps_ = false;
};

void CountAxes::refuse_axes() const {
  fail(shown_ + " has other axes than steps, layers and experts; save it as [steps, layers, experts]");
}

std::size_t CountAxes::layers_of_only_axis(std::size_t extent, bool by_layer) const {
  const std::size_t stated = stated_.layers;
  if (stated == extent || (stated == 0 && (by_layer || extent == 1))) return kLayers;
  if (stated == 0 && extent == steps_.size()) return kSteps;
  if (stated > 0 && extent % stated == 0) return stated;
  const std::string rows = std::to_string(extent);
  if (stated > 1) fail(fmt::format("{} has {} rows, which is no multiple of --layers {}", shown_, rows, stated));
  throw AmbiguousRouting(path_ + ": the " + rows + " rows of " + shown_ + " may be " + rows +
                         " layers of one total (--layers " + rows + ") or " + rows +
                         " steps of one layer (--layers 1); the number of layers decides");
}

CountAxes::CountAxes(const std::string& path, const CountGroup& group, const RoutedShape& stated,
                     const ListedSteps& listed)
    : path_(path), stated_(stated), steps_(listed.steps) {
  const CountArray& first = *group.front().array;
  const CountName& name = group.front().name;
  shown_ = "'" + printable(first.name) + "' " + shape_text(first.shape);
  for (const NamedCounts& counts : group)
    if (counts.array->shape.size() != first.shape.size() ||
        counts.name.unnamed_numbers.size() != name.unnamed_numbers.size() ||
        (counts.name.layer < 0) != (name.layer < 0) || (counts.name.step < 0) != (name.step < 0))
      fail("'" + printable(first.name) + "' and '" + printable(counts.array->name) +
           "' have one name, but other axes; save them in two files");
  const bool expert_is_number = first.shape.empty() && name.expert < 0;
  numbers_ = name.unnamed_numbers.size() - (expert_is_number ? 1 : 0);
  std::vector<std::size_t> extents;
  for (std::size_t i = 0; i < numbers_; ++i) {
    std::set<std::int64_t> values;
    for (const NamedCounts& counts : group) values.insert(counts.name.unnamed_numbers[i]);
    extents.push_back(values.size());
  }
  const bool has_expert_axis = !first.shape.empty() && name.expert < 0;
  for (std::size_t d = 0; d + (has_expert_axis ? 1 : 0) < first.shape.size(); ++d) extents.push_back(first.shape[d]);
  const std::size_t unknown_axes = (name.step < 0 ? 1u : 0u) + (name.layer < 0 ? 1u : 0u);
  axes_.assign(extents.size(), kUnusedAxis);
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < extents.size(); ++i) used.push_back(i);
  while (used.size() > unknown_axes) {  // axes of one row have no meaning
    const auto single = std::ranges::find_if(used, [&](std::size_t i) { return extents[i] == 1; });
    if (single == used.end()) refuse_axes();
    used.erase(single);
  }
  if (used.size() == 1) {
    const bool is_known = name.layer >= 0 || name.step >= 0;
    if (is_known) axes_[used[0]] = name.layer >= 0 ? kSteps : kLayers;
    if (!is_known) axes_[used[0]] = layers_of_only_axis(extents[used[0]], name.by_layer);
  } else if (used.size() == 2) {
    const std::size_t layers = stated_.layers;
    const bool layers_first = layers > 0 ? layers == extents[used[0]] && layers != extents[used[1]]
                                         : extents[used[1]] == steps_.size() && extents[used[0]] != steps_.size();
    if (layers > 0 && layers != extents[used[1]] && !layers_first)
      fail(fmt::format("{} has {} layers, not {} (--layers)", shown_, extents[used[1]], layers));
    axes_[used[layers_first ? 1 : 0]] = kSteps;
    axes_[used[layers_first ? 0 : 1]] = kLayers;
  }
  has_listed_steps_ = name.step >= 0 && listed.are_of_entries();
  for (const std::size_t i : used)
    has_listed_steps_ = has_listed_steps_ || (axes_[i] == kSteps && extents[i] == steps_.size());
}

void CountAxes::put(std::size_t layers, std::size_t number, Place& place) const {
  if (layers == kUnusedAxis) return;
  if (number % layers > kLastImportedLayer) fail(shown_ + " has more layers than can be shown");
  const bool is_listed = layers == kSteps && has_listed_steps_ && number < steps_.size();
  place.step += is_listed ? static_cast<std::size_t>(steps_[number]) : number / layers;
  place.layer += to_int(number % layers);
}

void CountAxes::add(const NamedCounts& counts, ExpertCounts& to,
                    const std::vector<std::vector<int>>& experts_of_copies) const {
  const CountName& name = counts.name;
  const std::vector<std::size_t>& shape = counts.array->shape;
  Place name_place{std::max<std::int64_t>(0, name.step), std::max(0, name.layer)};
  if (has_listed_steps_ && name.step >= 0 && name.step < std::ssize(steps_))
    name_place.step = static_cast<std::int64_t>(steps_[name.step]);
  for (std::size_t i = 0; i < numbers_; ++i) put(axes_[i], name.unnamed_numbers[i], name_place);
  const bool has_expert_axis = !shape.empty() && name.expert < 0;
  const std::size_t experts = has_expert_axis ? shape.back() : 1;
  const std::vector<double> values = counts.array->values();
  std::vector<std::size_t> place(axes_.size() - numbers_);
  for (std::size_t first = 0; experts > 0 && first < values.size(); first += experts) {
    std::size_t remaining = first / experts;
    for (std::size_t d = place.size(); d-- > 0; remaining /= shape[d]) place[d] = remaining % shape[d];
    Place at = name_place;
    for (std::size_t d = 0; d < place.size(); ++d) put(axes_[numbers_ + d], place[d], at);
    const std::string place_name = place_text(counts.array->name, place);
    const std::span<const double> row(values.data() + first, experts);
    if (!has_expert_axis) {
      const std::int64_t expert = name.expert >= 0 ? name.expert : name.unnamed_numbers.back();
      if (expert >= static_cast<std::int64_t>(kMaxImportedExperts))
        fail(place_name + " is of an expert that is out of range");
      to.add_one(at.step, at.layer, to_int(expert), row[0], place_name);
    } else if (experts_of_copies.empty()) {
      to.add(at.step, at.layer, row, place_name);
    } else {
      const auto layer = std::min(static_cast<std::size_t>(at.layer), experts_of_copies.size() - 1);
      for (std::size_t e = 0; e < experts; ++e)
        to.add_one(at.step, at.layer, experts_of_copies[layer][e], row[e], place_name);
    }
  }
}

std::string CountAxes::text() const {
  const bool has_steps = std::ranges::any_of(axes_, [](auto layers) { return layers > 0 && layers < kLayers; });
  const bool has_layers = std::ranges::any_of(axes_, [](auto layers) { return layers > 1; });
  return std::string(has_steps ? "steps, " : "") + (has_layers ? "layers, " : "") + "experts";
}

// Returns the expert of each copy, by layer, if the experts of `group` are copies that a balancer has placed: SGLang's
// and vLLM's physical experts. Empty if they are experts.
std::vector<std::vector<int>> experts_of_copies(const std::string& path, const std::vector<CountArray>& arrays,
                                                const CountGroup& group) {
  if (group.front().name.stem.find("logical") != std::string::npos) return {};
  const std::vector<std::size_t>& shape = group.front().array->shape;
  for (const CountArray& map : arrays) {
    const bool is_map = map.name.ends_with("physical_to_logical_map") && !map.shape.empty() && map.shape.size() <= 2;
    if (!is_map || shape.empty() || map.shape.back() != shape.back() || map.shape.back() == 0) continue;
    const std::vector<double> values = map.values();
    std::vector<std::vector<int>> experts;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i % map.shape.back() == 0) experts.emplace_back();
      if (!(values[i] >= 0 && values[i] < kMaxImportedExperts))
        refuse(path, fmt::format("'{}' has the expert {}, which is out of range", printable(map.name), values[i]));
      experts.back().push_back(static_cast<int>(values[i]));
    }
    return experts;
  }
  return {};
}

bool has_word(const CountGroup& group, const char* word) {
  return group.front().name.stem.find(word) != std::string::npos;
}

// Adds the arrays of one name. Files of several ranks with equal counts are copies. Returns false if cancelled.
bool add_run(const std::vector<CountArray>& arrays, const CountGroup& group, const CountAxes& axes,
             const RoutedShape& file_shape, const ImportOptions& options, RunBuilder& run,
             std::vector<std::string>& remarks) {
  const std::string& path = run.stated.info.source;
  const std::vector<std::vector<int>> experts = experts_of_copies(path, arrays, group);
  ExpertCounts counts(path, options);
  counts.expect_experts(file_shape.experts);
  counts.set_top_k(file_shape.top_k);
  for (const NamedCounts& array : group) axes.add(array, counts, experts);
  const CountArray& first = *group.front().array;
  const std::string name = group.size() > 1 ? name_pattern(first.name) : first.name;
  if (!counts.add_to(run, run.stated.info, name, remarks)) return false;
  remarks.push_back("'" + printable(first.name) + "' " + shape_text(first.shape) +
                    (group.size() > 1 ? fmt::format(" and {} more", group.size() - 1) : std::string()) +
                    " read as counts by " + axes.text());
  if (!experts.empty()) remarks.push_back("copies of experts are summed, by physical_to_logical_map");
  if (std::ranges::any_of(group, [](const NamedCounts& array) { return array.name.rank >= 0; }))
    remarks.push_back("counts of several ranks are summed");
  return true;
}

}  // namespace

bool is_count_array(const CountArray& array, const std::string& path) {
  return name_of(array, path).counts;
}

Imported runs_of_counts(const std::string& path, const std::vector<CountArray>& arrays, const RoutedShape& file_shape,
                        const ImportOptions& options) {
  std::map<std::string, CountGroup> groups;
  std::set<std::string_view> read;  // names
  for (const CountArray& array : arrays)
    if (CountName name = name_of(array, path); name.counts) groups[name.stem].push_back({&array, name});
  // Counts of experts, and of their copies on the ranks, are the same tokens.
  if (std::ranges::any_of(groups, [](const auto& group) { return has_word(group.second, "logical"); }))
    std::erase_if(groups, [](const auto& group) { return has_word(group.second, "physical"); });
  std::vector<std::string> names;
  for (const auto& [stem, group] : groups) {
    names.push_back(stem);
    for (const NamedCounts& counts : group) read.insert(counts.array->name);
  }
  if (!groups.empty()) check_choice(path, names, options);
  const ListedSteps listed = listed_steps(arrays);
  LogRuns runs = log_of_counts(path, options, "array");
  std::vector<std::string> remarks;
  for (const auto& [stem, group] : groups) {
    if (!is_wanted(options, stem)) continue;
    RunBuilder& run = runs.run(stem);
    run.shown_number = to_int(runs.runs().size()) - 1;
    run.stated.info = info_of_run(path, options);
    if (groups.size() > 1) run.stated.info.name = stem;
    const CountAxes axes(path, group, options.routed, listed);
    if (!add_run(arrays, group, axes, file_shape, options, run, remarks)) return {};
    if (!axes.has_listed_steps()) continue;
    remarks.push_back("the steps are those of '" + printable(listed.arrays[0]->name) + "'");
    for (const CountArray* steps : listed.arrays) read.insert(steps->name);
  }
  for (const CountArray& array : arrays) {
    if (read.contains(array.name) || array.name.ends_with("physical_to_logical_map")) continue;
    const AccountBook::Name name = runs.context().book.add(array.name, nullptr, 0);
    AccountBook::take(name, -1, array.values());
    AccountBook::leave_out(name, "no counts of experts, by its name");
  }
  if (groups.empty()) refuse(path, "has no counts of experts; " + no_known_names(runs.context().book.not_shown(false)));
  Imported imported = runs.finish(arrays.size());
  imported.remarks.insert(imported.remarks.begin(), remarks.begin(), remarks.end());
  return imported;
}

}  // namespace moescope

#include "core/logs/lines/line_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "core/frame/figures.h"
#include "core/logs/import.h"

namespace moescope {

namespace {

constexpr std::size_t kMostKnown = 65536;  // names whose meaning is cached
constexpr int kDeepestName = 8;            // maximum nesting of objects
constexpr double kLatestStepOfLine = 1e15;

// True for names of this program's lines (jsonl.h) that the table does not have.
bool is_own_name(std::string_view name) {
  constexpr std::array<std::string_view, 27> kOwn = {"run",
                                                     "wall_s",
                                                     "tokens",
                                                     "phase_ms",
                                                     "routers",
                                                     "quants",
                                                     "flips",
                                                     "gradients",
                                                     "texts",
                                                     "specialisation",
                                                     "wire",
                                                     "rounding_flips",
                                                     "router_roundings",
                                                     "markers",
                                                     "layer",
                                                     "score_mass",
                                                     "gate_mass",
                                                     "score_chosen",
                                                     "score_rejected",
                                                     "volume",
                                                     "margin_tokens",
                                                     "margin",
                                                     "score_entropy",
                                                     "aux",
                                                     "domain_expert",
                                                     "domain_expert_layer",
                                                     "config"};
  if (std::ranges::find(kOwn, name) != kOwn.end()) return true;
  return std::ranges::any_of(kRouterFigures, [&](const auto& figure) { return name == figure.column; });
}

// True for the name of a rank or microbatch, whose values are a part of those of the step.
bool is_part_of_step(std::string_view name) {
  constexpr std::array<std::string_view, 9> kParts = {"rank",        "global_rank",   "dp_rank",
                                                      "ep_rank",     "process_index", "microbatch",
                                                      "micro_batch", "micro_step",    "microstep"};
  return std::ranges::find(kParts, name) != kParts.end();
}

// True for names of objects that only enclose the figures of a step, so that the figures' names do not include them.
bool is_wrapper(std::string_view name) {
  constexpr std::array<std::string_view, 6> kWrappers = {"metrics", "scalars", "values", "logs", "log", "data"};
  return std::ranges::find(kWrappers, name) != kWrappers.end();
}

std::string joined_name(std::string_view outer, std::string_view inner) {
  return is_wrapper(outer) ? std::string(inner) : std::string(outer) + '.' + std::string(inner);
}

// Kind of text on which the values of a line were measured: validation for {"split": "val", "step": 7, "loss": 2.5}.
enum class MeasuredOn { training, validation, test };
MeasuredOn measured_on(const JsonFields& line) {
  constexpr std::array<const char*, 7> kKeys = {"split", "phase", "mode", "stage", "type", "event", "kind"};
  constexpr std::array<std::string_view, 7> kValidation = {"val",        "valid",      "validation", "eval",
                                                           "evaluation", "validating", "dev"};
  for (const char* key : kKeys) {
    const JsonValue* found = line.find(key);
    if (!found || !found->is_string()) continue;
    const std::string word = spelled_alike(to_text(*found, key));
    if (word == "test" || word == "testing") return MeasuredOn::test;
    if (std::ranges::find(kValidation, word) != kValidation.end()) return MeasuredOn::validation;
  }
  return MeasuredOn::training;
}

// Reduces a line that was not measured on training text to its step, run, epoch and, for a validation, its loss.
void keep_validation(MeasuredOn text, NamedLine& line) {
  std::vector<JsonFields::Field> kept;
  for (JsonFields::Field field : line.fields) {
    const bool is_loss = field.key == "ce_loss" || field.key == "val_loss";
    if (is_loss && text == MeasuredOn::test) continue;
    if (is_loss) field.key = "val_loss";
    if (is_loss || field.key == "step" || field.key == "run" || field.key == "epoch") kept.push_back(field);
  }
  line.fields = JsonFields(std::move(kept));
  line.of_layers.clear();
}

// Returns the number of the rank or microbatch of a line; -1: it states none.
int part_of(const JsonFields& line) {
  for (const JsonFields::Field& field : line)
    if (std::int64_t part = 0; is_part_of_step(field.key) && field.value.get(part) == simdjson::SUCCESS && part >= 0)
      return part & INT32_MAX;
  return -1;
}

// Returns nullopt if the value is not the number of a step, such as -1 before the first step.
std::optional<std::int64_t> step_number(JsonValue value) {
  try {
    return to_step(value, kLatestStepOfLine);
  } catch (const Unreadable&) {
    return std::nullopt;
  }
}

}  // namespace

LineNames::Known& LineNames::find(std::string_view name) {
  if (const auto known = known_.find(name); known != known_.end()) return known->second;
  Known known{tags_->find(name), {}};
  // Of the own names, a line of another program may have a figure of the routers over all layers.
  const bool may_be_of_all_layers = prefix_.empty() && known.match && is_of_all_layers(*known.match);
  if (is_own_name(name) && !may_be_of_all_layers) known.match.reset();
  if (known_.size() < kMostKnown) return known_.emplace(name, std::move(known)).first->second;
  return overflow_ = std::move(known);
}

AccountBook::Name& LineNames::counts_of(Known& known, std::string_view name) {
  if (!known.counts.counts)
    known.counts = book_->add(prefix_ + std::string(name), known.match ? known.match->rule : nullptr, number_,
                              is_part_of_step(name) ? "Part of a step: loads of parts are added"
                              : is_own_name(name)   ? "Values of MoEScope's own lines"
                                                    : "");
  return known.counts;
}

void LineNames::leave_out(std::string_view name, std::string reason) {
  AccountBook::leave_out(counts_of(find(name), name), std::move(reason));
}

// Counts the numbers of a value. Long lists of known loads are counted by count_loads().
void LineNames::count(Known& known, const JsonFields::Field& field, std::int64_t step) {
  const AccountBook::Name& name = counts_of(known, field.key);
  const JsonValue value = field.value;
  JsonList list;
  double number = 0;
  std::string_view text;
  if (value.get(number) == simdjson::SUCCESS) return AccountBook::take(name, step, number);
  if (value.get(text) == simdjson::SUCCESS)
    return holds_number(value) ? AccountBook::take(name, step, static_cast<double>(to_float(value, "")))
                               : AccountBook::take_text(name, step, text);
  if (simdjson::dom::object by_expert; value.get(by_expert) == simdjson::SUCCESS)
    for (const auto& [expert, load] : by_expert)
      if (load.get(number) == simdjson::SUCCESS) AccountBook::take(name, step, number);
  if (value.get(list) != simdjson::SUCCESS) return;
  if (known.match && known.match->rule->means == TagMeaning::tokens_per_expert && known.match->layer < 0) {
    loads_ = name;
    return;
  }
  if (is_own_name(field.key)) return;
  std::vector<double> numbers;
  for (const JsonValue entry : list) {
    JsonList inner;
    if (entry.get(number) == simdjson::SUCCESS)
      numbers.push_back(number);
    else if (entry.get(inner) == simdjson::SUCCESS) {
      std::vector<double> row;
      for (const JsonValue each : inner)
        if (each.get(number) == simdjson::SUCCESS) row.push_back(number);
      AccountBook::take(name, step, row);
    }
  }
  if (!numbers.empty()) AccountBook::take(name, step, numbers);
}

void LineNames::count_loads(const TelemetryFrame& frame) {
  if (!loads_.counts) return;
  for (const RouterFrame& router : frame.routers)
    loads_.counts->take_list(frame.step, std::span<const std::uint32_t>(router.tokens_per_expert));
  loads_ = {};
}

bool LineNames::is_shown_name(const TagRule& rule) {
  const auto [place, is_new] = places_.try_emplace(rule.column, rule.place);
  place->second = std::min(place->second, rule.place);
  return place->second == rule.place;
}

// Adds the loads of an object by expert, {"3": 40, "0": 36}, under a name of loads. Returns false if it is none.
bool LineNames::add_by_expert(std::string_view name, simdjson::dom::object object, Joined& joined) {
  constexpr std::size_t kLongestExpert = 5;
  const Known& known = find(name);
  if (!known.match || !is_list(*known.match) || object.size() == 0) return false;
  std::vector<NamedLayerValue> loads;
  for (const auto& [key, value] : object) {
    const bool is_expert =
        !key.empty() && key.size() <= kLongestExpert && key.find_first_not_of("0123456789") == std::string_view::npos;
    if (!is_expert || !value.is_number()) return false;
    TagMatch match = *known.match;
    std::from_chars(key.data(), key.data() + key.size(), match.expert);
    if (match.expert >= static_cast<int>(kMaxImportedExperts)) return false;
    loads.push_back({match, value, true});
  }
  std::ranges::move(loads, std::back_inserter(joined.by_expert));
  return true;
}

// Returns false, and adds nothing, if the value is no object, or its name has a meaning and no name in it has.
bool LineNames::add_inner(std::string_view name, JsonValue object, int depth, Joined& joined) {
  simdjson::dom::object fields;
  if (object.get(fields) != simdjson::SUCCESS) return false;
  if (add_by_expert(name, fields, joined)) {
    joined.fields.push_back({name, object});
    joined.objects.insert(name);
    return true;
  }
  const std::size_t before = joined.fields.size();
  bool known = false;
  for (const auto& [inner, value] : fields) {
    const std::string& whole = joined.names.emplace_back(joined_name(name, inner));
    if (value.is_object() && depth < kDeepestName && add_inner(whole, value, depth + 1, joined)) {
      known = true;
      continue;
    }
    known |= find(whole).match.has_value();
    joined.fields.push_back({whole, value});
  }
  // The name of the object itself has a meaning, which its value does not fit: the caller reports it.
  const bool is_value = !known && find(name).match;
  if (is_value) joined.fields.erase(joined.fields.begin() + static_cast<std::ptrdiff_t>(before), joined.fields.end());
  return !is_value;
}

bool LineNames::is_step(std::string_view name, JsonValue value, int depth) {
  simdjson::dom::object fields;
  if (value.get(fields) == simdjson::SUCCESS) {
    if (is_own_name(name) || depth == kDeepestName) return false;
    for (const auto& [inner, inside] : fields)
      if (is_step(joined_name(name, inner), inside, depth + 1)) return true;
    return false;
  }
  const auto& found = find(name).match;
  return found && found->rule->means == TagMeaning::step_number && (value.is_number() || value.is_string());
}

bool LineNames::has_step(const JsonFields& line) {
  return std::ranges::any_of(line, [&](const JsonFields::Field& field) { return is_step(field.key, field.value, 0); });
}

bool LineNames::has_load_of_expert(const JsonFields& line) {
  return std::ranges::any_of(line, [&](const JsonFields::Field& field) {
    const auto& found = find(field.key).match;
    return found && found->expert >= 0;
  });
}

JsonValue LineNames::step_of(std::vector<Named> steps) {
  const JsonValue first = steps.front().second.value;
  std::erase_if(steps, [](const Named& named) { return !step_number(named.second.value); });
  if (steps.empty()) return first;  // the caller reports the error
  const auto place = [](const Named& named) { return named.first->place; };
  const auto& [rule, best] = *std::ranges::min_element(steps, {}, place);
  for (const auto& [other, field] : steps) {
    if (other->place == rule->place || step_number(field.value) == step_number(best.value)) continue;
    other_steps_.try_emplace(other->place, best.key);
    leave_out(field.key, "another number than " + std::string(best.key) + ", which gives the step");
  }
  if (const auto differs = other_steps_.find(rule->place); differs != other_steps_.end())
    throw Unreadable("no " + differs->second + ", and " + std::string(best.key) + " differs from it in other lines");
  return best.value;
}

NamedLine LineNames::read(const JsonFields& line, std::int64_t number, bool counts) {
  number_ = number;
  std::vector<JsonFields::Field> fields;
  std::vector<NamedLayerValue> of_layers;
  std::vector<Named> named, steps;
  std::vector<JsonFields::Field> counted;
  std::vector<const TagRule*> converted;
  Joined joined;
  const bool is_of_layer = line.find("layer") != nullptr;
  const auto show = [&](Known& known, std::string_view name) { AccountBook::show(counts_of(known, name)); };
  const auto take = [&](const JsonFields::Field& field, bool is_joined) {
    Known& known = find(field.key);
    const auto& found = known.match;
    counted.push_back(field);
    if (!found || (is_of_layer && is_of_all_layers(*found))) {
      if (!is_joined) fields.push_back(field);
      counts_of(known, field.key);
    } else if (joined.objects.contains(field.key)) {
      show(known, field.key);
    } else if (field.value.is_null() || found->rule->means == TagMeaning::ignored) {
      return;
    } else if (found->rule->means == TagMeaning::step_number) {
      steps.emplace_back(found->rule, field);
    } else if (is_list(*found) && field.value.is_number()) {  // another quantity, such as a machine's load
      leave_out(field.key, "a single number is not the load of each expert");
    } else if (found->layer >= 0 || found->expert >= 0 || found->rule->router) {
      of_layers.push_back({*found, field.value});
      show(known, field.key);
    } else if (is_shown_name(*found->rule)) {
      named.emplace_back(found->rule, field);
    } else {
      leave_out(field.key, "another name of the log has this meaning");
    }
  };
  for (const JsonFields::Field& field : line)
    if (!field.value.is_object() || is_own_name(field.key) || !add_inner(field.key, field.value, 0, joined))
      take(field, false);
  for (const JsonFields::Field& field : joined.fields) take(field, true);
  std::ranges::move(joined.by_expert, std::back_inserter(of_layers));
  for (auto& [rule, field] : named) {
    const bool shown = places_.find(rule->column)->second == rule->place;  // a better name may follow in the line
    if (!shown) leave_out(field.key, "another name of the log has this meaning");
    if (!shown) continue;
    show(find(field.key), field.key);
    fields.push_back(
        {rule->means == TagMeaning::load_share ? "utilization" : std::string_view(rule->column), field.value});
    if (!rule->is_as_logged() || rule->means == TagMeaning::load_share) converted.push_back(rule);
  }
  std::int64_t step_of_line = -1;
  if (!steps.empty()) {
    const JsonValue step = step_of(steps);
    for (const Named& each : steps) show(find(each.second.key), each.second.key);
    fields.push_back({steps.front().first->column, step});
    step_of_line = step_number(step).value_or(-1);
  }
  if (counts)
    for (const JsonFields::Field& field : counted) count(find(field.key), field, step_of_line);
  NamedLine read{JsonFields(std::move(fields)), std::move(of_layers), part_of(line), std::move(converted)};
  if (const MeasuredOn text = measured_on(line); text != MeasuredOn::training) keep_validation(text, read);
  return read;
}

}  // namespace moescope

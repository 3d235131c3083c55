#include "core/logs/lines/json_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "core/files/text/json_text.h"
#include "core/files/text/words.h"
#include "core/frame/figures.h"
#include "core/logs/lines/printed_number.h"
#include "core/logs/runs/log_record.h"

namespace moescope {

namespace {

constexpr int kDeepestName = 8;                                              // nesting of objects
constexpr std::ptrdiff_t kMaxLineNames = 65536, kMaxNamesInLists = 1 << 20;  // in a line
constexpr std::size_t kLongestExpert = 5, kMaxRouterNames = 4096, kMaxLoadsOfDicts = 4 * kMaxImportedLoads;
constexpr double kExactBelow = 9007199254740992.0;  // larger whole numbers are kept as text

// True for names of rows of this program's own lines (jsonl.cpp).
bool is_row_of_step(std::string_view name) {
  return is_one_of(name, {"routers", "quants", "flips", "gradients", "texts", "specialisation", "wire",
                          "rounding_flips", "volume", "score_mass", "gate_mass", "score_chosen", "score_rejected",
                          "margin_tokens", "domain_expert", "router_roundings"});
}

bool is_router_value(std::string_view name) {
  return is_row_of_step(name) || name == "layer" ||
         std::ranges::any_of(kRouterFigures, [&](const auto& figure) { return name == figure.column; });
}

std::vector<Marker> markers_of(JsonValue json) {
  std::vector<Marker> markers;
  if (json.is_null()) return markers;
  for (const JsonValue entry : list_of(json, "markers", 0, "entries")) {
    const JsonFields fields = fields_of(entry, "markers", "not objects");
    const auto text = [&](const char* key, const char* otherwise) {
      const JsonValue* found = fields.find(key);
      return found ? to_text(*found, key) : otherwise;
    };
    const JsonValue* step = member(fields, {"step"});
    Marker marker{0,
                  step ? to_count(*step, "markers: step", kLastStep) : -1,
                  text("kind", "event"),
                  text("text", ""),
                  text("key", ""),
                  text("value", "")};
    const bool is_taken_back = marker.kind == kNoteKind && marker.text.empty();
    if (!is_taken_back) markers.push_back(std::move(marker));
  }
  return markers;
}

// True for names of objects that only enclose the figures of a step, so that the figures' names do not include them.
bool is_wrapper(std::string_view name) {
  return is_one_of(name, {"metrics", "scalars", "values", "logs", "log", "data", "extra", "fields"});
}

// Returns an entry of a list: a number, also as the text "10,240", or null. Outside of the loop over long lists of
// counts.
[[gnu::noinline]] std::optional<double> number_of(JsonValue entry) {
  if (entry.is_null()) return kNoValue;
  const std::optional<double> number = to_number(entry);
  return !number && entry.is_string() ? printed_number(to_text(entry, "")) : number;
}

// Adds the numbers of a list. Returns false if it has other values.
bool add_numbers(JsonList list, std::vector<double>& numbers) {
  const std::size_t before = numbers.size();
  if (before + list.size() > kMaxImportedLoads) return false;
  numbers.resize(before + list.size());
  double* to = numbers.data() + before;
  for (const JsonValue entry : list) {
    std::int64_t count = 0;  // type of nearly all values of long lists
    if (entry.get(count) == simdjson::SUCCESS) {
      *to++ = count;
      continue;
    }
    const auto number = number_of(entry);
    if (!number) return false;
    *to++ = *number;
  }
  return true;
}

// Adds the numbers of a list, or of its lists, of which some may be null. Returns false if it has other values.
bool add_list(JsonList list, NamedValue& to) {
  const auto first = std::ranges::find_if(list.begin(), list.end(), [](JsonValue entry) { return !entry.is_null(); });
  JsonList inner;
  if (first == list.end() || (*first).get(inner) != simdjson::SUCCESS) return add_numbers(list, to.numbers);
  to.numbers.reserve(std::min(kMaxImportedLoads, list.size() * inner.size()));
  for (const JsonValue entry : list) {
    JsonList row;
    const std::size_t before = to.numbers.size();
    if (entry.get(row) != simdjson::SUCCESS ? !entry.is_null() : !add_numbers(row, to.numbers)) return false;
    to.rows.push_back(to.numbers.size() - before);
  }
  return true;
}

// Returns the number of a key such as "12", "e12" or "expert_12"; empty if it counts another thing.
std::string_view number_of_key(std::string_view key, Counted counted) {
  const std::size_t begin = std::min(key.find_first_of("0123456789"), key.size());
  const std::string_view number = key.substr(begin);
  const bool is_number = number.find_first_not_of("0123456789") == number.npos && number.size() <= kLongestExpert;
  return is_number && (begin == 0 || counted_before(key.substr(0, begin)) == counted) ? number : std::string_view();
}

}  // namespace

// Takes a field that says of which layer or expert an object is: {"block": 3}, {"expert_id": 12}, or in a list of
// experts {"id": 12}; or what the name of an object in a list is. Returns false if it is a value.
bool JsonRecords::take_label(std::string_view list, const JsonFields::Field& field, Label& label) {
  constexpr std::size_t kLongestLabel = 24;
  const auto is_in_list = [list](std::string_view word) { return spelled_alike(list).find(word) != std::string::npos; };
  if (field.key.size() > kLongestLabel || field.key.find_first_of("0123456789") != std::string_view::npos ||
      !(field.value.is_number() || field.value.is_string()))
    return false;
  const TagMatch* const match = runs_->find(field.key);
  TagMeaning means = match ? match->rule->means : TagMeaning::ignored;
  const bool is_name = !list.empty() && is_one_of(field.key, {"id", "idx", "index", "name", "module", "key"});
  if (is_name && is_in_list("expert"))
    means = TagMeaning::expert_number;
  else if (is_name && (is_in_list("layer") || is_in_list("block")))
    means = TagMeaning::layer_number;
  if (means != TagMeaning::layer_number && means != TagMeaning::expert_number && !is_name) return false;
  const std::string text = field.value.is_string() ? to_text(field.value, "") : simdjson::minify(field.value);
  try {
    if (means == TagMeaning::layer_number)
      label.layer = to_int(number_in_name(text, kLastImportedLayer, "layer"));
    else if (means == TagMeaning::expert_number)
      label.expert = to_int(number_in_name(text, std::int64_t{kMaxImportedExperts} - 1, "expert"));
    else
      label.name = text;
    return true;
  } catch (const Unreadable&) {  // another quantity of this name
    return false;
  }
}

JsonRecords::Label JsonRecords::label_of(std::string_view list, const JsonFields& object) {
  Label label;
  for (const JsonFields::Field& field : object) take_label(list, field, label);
  return label;
}

// Returns the name that an object gives to the value in it or in an object `in` it: "loss" of {"tag": "loss", "value":
// 2.5}; empty: none.
std::string JsonRecords::tag_of(const JsonFields& object, const JsonFields& in) {
  const JsonValue* const value = member(in, {"value", "metricValue"});
  double number = 0;
  if (!value || (value->is_string() ? !is_like_number(to_text(*value, ""))
                                    : value->get(number) != simdjson::SUCCESS && !value->is_array()))
    return {};
  for (const char* key : kKeysOfNames) {
    const JsonValue* const tag = object.find(key);
    const std::string name = tag && tag->is_string() ? to_text(*tag, key) : std::string();
    const TagMatch* const match = name.empty() ? nullptr : runs_->find(name);
    const bool may_be_other = std::string_view(key) == "name" || std::string_view(key) == "key";
    if (!name.empty() && (match ? is_shown(match->rule->means) : !may_be_other)) return name;
  }
  return {};
}

// Adds the values of a list of objects, under names with the layer and the expert of the object, else with its name or
// its position: "moe.layer3.counts", "stats.expert12.load", "timers.forward.ms". Returns false if it has other entries.
bool JsonRecords::add_objects(std::string_view name, JsonList list, int depth, LogRecord& record) {
  if (list.size() == 0 || !std::all_of(list.begin(), list.end(), [](JsonValue entry) { return entry.is_object(); }))
    return false;
  std::size_t position = 0;
  for (const JsonValue entry : list) {
    const JsonFields object = fields_of(entry, "");
    Label label = label_of(name, object);
    std::string whole = std::string(name) + '.';
    if (label.layer >= 0) whole += fmt::format("layer{}.", label.layer);
    if (label.expert >= 0) whole += fmt::format("expert{}.", label.expert);
    if (label.layer < 0 && label.expert < 0)
      whole += (label.name.empty() ? std::to_string(position) : label.name) + '.';
    const std::string tag = tag_of(object, object);
    const std::size_t before = record.values.size();
    if (!tag.empty()) add(record.keep(tag), *member(object, {"value", "metricValue"}), depth + 1, record);
    for (std::size_t i = before; i < record.values.size(); ++i) {
      record.values[i].layer = label.layer;
      record.values[i].expert = label.expert;
    }
    for (const JsonFields::Field& field : object)
      if (tag.empty() && !take_label(name, field, label))
        add(record.keep(whole + std::string(field.key)), field.value, depth + 1, record);
    if (std::ssize(record.values) > kMaxNamesInLists) throw Unreadable("more than 1048576 names");
    ++position;
  }
  return true;
}

// Adds an object that W&B made of another value, of which only a histogram of expert numbers is read: it has one more
// limit (`bins`) than counts (`values`).
void JsonRecords::add_typed(std::string_view name, const JsonFields& object, LogRecord& record) {
  const TagMatch* const match = runs_->find(name);
  NamedValue& loads = record.add(name);
  try {
    if (to_text(*object.find("_type"), "_type") != "histogram")
      throw Unreadable("neither a number nor a list nor a histogram");
    if (!match || match->rule->means != TagMeaning::tokens_per_expert || match->expert >= 0)
      throw Unreadable("a histogram, which does not give the load of each expert");
    const auto numbers_of = [&](const char* key) {
      std::vector<double> numbers;
      if (!add_numbers(list_of(required(object, key), key, 0, ""), numbers)) throw Unreadable("histogram: no numbers");
      return numbers;
    };
    const std::vector<double> counts = numbers_of("values");
    std::vector<double> limits;
    if (const JsonValue* packed = object.find("packedBins")) {  // of the API of W&B: {"min": 0, "size": 1, "count": 4}
      const JsonFields bins = fields_of(*packed, "packedBins");
      const float min = to_float(required(bins, "min"), "min"), size = to_float(required(bins, "size"), "size");
      for (std::size_t i = 0; i <= counts.size(); ++i) limits.push_back(min + i * size);
    } else {
      limits = numbers_of("bins");
    }
    if (limits.size() != counts.size() + 1) throw Unreadable("histogram: buckets without limits");
    std::vector<ExpertBucket> buckets;
    for (std::size_t i = 0; i < counts.size(); ++i)
      buckets.push_back(bucket_between(limits[i], limits[i + 1], counts[i], i + 1 == counts.size()));
    loads.numbers = counts_of(buckets);
    loads.is_list = true;
  } catch (const Unreadable& unreadable) {
    loads.problem = record.keep(unreadable.what());
  }
}

void JsonRecords::add(std::string_view name, JsonValue value, int depth, LogRecord& record) {
  simdjson::dom::object object;
  if (value.get(object) == simdjson::SUCCESS && object["_type"].error() == simdjson::SUCCESS)
    return add_typed(name, JsonFields(object), record);
  if (value.get(object) == simdjson::SUCCESS && depth < kDeepestName && add_object(name, object, depth, record)) return;
  JsonList list;
  const bool is_list = value.get(list) == simdjson::SUCCESS;
  if (is_list && depth < kDeepestName && add_objects(name, list, depth, record)) return;
  NamedValue& added = record.add(name);
  if (is_list) {
    added.is_list = true;
    if (add_list(list, added)) return;
    added.numbers.clear();
    added.rows.clear();
    added.text = "a list of values that are no numbers";
  } else if (std::string_view text; value.get(text) == simdjson::SUCCESS) {
    text = record.keep(std::string(text));
    set_value(text, added, runs_->commas_in(text, name));
    added.text = text;  // also beside a number
    added.is_text = true;
  } else if (double number = 0; value.get(number) == simdjson::SUCCESS) {
    added.numbers = {number};
    if (std::abs(number) >= kExactBelow && (value.is_int64() || value.is_uint64()))
      added.text = record.keep(simdjson::minify(value));
  } else if (!value.is_null()) {
    added.text = record.keep(simdjson::minify(value));
    const TagMatch* const match = value.is_object() ? runs_->find(name) : nullptr;
    if (match && moescope::is_list(*match))
      added.problem = "its keys do not say what is the layer and the expert, as \"L0E3\" does";
  }
}

// Adds the loads of an object by expert, {"3": 40, "0": 36}, under a name of loads, as a list of each layer. Returns
// false if it is none.
bool JsonRecords::add_by_expert(std::string_view name, simdjson::dom::object object, LogRecord& record) {
  const TagMatch* match = runs_->find(name);
  if (!match || !is_list(*match) || object.size() == 0) return false;
  const std::size_t before = record.values.size();
  std::map<int, std::size_t> place_of_layer;
  for (const auto& [key, value] : object) {
    double number = 0;
    // "L0E3" and "layer_0.3" are in a layer.
    const std::size_t begin = key.find_first_of("0123456789"),
                      end = std::min(key.find_first_not_of("0123456789", begin), key.size());
    const std::string_view layer =
        begin > 0 && end < key.size() ? number_of_key(key.substr(0, end), Counted::layer) : "";
    const std::string_view expert =
        number_of_key(layer.empty() ? key : trimmed(key.substr(end), "._-/: "), Counted::expert);
    if (expert.empty() || value.get(number) != simdjson::SUCCESS) {
      record.values.resize(before);
      return false;
    }
    std::size_t index = 0;
    int layer_index = -1;
    std::from_chars(expert.data(), expert.data() + expert.size(), index);
    std::from_chars(layer.data(), layer.data() + layer.size(), layer_index);
    const auto [place, is_new] = place_of_layer.try_emplace(layer_index, record.values.size());
    if (is_new) {
      NamedValue& added = record.add(name);
      added.is_list = added.leaves_out_zeros = true;
      added.layer = layer_index;
    }
    std::vector<double>& loads = record.values[place->second].numbers;
    if (index >= loads.size()) {
      record.loads_of_dicts += index + 1 - loads.size();
      if (record.loads_of_dicts > kMaxLoadsOfDicts) throw Unreadable("loads of too many experts");
      loads.resize(index + 1, kNoValue);
    }
    loads[index] = number;
  }
  return true;
}

// Adds the fields of an object, whose names are joined with dots: {"train": {"loss": 2}} is "train.loss". Returns
// false, and adds nothing, if its own name has a meaning and none of the joined names has. Of loads, keys such as "0.3"
// are added: their values may show what is the layer and the expert.
bool JsonRecords::add_object(std::string_view name, simdjson::dom::object object, int depth, LogRecord& record) {
  if (add_by_expert(name, object, record)) return true;
  const std::size_t before = record.values.size();
  const TagMatch* const match = runs_->find(name);
  bool are_numbered = object.size() > 0;
  for (const auto& [inner, value] : object) {
    are_numbered = are_numbered && !inner.empty() && is_digit(inner.front());
    const std::string_view layer = match && is_list(*match) ? number_of_key(inner, Counted::layer) : std::string_view();
    const std::string key = layer.empty() ? std::string(inner) : "layer_" + std::string(layer);
    add(record.keep((is_wrapper(name) ? "" : std::string(name) + '.') + key), value, depth + 1, record);
  }
  const auto is_known = [this](const NamedValue& value) { return runs_->find(value.name) != nullptr; };
  const bool is_value = match && !(is_list(*match) && are_numbered) &&
                        std::none_of(record.values.begin() + before, record.values.end(), is_known);
  if (is_value) record.values.resize(before);
  return !is_value;
}

// "aux" has the auxiliary loss of each layer before its coefficient, which the settings state.
void JsonRecords::scale_auxiliary_losses(LogRecord& record) {
  const auto losses = std::ranges::find(record.values, "aux", &NamedValue::name);
  if (losses == record.values.end() || !losses->is_list) return;
  const float coefficient = runs_->stated_for(record).aux_coeff;
  if (is_missing(coefficient)) return;
  losses->means = "aux_loss";
  for (double& loss : losses->numbers)
    if (!std::isnan(loss)) loss *= coefficient;
}

JsonRecords::RouterName& JsonRecords::router_name(std::string_view key, std::int64_t place) {
  if (const auto known = router_names_.find(key); known != router_names_.end()) return known->second;
  if (router_names_.size() > kMaxRouterNames) router_names_.clear();
  RouterName& name = router_names_[std::string(key)];
  const bool is_own = is_router_value(key);
  const TagMatch* match = is_own ? nullptr : runs_->find(key);
  const bool is_used = match && is_shown(match->rule->means) && match->layer < 0 && match->expert < 0;
  name.rule = is_used ? match->rule : nullptr;
  name.counts =
      runs_->context().book.add("routers." + std::string(key), name.rule, place, is_own ? "MoEScope's own values" : "");
  if (is_used) AccountBook::show(name.counts, true);
  return name;
}

// Translates the names of an entry of "routers" into those of the table, and counts its values.
JsonFields JsonRecords::router_fields(const JsonFields& entry, LogRecord& record) {
  std::vector<JsonFields::Field> fields;
  for (JsonFields::Field field : entry) {
    const RouterName& name = router_name(field.key, record.place);
    if (double number = 0; field.value.get(number) == simdjson::SUCCESS) AccountBook::take(name.counts, -1, number);
    if (JsonList list; name.rule && field.value.get(list) == simdjson::SUCCESS) {
      std::vector<double> numbers;
      if (name.rule->means == TagMeaning::tokens_per_expert)
        record.own_loads = name.counts;
      else if (add_numbers(list, numbers))
        AccountBook::take(name.counts, -1, numbers);
    }
    if (name.rule)
      field.key = name.rule->means == TagMeaning::load_share ? "utilization" : std::string_view(name.rule->column);
    fields.push_back(field);
  }
  return JsonFields(std::move(fields));
}

void JsonRecords::add_own(const JsonFields& json, std::size_t bytes, LogRecord& record) {
  RunInfo info = runs_->info_for(record);
  if (info.n_experts == 0)  // a line of one layer
    for (const NamedValue& value : record.values)
      if (value.is_list && value.rows.empty() && !value.leaves_out_zeros && record.layer >= 0)
        if (const TagMatch* match = runs_->find(value.name); match && is_list(*match))
          info.n_experts = to_int(std::min(value.numbers.size(), kMaxImportedExperts + 1));
  TelemetryFrame& frame = record.own_frame.emplace();
  frame.aux_loss = frame.z_loss = kNoValue;
  LineBudget budget(record.own_bytes = bytes);
  try {
    add_own_values(
        json, info, budget, [&](const JsonFields& entry) { return router_fields(entry, record); }, frame);
    if (record.layer >= 0) frame.routers.push_back(router_from_json(json, info, budget));
    if (!std::ranges::is_sorted(frame.routers, {}, &RouterFrame::layer))
      std::ranges::stable_sort(frame.routers, {}, &RouterFrame::layer);
  } catch (const Unreadable& unreadable) {
    record.own_frame.reset();
    record.problem = unreadable.what();
  }
}

LogRecord JsonRecords::record_of(const JsonFields& json, std::int64_t place, std::size_t bytes) {
  if (json.end() - json.begin() > kMaxLineNames) throw Unreadable("more than 65536 names");
  LogRecord record;
  record.place = place;
  const Label label = json.find("routers") ? Label() : label_of("", json);
  record.layer = label.layer;
  if (const JsonValue* layer = member(json, {"layer"}); layer && label.layer < 0 && !json.find("routers"))
    record.layer = to_index(*layer, "layer", 0, kLastImportedLayer);  // refuses it
  // Values of one expert have the same names as in a list of objects by expert.
  const std::string expert_prefix = label.expert < 0 ? std::string() : fmt::format("expert{}.", label.expert);
  std::string tag = expert_prefix.empty() ? tag_of(json, json) : std::string();
  const JsonValue* const data = member(json, {"data"});  // {"name": "loss", "data": {"step": 1, "value": 2.5}}
  const bool is_in_data = tag.empty() && expert_prefix.empty() && data && data->is_object();
  if (is_in_data) tag = tag_of(json, fields_of(*data, "data"));
  std::vector<JsonFields::Field> own_fields;
  bool has_own = false;
  for (const JsonFields::Field& field : json) {
    if (!tag.empty() && field.value.is_string() && to_text(field.value, "") == tag) continue;
    if (!tag.empty() && (field.key == "value" || field.key == "metricValue")) {
      add(record.keep(tag), field.value, 0, record);
      continue;
    }
    const bool is_row = is_row_of_step(field.key);
    const TagMatch* const match = expert_prefix.empty() || !field.value.is_number() ? nullptr : runs_->find(field.key);
    const bool is_load = match ? match->rule->means <= TagMeaning::expert_bias
                               : !expert_prefix.empty() && field.value.is_number() && !is_part_of_step(field.key);
    const bool is_own_value = is_one_of(field.key, {"run", "wall_s", "tokens", "phase_ms", "markers", "layer", "config",
                                                    "router_roundings", "domain_expert_layer"}) &&
                              !(field.key == "config" && field.value.is_object());
    if (is_load || (!is_row && !is_own_value)) {
      add(is_load ? record.keep(expert_prefix + std::string(field.key)) : field.key, field.value, 0, record);
      continue;
    }
    if (field.key == "run")
      add(field.key, field.value, kDeepestName, record);
    else
      record.add(field.key);
    record.values.back().is_own = true;
    own_fields.push_back(field);
    has_own = has_own || is_row || field.key == "wall_s" || field.key == "tokens" || field.key == "phase_ms";
    record.has_own_rows = record.has_own_rows || is_row;
  }
  for (NamedValue& value : record.values)
    if (is_in_data && !tag.empty() && (value.name == "value" || value.name == "metricValue"))
      value.name = record.keep(tag);
  scale_auxiliary_losses(record);
  if (has_own) add_own(JsonFields(std::move(own_fields)), bytes, record);
  if (const JsonValue* markers = json.find("markers")) record.markers = markers_of(*markers);
  return record;
}

StatedRun JsonRecords::stated_run(const JsonFields& json) {
  StatedRun stated;
  stated.info = run_info_from_json(json);
  if (const JsonValue* coeff = member(json, {"aux_coeff"})) stated.aux_coeff = to_float(*coeff, "aux_coeff");
  stated.dense_layers = setting(json, "dense_layers", to_int(kMaxImportedLayers));
  // This program's lines have the settings elsewhere: in `config` for its trainings, in a marker for imported runs.
  const JsonValue* config = json.find("config");
  if ((json.find("source") && json.find("moe_layers")) || (config && config->is_string())) return stated;
  for (const auto& [key, value] : json)
    stated.settings += (stated.settings.empty() ? "{" : ",") + json_string(key) + ':' + simdjson::minify(value);
  stated.settings += stated.settings.empty() ? "" : "}";
  return stated;
}

}  // namespace moescope

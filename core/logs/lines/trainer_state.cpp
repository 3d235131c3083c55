// Reads trainer_state.json of Hugging Face's Trainer, the entries of its log_history as JSON lines (import_jsonl.h),
// and other JSON that has the steps in a list, or all values of a name together (docs/logs.md).

#include <algorithm>
#include <climits>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/files/input_file.h"
#include "core/files/text/json_line.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_encoding.h"
#include "core/files/text/words.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/logs/log_readers.h"
#include "core/logs/runs/log_record.h"
#include "core/logs/tag_map.h"

namespace moescope {

bool names_a_step(std::string_view written) {
  return has_any(in_lower_case(written), {"step\":", "step\" :", "current_steps\"", "iteration\"", "iter\""});
}

namespace {

JsonFields fields_or_none(JsonValue value) {
  return value.is_object() ? fields_of(value, "") : JsonFields(std::vector<JsonFields::Field>());
}

constexpr int kDeepestColumns = 4;

bool are_keys_numbers(const JsonFields& object) {
  return object.begin() != object.end() && std::ranges::all_of(object, [](const JsonFields::Field& field) {
           return !field.key.empty() && std::ranges::all_of(field.key, is_digit);
         });
}

// Returns the values of a list, or of an object by position; none of other values.
std::vector<JsonValue> entries_of(JsonValue value) {
  std::vector<JsonValue> column;
  simdjson::dom::object object;
  if (JsonList list; value.get(list) == simdjson::SUCCESS) return {list.begin(), list.end()};
  if (value.get(object) != simdjson::SUCCESS || !are_keys_numbers(JsonFields(object))) return {};
  for (const auto& [key, entry] : object) column.push_back(entry);
  return column;
}

// Returns the place of a name among those of the step; nullopt if it is another one.
std::optional<int> place_of_step(std::string_view name) {
  if (name == "steps" || name == "x") return INT_MAX;
  const auto match = TagMap::built_in().find(name);
  return match && match->rule->means == TagMeaning::step_number ? std::optional(match->rule->place) : std::nullopt;
}

bool is_pair(JsonValue entry) {
  JsonList pair;
  return entry.get(pair) == simdjson::SUCCESS && pair.size() == 2 && pair.at(0).is_number();
}

// True for the loss as pairs of step and value, [[10, 2.5], [20, 2.4]].
bool is_loss_by_step(const JsonFields::Field& field) {
  const auto match = TagMap::built_in().find(field.key);
  const std::vector<JsonValue> points = entries_of(field.value);
  return match && match->rule->column == "ce_loss" && points.size() > 1 && std::ranges::all_of(points, is_pair);
}

// Turns a JSON object in which the values of all steps stand together into the steps of a log (docs/logs.md).
class JsonColumns {
 public:
  // Throws Unreadable if the steps are in no order.
  explicit JsonColumns(const JsonFields& object);
  struct Row {
    std::optional<std::int64_t> step;  // if it stands beside the values
    std::vector<JsonFields::Field> values;
  };
  // In the order of the file if there is one list of steps, else by step.
  const std::vector<Row>& rows() const { return rows_; }
  bool is_by_step() const { return is_by_step_; }  // the keys of an object are the steps

 private:
  void add(const std::string& path, const JsonFields& object, int depth);
  bool add_table(const JsonFields& object);
  bool add_points(const std::string& name, JsonList list, bool are_pairs);
  bool add_columns(const std::string& path, const JsonFields& object);
  bool add_by_step(const JsonFields& object);
  void add_epochs(const JsonFields& object);
  void sort();

  bool is_by_step_ = false;
  std::vector<Row> rows_;
  std::map<std::int64_t, std::size_t> row_of_step_;
  std::deque<std::string> names_;
};

JsonColumns::JsonColumns(const JsonFields& object) {
  add("", object, 0);
  if (rows_.empty()) add_epochs(object);
}

void JsonColumns::add(const std::string& path, const JsonFields& object, int depth) {
  if (add_table(object) || add_columns(path, object) || add_by_step(object) || depth == kDeepestColumns) return;
  const bool are_pairs = std::ranges::any_of(object, is_loss_by_step);
  for (const JsonFields::Field& field : object) {
    const bool is_repeated = path == field.key || path.ends_with('/' + std::string(field.key));
    const std::string name =
        path.empty() || is_repeated || path == "metrics" ? std::string(field.key) : path + '/' + std::string(field.key);
    JsonList list;
    if (field.value.is_object()) add(name, fields_of(field.value, ""), depth + 1);
    if (field.value.get(list) != simdjson::SUCCESS || add_points(name, list, are_pairs)) continue;
    for (const JsonValue entry : list) {  // [{"name": "loss", "steps": [1, 2], "values": [8.1, 7.9]}]
      const JsonFields series = fields_or_none(entry);
      if (const JsonValue* series_name = member(series, {"name", "tag", "metric"});
          series_name && series_name->is_string())
        add_columns(to_text(*series_name, "name"), series);
    }
  }
}

// Adds a list of objects with a step and a value, or of pairs of them. Returns false if it is none.
bool JsonColumns::add_points(const std::string& name, JsonList list, bool are_pairs) {
  for (const JsonValue entry : list) {
    const JsonFields point =
        are_pairs && is_pair(entry)
            ? JsonFields({{"step", entry.at(0).value_unsafe()}, {"value", entry.at(1).value_unsafe()}})
            : fields_or_none(entry);
    const JsonValue* const value = member(point, {"value", "y"});
    const auto step =
        std::ranges::find_if(point, [](const auto& field) { return place_of_step(field.key).has_value(); });
    if (!value || step == point.end()) return false;
    const std::int64_t number = to_count(step->value, "step", kLastStep);
    const auto [row, is_new] = row_of_step_.try_emplace(number, rows_.size());
    if (is_new) rows_.push_back({number, {}});
    rows_[row->second].values.push_back({names_.emplace_back(name), *value});
  }
  sort();
  return list.size() > 0;
}

// Adds the rows of {"columns": ["step", "loss"], "data": [[1, 8.1], [2, 7.9]]}. Returns false if it is none.
bool JsonColumns::add_table(const JsonFields& object) {
  const JsonValue *columns = member(object, {"columns"}), *data = member(object, {"data"});
  JsonList names, rows;
  if (!columns || !data || columns->get(names) != simdjson::SUCCESS || data->get(rows) != simdjson::SUCCESS ||
      names.size() == 0)
    return false;
  for (const JsonValue entry : rows) {
    const JsonList cells = list_of(entry, "data", names.size(), "columns");
    Row& row = rows_.emplace_back();
    auto name = names.begin();
    for (const JsonValue cell : cells) row.values.push_back({names_.emplace_back(to_text(*name++, "columns")), cell});
  }
  return rows.size() > 0;
}

// Adds the values of an object with a list of steps. Returns false if it has none.
bool JsonColumns::add_columns(const std::string& path, const JsonFields& object) {
  const JsonFields::Field* step_field = nullptr;
  std::optional<int> place;
  for (const JsonFields::Field& field : object) {
    const std::optional<int> other = place_of_step(field.key);
    if (!other || (place && *place <= *other) || entries_of(field.value).empty()) continue;
    place = other;
    step_field = &field;
  }
  if (!step_field || (step_field->key == "x" && !object.find("y"))) return false;
  const bool is_only = rows_.empty();
  std::vector<std::size_t> rows;
  std::int64_t before = -1;
  for (const JsonValue value : entries_of(step_field->value)) {
    const std::int64_t step = to_count(value, "step", kLastStep);
    if (!is_only && step <= std::exchange(before, step))
      throw Unreadable("the steps of " + path + " are not in ascending order");
    const auto [row, is_new] = row_of_step_.try_emplace(step, rows_.size());
    if (is_new || is_only) rows_.push_back({step, {}});
    rows.push_back(is_only ? rows_.size() - 1 : row->second);
  }
  const auto add_fields = [&](const auto& self, const std::string& outer, const JsonFields& fields, int depth) -> void {
    for (const JsonFields::Field& field : fields) {
      const std::vector<JsonValue> column = entries_of(field.value);
      const bool is_value = !outer.empty() && is_one_of(field.key, {"values", "value", "y"});
      if (field.key == step_field->key) continue;
      const std::string& name =
          names_.emplace_back(is_value || outer.empty() ? outer : outer + '/').append(is_value ? "" : field.key);
      if (field.value.is_object() && column.size() != rows.size() && depth < kDeepestColumns)
        self(self, name, fields_of(field.value, ""), depth + 1);
      else if (column.size() == rows.size())
        for (std::size_t i = 0; i < rows.size(); ++i) rows_[rows[i]].values.push_back({name, column[i]});
      else if (field.value.is_array() && !column.empty() && !rows.empty())  // of other steps: its reader says so
        rows_[rows.front()].values.push_back({name, field.value});
    }
  };
  add_fields(add_fields, path, object, 0);
  if (is_only) return true;
  sort();
  return true;
}

void JsonColumns::sort() {
  std::ranges::stable_sort(rows_, {}, [](const Row& row) { return row.step; });
  for (std::size_t i = 0; i < rows_.size(); ++i) row_of_step_[rows_[i].step.value_or(0)] = i;
}

// Adds the values of lists of one length, of which one is a loss, as those of the epochs 1, 2, ...
void JsonColumns::add_epochs(const JsonFields& object) {
  bool has_loss = false;
  std::vector<std::vector<JsonValue>> columns;
  for (const JsonFields::Field& field : object) {
    columns.push_back(entries_of(field.value));
    has_loss = has_loss || field.key.ends_with("loss");
    if (columns.back().size() < 2 || columns.back().size() != columns.front().size()) return;
  }
  for (std::size_t i = 0; has_loss && i < columns.front().size(); ++i) {
    Row& row = rows_.emplace_back();
    row.step = static_cast<std::int64_t>(i) + 1;
    auto column = columns.begin();
    for (const JsonFields::Field& field : object) row.values.push_back({field.key, (*column++)[i]});
  }
}

// Adds the values of an object whose keys are steps. Returns false if it is none.
bool JsonColumns::add_by_step(const JsonFields& object) {
  const auto is_object = [](const JsonFields::Field& field) { return field.value.is_object(); };
  if (!are_keys_numbers(object) || !std::ranges::all_of(object, is_object)) return false;
  is_by_step_ = true;
  std::map<std::int64_t, JsonValue> by_step;
  for (const JsonFields::Field& field : object) {
    std::int64_t step = 0;
    if (!read_number(field.key, step)) return false;
    by_step.emplace(step, field.value);
  }
  for (const auto& [step, value] : by_step) {
    const JsonFields fields = fields_of(value, "");
    rows_.push_back({step, {fields.begin(), fields.end()}});
  }
  return true;
}

// Parses the text; a list becomes the field log_history of an object, a download of TensorBoard, [[time, step, value],
// ...], a table. `tag`: name of the values of a download.
JsonFields parsed_state(std::string_view bytes, JsonLines& parser, const std::string& tag = "value") {
  constexpr std::size_t kDigitsOfTime = 10;
  if (bytes.starts_with("[[") && bytes.find_first_not_of("0123456789", 2) == 2 + kDigitsOfTime)
    return parser.parse("{\"columns\":[\"wall_s\",\"step\"," + json_string(tag) + "],\"data\":" + std::string(bytes) +
                        '}');
  if (const std::size_t end = bytes.find(']') + 1, rows = bytes.find('[', end);
      bytes.starts_with("[[\"") && rows != bytes.npos)  // a row of names, and those of their values
    return parser.parse("{\"columns\":" + std::string(bytes.substr(1, end - 1)) + ",\"data\":[" +
                        std::string(bytes.substr(rows)) + '}');
  return parser.parse(bytes.starts_with('[') ? "{\"log_history\":" + std::string(bytes) + '}' : std::string(bytes));
}

bool is_step_field(const JsonFields::Field& field) {
  return field.value.is_number() && names_a_step('"' + std::string(field.key) + "\":");
}

// True for an object with the values of a step.
bool are_steps(JsonValue first) {
  const std::string json = in_lower_case(simdjson::minify(first));
  return names_a_step(json) && has_any(json, {"loss\"", "tokens_per_expert\""});
}

// Returns the list of the steps: log_history, or the first list of objects; nullopt if there is none.
std::optional<JsonList> steps_of_state(const JsonFields& state) {
  if (const JsonValue* history = member(state, {"log_history"})) return list_of(*history, "log_history", 0, "");
  for (const JsonFields::Field& field : state)
    if (JsonList list; field.value.get(list) == simdjson::SUCCESS && list.size() > 0 && (*list.begin()).is_object() &&
                       are_steps(*list.begin()))
      return list;
  return std::nullopt;
}

// True if an object, or an object in it, has a training loss.
bool has_training_loss(const JsonFields& object) {
  return std::ranges::any_of(object, [](const JsonFields::Field& field) {
    const auto match = TagMap::built_in().find(field.key);
    return (match && match->rule->column == "ce_loss") || has_training_loss(fields_or_none(field.value));
  });
}

// Steps of a history: a list by itself or in an object; nullopt if the values of all steps stand together.
std::optional<JsonList> steps_of_history(JsonValue history) {
  JsonList list;
  return history.get(list) == simdjson::SUCCESS ? std::optional(list) : steps_of_state(fields_or_none(history));
}

// True for an object with a list of steps, or with lists of steps and of a loss.
bool is_history(JsonValue value) {
  const JsonFields object = fields_or_none(value);
  const auto is_step = [](const auto& f) { return place_of_step(f.key) && !entries_of(f.value).empty(); };
  if (const auto steps = steps_of_state(object)) return steps->size() > 0;
  return std::ranges::any_of(object, is_step) && has_training_loss(object);
}

// True unless a history has the name of a split, such as "val", or one of several lists has the training loss.
bool are_runs(const std::vector<JsonFields::Field>& histories) {
  int with_loss = 0;
  bool are_lists = true;
  for (const auto& [name, history] : histories) {
    const auto steps = steps_of_history(history);
    with_loss += has_training_loss(fields_or_none(steps ? *steps->begin() : history));
    LogRecord record;
    record.add_text("split", name);
    if (measured_on(record) != MeasuredOn::training) return false;
    are_lists = are_lists && history.is_array();
  }
  return with_loss != 1 || !are_lists;
}

// Returns the histories of a file that has several (docs/logs.md), by name; none of other JSON.
std::vector<JsonFields::Field> histories_of(const JsonFields& state, int depth = 0) {
  std::vector<JsonFields::Field> found, below;
  for (const JsonFields::Field& field : state) {
    JsonList list;
    const bool is_list = field.value.get(list) == simdjson::SUCCESS && list.size() > 0 && (*list.begin()).is_object();
    const bool are_named = is_list && is_history(*list.begin());
    if (is_list ? !are_named && are_steps(*list.begin()) : is_history(field.value)) found.push_back(field);
    if (field.value.is_object() && depth == 0 && below.empty()) below = histories_of(fields_or_none(field.value), 1);
    for (std::size_t i = 0; are_named && i < list.size(); ++i) {
      const JsonFields run = fields_or_none(list.at(i).value_unsafe());
      const JsonValue* const name = member(run, {"name", "run", "run_name", "id"});
      if (name && name->is_string()) below.push_back({name->get_string().value_unsafe(), list.at(i).value_unsafe()});
    }
  }
  if (found.size() < 2) found = std::move(below);
  const bool are_columns = std::ranges::any_of(found, [](const auto& f) { return !steps_of_history(f.value); });
  if (found.size() < 2 || (are_columns && !are_runs(found))) found.clear();  // JsonColumns reads those of splits
  return found;
}

using ObjectsByStep = std::multimap<double, std::pair<std::string, JsonFields>>;

// Returns the objects of lists of steps in the order of their steps, with the names of their lists.
ObjectsByStep by_step_of(const std::vector<JsonFields::Field>& histories) {
  ObjectsByStep by_step;
  for (const auto& [name, history] : histories) {
    const std::optional<JsonList> steps = steps_of_history(history);
    if (!steps) return {};  // the values of all steps stand together
    for (const JsonValue entry : *steps) {
      const JsonFields fields = fields_of(entry, "history", "not a list of objects");
      const auto step = std::ranges::find_if(fields, [](const auto& f) { return place_of_step(f.key).has_value(); });
      if (step != fields.end())
        by_step.emplace(to_number(step->value).value_or(-1), std::pair(std::string(name), fields));
    }
  }
  return by_step;
}

// True for phases of one run, each of which begins after the last step of the one before.
bool are_phases(const ObjectsByStep& by_step) {
  std::set<std::string> names;
  std::string before;
  double last = -1;
  for (const auto& [step, entry] : by_step) {
    const bool is_next = entry.first != before;
    if (is_next && (step == last || !names.insert(entry.first).second)) return false;
    before = entry.first;
    last = step;
  }
  return names.size() > 1;
}

// Returns true if a list of the steps names their epochs. Throws Unreadable if there are no steps.
bool read_history(const JsonFields& state, LogReader& reader) {
  const std::optional<JsonList> steps = steps_of_state(state);
  const auto settings =
      std::ranges::find_if(state, [](const JsonFields::Field& field) { return field.value.is_object(); });
  if (steps && settings != state.end() && !member(state, {"log_history"}))
    reader.read_object(fields_of(settings->value, ""));
  if (!steps) {
    const JsonColumns columns(state);
    if (columns.rows().empty()) throw Unreadable("no log_history, and no list of steps");
    for (const JsonColumns::Row& row : columns.rows()) reader.read_object(JsonFields(row.values), row.step);
    return false;
  }
  bool has_epochs = false, has_restarts = false;
  std::vector<std::pair<double, JsonFields>> entries;  // with their steps
  std::map<std::string, double> last_steps;            // of the names of values, which may follow each other
  for (const JsonValue entry : *steps) {
    const JsonFields fields = fields_of(entry, "log_history", "not a list of objects");
    has_epochs = has_epochs || fields.find("epoch");
    const JsonValue* const step = member(fields, {"step"});
    entries.emplace_back(step ? to_number(*step).value_or(-1) : -1, fields);
    std::string name;
    for (const char* key : kKeysOfNames)
      if (const JsonValue* value = fields.find(key); value && value->is_string()) name += to_text(*value, "");
    const auto [last, is_new] = last_steps.try_emplace(name, -1);
    has_restarts = has_restarts || entries.back().first < std::exchange(last->second, entries.back().first);
  }
  if (!has_restarts) std::ranges::stable_sort(entries, {}, &std::pair<double, JsonFields>::first);
  for (const auto& [step, fields] : entries) reader.read_object(fields);
  return has_epochs;
}

// Throws Unreadable if the bytes are not JSON or have no steps.
Imported read_trainer_state(std::string_view bytes, const std::string& path, const ImportOptions& options) {
  JsonLines parser;
  bytes = trimmed(bytes, " \t\r\n");
  const JsonFields state = parsed_state(bytes, parser, tag_of_file(path));
  LogReader reader(path, options);
  const std::vector<JsonFields::Field> histories = histories_of(state);
  const ObjectsByStep by_step = by_step_of(histories);
  const bool has_phases = are_phases(by_step), are_of_runs = are_runs(histories) && !has_phases;
  bool has_epochs = false;
  for (const auto& [name, history] : are_of_runs ? histories : std::vector<JsonFields::Field>()) {
    reader.label("run", name);
    read_history(history.is_array() ? JsonFields({{"log_history", history}}) : fields_of(history, ""), reader);
  }
  for (const auto& [step, entry] : are_of_runs ? ObjectsByStep() : by_step) {
    reader.label("split", entry.first);
    reader.read_object(entry.second);
  }
  if (histories.empty()) has_epochs = read_history(state, reader);
  Imported imported = reader.finish();
  if (has_phases) imported.remarks.push_back("histories whose steps follow each other are read as one run");
  if (histories.empty() && (has_epochs || !bytes.starts_with('[')) && member(state, {"log_history"}))
    imported.account.program = "Hugging Face Trainer";
  return imported;
}

}  // namespace

JsonHistory json_history(std::string_view bytes) {
  bytes = trimmed(bytes, " \t\r\n");
  if (!bytes.starts_with('[') && !bytes.starts_with('{')) return JsonHistory::none;
  if (bytes.starts_with('{') && bytes.find("\"log_history\"") != std::string_view::npos) return JsonHistory::steps;
  JsonLines parser;
  std::optional<JsonFields> state;
  try {
    state = parsed_state(bytes, parser);
    if (!histories_of(*state).empty()) return JsonHistory::steps;
    const auto steps = steps_of_state(*state);
    if (steps && steps->size() > 0 && are_steps(*steps->begin()))  // else a list of a step, if the object has one
      return std::ranges::any_of(*state, is_step_field) ? JsonHistory::none : JsonHistory::steps;
  } catch (const Unreadable&) {
    return JsonHistory::none;
  }
  try {
    const JsonColumns columns(*state);
    const bool is_history = !columns.rows().empty() && (!columns.is_by_step() || has_any(bytes, {"loss\""}));
    return is_history ? JsonHistory::columns : JsonHistory::none;
  } catch (const Unreadable&) {  // its reader says why
    return JsonHistory::columns;
  }
}

Imported import_trainer_state(const std::string& path, const ImportOptions& options) {
  const std::string bytes = read_file(path, kMaxStateBytes, "trainer_state.json");
  try {
    Imported imported = read_trainer_state(without_byte_order_mark(bytes), path, options);
    if (options.progress && !options.progress(1)) return {};
    return imported;
  } catch (const Unreadable& unreadable) {
    refuse(path, unreadable.what());
  }
}

}  // namespace moescope

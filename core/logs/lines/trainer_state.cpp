#include "core/logs/lines/trainer_state.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "core/files/input_file.h"
#include "core/files/text/json_line.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_encoding.h"
#include "core/files/text/words.h"
#include "core/logs/lines/json_columns.h"
#include "core/logs/lines/log_reader.h"
#include "core/logs/table/import_table.h"

namespace moescope {

namespace {

// Parses the text; a list becomes the field log_history of an object, a download of TensorBoard, [[time, step, value],
// ...], a table. `tag`: name of the values of a download.
JsonFields parsed_state(std::string_view bytes, JsonLines& parser, const std::string& tag = "value") {
  constexpr std::size_t kDigitsOfTime = 10;
  if (bytes.starts_with("[[") && bytes.find_first_not_of("0123456789", 2) == 2 + kDigitsOfTime)
    return parser.parse("{\"columns\":[\"wall_s\",\"step\"," + json_string(tag) + "],\"data\":" + std::string(bytes) +
                        '}');
  return parser.parse(bytes.starts_with('[') ? "{\"log_history\":" + std::string(bytes) + '}' : std::string(bytes));
}

bool is_step_field(const JsonFields::Field& field) {
  return field.value.is_number() && names_a_step('"' + std::string(field.key) + "\":");
}

// Returns the list of the steps: log_history, or the first list of objects; nullopt if there is none.
std::optional<JsonList> steps_of_state(const JsonFields& state) {
  if (const JsonValue* history = member(state, {"log_history"})) return list_of(*history, "log_history", 0, "");
  for (const JsonFields::Field& field : state)
    if (JsonList list; field.value.get(list) == simdjson::SUCCESS && list.size() > 0 && (*list.begin()).is_object())
      return list;
  return std::nullopt;
}

// Throws Unreadable if the bytes are not JSON or have no steps.
Imported read_trainer_state(std::string_view bytes, const std::string& path, const ImportOptions& options) {
  JsonLines parser;
  bytes = trimmed(bytes, " \t\r\n");
  const bool is_list = bytes.starts_with('[');
  const JsonFields state = parsed_state(bytes, parser, tag_of_file(path));
  LogReader reader(path, options);
  const std::optional<JsonList> steps = steps_of_state(state);
  const auto settings =
      std::ranges::find_if(state, [](const JsonFields::Field& field) { return field.value.is_object(); });
  if (steps && settings != state.end() && !member(state, {"log_history"}))
    reader.read_object(fields_of(settings->value, ""));
  if (!steps) {
    const JsonColumns columns(state);
    if (columns.rows().empty()) throw Unreadable("no log_history, and no list of steps");
    for (const JsonColumns::Row& row : columns.rows()) reader.read_object(JsonFields(row.values), row.step);
    return reader.finish();
  }
  bool has_epochs = false;
  for (const JsonValue entry : *steps) {
    const JsonFields fields = fields_of(entry, "log_history", "not a list of objects");
    has_epochs = has_epochs || fields.find("epoch");
    reader.read_object(fields);
  }
  Imported imported = reader.finish();
  if ((has_epochs || !is_list) && member(state, {"log_history"})) imported.account.program = "Hugging Face Trainer";
  return imported;
}

}  // namespace

JsonHistory json_history(std::string_view bytes) {
  bytes = trimmed(bytes, " \t\r\n");
  if (!bytes.starts_with('[') && !bytes.starts_with('{')) return JsonHistory::none;
  if (bytes.starts_with('{') && bytes.find("\"log_history\"") != std::string_view::npos) return JsonHistory::steps;
  const auto has = [](std::string_view json, std::string_view name) { return json.find(name) != json.npos; };
  JsonLines parser;
  std::optional<JsonFields> state;
  try {
    state = parsed_state(bytes, parser);
    const auto steps = steps_of_state(*state);
    const std::string first = in_lower_case(steps && steps->size() > 0 ? simdjson::minify(*steps->begin()) : "");
    const bool are_steps = names_a_step(first) && (has(first, "loss\"") || has(first, "tokens_per_expert\""));
    if (are_steps)  // else a list of a step, if the object has one
      return std::ranges::any_of(*state, is_step_field) ? JsonHistory::none : JsonHistory::steps;
  } catch (const Unreadable&) {
    return JsonHistory::none;
  }
  try {
    const JsonColumns columns(*state);
    const bool is_history = !columns.rows().empty() && (!columns.is_by_step() || has(bytes, "loss\""));
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
    throw std::runtime_error(path + ": " + unreadable.what());
  }
}

}  // namespace moescope

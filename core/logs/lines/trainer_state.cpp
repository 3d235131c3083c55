#include "core/logs/lines/trainer_state.h"

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>

#include "core/files/input_file.h"
#include "core/files/text/json_line.h"
#include "core/files/text/text_encoding.h"
#include "core/logs/lines/json_columns.h"
#include "core/logs/lines/log_reader.h"

namespace moescope {

namespace {

constexpr std::uint64_t kMaxStateBytes = std::uint64_t{32} << 20;

constexpr std::string_view kStateBlanks = " \t\r\n";
constexpr std::array<std::string_view, 4> kStepKeys = {"\"step\"", "\"global_step\"", "\"iteration\"", "\"iter\""};

bool has_step_key(std::string_view json) {
  return std::ranges::any_of(kStepKeys, [&](std::string_view key) { return json.find(key) != std::string_view::npos; });
}

// True if the text begins with a list of objects with steps.
bool begins_with_steps(std::string_view json) {
  const std::size_t object = json.find_first_not_of(kStateBlanks, 1);
  if (object == std::string_view::npos || json[object] != '{') return false;
  const std::string_view first = json.substr(object, json.find('}', object) - object);
  const bool has_values =
      first.find("loss\"") != std::string_view::npos || first.find("tokens_per_expert\"") != std::string_view::npos;
  return has_values && has_step_key(first);
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
  const bool is_list = bytes.substr(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size())).starts_with('[');
  const std::string wrapped = is_list ? "{\"log_history\":" + std::string(bytes) + '}' : std::string();
  const JsonFields state = parser.parse(is_list ? std::string_view(wrapped) : bytes);
  LogReader reader(path, options);
  const std::optional<JsonList> steps = steps_of_state(state);
  const auto settings =
      std::ranges::find_if(state, [](const JsonFields::Field& field) { return field.value.is_object(); });
  if (steps && settings != state.end() && !member(state, {"log_history"}))
    reader.read_object(fields_of(settings->value, ""));
  if (!steps) {
    const JsonColumns columns(state);
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

bool begins_like_trainer_state(std::string_view bytes) {
  bytes.remove_prefix(std::min(bytes.find_first_not_of(kStateBlanks), bytes.size()));
  if (bytes.starts_with('[')) return begins_with_steps(bytes);
  if (!bytes.starts_with('{')) return false;
  if (bytes.find("\"log_history\"") != std::string_view::npos) return true;
  for (std::size_t list = bytes.find('['); list != std::string_view::npos; list = bytes.find('[', list + 1))
    if (begins_with_steps(bytes.substr(list))) return !has_step_key(bytes.substr(0, list));
  return false;
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

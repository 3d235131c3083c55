#include "core/logs/lines/trainer_state.h"

#include <algorithm>
#include <stdexcept>

#include "core/files/input_file.h"
#include "core/files/text/json_line.h"
#include "core/files/text/text_encoding.h"
#include "core/logs/lines/log_reader.h"

namespace moescope {

namespace {

constexpr std::uint64_t kMaxStateBytes = std::uint64_t{32} << 20;

// Throws Unreadable if the bytes are not JSON or have no log_history.
Imported read_trainer_state(std::string_view bytes, const std::string& path, const ImportOptions& options) {
  JsonLines parser;
  const bool is_list = bytes.substr(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size())).starts_with('[');
  const std::string wrapped = is_list ? "{\"log_history\":" + std::string(bytes) + '}' : std::string();
  const JsonFields state = parser.parse(is_list ? std::string_view(wrapped) : bytes);
  const JsonValue* history = member(state, {"log_history"});
  if (!history) throw Unreadable("no log_history");
  LogReader reader(path, options);
  for (const JsonValue entry : list_of(*history, "log_history", 0, ""))
    reader.read_object(fields_of(entry, "log_history", "not a list of objects"));
  return reader.finish();
}

}  // namespace

bool begins_like_trainer_state(std::string_view bytes) {
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  if (bytes[first] == '{') return bytes.find("\"log_history\"") != std::string_view::npos;
  if (bytes[first] != '[') return false;
  const std::string_view object = bytes.substr(first, bytes.find('}', first) - first);
  const bool has_values =
      object.find("loss\"") != std::string_view::npos || object.find("tokens_per_expert\"") != std::string_view::npos;
  return has_values && object.find("step\"") != std::string_view::npos;
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

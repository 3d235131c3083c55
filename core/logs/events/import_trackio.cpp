#include "core/logs/events/import_trackio.h"

#include <string>
#include <string_view>

#include "core/files/text/json_text.h"
#include "core/files/text/words.h"
#include "core/logs/lines/log_reader.h"

namespace moescope {

namespace {

constexpr std::size_t kLongestRow = std::size_t{16} << 20;  // bytes of the metrics of a step, or of a config

bool has_table(Connection& database, std::string_view name) {
  Statement table(database, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?");
  table.bind(name);
  return table.next();
}

// Reads an object of a run as a line, with the name of the run, and `more` of its members first.
void read_object(const std::string& run, const std::string& more, std::string_view object, LogReader& reader) {
  object = trimmed(object, " \t\r\n");
  if (!object.starts_with('{')) return reader.refuse_line("not a JSON object");
  object.remove_prefix(1);
  const bool is_empty = trimmed(object, " \t\r\n") == "}";
  reader.read_line("{\"run_name\":" + json_string(run) + more + (is_empty ? "" : ",") + std::string(object));
}

void read_configs(Connection& database, LogReader& reader) {
  if (!has_table(database, "configs")) return;
  Statement rows(database, "SELECT run_name, config FROM configs ORDER BY rowid");
  while (rows.next()) {
    const std::string run = rows.get_text("a run's name");
    read_object(run, {}, rows.get_text("a config", kLongestRow), reader);
  }
}

}  // namespace

bool is_trackio(Connection& database) {
  return has_table(database, "metrics") && !has_table(database, "runs");
}

Imported import_trackio(Connection& database, const ImportOptions& options) {
  LogReader reader(database.path(), options);
  read_configs(database, reader);
  Statement rows(database, "SELECT run_name, step, metrics FROM metrics ORDER BY rowid");
  while (rows.next()) {
    const std::string run = rows.get_text("a run's name");
    std::int64_t step = 0;
    if (!rows.get_whole(step))
      reader.refuse_line("step: not a whole number");
    else
      read_object(run, ",\"step\":" + std::to_string(step), rows.get_text("metrics", kLongestRow), reader);
  }
  return reader.finish();
}

}  // namespace moescope

// Takes a line of JSON apart: the fields of its objects become named values of a record, and the rows of this program's
// own lines (jsonl.cpp) values of a frame. import_jsonl.h describes the forms.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/files/text/json_values.h"
#include "core/logs/runs/log_runs.h"

namespace moescope {

class JsonRecords {
 public:
  explicit JsonRecords(LogRuns& runs) : runs_(&runs) {}
  // The record refers to the text of the JSON. Throws Unreadable.
  LogRecord record_of(const JsonFields& json, std::int64_t place, std::size_t bytes);
  static StatedRun stated_run(const JsonFields& json);
  // Adds a value under a name. The fields of an object have names of their own, which are joined with dots: {"train":
  // {"loss": 2}} is "train.loss".
  void add(std::string_view name, JsonValue value, LogRecord& record) { add(name, value, 0, record); }

 private:
  struct RouterName {
    const TagRule* rule = nullptr;
    AccountBook::Name counts;
  };
  // What an object states about its values: their layer and expert, or the object's name.
  struct Label {
    int layer = -1, expert = -1;
    std::string name;
  };
  bool take_label(std::string_view list, const JsonFields::Field& field, Label& label);
  Label label_of(std::string_view list, const JsonFields& object);
  void add(std::string_view name, JsonValue value, int depth, LogRecord& record);
  void add_typed(std::string_view name, const JsonFields& object, LogRecord& record);
  bool add_objects(std::string_view name, JsonList list, int depth, LogRecord& record);
  bool add_object(std::string_view name, simdjson::dom::object object, int depth, LogRecord& record);
  bool add_by_expert(std::string_view name, simdjson::dom::object object, LogRecord& record);
  std::string tag_of(const JsonFields& object, const JsonFields& in);
  void scale_auxiliary_losses(LogRecord& record);
  void add_own(const JsonFields& json, std::size_t bytes, LogRecord& record);
  RouterName& router_name(std::string_view key, std::int64_t place);
  JsonFields router_fields(const JsonFields& entry, LogRecord& record);

  LogRuns* runs_;
  NameMap<RouterName> router_names_;
};

// Rows of a frame and descriptions of a run (frame_json.cpp): the inverse of jsonl.cpp, and the forms of other
// programs.

// Limits the memory for the values of a line, so that a short line cannot claim gigabytes.
class LineBudget {
 public:
  explicit LineBudget(std::size_t line_bytes);
  void take(std::size_t bytes);  // throws Unreadable if more than is left

 private:
  std::size_t free_bytes_;
};

// Reads the rows of a step into `frame`, and its time and tokens. Throws Unreadable if a value has the wrong kind or
// size. `info` gives the number of experts and domains. `names` translates the names of an entry of "routers" into
// those of the table.
using RouterNames = std::function<JsonFields(const JsonFields& entry)>;
void add_own_values(const JsonFields& json, const RunInfo& info, LineBudget& budget, const RouterNames& names,
                    TelemetryFrame& frame);
// Reads the router of one layer: an element of "routers", or a line with its own "layer".
RouterFrame router_from_json(const JsonFields& json, const RunInfo& info, LineBudget& budget);
// Returns a setting under any name that a program gives it (core/config/run_settings.h); 0 if there is none.
int setting(const JsonFields& json, std::string_view key, int limit);
// Reads the description of a run, as written by to_json_line(RunInfo) or by training scripts. Missing values are 0 or
// empty; `run` is the number in the line, if there is one.
RunInfo run_info_from_json(const JsonFields& json);

}  // namespace moescope

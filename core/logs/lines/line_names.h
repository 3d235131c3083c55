// Translates the names of a line's values into names of the table (tag_map.h), whichever program wrote the line.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/files/text/json_values.h"
#include "core/logs/account_book.h"
#include "core/logs/tag_map.h"

namespace moescope {

// A value whose name contains a layer: "moe/layer_3/max_vio".
struct NamedLayerValue {
  TagMatch match;
  JsonValue value;
  bool is_sparse = false;  // of an object by expert, {"3": 40, "0": 36}, in which experts without tokens are left out
};

struct NamedLine {
  // Keys are "step", "ce_loss", "tokens_per_expert", ...; names that the table does not have are unchanged.
  JsonFields fields;
  std::vector<NamedLayerValue> of_layers;  // and figures of the routers over all layers, whose layer is -1
  int part = -1;                           // rank or microbatch of the values; -1: not stated
  std::vector<const TagRule*> converted;   // rules of `fields` whose values are not the figures themselves
};

// Names of objects in a line are joined with dots: {"train": {"loss": 2}} is "train.loss".
class LineNames {
 public:
  // The values of the names are counted in `book`, under names that begin with `prefix`. `tags` must live as long as
  // the book.
  LineNames(const TagMap& tags, AccountBook& book, std::string prefix = {})
      : tags_(&tags), book_(&book), prefix_(std::move(prefix)) {}
  // Translates a line. If several names have one meaning, only the one that is first in the table is read, in this line
  // and in later ones. The step is different: each line may have another name for it ("step", "global_step"), of which
  // the first in the table is read. But if a line has two different numbers (for example a step within the epoch), the
  // name that was not read cannot give the step of later lines. Throws Unreadable.
  // `number`: of the line, for the account; the values of a line that is read twice are counted once, with `counts`.
  NamedLine read(const JsonFields& line, std::int64_t number = 0, bool counts = true);
  bool has_step(const JsonFields& line);
  bool has_load_of_expert(const JsonFields& line);  // true if the name of a value has the number of an expert
  const TagMap& tags() const { return *tags_; }
  // Counts the loads of a frame whose line had them as a list under one name.
  void count_loads(const TelemetryFrame& frame);

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Named = std::pair<const TagRule*, JsonFields::Field>;
  // Fields of the objects in a line, with their joined names.
  struct Joined {
    std::deque<std::string> names;
    std::vector<JsonFields::Field> fields;
    std::vector<NamedLayerValue> by_expert;
    std::set<std::string_view> objects;  // names of the objects by expert
  };
  struct Known {
    std::optional<TagMatch> match;
    AccountBook::Name counts;  // without counts before its first value
  };
  Known& find(std::string_view name);
  void count(Known& known, const JsonFields::Field& field, std::int64_t step);
  bool add_inner(std::string_view name, JsonValue object, int depth, Joined& joined);
  bool add_by_expert(std::string_view name, simdjson::dom::object object, Joined& joined);
  bool is_step(std::string_view name, JsonValue value, int depth);
  JsonValue step_of(std::vector<Named> steps);
  bool is_shown_name(const TagRule& rule);
  AccountBook::Name& counts_of(Known& known, std::string_view name);
  void leave_out(std::string_view name, std::string reason);

  const TagMap* tags_;
  AccountBook* book_;
  std::string prefix_;
  std::int64_t number_ = 0;
  std::unordered_map<std::string, Known, Hash, std::equal_to<>> known_;
  Known overflow_;                                  // of a name beyond those that are kept
  AccountBook::Name loads_;                         // name of the loads that were last read as a list
  std::map<std::string, int, std::less<>> places_;  // TagRule::place of the rule that is shown, by TagRule::column
  // Names of the step whose number differed from that of an earlier name in the table: place of the name, and the
  // earlier name.
  std::map<int, std::string> other_steps_;
};

}  // namespace moescope

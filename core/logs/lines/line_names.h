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

#include "core/io/json_values.h"
#include "core/logs/tag_map.h"

namespace moescope {

// A value whose name contains a layer: "moe/layer_3/max_vio".
struct NamedLayerValue {
  TagMatch match;
  JsonValue value;
};

struct NamedLine {
  // Keys are "step", "ce_loss", "tokens_per_expert", ...; names that the table does not have are unchanged.
  JsonFields fields;
  std::vector<NamedLayerValue> of_layers;
};

// Names of objects in a line are joined with dots: {"train": {"loss": 2}} is "train.loss".
class LineNames {
 public:
  // If `tags` has no rule for the step, the built-in rules are used for it.
  explicit LineNames(TagMap tags) : tags_(std::move(tags)), names_the_step_(tags_.names_the_step()) {}
  // Translates a line. If several names have one meaning, only the one that is first in the table is read, in this line
  // and in later ones. The step is different: each line may have another name for it ("step", "global_step"), of which
  // the first in the table is read. But if a line has two different numbers (for example a step within the epoch), the
  // name that was not read cannot give the step of later lines. Throws Unreadable.
  NamedLine read(const JsonFields& line);
  bool has_step(const JsonFields& line);
  bool has_load_of_expert(const JsonFields& line);  // true if the name of a value has the number of an expert
  const TagMap& tags() const { return tags_; }
  // Names of values that are not shown; the first kMostUnknown of them.
  const std::set<std::string>& unknown() const { return unknown_; }

  static constexpr std::size_t kMostUnknown = 100;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Named = std::pair<const TagRule*, JsonFields::Field>;
  // Fields of the objects in a line, with their joined names.
  struct Joined {
    std::deque<std::string> names;
    std::vector<JsonFields::Field> fields;
  };
  std::optional<TagMatch> find(std::string_view name);
  bool add_inner(std::string_view name, JsonValue object, int depth, Joined& joined);
  bool is_step(std::string_view name, JsonValue value, int depth);
  JsonValue step_of(std::vector<Named> steps);
  bool is_shown_name(const TagRule& rule);
  void note_unknown(std::string_view name);

  TagMap tags_;
  bool names_the_step_;
  std::unordered_map<std::string, std::optional<TagMatch>, Hash, std::equal_to<>> known_;
  std::map<std::string, int, std::less<>> places_;  // TagRule::place of the rule that is shown, by TagRule::column
  // Names of the step whose number differed from that of an earlier name in the table: place of the name, and the
  // earlier name.
  std::map<int, std::string> other_steps_;
  std::set<std::string> unknown_;
};

}  // namespace moescope

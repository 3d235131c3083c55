// The values of a line under the names of the table (tag_map.h), whatever the program that wrote it calls them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/io/json_values.h"
#include "core/logs/tag_map.h"

namespace moescope {

// A value whose name has the number of a layer: "moe/layer_3/max_vio".
struct LayerValue {
  TagMatch match;
  JsonValue value;
};

struct NamedLine {
  // "step", "ce_loss", "tokens_per_expert", ...; names that the table does not have are as they were.
  JsonFields fields;
  std::vector<LayerValue> of_layers;
};

class LineNames {
 public:
  explicit LineNames(TagMap tags) : tags_(std::move(tags)) {}
  // Of several names of one meaning the table's first is taken, here and in the lines that follow.
  NamedLine read(const JsonFields& line);
  bool has_step(const JsonFields& line);
  const TagMap& tags() const { return tags_; }
  // Names of values that no one shows, the first kMostUnknown of them.
  const std::set<std::string>& unknown() const { return unknown_; }

  static constexpr std::size_t kMostUnknown = 100;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::optional<TagMatch> find(std::string_view name);
  bool is_shown_name(const TagRule& rule);
  void note_unknown(std::string_view name);

  TagMap tags_;
  std::unordered_map<std::string, std::optional<TagMatch>, Hash, std::equal_to<>> known_;
  std::map<std::string, int, std::less<>> places_;  // of the rule that is shown, by what it means
  std::set<std::string> unknown_;
};

}  // namespace moescope

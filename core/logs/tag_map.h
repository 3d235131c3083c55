// Maps the names of values in logs to their meaning, for all formats: tags of TensorBoard, keys of W&B, MLflow and JSON
// lines, columns of CSV, names in text logs. The map is read from a TOML file of patterns (assets/tags/README.md).
//
// Names are compared in a normalised spelling: upper and lower case are equal, and so are the separators `/`, `.`, `-`,
// `_`, `:` and blanks. Several separators count as one, and they may be absent before {layer} and {expert}.
// "Train/Loss" is "train_loss".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame/frame.h"

namespace moescope {

enum class TagMeaning {
  tokens_per_expert,
  utilization,
  expert_bias,
  router_figure,
  step_figure,
  step_number,  // for logs whose format does not give the step
  ignored,      // not shown, although a later rule would match
};
// True if values of this meaning are shown.
constexpr bool is_shown(TagMeaning meaning) {
  return meaning < TagMeaning::step_number;
}

struct TagRule {
  std::string pattern;  // as in the file
  std::string spelled;  // normalised by spelled_alike()
  TagMeaning means = TagMeaning::step_figure;
  std::string column;                     // value of `means`: "ce_loss"
  float RouterFrame::*router = nullptr;   // router_figure
  float TelemetryFrame::*step = nullptr;  // step_figure
  double scale = 1;
  // {layer} is an index into the names of all MoE layers in text order: 0, 1, 10, 11, 2, ...
  bool layers_as_text = false;
  // Place in the file. If a run has several names of one meaning ("loss" and "train_loss"), the one with the lowest
  // place is shown, because one curve cannot show two quantities.
  int place = 0;
};

struct TagMatch {
  const TagRule* rule = nullptr;
  int layer = -1, expert = -1;  // -1: not in the pattern
};
// True if the name is for the values of all experts, so that the value must be a list.
inline bool is_list(const TagMatch& match) {
  return match.rule->means <= TagMeaning::expert_bias && match.expert < 0;
}

class TagMap {
 public:
  static const TagMap& built_in();
  // Throws std::runtime_error with `file_name`, line, key, the given and the allowed value.
  static TagMap parse(std::string_view toml, const std::string& file_name);
  static TagMap load(const std::string& path);               // empty: the built-in mapping
  std::optional<TagMatch> find(std::string_view tag) const;  // match of the first rule that fits
  int layer_offset() const { return layer_offset_; }
  bool names_the_step() const;  // true if there is a rule for the step

 private:
  std::vector<TagRule> rules_;
  int layer_offset_ = 0;
};

// Returns the normalised spelling of a name: "Train/Loss" becomes "train_loss".
std::string spelled_alike(std::string_view name);

}  // namespace moescope

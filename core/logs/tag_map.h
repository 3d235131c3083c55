// What the names of values in logs mean, in all formats: tags of TensorBoard, keys of W&B, MLflow and JSON lines,
// columns of CSV, names in text logs. A TOML file of patterns (assets/tags/README.md).
//
// Names are compared as their spelling says nothing: upper and lower case are the same, and so are `/`, `.`, `-`, `_`,
// `:` and blanks, several of them one; before {layer} and {expert} they may be absent. "Train/Loss" is "train_loss".
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
  step_number,  // where a log has no step of its own
  ignored,      // looks like another, and is not
};
// Whether values of this meaning are shown.
constexpr bool is_shown(TagMeaning meaning) {
  return meaning < TagMeaning::step_number;
}

struct TagRule {
  std::string pattern;  // as the file has it
  std::string spelled;  // as names are compared
  TagMeaning means = TagMeaning::step_figure;
  std::string column;                     // what `means` says: "ce_loss"
  float RouterFrame::*router = nullptr;   // router_figure
  float TelemetryFrame::*step = nullptr;  // step_figure
  double scale = 1;
  // {layer} is a place among the names of all MoE layers in the order of texts: 0, 1, 10, 11, 2, ...
  bool layers_as_text = false;
  // Place in the file. Of several names of one meaning in a run, as "loss" and "train_loss", that of the lowest place
  // is shown, since a curve of two quantities is none.
  int place = 0;
};

struct TagMatch {
  const TagRule* rule = nullptr;
  int layer = -1, expert = -1;  // -1: the pattern has none
};
// Whether it is of all experts, so that one number is no value of it.
inline bool is_list(const TagMatch& match) {
  return match.rule->means <= TagMeaning::expert_bias && match.expert < 0;
}

class TagMap {
 public:
  static const TagMap& built_in();
  // Throws std::runtime_error: `file_name`, line, key, what was given, what is allowed.
  static TagMap parse(std::string_view toml, const std::string& file_name);
  static TagMap load(const std::string& path);
  std::optional<TagMatch> find(std::string_view tag) const;  // the first that matches
  int layer_offset() const { return layer_offset_; }
  bool names_the_step() const;  // a rule does

 private:
  std::vector<TagRule> rules_;
  int layer_offset_ = 0;
};

// A name as names are compared: "Train/Loss" becomes "train_loss".
std::string spelled_alike(std::string_view name);

}  // namespace moescope

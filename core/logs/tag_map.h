// Maps the names of values in logs of all formats to their meaning, by TOML files of patterns (assets/tags/README.md).
// Names are compared in a normalised spelling, spelled_alike().
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame/frame.h"
#include "core/logs/account.h"

namespace moescope {

struct ImportOptions;

enum class TagMeaning {
  tokens_per_expert,
  utilization,  // load divided by the fair share
  load_share,   // share of the tokens of the step, in any unit: only the ratios between experts count
  expert_bias,
  router_figure,
  step_figure,
  tokens_so_far,  // two of them give the tokens of a step
  tokens_of_step,
  step_number,    // for logs whose format does not give the step
  layer_number,   // for rows and objects of one layer
  expert_number,  // for rows and objects of one expert
  part_number,    // of a microbatch or another part of a step, whose values are joined
  ignored,        // not shown, although a later rule would match
};
// True if values of this meaning are shown.
constexpr bool is_shown(TagMeaning meaning) {
  return meaning < TagMeaning::step_number;
}

struct MeaningName {
  std::string_view column;  // value of `means` in a mapping file
  TagMeaning means;
  const char *text, *unit;  // for the user; the unit is that of a log
};
inline constexpr const char* kLoadsSoFar = "tokens_per_expert_so_far";  // their differences are the loads
inline constexpr MeaningName kMeaningNames[] = {
    {"tokens_per_expert", TagMeaning::tokens_per_expert, "Expert load", "tokens of a step"},
    {kLoadsSoFar, TagMeaning::tokens_per_expert, "Expert load", "tokens so far"},
    {"utilization", TagMeaning::utilization, "Expert load", "times the fair share"},
    {"load_share", TagMeaning::load_share, "Expert load", "shares of a step"},
    {"expert_bias", TagMeaning::expert_bias, "Expert bias", ""},
    {"tokens_so_far", TagMeaning::tokens_so_far, "Tokens so far", "tokens"},
    {"tokens_of_step", TagMeaning::tokens_of_step, "Tokens of a step", "tokens"},
    {"step", TagMeaning::step_number, "Step", ""},
    {"layer", TagMeaning::layer_number, "Layer", ""},
    {"expert", TagMeaning::expert_number, "Expert", ""},
    {"part", TagMeaning::part_number, "Part of a step", ""},
    {"ignored", TagMeaning::ignored, "", ""}};

struct TagRule {
  std::string pattern;  // as in the file
  std::string spelled;  // normalised by spelled_alike()
  TagMeaning means = TagMeaning::step_figure;
  std::string column;                     // value of `means`: "ce_loss"
  float RouterFrame::*router = nullptr;   // router_figure; without {layer}: mean over all MoE layers
  float TelemetryFrame::*step = nullptr;  // step_figure
  double scale = 1, offset = 0;           // the figure is scale * value + offset
  bool is_as_logged() const { return scale == 1 && offset == 0; }
  bool is_large() const {  // whole or large numbers, in which a comma is no decimal point
    return means >= TagMeaning::tokens_so_far || means == TagMeaning::tokens_per_expert ||
           step == &TelemetryFrame::tokens_per_s;
  }
  double figure_of(double value) const { return scale * value + offset; }
  // {layer} is an index into the names of all MoE layers in text order: 0, 1, 10, 11, 2, ...
  bool layers_as_text = false;
  // Place in the file. If a run has several names of one meaning ("loss" and "train_loss"), the one with the lowest
  // place is shown, because one curve cannot show two quantities.
  int place = 0;
  std::string program;  // name of the program in whose file the rule is; by_shape: why the values look like it
  Certainty certainty = Certainty::known_name;
};

inline bool is_loss(const TagRule& rule) {
  return rule.step == &TelemetryFrame::ce_loss || rule.step == &TelemetryFrame::val_loss;
}

// Makes the rule one of this value of `means`. Returns false if there is no such value.
bool set_meaning(TagRule& rule, std::string_view means);

struct TagMatch {
  const TagRule* rule = nullptr;
  int layer = -1, expert = -1;  // -1: not in the pattern
};
// True if the name is for the values of all experts, so that the value must be a list.
inline bool is_list(const TagMatch& match) {
  return match.rule->means <= TagMeaning::expert_bias && match.expert < 0;
}

// True if the name is for one number, not for values by expert.
inline bool is_figure(const TagMatch& match) {
  return match.rule->means > TagMeaning::expert_bias && is_shown(match.rule->means);
}

class TagMap {
 public:
  static const TagMap& built_in();  // the files of names of all programs, then the names that many of them use
  // Throws std::runtime_error with `file_name`, line, key, the given and the allowed value.
  static TagMap parse(std::string_view toml, const std::string& file_name);
  // The rules for a log: those of the options, else of the file kTagsBeside in the log's folder (or of the folder that
  // is the log); then those of the user's files for all logs; then the built-in ones.
  static TagMap for_log(const ImportOptions& options, const std::string& path);
  std::optional<TagMatch> find(std::string_view tag) const;  // match of the first rule that fits
  int layer_offset() const { return layer_offset_; }
  // Forms of the step in printed lines, besides "step 12": "Epoch:[{epoch}/{*}]({step}/{steps})" (text_log.cpp).
  const std::vector<std::string>& printed_steps() const { return printed_steps_; }

 private:
  void add_below(const TagMap& other);  // adds the rules of another map after those of this one

  std::vector<TagRule> rules_;
  std::vector<std::string> printed_steps_;
  int layer_offset_ = 0;
};

std::string in_lower_case(std::string_view text);
bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words);
bool has_any(std::string_view text, std::initializer_list<std::string_view> parts);

// What a number counts, by the word before it: "layers" of "layers.3", "blk" of "blk3".
enum class Counted { layer, expert, step, rank, other };
Counted counted_by(std::string_view word);      // in lower case
Counted counted_before(std::string_view text);  // by the word at its end: "layers.", "[L", "moe block "

inline constexpr const char* kTagsBeside = "moescope-tags.toml";  // the user's mapping beside a log
// Folder of the user's mapping files for all logs: $XDG_CONFIG_HOME/moescope/tags, ~/.config/moescope/tags; empty:
// there is no home directory.
std::string user_tags_folder();

// Mapping files in which the rules that the user states about a log are kept: beside the log, which is a file or
// a folder, or for all logs; empty: there is no home directory.
std::string tag_file_beside(const std::string& log);
std::string tag_file_for_all_logs();
// Writes `rules`, [[tag]] tables, before those of the file, so that they count first; its other lines stay. Makes the
// file and its folder if they are missing. Throws std::runtime_error with the path if it cannot be read or written, or
// if its text is no mapping.
void keep_tag_rules(const std::string& rules, const std::string& file);

// Returns the normalised spelling of a name: "Train/Loss" becomes "train_loss". Several separators count as one.
std::string spelled_alike(std::string_view name);

}  // namespace moescope

// The account of what was read from a log: what each of its names was taken for, what was left out and why, and how the
// shape of the run was found. For the user, who checks and corrects it. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/files/text/no_value.h"

namespace moescope {

// How certain the meaning of a name is.
enum class Certainty {
  known_program,  // the name is in the file of names of a program
  known_name,     // many programs use the name
  stated,         // the user, or a mapping file, gives the meaning
  by_shape,       // the values look like it: to be confirmed
  unknown         // no meaning is known: the values are left out
};
const char* certainty_name(Certainty certainty);  // "known program"

// What the user states about the names of a row: a [[tag]] of a mapping file.
struct StatedName {
  std::string pattern, means;
  double scale = 1;
  std::string rule() const;  // empty without `means`
};
inline constexpr double kNatsOfBit = 0.6931471805599453;
// Scale that the name of a figure suggests: that of bits for a loss "nll_bits", else 1.
double likely_scale(const std::string& name, const std::string& means);

// The names of a log that differ only in their numbers, and their values.
struct AccountRow {
  std::string name;      // "blk{layer}.e{expert}.frac"; a name that occurs alone keeps its numbers
  std::string first;     // the first of the names: "blk0.e0.frac"
  std::string pattern;   // pattern of the rule that knows the name, as in a mapping file; empty: none
  std::string means;     // value of `means` in a mapping file: "tokens_per_expert"; empty: no figure
  std::string meaning;   // for the user: "Expert load"; empty: no figure
  std::string unit;      // unit or kind of the values: "nats/token", "tokens of a step"; may be empty
  std::string program;   // program whose file of names has the name; empty: none
  std::string place;     // of the first value: "line 7"; empty if the format has no lines
  std::string example;   // the last value as text: "1.94", "\"The ...\""
  std::string reason;    // why the values are not shown, or what an assumption rests on; empty: shown, certain
  std::string question;  // what cannot be right about the values: "3 of 80 values are -1"; empty: nothing
  Certainty certainty = Certainty::unknown;
  bool is_shown = false;
  bool is_list = false;                                           // values are lists
  std::int64_t names = 0, values = 0;                             // values: numbers; of lists their entries
  double lowest = kNoValue, highest = kNoValue, last = kNoValue;  // of finite numbers; kNoValue: there are none
  std::int64_t first_step = -1, last_step = -1;                   // -1: no value has a step

  bool is_assumed() const { return is_shown && certainty == Certainty::by_shape; }
  // What the names are assumed or likely to be, until the user states it; without `means`: there is no such proposal.
  StatedName proposal() const;
  bool is_to_confirm() const { return is_assumed() || !question.empty(); }
};

// Something that was not read, besides names: "40 lines", "other ranks".
struct LeftOut {
  std::string what, reason;
};

// A number of the run, and where it was found: {"64", "{expert} in names, 0 to 63"}. An empty value: not known.
struct FoundNumber {
  std::string value, source;
  std::string question = {};  // what cannot be right about the number; empty: nothing
};

struct ImportAccount {
  std::string path;              // file or folder that was read
  std::vector<AccountRow> rows;  // shown rows first, each part in the order of the log
  std::vector<LeftOut> left_out;
  FoundNumber steps, layers, experts, top_k, tokens_per_step;
  std::string program;  // that wrote the log; empty: not known
  std::string refusal;  // why no run could be read; empty: there is one

  // Adds the rows of a part, the parts that were left out, and its program.
  void add(ImportAccount part);
  std::array<std::pair<const char*, const FoundNumber*>, 5> numbers() const;  // with their names: "MoE layers"

  // "loads assumed from blk{layer}.e{expert}.frac: confirm", or the first question on loads; empty: they are certain.
  std::string assumption() const;
  std::int64_t to_confirm() const;  // rows and numbers that are assumed or cannot be right
};

// The account as text for a terminal, one row per line.
std::string account_text(const ImportAccount& account);

// "0 to 0.113"; "no numbers" if there are none.
std::string range_text(const AccountRow& row);
std::string meaning_text(std::string_view means);        // of a value of `means`: "Expert load"; empty: no figure
std::string value_text(double value);                    // "16,343,040", "0.3846"
std::string question_text(const std::string& question);  // "is this right? 3 of 80 values are -1", "is this the step?"

// A rule of a mapping file for the names of a row: a [[tag]] with pattern and means.
std::string tag_rule(const std::string& pattern, const std::string& means);

}  // namespace moescope

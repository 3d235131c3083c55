#include "core/logs/account.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/files/text/json_text.h"
#include "core/files/text/words.h"
#include "core/logs/standard_input.h"

namespace moescope {

namespace {

std::string in_backquotes(const std::string& name) {
  return '`' + name + '`';
}

// Returns one row as a line: "lm loss: 40 values, 1.92 to 11.3, last 1.94, steps 1 to 40: Cross-entropy loss ...".
std::string row_text(const AccountRow& row) {
  std::string text = "  " + row.name + ": ";
  if (row.names > 1) text += grouped(row.names) + " names, ";
  text += counted(row.values, "value", "values") + ", " + range_text(row);
  if (!row.example.empty()) text += ", last " + row.example;
  if (row.first_step >= 0) text += ", " + steps_in_words(row.first_step, row.last_step);
  if (!row.place.empty()) text += ", from " + row.place;
  if (row.is_shown) text += ": " + row.meaning + (row.unit.empty() ? "" : " (" + row.unit + ")");
  text += std::string("; ") + certainty_name(row.certainty) + (row.program.empty() ? "" : ", " + row.program);
  if (!row.reason.empty()) text += "; " + row.reason;
  if (!row.question.empty()) text += "; " + question_text(row.question);
  return text + '\n';
}

}  // namespace

std::string value_text(double value) {
  constexpr double kMaxGrouped = 1e15;
  const bool is_whole = value == std::floor(value) && std::abs(value) < kMaxGrouped;
  return is_whole ? grouped(std::llround(value)) : decimal(value, 4);
}

std::string question_text(const std::string& question) {
  return question.starts_with("is this the ") ? question : "is this right? " + question;
}

std::string range_text(const AccountRow& row) {
  if (std::isnan(row.lowest)) return "no numbers";
  const std::string lowest = value_text(row.lowest);
  return row.lowest == row.highest ? lowest : lowest + " to " + value_text(row.highest);
}

const char* certainty_name(Certainty certainty) {
  constexpr const char* kNames[] = {"known program", "known name", "stated", "by shape: confirm", "unknown"};
  return kNames[static_cast<std::size_t>(certainty)];
}

std::string tag_rule(const std::string& pattern, const std::string& means) {
  return "[[tag]]\npattern = " + json_string(pattern) + "\nmeans = " + json_string(means) + '\n';
}

std::string StatedName::rule() const {
  if (means.empty()) return {};
  return tag_rule(pattern, means) + (scale == 1 ? "" : "scale = " + shortest(scale) + '\n');
}

double likely_scale(const std::string& name, const std::string& means) {
  const bool is_in_bits = name.find("bits") != std::string::npos && name.find("byte") == std::string::npos;
  return means.ends_with("_loss") && is_in_bits ? kNatsOfBit : 1;
}

StatedName AccountRow::proposal() const {
  const bool is_known = certainty != Certainty::by_shape && (is_shown || certainty != Certainty::unknown);
  if (is_known || means.empty()) return {};
  return {pattern, means, likely_scale(name, means)};
}

void ImportAccount::add(ImportAccount part) {
  std::ranges::move(part.rows, std::back_inserter(rows));
  std::ranges::move(part.left_out, std::back_inserter(left_out));
  if (program.empty()) program = std::move(part.program);
}

std::array<std::pair<const char*, const FoundNumber*>, 5> ImportAccount::numbers() const {
  return {{{"Steps", &steps},
           {"MoE layers", &layers},
           {"Experts", &experts},
           {"Experts per token", &top_k},
           {"Tokens per step", &tokens_per_step}}};
}

std::string ImportAccount::assumption() const {
  std::string names;
  for (const AccountRow& row : rows)
    if (row.is_assumed()) names += (names.empty() ? "" : ", ") + in_backquotes(row.name);
  if (!names.empty()) return "loads assumed from " + names + ": confirm";
  for (const AccountRow& row : rows)
    if (row.is_shown && row.meaning == "Expert load" && !row.question.empty())
      return in_backquotes(row.name) + ": " + row.question;
  for (const FoundNumber* number : {&experts, &tokens_per_step})
    if (!number->question.empty()) return number->question;
  return {};
}

std::int64_t ImportAccount::to_confirm() const {
  return std::ranges::count_if(rows, &AccountRow::is_to_confirm) +
         std::ranges::count_if(numbers(), [](const auto& number) { return !number.second->question.empty(); });
}

std::string account_text(const ImportAccount& account) {
  std::string text = named_standard_input(account.path) + ":\n";
  if (!account.refusal.empty()) text += "no run: " + account.refusal + '\n';
  if (const std::string assumed = account.assumption(); !assumed.empty()) text += assumed + '\n';
  for (const bool is_shown : {true, false}) {
    const auto rows = std::ranges::count(account.rows, is_shown, &AccountRow::is_shown);
    if (rows > 0) text += is_shown ? "read:\n" : "left out:\n";
    for (const AccountRow& row : account.rows)
      if (row.is_shown == is_shown) text += row_text(row);
  }
  for (const LeftOut& part : account.left_out) text += "  " + part.what + ": " + part.reason + '\n';
  text += "found:\n";
  for (const auto& [name, number] : account.numbers())
    text += std::string("  ") + name + ": " + (number->value.empty() ? "not known" : number->value) +
            (number->source.empty() ? "" : ", " + number->source) +
            (number->question.empty() ? "" : "; " + question_text(number->question)) + '\n';
  return text;
}

}  // namespace moescope

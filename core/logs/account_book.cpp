#include "core/logs/account_book.h"

#include <fmt/core.h>

#include <tuple>

#include "core/files/assets.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/frame/figures.h"
#include "core/logs/lines/printed_number.h"
#include "core/numerics/index.h"

namespace moescope {

namespace {

constexpr std::size_t kMaxBookRows = 4096, kMaxBookNames = 65536, kMaxSums = 65536, kLongestExample = 60,
                      kLongestOfBook = 512;
constexpr std::int64_t kWeightOfShownName = 1000;  // how many ignored names a shown one outweighs
constexpr std::int64_t kSampledSteps = 6;          // of which the sums over experts are looked at
constexpr double kSumTolerance = 0.01;             // of printed shares, which are rounded
constexpr std::string_view kLayerPlace = "{layer}", kExpertPlace = "{expert}", kNumberPlace = "{n}",
                           kDigits = "0123456789";

std::string_view place_of(Counted counted) {
  if (counted == Counted::layer) return kLayerPlace;
  return counted == Counted::expert ? kExpertPlace : kNumberPlace;
}

// Returns what the word before a number counts, which "tokens_per_expert" does not.
Counted label_before(std::string_view text) {
  return spelled_alike(text).ends_with("per_expert") ? Counted::other : counted_before(text);
}

// Returns the begin and the end of the number that stands for the expert: that behind such a word, else the last one; 0
// if there is no number.
std::pair<std::size_t, std::size_t> expert_in(std::string_view name) {
  std::pair<std::size_t, std::size_t> found;
  for (std::size_t i = name.find_first_of(kDigits); i < name.size(); i = name.find_first_of(kDigits, found.second)) {
    found = {i, std::min(name.find_first_not_of(kDigits, i), name.size())};
    if (label_before(name.substr(0, i)) == Counted::expert) break;
  }
  return found;
}

const MetricInfo& card_of(const auto& figures, auto member) {
  return std::ranges::find(figures, member, [](const auto& figure) { return figure.member; })->card;
}

// Returns what the values are for the user, and their unit or kind.
std::pair<std::string, std::string> meaning_and_unit(const TagRule& rule) {
  if (rule.router) return {card_of(kRouterFigures, rule.router).name, ""};
  if (rule.step) return {card_of(kFrameFigures, rule.step).name, card_of(kFrameFigures, rule.step).unit};
  const auto name = std::ranges::find(kMeaningNames, rule.column, &MeaningName::column);
  return {name->text, name->unit};
}

bool may_be_negative(const TagRule& rule) {
  return rule.means == TagMeaning::expert_bias || rule.router == &RouterFrame::margin ||
         rule.step == &TelemetryFrame::max_logit || !is_shown(rule.means);
}

bool is_share(const TagRule& rule) {
  return rule.router == &RouterFrame::dead_fraction || rule.router == &RouterFrame::dropped_fraction ||
         rule.router == &RouterFrame::entropy_norm;
}

// True if a word of the name speaks of experts, so that its values may be loads.
bool speaks_of_experts(const std::string& pattern) {
  return has_any(spelled_alike(pattern),
                 {"expert", "load", "util", "frac", "share", "count", "moe", "rout", "token", "gate"});
}

// Returns the pattern of a rule for the names: its last number is the expert, and the number before it the layer.
std::string rule_pattern(std::string pattern, bool is_list) {
  const auto rename_last = [&](std::string_view as) {
    const std::size_t last = pattern.rfind(kNumberPlace);
    if (last != std::string::npos && pattern.find(as) == std::string::npos)
      pattern.replace(last, kNumberPlace.size(), as);
  };
  if (!is_list) rename_last(kExpertPlace);
  rename_last(kLayerPlace);
  for (std::size_t at = 0; (at = pattern.find(kNumberPlace, at)) != std::string::npos;)
    pattern.replace(at, kNumberPlace.size(), "*");
  return pattern;
}

// True if an unknown name may be that of the step: whole numbers that rise from the first to the last value.
bool may_be_step(const AccountRow& row) {
  const auto is_whole = [](double number) { return number == std::floor(number); };
  return row.values > 2 && is_whole(row.lowest) && is_whole(row.highest) &&
         is_whole((row.highest - row.lowest) / (row.values - 1)) && row.last == row.highest && row.lowest >= 0 &&
         row.lowest < row.highest;
}

// Asks whether the loss is a cross-entropy if the log has rewards: that of a policy is none.
void ask_for_policy(std::vector<AccountRow>& rows) {
  const auto loss = std::ranges::find_if(rows, [](const AccountRow& row) {
    return row.is_shown && row.means == "ce_loss" && spelled_alike(row.first).ends_with("loss");
  });
  const bool has_rewards = std::ranges::any_of(
      rows, [](const AccountRow& row) { return spelled_alike(row.first).find("reward") != std::string::npos; });
  if (loss != rows.end() && has_rewards && loss->question.empty() && loss->certainty == Certainty::known_name)
    loss->question = "the log has rewards, and the loss of a policy is no cross-entropy";
}

// Proposes what unknown names are likely to be: the step by its values, else one name for each figure that no name is
// known to be.
void propose_figures(std::vector<AccountRow>& rows, bool are_steps_numbered) {
  static const TagMap likely = TagMap::parse(asset("tags/likely.toml"), "tags/likely.toml");
  std::set<std::string> known;
  for (const AccountRow& row : rows) known.insert(row.means);
  if (are_steps_numbered) known.erase("step");
  const auto propose = [&](AccountRow& row, const std::string& means, const std::string& what, bool is_asked) {
    if (!known.insert(means).second) return;
    row.means = means;
    row.pattern = row.first;
    (is_asked ? row.question : row.reason) = (is_asked ? "is this the " : "likely the ") + what + (is_asked ? "?" : "");
  };
  for (AccountRow& row : rows) {
    if (row.certainty != Certainty::unknown || !row.means.empty() || row.is_list || row.names > 1) continue;
    const auto match = likely.find(row.first);
    if ((row.first_step < 0 || are_steps_numbered) && !match && may_be_step(row)) propose(row, "step", "step", true);
    if (!match || !is_figure(*match) || !(row.highest > 0)) continue;
    const TagRule& rule = *match->rule;
    const bool rises = row.last == row.highest && row.lowest < row.highest, is_constant = row.lowest == row.highest;
    if (!rule.step && !(rule.means == TagMeaning::tokens_so_far ? rises : is_constant)) continue;
    propose(row, rule.column, in_lower_case(meaning_and_unit(rule).first),
            rule.step && rule.step != &TelemetryFrame::val_loss);
  }
}

// Of several names whose values look like loads, that with most values is proposed; none if loads are known.
void propose_one_load(std::vector<AccountRow>& rows) {
  const bool has_loads = std::ranges::any_of(rows, [](const AccountRow& row) {
    return row.is_shown && is_one_of(row.means, {"tokens_per_expert", "utilization", "load_share"});
  });
  AccountRow* best = nullptr;
  for (AccountRow& row : rows) {
    if (row.is_shown || row.certainty != Certainty::by_shape) continue;
    const bool is_better = !has_loads && (!best || row.values > best->values);
    AccountRow* const worse = is_better ? std::exchange(best, &row) : &row;
    if (!worse) continue;
    worse->certainty = Certainty::unknown;
    worse->means.clear();
  }
}

}  // namespace

std::string meaning_text(std::string_view means) {
  TagRule rule;
  set_meaning(rule, means);
  return meaning_and_unit(rule).first;
}

std::string name_pattern(std::string_view name) {
  std::string pattern;
  for (std::size_t i = 0; i < name.size();) {
    if (!is_digit(name[i])) {
      pattern += name[i++];
      continue;
    }
    const std::string_view what = place_of(label_before(name.substr(0, i)));
    const bool is_repeated = what != kNumberPlace && pattern.find(what) != std::string::npos;
    pattern += is_repeated ? kNumberPlace : what;
    while (i < name.size() && is_digit(name[i])) ++i;
  }
  return pattern;
}

template <class Number>
void NameCounts::take_list(std::int64_t step, std::span<const Number> list) {
  if (list.empty()) return;
  Number lowest = list[0], highest = list[0];
  for (const Number value : list) {
    lowest = value < lowest ? value : lowest;
    highest = value > highest ? value : highest;
  }
  count(step, std::ssize(list));
  row_.lowest = std::min(row_.lowest, static_cast<double>(lowest));
  row_.highest = std::max(row_.highest, static_cast<double>(highest));
  row_.last = static_cast<double>(list.back());
}
template void NameCounts::take_list(std::int64_t step, std::span<const std::uint32_t> list);
template void NameCounts::take_list(std::int64_t step, std::span<const double> list);

AccountBook::Name AccountBook::add(std::string_view name, const TagRule* rule, std::int64_t place,
                                   const char* meaning) {
  if (const auto known = names_.find(name); known != names_.end()) return known->second;
  std::string pattern = name_pattern(name);
  if (rows_.size() >= kMaxBookRows) pattern = "(further names)";
  const std::string key = (rule && rows_.size() < kMaxBookRows ? rule->column : std::string()) + '\n' + pattern;
  const auto [row, is_new] = by_pattern_.try_emplace(key, nullptr);
  if (is_new) {
    row->second = &rows_.emplace_back();
    row->second->pattern_ = pattern;
    row->second->rule_ = rule;
    row->second->row_.first = name.substr(0, kLongestOfBook);
    row->second->row_.meaning = meaning;
    row->second->row_.is_shown = *meaning != 0;
    if (place > 0) row->second->row_.place = std::to_string(place);
  }
  ++row->second->row_.names;
  Name added{row->second, -1};
  // Values of one series differ in one number of their names only, that of the expert.
  const auto [begin, end] = rule ? std::pair<std::size_t, std::size_t>() : expert_in(name);
  if (end > 0 && series_.size() < kMaxBookNames) {
    std::string series = std::string(name.substr(0, begin)) + '{' + std::string(name.substr(end));
    added.series = series_.try_emplace(std::move(series), to_int(series_.size())).first->second;
  }
  if (names_.size() < kMaxBookNames) names_.emplace(name, added);
  return added;
}

// Returns what cannot be right about the values of a known name; empty if nothing.
std::string NameCounts::question() const {
  const auto counted_of = [this](std::int64_t n, const char* what) {
    return fmt::format("{} of {}{}{}", n, counted(row_.values, "value", "values"), n == 1 ? " is " : " are ", what);
  };
  if (!question_.empty()) return question_;
  if (is_loss(*rule_) && minus_ones_ > 0) return counted_of(minus_ones_, "-1: no loss, but \"this rank has no loss\"");
  if (is_loss(*rule_) && zeros_ > 0) return counted_of(zeros_, "exactly 0: no loss of a training");
  if (row_.lowest > row_.highest) return {};
  const auto [lowest, highest] = std::minmax({rule_->figure_of(row_.lowest), rule_->figure_of(row_.highest)});
  if (lowest < 0 && !may_be_negative(*rule_)) return "the lowest is " + decimal(lowest, 4) + ": it is never negative";
  if (highest > 1 && is_share(*rule_)) return "the highest is " + decimal(highest, 4) + ": no share is above 1";
  return {};
}

void AccountBook::take(const Name& name, std::int64_t step, double value) {
  NameCounts& counts = *name.counts;
  counts.take(step, value);
  if (name.series < 0) return;
  if (step != counts.sampled_step_) {
    counts.sampled_step_ = step;
    ++counts.sampled_steps_;
  }
  if (counts.sampled_steps_ > kSampledSteps || counts.sums_.size() >= kMaxSums) return;
  counts.sums_[{name.series, step}].add(value);
}

void AccountBook::take(const Name& name, std::int64_t step, std::span<const double> list) {
  NameCounts& counts = *name.counts;
  counts.row_.is_list = true;
  NameCounts::Sum sum;
  if (counts.rule_) return counts.take_list(step, list);
  for (const double value : list) {
    counts.take(step, value);
    sum.add(value);
  }
  if (counts.sums_.size() < kMaxSums && !list.empty()) counts.sums_[{to_int(counts.sums_.size()), step}] = sum;
}

void AccountBook::take_text(const Name& name, std::int64_t step, std::string_view text) {
  name.counts->count(step, 1);
  std::string& example = name.counts->row_.example;
  if (example.empty() && !text.empty()) example = '"' + printable(text.substr(0, kLongestExample)) + '"';
}

void AccountBook::leave_out(const Name& name, std::string reason) {
  if (name.counts->row_.reason.empty()) name.counts->row_.reason = std::move(reason);
}

void AccountBook::ask(const Name& name, const char* means, std::string question) {
  name.counts->asked_meaning_ = means;
  name.counts->question_ = std::move(question);
}

// Looks whether the values of a name without a rule are loads: over the experts of a layer they add up to 1, their
// number (loads divided by the fair share), or are whole numbers of one sum. A guess, which the user must confirm.
void AccountBook::judge_shape(const NameCounts& counts, AccountRow& row) {
  const auto has = [&](std::string_view place) { return counts.pattern_.find(place) != std::string::npos; };
  const bool may_be_loads = speaks_of_experts(counts.pattern_) || (row.is_list && has(kLayerPlace));
  if (counts.sums_.empty() || row.lowest == row.highest || !may_be_loads) return;
  if (!row.is_list && has(kLayerPlace) && !has(kExpertPlace) && !has(kNumberPlace)) return;  // one value per layer
  const NameCounts::Sum& first = counts.sums_.begin()->second;
  const double experts = first.values;
  if (first.values < 2) return;
  double lowest = first.sum, highest = first.sum;
  bool is_whole = true;
  for (const auto& [place, sum] : counts.sums_) {
    if (sum.values != first.values || sum.is_negative || !std::isfinite(sum.sum)) return;
    lowest = std::min(lowest, sum.sum);
    highest = std::max(highest, sum.sum);
    is_whole = is_whole && sum.is_whole;
  }
  const auto are_near = [&](double sum) {
    return lowest >= sum * (1 - kSumTolerance) && highest <= sum * (1 + kSumTolerance);
  };
  const std::string values = fmt::format("{} values of a layer ", first.values);
  if (spelled_alike(counts.pattern_).find("rank") != std::string::npos) return;  // its rows are no layers
  if (lowest == highest && lowest == 100) {
    row.means = "load_share";
    row.reason = values + "add up to 100, as percent do";
  } else if (is_whole && lowest == highest && lowest >= experts) {
    row.means = "tokens_per_expert";
    row.reason = values + "are whole numbers and add up to " + decimal(lowest, 6);
  } else if (are_near(experts)) {
    row.means = "utilization";
    row.reason = values + "have mean 1";
  } else if (lowest > 0 && are_near(lowest) && counts.sums_.size() > 1) {
    row.means = "load_share";
    row.reason = values + "add up to " + decimal(lowest, 4) +
                 (decimal(lowest, 4) == decimal(highest, 4) ? std::string() : " to " + decimal(highest, 4));
  } else if (is_whole && (row.is_list || counts.pattern_.find("expert") != std::string::npos)) {
    row.means = "tokens_per_expert";
    row.question = values + "are whole numbers of different sums: are they the tokens of each expert?";
  }
  if (!row.means.empty()) row.pattern = rule_pattern(counts.name_or_pattern(), row.is_list);
}

AccountRow AccountBook::row(const NameCounts& counts, const char* unit) const {
  AccountRow row = counts.row_;
  row.first = printable(row.first);
  row.name = printable(counts.name_or_pattern());
  if (!row.place.empty()) row.place = std::string(unit) + ' ' + row.place;
  if (row.lowest > row.highest) row.lowest = row.highest = kNoValue;
  const bool is_text = !row.example.empty();
  if (!is_text && !std::isnan(row.last)) row.example = value_text(row.last);
  if (const TagRule* rule = counts.rule_) {
    row.pattern = rule->pattern;
    row.means = rule->column;
    std::tie(row.meaning, row.unit) = meaning_and_unit(*rule);
    if (rule->scale != 1 && rule->offset == 0)
      row.unit += (row.unit.empty() ? "\u00d7 " : ", \u00d7 ") + decimal(rule->scale, 4);
    row.certainty = rule->certainty;
    if (row.certainty == Certainty::by_shape)
      row.reason = rule->program;
    else
      row.program = rule->program;
    row.question = counts.question();
    if (!row.is_shown && row.reason.empty() && !is_shown(rule->means))
      row.reason = rule->means == TagMeaning::step_number ? "not the number of a step" : "not a figure of a step";
    if (!row.is_shown && row.reason.empty() && row.first_step < 0) row.reason = "its step is not known";
    return row;
  }
  if (!row.meaning.empty()) {
    row.certainty = Certainty::known_name;
    return row;
  }
  if (row.reason.empty() && is_text) row.reason = "text, no number";
  if (row.reason.empty()) judge_shape(counts, row);
  if (!row.means.empty() && row.question.empty()) row.certainty = Certainty::by_shape;
  if (row.reason.empty() && spelled_alike(row.first) == "aux")
    row.reason = "an auxiliary loss before or after its coefficient: state means = \"aux_loss\", and the scale";
  if (row.reason.empty()) row.reason = "not a known name";
  if (counts.question_.empty()) return row;
  row.question = counts.question_;
  row.means = counts.asked_meaning_;
  row.pattern = rule_pattern(counts.name_or_pattern(), true);
  return row;
}

ImportAccount AccountBook::account(const char* unit) const {
  ImportAccount account;
  for (const NameCounts& counts : rows_) account.rows.push_back(row(counts, unit));
  // A name that several programs use is in the file of one of them: only the program with most names counts.
  std::map<std::string, std::int64_t> names;
  for (const AccountRow& row : account.rows)
    if (row.certainty == Certainty::known_program) names[row.program] += row.is_shown ? kWeightOfShownName : 1;
  std::erase_if(names, [](const auto& program) { return program.second < 2; });  // other programs ignore the name, too
  const auto best_known = std::ranges::max_element(names, {}, [](const auto& program) { return program.second; });
  if (best_known != names.end()) account.program = best_known->first;
  for (AccountRow& row : account.rows) {
    if (row.certainty != Certainty::known_program || (best_known != names.end() && row.program == best_known->first))
      continue;
    row.certainty = Certainty::known_name;
    row.program.clear();
  }
  std::stable_partition(account.rows.begin(), account.rows.end(), [](const AccountRow& row) { return row.is_shown; });
  propose_figures(account.rows, are_steps_numbered);
  propose_one_load(account.rows);
  ask_for_policy(account.rows);
  return account;
}

std::set<std::string> AccountBook::not_shown(bool only_unknown) const {
  std::set<std::string> names;
  for (const NameCounts& counts : rows_) {
    const bool is_ignored =
        counts.rule_ && (counts.row_.values == 0 || (!is_shown(counts.rule_->means) && counts.row_.reason.empty()));
    if (!counts.row_.is_shown && !is_ignored && !(only_unknown && counts.rule_)) names.insert(counts.name_or_pattern());
  }
  return names;
}

}  // namespace moescope

#include "core/logs/tag_map.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "core/files/assets.h"
#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/text/toml_section.h"
#include "core/files/text/words.h"
#include "core/files/whole_file.h"
#include "core/frame/figures.h"
#include "core/logs/import.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxMapBytes = std::uint64_t{1} << 18;
constexpr std::size_t kLongestTag = 512;  // bytes of a name that can have a meaning
constexpr int kLargestOffset = 1000;
constexpr std::string_view kLayer = "{layer}", kExpert = "{expert}";

std::size_t digits(std::string_view text) {
  const std::size_t end = text.find_first_not_of("0123456789");
  return std::min<std::size_t>({end, text.size(), 6});
}

bool is_number_next(std::string_view pattern) {
  return pattern.starts_with('{') && (pattern.starts_with(kLayer) || pattern.starts_with(kExpert));
}

// Matches one piece of the pattern, which must not begin with *, and removes it from pattern and tag. Returns false if
// it does not match.
bool take_piece(std::string_view& pattern, std::string_view& tag, TagMatch& match) {
  if (pattern.front() == '_' && is_number_next(pattern.substr(1))) pattern.remove_prefix(1);
  if (!is_number_next(pattern)) {
    if (tag.empty() || tag.front() != pattern.front()) return false;
    pattern.remove_prefix(1);
    tag.remove_prefix(1);
    return true;
  }
  if (tag.starts_with('_')) tag.remove_prefix(1);
  const std::size_t n = digits(tag);
  if (n == 0) return false;
  const bool layer = pattern.starts_with(kLayer);
  std::from_chars(tag.data(), tag.data() + n, layer ? match.layer : match.expert);
  tag.remove_prefix(n);
  pattern.remove_prefix(layer ? kLayer.size() : kExpert.size());
  return true;
}

// Characters at which a piece of a pattern begins that matches other characters, too.
constexpr std::string_view kOpenBeginnings = "*{_";

// True if the tag matches the pattern. It is enough to try the earliest match of the text after each *, because a later
// * can match everything that an earlier * could.
bool fits(std::string_view pattern, std::string_view tag, TagMatch& match) {
  std::optional<std::string_view> behind_star;
  std::string_view tag_at_star;
  for (;;) {
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      behind_star = pattern;
      tag_at_star = tag;
      continue;
    }
    if (pattern.empty() && tag.empty()) return true;
    if (!pattern.empty() && take_piece(pattern, tag, match)) continue;
    if (!behind_star || tag_at_star.empty()) return false;
    tag_at_star.remove_prefix(1);
    pattern = *behind_star;
    if (!pattern.empty() && kOpenBeginnings.find(pattern.front()) == kOpenBeginnings.npos) {
      const std::size_t place = tag_at_star.find(pattern.front());
      if (place == tag_at_star.npos) return false;
      tag_at_star.remove_prefix(place);
    }
    tag = tag_at_star;
  }
}

std::string allowed_meanings() {
  std::string names = joined(kMeaningNames, ", ", &MeaningName::column);
  for (const auto& field : kRouterFigures) names += std::string(", ") + field.column;
  for (const auto& field : kFrameFigures)
    if (names.find(field.column) == std::string::npos) names += std::string(", ") + field.column;
  return names;
}

double scale_of(TomlSection& section) {
  const toml::node* scale_node = section.node("scale");
  if (!scale_node) return 1;
  const double scale = scale_node->is_number() ? scale_node->value_or(0.0) : 0;
  if (!std::isfinite(scale) || scale == 0) section.problem("scale", "must be a number other than 0");
  return scale;
}

std::vector<std::string> patterns_of(TomlSection& section) {
  section.require("pattern");
  const toml::node* pattern_node = section.node("pattern");
  std::vector<std::string> patterns;
  if (pattern_node && pattern_node->is_string())
    patterns.push_back(section.text("pattern"));
  else
    patterns = section.texts("pattern");
  if (pattern_node && pattern_node->is_array() && pattern_node->as_array()->empty())
    section.problem("pattern", "must not be empty");
  for (const std::string& pattern : patterns) {
    if (spelled_alike(pattern).empty()) section.problem("pattern", "must not be empty");
    if (std::count(pattern.begin(), pattern.end(), '*') > 4) section.problem("pattern", "has more than four *");
  }
  return patterns;
}

// Adds the rules of one [[tag]], one for each pattern.
void add_rules(TomlSection& section, std::vector<TagRule>& rules) {
  TagRule common;
  common.column = section.required_text("means");
  common.scale = scale_of(section);
  common.offset = section.number("offset", 0, -kLargestOffset, kLargestOffset);
  section.choice("layers", {"as text"}, 0);
  common.layers_as_text = section.has("layers");
  for (const std::string& pattern : patterns_of(section)) {
    TagRule rule = common;
    rule.pattern = pattern;
    rule.spelled = spelled_alike(pattern);
    rule.place = to_int(rules.size());
    if (!set_meaning(rule, rule.column))
      section.problem("means", "is \"" + rule.column + "\"; allowed: " + allowed_meanings() +
                                   " (figures of the whole step have no {layer} in the pattern)");
    rules.push_back(std::move(rule));
  }
}

// The names of this program's own lines (jsonl.cpp) are those of the columns of figures.
TagRule rule_of_column(const char* column) {
  TagRule rule;
  rule.pattern = rule.column = column;
  rule.spelled = spelled_alike(column);
  rule.certainty = Certainty::known_name;
  set_meaning(rule, column);
  return rule;
}

// True for the name of a number of one of the things: "moe_layer_idx", "blk", "ExpertID". Words that say what kind of
// layer it is may precede the thing, words for a number may follow it.
bool is_number_of(std::string_view spelled, std::initializer_list<std::string_view> things) {
  constexpr std::array<std::string_view, 11> kKinds = {"moe",    "decoder", "transformer", "model",  "router", "routed",
                                                       "hidden", "sparse",  "ffn",         "global", "encoder"};
  constexpr std::array<std::string_view, 8> kNumbers = {"idx", "index", "id", "number", "num", "no", "nr", "name"};
  for (const std::string_view kind : kKinds)
    if (spelled.starts_with(kind)) spelled = trimmed(spelled.substr(kind.size()), "_");
  for (const std::string_view number : kNumbers)
    if (spelled.ends_with(number)) spelled = trimmed(spelled.substr(0, spelled.size() - number.size()), "_");
  return is_one_of(spelled, things);
}

// Returns the rule of a name that stands for the number of a layer or an expert; nullptr if it does not.
const TagRule* number_rule(std::string_view spelled) {
  static const TagRule layer = rule_of_column("layer"), expert = rule_of_column("expert");
  if (is_number_of(spelled, {"layer", "lyr", "block", "blk"})) return &layer;
  return is_number_of(spelled, {"expert"}) ? &expert : nullptr;
}

// Returns the begin and the end of a word with a number, "layer_7"; npos if there is none from `from` on.
std::pair<std::size_t, std::size_t> numbered(std::string_view spelled, std::string_view word, std::size_t from) {
  for (std::size_t at = spelled.find(word, from); at != spelled.npos; at = spelled.find(word, at + 1)) {
    const std::size_t number = at + word.size() + (spelled.substr(at + word.size()).starts_with('_') ? 1 : 0);
    if (const std::size_t size = digits(spelled.substr(number)); size > 0) return {at, number + size};
  }
  return {spelled.npos, spelled.npos};
}

// Returns a name with the layer before the expert, as the patterns have them: "layer_7_expert_3_tokens" for
// "expert_3_layer_7_tokens"; empty if the name has them in this order already.
std::string with_layer_first(const std::string& spelled) {
  const auto [expert, expert_end] = numbered(spelled, "expert", 0);
  if (expert == spelled.npos) return {};
  const auto [layer, layer_end] = numbered(spelled, "layer", expert_end);
  if (layer == spelled.npos) return {};
  return spelled.substr(0, expert) + spelled.substr(layer, layer_end - layer) +
         spelled.substr(expert_end, layer - expert_end) + spelled.substr(expert, expert_end - expert) +
         spelled.substr(layer_end);
}

// Returns a name with blanks between its words: "train loss" for "trainLoss".
std::string with_words(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool begins_word = c >= 'A' && c <= 'Z' && !out.empty() && out.back() >= 'a' && out.back() <= 'z';
    if (begins_word) out += '_';
    out += c;
  }
  return out;
}

constexpr const char* kStatedNames = "stated-names.toml";

// Position of the first table of a TOML text: keys before it belong to no table.
std::size_t first_table(const std::string& toml) {
  for (std::size_t line = 0; line < toml.size();) {
    const std::size_t first = toml.find_first_not_of(" \t", line);
    if (first != std::string::npos && toml[first] == '[') return line;
    const std::size_t end = toml.find('\n', line);
    if (end == std::string::npos) break;
    line = end + 1;
  }
  return toml.size();
}

}  // namespace

bool set_meaning(TagRule& rule, std::string_view means) {
  if (means == "utilisation") means = "utilization";
  for (const MeaningName& name : kMeaningNames)
    if (means == name.column) {
      rule.means = name.means;
      rule.column = name.column;
      return true;
    }
  const bool names_layer = rule.pattern.find(kLayer) != std::string::npos;
  rule.means = TagMeaning::step_figure;
  for (const auto& field : kFrameFigures)
    if (!names_layer && means == field.column) {
      rule.step = field.member;
      return true;
    }
  rule.means = TagMeaning::router_figure;
  for (const auto& field : kRouterFigures)
    if (means == field.column) {
      rule.router = field.member;
      return true;
    }
  return false;
}

Counted counted_by(std::string_view word) {
  constexpr std::string_view kWords[] = {" layer layers lyr layerid blk block blocks h l decoder ",
                                         " expert experts expertid exp ex e ",
                                         " step steps iter iters iteration iterations record records pass passes batch "
                                         "batches window ",
                                         " rank ranks device gpu worker shard "};
  const std::string whole = ' ' + std::string(word) + ' ';
  const auto found =
      std::ranges::find_if(kWords, [&](std::string_view words) { return words.find(whole) != words.npos; });
  return word.empty() ? Counted::other : static_cast<Counted>(found - std::begin(kWords));
}

Counted counted_before(std::string_view text) {
  text = text.substr(0, text.find_last_not_of("/.-_: [#") + 1);
  const auto begin = std::find_if_not(text.rbegin(), text.rend(), [](unsigned char c) { return std::isalpha(c) != 0; });
  return counted_by(in_lower_case(text.substr(text.rend() - begin)));
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [text](std::string_view part) { return text.find(part) != text.npos; });
}

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c | 0x20 : c; });
  return lower;
}

std::string spelled_alike(std::string_view name) {
  std::string out;
  bool between = false;
  for (const char c : name) {
    if (std::string_view("/.-_: \t").find(c) != std::string_view::npos) {
      between = true;
      continue;
    }
    if (between && !out.empty()) out += '_';
    between = false;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

TagMap TagMap::parse(std::string_view toml, const std::string& file_name) {
  TagMap map;
  read_valid_toml(toml, file_name, [&](TomlSection& root) {
    map.layer_offset_ = to_int(root.integer("layer_offset", 0, -kLargestOffset, kLargestOffset));
    const std::string program = root.text("program"), because = root.text("assumed_because");
    map.printed_steps_ = root.texts("printed_steps");
    root.table("settings");  // this and the next are read by core/config/run_settings.h
    root.node("options");
    root.for_each_section("tag", [&map](TomlSection& section) { add_rules(section, map.rules_); });
    for (TagRule& rule : map.rules_) {
      rule.program = because.empty() ? program : because;
      rule.certainty = Certainty::known_program;
      if (program.empty()) rule.certainty = Certainty::stated;
      if (!because.empty()) rule.certainty = Certainty::by_shape;
    }
  });
  if (map.rules_.empty() && map.layer_offset_ == 0 && map.printed_steps_.empty())
    refuse(file_name, "tag: is missing: the file holds no [[tag]]");
  return map;
}

void TagMap::add_below(const TagMap& other) {
  if (layer_offset_ == 0) layer_offset_ = other.layer_offset_;
  std::ranges::copy(other.printed_steps_, std::back_inserter(printed_steps_));
  for (const TagRule& rule : other.rules_) {
    rules_.push_back(rule);
    rules_.back().place = to_int(rules_.size()) - 1;
  }
}

std::string user_tags_folder() {
  const char* const config = std::getenv("XDG_CONFIG_HOME");
  const char* const home = std::getenv("HOME");
  if (config && *config == '/') return std::string(config) + "/moescope/tags";
  return home && *home == '/' ? std::string(home) + "/.config/moescope/tags" : std::string();
}

TagMap TagMap::for_log(const ImportOptions& options, const std::string& path) {
  std::error_code none;
  TagMap map;
  for (const std::string& text : options.rules) map.add_below(parse(text, "the rules for " + path));
  const fs::path folder = fs::is_directory(path, none) ? fs::path(path) : fs::path(path).parent_path();
  std::vector<fs::path> files;
  if (const std::string all = user_tags_folder(); !all.empty())
    files = files_in(all, [](std::string_view name) { return name.ends_with(".toml"); });
  const fs::path tags_file = folder / kTagsBeside;
  if (!options.tags.empty())
    files.insert(files.begin(), options.tags);
  else if (fs::is_regular_file(tags_file, none) && !leads_out_of(folder, tags_file))
    files.insert(files.begin(), tags_file);
  for (const fs::path& file : files)
    map.add_below(parse(read_file(file.string(), kMaxMapBytes, "mapping of tags"), file.string()));
  for (const TagRule& rule : map.rules_)  // a step of a stated name is found in printed lines, too
    if (rule.means == TagMeaning::step_number && rule.pattern.find_first_of("{*") == std::string::npos)
      for (const char* sign : {"=", ":", " "}) map.printed_steps_.push_back(rule.pattern + sign + "{step}");
  map.add_below(built_in());
  return map;
}

const TagMap& TagMap::built_in() {
  static const TagMap map = [] {
    // Common names that are ignored, such as statistics of loads, come before the patterns of programs; what programs
    // ignore comes last, because a pattern such as "time/*" must not hide the figures of others.
    TagMap map, statistics, programs_names, common, other;
    for (const Asset& file : assets()) {
      if (!file.name.starts_with("tags/") || !file.name.ends_with(".toml") || file.name == "tags/likely.toml") continue;
      const bool is_common = file.name == "tags/common.toml";
      TagMap &shown = is_common ? common : programs_names, &ignored = is_common ? statistics : other;
      TagMap names = parse(file.text, std::string(file.name));
      for (TagRule& rule : std::exchange(names.rules_, {})) {
        if (is_common) rule.certainty = Certainty::known_name;
        (rule.means == TagMeaning::ignored ? ignored : shown).rules_.push_back(std::move(rule));
      }
      (is_common ? common : map).add_below(names);  // the forms of printed steps
    }
    for (const auto& figure : kFrameFigures) common.rules_.push_back(rule_of_column(figure.column));
    for (const auto& figure : kRouterFigures) common.rules_.push_back(rule_of_column(figure.column));
    for (const TagMap* part : {&statistics, &programs_names, &common, &other}) map.add_below(*part);
    // A name that several files have does not tell of a program.
    std::map<std::string, std::set<std::string>> programs;
    for (const TagRule& rule : map.rules_) programs[rule.spelled].insert(rule.program);
    for (TagRule& rule : map.rules_) {
      if (programs[rule.spelled].size() == 1) continue;
      rule.certainty = Certainty::known_name;
      rule.program.clear();
    }
    return map;
  }();
  return map;
}

std::optional<TagMatch> TagMap::find(std::string_view tag) const {
  if (tag.size() > kLongestTag) return std::nullopt;
  const std::string spelled = spelled_alike(tag);
  TagMatch match;
  const auto find_rule = [&](const std::string& name) {
    const auto rule = std::ranges::find_if(rules_, [&](const TagRule& candidate) {
      match = {&candidate};
      return fits(candidate.spelled, name, match);
    });
    return rule != rules_.end();
  };
  const std::string other_order = with_layer_first(spelled), words = spelled_alike(with_words(tag));
  if (!find_rule(spelled) && (other_order.empty() || !find_rule(other_order)) &&
      (words == spelled || !find_rule(words))) {
    const std::size_t unit = tag.find_last_of("([");  // "loss (nats)"
    if (unit != tag.npos &&
        is_one_of(tag.substr(unit + 1), {"nats)", "nats]", "nats/token)", "nats/token]", "tokens)"}))
      return find(trimmed(tag.substr(0, unit)));
    const TagRule* const number = number_rule(spelled);
    return number ? std::optional(TagMatch{number}) : std::nullopt;
  }
  const bool has_layer = match.rule->pattern.find(kLayer) != std::string::npos;
  if (has_layer && !match.rule->layers_as_text) match.layer += layer_offset_;
  if ((has_layer && match.layer < 0) || match.layer >= to_int(kMaxImportedLayers) ||
      match.expert >= to_int(kMaxImportedExperts))
    return std::nullopt;
  return match;
}

std::string tag_file_beside(const std::string& log) {
  std::error_code error;
  const fs::path path = fs::absolute(log);
  return ((fs::is_directory(path, error) ? path : path.parent_path()) / kTagsBeside).string();
}

std::string tag_file_for_all_logs() {
  const std::string folder = user_tags_folder();
  return folder.empty() ? folder : (fs::path(folder) / kStatedNames).string();
}

void keep_tag_rules(const std::string& rules, const std::string& file) {
  std::error_code error;
  std::string text = fs::exists(file, error) ? read_file(file, kMaxMapBytes, "mapping file") : std::string();
  std::size_t at = first_table(text);
  if (at == text.size() && !text.empty() && text.back() != '\n') at = text.append("\n").size();
  text.insert(at, rules);
  TagMap::parse(text, file);
  fs::create_directories(fs::path(file).parent_path(), error);
  write_whole_file(file, text);
}

}  // namespace moescope

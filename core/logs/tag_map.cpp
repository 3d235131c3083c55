#include "core/logs/tag_map.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "core/frame/figures.h"
#include "core/io/assets.h"
#include "core/io/input_file.h"
#include "core/io/text_encoding.h"
#include "core/io/toml_text.h"
#include "core/logs/import.h"

namespace moescope {

namespace {

constexpr std::uint64_t kMaxMapBytes = std::uint64_t{1} << 18;
constexpr std::size_t kLongestTag = 512;  // bytes of a name that can have a meaning
constexpr int kLargestOffset = 1000;
constexpr std::string_view kLayer = "{layer}", kExpert = "{expert}";

std::size_t digits(std::string_view text) {
  const std::size_t end = text.find_first_not_of("0123456789");
  return std::min<std::size_t>({end, text.size(), 6});
}

bool is_number_next(std::string_view pattern) {
  return pattern.starts_with(kLayer) || pattern.starts_with(kExpert);
}

// Matches one piece of the pattern, which must not begin with *, and removes it from pattern and tag. Returns false if
// it does not match.
bool take_piece(std::string_view& pattern, std::string_view& tag, TagMatch& match) {
  if (pattern.front() == '_' && is_number_next(pattern.substr(1))) pattern.remove_prefix(1);
  if (!is_number_next(pattern)) {
    if (tag.empty() || tag.front() != pattern.front()) return false;
    pattern.remove_prefix(1), tag.remove_prefix(1);
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
    tag = tag_at_star;
  }
}

std::string allowed_meanings() {
  std::string names = "tokens_per_expert, utilization, expert_bias";
  for (const auto& field : kRouterFigures) names += std::string(", ") + field.column;
  for (const auto& field : kFrameFigures)
    if (names.find(field.column) == std::string::npos) names += std::string(", ") + field.column;
  return names + ", step, ignored";
}

// Returns false if there is no such meaning.
bool set_meaning(TagRule& rule, std::string_view means) {
  struct Named {
    std::string_view name;
    TagMeaning meaning;
  };
  for (const Named& each :
       {Named{"tokens_per_expert", TagMeaning::tokens_per_expert}, Named{"utilization", TagMeaning::utilization},
        Named{"utilisation", TagMeaning::utilization}, Named{"expert_bias", TagMeaning::expert_bias},
        Named{"step", TagMeaning::step_number}, Named{"ignored", TagMeaning::ignored}})
    if (means == each.name) return rule.means = each.meaning, true;
  if (rule.pattern.find(kLayer) != std::string::npos) {
    rule.means = TagMeaning::router_figure;
    for (const auto& field : kRouterFigures)
      if (means == field.column) return rule.router = field.member, true;
    return false;
  }
  rule.means = TagMeaning::step_figure;
  for (const auto& field : kFrameFigures)
    if (means == field.column) return rule.step = field.member, true;
  return false;
}

[[noreturn]] void fail(const std::string& file_name, const toml::node& where, const std::string& why) {
  throw std::runtime_error(file_name + ":" + std::to_string(where.source().begin.line) + ": " + why);
}

double scale_of(const toml::table& entry, const std::string& file_name) {
  const toml::node* given = entry.get("scale");
  if (!given) return 1;
  const double scale = given->is_number() ? given->value_or(0.0) : 0;
  if (!std::isfinite(scale) || scale == 0) fail(file_name, *given, "scale: not a number other than 0");
  return scale;
}

bool are_layers_as_text(const toml::table& entry, const std::string& file_name) {
  const toml::node* given = entry.get("layers");
  if (given && given->value_or(std::string()) != "as text") fail(file_name, *given, "layers: expected \"as text\"");
  return given != nullptr;
}

std::vector<std::string> patterns_of(const toml::table& entry, const std::string& file_name) {
  std::vector<std::string> patterns;
  const toml::node* given = entry.get("pattern");
  if (given && given->is_string()) patterns.push_back(given->value_or(std::string()));
  if (given && given->is_array())
    for (const toml::node& each : *given->as_array()) {
      if (!each.is_string()) fail(file_name, each, "pattern: not a text");
      patterns.push_back(each.value_or(std::string()));
    }
  if (patterns.empty()) fail(file_name, entry, "pattern: not given");
  for (const std::string& pattern : patterns) {
    if (spelled_alike(pattern).empty()) fail(file_name, *given, "pattern: not given");
    if (std::count(pattern.begin(), pattern.end(), '*') > 4) fail(file_name, *given, "pattern: more than four *");
  }
  return patterns;
}

// Adds the rules of one [[tag]], one for each pattern.
void add_rules(const toml::table& entry, const std::string& file_name, std::vector<TagRule>& rules) {
  for (const auto& [key, value] : entry)
    if (key != "pattern" && key != "means" && key != "scale" && key != "layers")
      fail(file_name, value, std::string(key.str()) + ": no such key; allowed: pattern, means, scale, layers");
  for (const std::string& pattern : patterns_of(entry, file_name)) {
    TagRule rule;
    rule.pattern = pattern;
    rule.spelled = spelled_alike(pattern);
    rule.column = entry["means"].value_or(std::string());
    rule.place = static_cast<int>(rules.size());
    if (!set_meaning(rule, rule.column))
      fail(file_name, entry,
           "means: is \"" + rule.column + "\"; allowed: " + allowed_meanings() +
               " (figures of a router need {layer} in the pattern)");
    rule.scale = scale_of(entry, file_name);
    rule.layers_as_text = are_layers_as_text(entry, file_name);
    rules.push_back(std::move(rule));
  }
}

}  // namespace

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
  toml::table table;
  try {
    table = parse_toml(toml, file_name);
  } catch (const toml::parse_error& error) {
    if (const std::string encoding = text_problem(toml); !encoding.empty())
      throw std::runtime_error(file_name + ": " + encoding);
    throw std::runtime_error(file_name + ":" + std::to_string(error.source().begin.line) + ": " +
                             std::string(error.description()));
  }
  TagMap map;
  for (const auto& [key, value] : table) {
    if (key == "layer_offset") {
      const auto offset = value.value<std::int64_t>();
      if (!offset || std::abs(*offset) > kLargestOffset) fail(file_name, value, "layer_offset: expected -1000 to 1000");
      map.layer_offset_ = static_cast<int>(*offset);
    } else if (key != "tag" || !value.is_array()) {
      fail(file_name, value, std::string(key.str()) + ": no such key; allowed: layer_offset and [[tag]]");
    }
  }
  const toml::array* tags = table["tag"].as_array();
  if (!tags || tags->empty()) throw std::runtime_error(file_name + ": holds no [[tag]]");
  for (const toml::node& node : *tags) {
    if (!node.is_table()) fail(file_name, node, "tag: not a table");
    add_rules(*node.as_table(), file_name, map.rules_);
  }
  return map;
}

TagMap TagMap::load(const std::string& path) {
  return path.empty() ? built_in() : parse(read_file(path, kMaxMapBytes, "mapping of tags"), path);
}

const TagMap& TagMap::built_in() {
  static const TagMap map = [] {
    const std::string_view text = asset("tags/default.toml");
    if (text.empty()) throw std::logic_error("tags/default.toml is not built in");
    return parse(text, "tags/default.toml");
  }();
  return map;
}

bool TagMap::names_the_step() const {
  return std::ranges::any_of(rules_, [](const TagRule& rule) { return rule.means == TagMeaning::step_number; });
}

std::optional<TagMatch> TagMap::find(std::string_view tag) const {
  if (tag.size() > kLongestTag) return std::nullopt;
  const std::string spelled = spelled_alike(tag);
  for (const TagRule& rule : rules_) {
    TagMatch match{&rule};
    if (!fits(rule.spelled, spelled, match)) continue;
    const bool has_layer = rule.pattern.find(kLayer) != std::string::npos;
    if (has_layer && !rule.layers_as_text) match.layer += layer_offset_;
    if ((has_layer && match.layer < 0) || match.layer >= static_cast<int>(kMaxImportedLayers) ||
        match.expert >= static_cast<int>(kMaxImportedExperts))
      return std::nullopt;
    return match;
  }
  return std::nullopt;
}

}  // namespace moescope

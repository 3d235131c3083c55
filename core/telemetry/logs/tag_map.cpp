#include "core/files/tag_map.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "core/files/assets.h"
#include "core/io/input_file.h"
#include "core/io/text_encoding.h"
#include "core/io/toml_text.h"
#include "core/telemetry/frame/figures.h"
#include "core/telemetry/logs/import.h"

namespace moescope {

namespace {

constexpr std::uint64_t kMaxMapBytes = std::uint64_t{1} << 20;
constexpr std::string_view kLayer = "{layer}", kExpert = "{expert}";

std::size_t digits(std::string_view text) {
  const std::size_t end = text.find_first_not_of("0123456789");
  return std::min<std::size_t>({end, text.size(), 6});
}

bool fits(std::string_view pattern, std::string_view tag, TagMatch& match) {
  while (!pattern.empty()) {
    if (pattern.front() == '*') {
      pattern.remove_prefix(1);
      for (std::size_t skipped = 0; skipped <= tag.size(); ++skipped)
        if (fits(pattern, tag.substr(skipped), match)) return true;
      return false;
    }
    const bool layer = pattern.starts_with(kLayer), expert = pattern.starts_with(kExpert);
    if (layer || expert) {
      const std::size_t n = digits(tag);
      if (n == 0) return false;
      std::from_chars(tag.data(), tag.data() + n, layer ? match.layer : match.expert);
      tag.remove_prefix(n);
      pattern.remove_prefix(layer ? kLayer.size() : kExpert.size());
      continue;
    }
    if (tag.empty() || tag.front() != pattern.front()) return false;
    pattern.remove_prefix(1);
    tag.remove_prefix(1);
  }
  return tag.empty();
}

std::string allowed_meanings() {
  std::string names = "tokens_per_expert, utilization, expert_bias";
  for (const auto& field : kRouterFigures) names += std::string(", ") + field.column;
  for (const auto& field : kFrameFigures)
    if (names.find(field.column) == std::string::npos) names += std::string(", ") + field.column;
  return names;
}

// False: there is no such meaning.
bool set_meaning(TagRule& rule, std::string_view means) {
  rule.means = TagMeaning::tokens_per_expert;
  if (means == "tokens_per_expert") return true;
  rule.means = TagMeaning::utilization;
  if (means == "utilization" || means == "utilisation") return true;
  rule.means = TagMeaning::expert_bias;
  if (means == "expert_bias") return true;
  const bool of_layer = rule.pattern.find(kLayer) != std::string::npos;
  if (of_layer) {
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

}  // namespace

TagMap TagMap::parse(std::string_view toml, const std::string& file_name) {
  const auto fail = [&](const toml::source_region& where, const std::string& why) {
    throw std::runtime_error(file_name + ":" + std::to_string(where.begin.line) + ": " + why);
  };
  toml::table table;
  try {
    table = parse_toml(toml, file_name);
  } catch (const toml::parse_error& error) {
    if (const std::string encoding = text_problem(toml); !encoding.empty())
      throw std::runtime_error(file_name + ": " + encoding);
    fail(error.source(), std::string(error.description()));
  }
  TagMap map;
  for (const auto& [key, value] : table) {
    if (key == "layer_offset") {
      const auto offset = value.value<std::int64_t>();
      if (!offset || *offset < -1000 || *offset > 1000) fail(value.source(), "layer_offset: allowed is -1000 to 1000");
      map.layer_offset_ = static_cast<int>(*offset);
    } else if (key != "tag" || !value.is_array()) {
      fail(value.source(), std::string(key.str()) + ": no such key, allowed are layer_offset and [[tag]]");
    }
  }
  const toml::array* tags = table["tag"].as_array();
  if (!tags || tags->empty()) throw std::runtime_error(file_name + ": holds no [[tag]]");
  for (const toml::node& node : *tags) {
    const toml::table* entry = node.as_table();
    if (!entry) fail(node.source(), "tag: not a table");
    for (const auto& [key, value] : *entry)
      if (key != "pattern" && key != "means" && key != "scale")
        fail(value.source(), std::string(key.str()) + ": no such key, allowed are pattern, means, scale");
    TagRule rule;
    rule.pattern = (*entry)["pattern"].value_or(std::string());
    if (rule.pattern.empty()) fail(node.source(), "pattern: not given");
    if (std::count(rule.pattern.begin(), rule.pattern.end(), '*') > 4) fail(node.source(), "pattern: more than four *");
    const std::string means = (*entry)["means"].value_or(std::string());
    if (!set_meaning(rule, means))
      fail(node.source(), "means: is \"" + means + "\", allowed are " + allowed_meanings() +
                              " (figures of a router need {layer} in the pattern)");
    rule.scale = (*entry)["scale"].value_or(1.0);
    map.rules_.push_back(std::move(rule));
  }
  return map;
}

TagMap TagMap::load(const std::string& path) {
  return parse(read_file(path, kMaxMapBytes, "mapping of tags"), path);
}

const TagMap& TagMap::built_in() {
  static const TagMap map = [] {
    for (const Asset& asset : assets())
      if (asset.name == std::string_view("tags/default.toml")) return parse(asset.text, "tags/default.toml");
    throw std::logic_error("tags/default.toml is not built in");
  }();
  return map;
}

std::optional<TagMatch> TagMap::find(std::string_view tag) const {
  for (const TagRule& rule : rules_) {
    TagMatch match{&rule};
    if (!fits(rule.pattern, tag, match)) continue;
    if (match.layer >= 0) match.layer += layer_offset_;
    if (match.layer < -1 || match.layer >= static_cast<int>(kMaxImportedLayers) ||
        match.expert >= static_cast<int>(kMaxImportedExperts))
      return std::nullopt;
    return match;
  }
  return std::nullopt;
}

}  // namespace moescope

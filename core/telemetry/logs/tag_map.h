// Which TensorBoard tags mean what: a TOML file of patterns (assets/tags/README.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/telemetry/frame/frame.h"

namespace moescope {

enum class TagMeaning { tokens_per_expert, utilization, expert_bias, router_figure, step_figure };

struct TagRule {
  std::string pattern;
  TagMeaning means = TagMeaning::step_figure;
  float RouterFrame::*router = nullptr;   // router_figure
  float TelemetryFrame::*step = nullptr;  // step_figure
  double scale = 1;
};

struct TagMatch {
  const TagRule* rule = nullptr;
  int layer = -1, expert = -1;  // -1: the pattern has none
};

class TagMap {
 public:
  static const TagMap& built_in();
  // Throws std::runtime_error: `file_name`, line, key, what was given, what is allowed.
  static TagMap parse(std::string_view toml, const std::string& file_name);
  static TagMap load(const std::string& path);
  std::optional<TagMatch> find(std::string_view tag) const;  // the first that matches

 private:
  std::vector<TagRule> rules_;
  int layer_offset_ = 0;
};

}  // namespace moescope

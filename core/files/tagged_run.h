// Values that a training logged under tags, put together by step: of TensorBoard's event files, W&B's, ...
//
// Which tag means what a TagMap says. If a step was written twice (a training that resumed from a checkpoint), the
// later value counts. A layer's loads are used only if every expert has one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/telemetry/logs/import.h"
#include "core/telemetry/logs/tag_map.h"

namespace moescope {

class TaggedRun {
 public:
  explicit TaggedRun(const TagMap& tags);
  // nullptr: not known; kept for no_known_tags().
  const TagMatch* find(const std::string& tag);
  // `values` of `shape`, [elements]; of a figure one. Throws Unreadable: not what the rule speaks of.
  void take(std::int64_t step, double wall_s, const TagMatch& match, std::vector<std::size_t> shape,
            std::vector<double> values);
  bool understood() const { return !steps_.empty(); }
  const std::set<std::string>& unknown() const { return unknown_; }
  // Throws std::runtime_error: more layers and experts than can be shown.
  std::shared_ptr<History> build(RunInfo info, const ImportOptions& options, BadLines& bad);

 private:
  // The values of one layer at one step; NaN: not in the file.
  struct Layer {
    std::vector<double> load, utilization, bias;
    RouterFrame figures;
  };
  struct Step {
    Step() { figures.aux_loss = figures.z_loss = kNoValue; }  // until the file says something
    TelemetryFrame figures;
    double wall = 0;
    std::map<int, Layer> layers;
  };
  static void take_experts(const TagMatch& match, Step& step, std::vector<std::size_t> shape,
                           std::vector<double> values);
  std::size_t n_experts() const;

  const TagMap* tags_;
  std::map<std::int64_t, Step> steps_;
  std::map<std::string, std::optional<TagMatch>> known_;
  std::set<std::string> unknown_;
};

// Whether a rule speaks of one number, not of a value by expert.
bool is_figure(const TagMatch& match);

// What a log says of its run, a JSON object, as a marker at its first step.
void add_settings(History& history, const ImportOptions& options, const std::string& json);

// Why a file whose tags are all unknown cannot be shown: "PATH: none of its tags is known: ...".
std::string no_known_tags(const std::string& path, const std::set<std::string>& unknown, const BadLines& bad);

}  // namespace moescope

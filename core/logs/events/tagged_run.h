// Values that a training logged under tags, put together by step: of TensorBoard's event files, W&B's, MLflow's.
//
// Which tag means what a TagMap says, and which one is shown where several of a run mean the same; a note says so. What
// a training that went back to a checkpoint logged again takes the place of what was there (restart_rule.h), which a
// note says, too. A layer's loads are used only if every expert has one, and tokens are whole numbers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/logs/import.h"
#include "core/logs/restart_rule.h"
#include "core/logs/tag_map.h"

namespace moescope {

struct KnownTag {
  std::string name;
  TagMatch match;
  bool has_value = false;
  bool shown = true;  // false: another tag of the run means the same, or its values are none
};

class TaggedRun {
 public:
  // `source`: the file, for messages.
  TaggedRun(const TagMap& tags, std::string source);
  // nullptr: not known, which is kept for no_known_tags(), or not shown.
  KnownTag* find(const std::string& tag);
  // What is kept may take kKeptBytes, and kKeptOfRead times the bytes that were read: a small file that claims large
  // tensors cannot fill the memory.
  void has_read(std::uint64_t bytes) { read_bytes_ += bytes; }
  // `values` of `shape`, [elements]; of a figure one. Values of a run come in the order in which they were logged.
  // Throws Unreadable: not what the rule speaks of; std::runtime_error: more than can be kept.
  void take(std::int64_t step, double wall_s, KnownTag& tag, std::vector<std::size_t> shape,
            std::vector<double> values);
  void go_back_to(std::int64_t step);  // the log itself says that the training goes on from there
  void note(std::string text);         // what is said about the run beside its values
  bool understood() const { return !steps_.empty(); }
  const std::set<std::string>& unknown() const { return unknown_; }
  // Adds to `imported` what was noted and what could not be used. Throws std::runtime_error: more layers and experts
  // than can be shown.
  std::shared_ptr<History> build(RunInfo info, const ImportOptions& options, Imported& imported);

 private:
  // The values of one layer at one step; NaN: not in the file.
  struct Layer {
    std::vector<double> load, utilization, bias;
    RouterFrame figures;
    std::size_t bytes() const;
  };
  struct Step {
    Step() { figures.aux_loss = figures.z_loss = kNoValue; }  // until the file says something
    TelemetryFrame figures;
    double wall = 0;
    std::map<int, Layer> layers;
    std::size_t bytes() const;
  };
  bool choose(KnownTag& tag);
  void forget(const TagMatch& match);
  void drop(const Restart& restart);
  void keep(std::size_t bytes);
  Step& step_at(std::int64_t number, double wall_s);
  Layer& layer_at(Step& step, int layer);
  static std::vector<double>& list_in(Layer& layer, TagMeaning means);
  void take_figure(const TagMatch& match, Step& step, double value);
  void take_experts(const TagMatch& match, Step& step, const std::vector<std::size_t>& shape,
                    const std::vector<double>& values);
  std::size_t n_experts() const;
  // By its number in the log the layer of the model; says what was assumed.
  std::map<int, int> layers_of_model();
  TelemetryFrame frame_of(std::int64_t number, Step step, double start, std::size_t experts,
                          const std::map<int, int>& layers);

  const TagMap* tags_;
  std::string source_;
  std::map<std::int64_t, Step> steps_;
  RestartRule restarts_;
  std::vector<Marker> notes_;
  std::size_t more_notes_ = 0;
  std::int64_t parts_ = 0;  // places with loads of some experts
  std::string first_part_;
  std::map<std::string, std::optional<KnownTag>> known_;
  std::map<std::string, KnownTag*> shown_;  // by what is meant
  std::set<std::string> unknown_;
  bool layers_as_text_ = false, layers_as_numbers_ = false;  // how the tags that are shown count layers
  std::uint64_t read_bytes_ = 0, kept_bytes_ = 0;
};

// Whether a rule speaks of one number, not of a value by expert.
bool is_figure(const TagMatch& match);

// What a log says of its run, a JSON object, as a marker at its first step.
void add_settings(History& history, const ImportOptions& options, const std::string& json);

// Why a file whose tags are all unknown cannot be shown: "PATH: none of its tags is known: ...".
std::string no_known_tags(const std::string& path, const std::set<std::string>& unknown, const BadLines& bad);

}  // namespace moescope

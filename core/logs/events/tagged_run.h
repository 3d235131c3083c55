// Collects the values that a training logged under tags by step: from TensorBoard's event files, W&B and MLflow.
//
// A TagMap gives the meaning of a tag. If several tags of a run have one meaning, the tag whose rule is first in the
// map is shown, and notes name the others. If the training went back to a checkpoint, the values logged again replace
// the earlier ones (restart_rule.h), and a note says so. A layer's loads are used only if every expert has one; numbers
// of tokens must be whole.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/logs/import.h"
#include "core/logs/restart_rule.h"
#include "core/logs/tag_map.h"

namespace moescope {

struct Tag {
  std::string name;
  TagMatch match;  // without a rule if the meaning is not known
  AccountBook::Name counts = {};
  bool has_value = false;
  bool shown = true;  // false: not known, another tag of the run has this meaning, or its values cannot be used
};

class TaggedRun {
 public:
  // `book` counts the values; it and the map must live as long as the run. `source`: name of the file, for messages.
  TaggedRun(const TagMap& tags, AccountBook& book, std::string source);
  Tag& find(const std::string& tag, std::int64_t place = 0);
  // Counts values of a tag that is not shown, for the account. `shape`: as in take().
  static void count(const Tag& tag, std::int64_t step, const std::vector<std::size_t>& shape,
                    const std::vector<double>& values);
  // To be called with the number of bytes that were read from the file. Kept values may take kKeptBytes plus
  // kKeptOfRead times these bytes, so that a small file that claims large tensors cannot fill the memory. All values
  // together, also those that are replaced or dropped later, may take kWorkedBytes plus kWorkedOfRead times these
  // bytes, so that reading them takes a limited time.
  void has_read(std::uint64_t bytes) { read_bytes_ += bytes; }
  // Adds the values of a tag at a step; to be called in the order of the log. `shape`: [E] or [L, E], or empty for one
  // value or values by expert. Throws Unreadable if the values do not fit the rule of the tag, std::runtime_error if
  // there are more than can be read or kept.
  void take(std::int64_t step, double wall_s, Tag& tag, std::vector<std::size_t> shape, std::vector<double> values);
  void go_back_to(std::int64_t step);  // to be called if the log says that the training goes on from `step`
  void note(std::string text);         // adds a remark about the run
  bool understood() const { return !steps_.empty(); }
  // Adds the run and its notes to `imported`. `settings`: an object with the settings in the log, which become a marker
  // at the first step. Throws std::runtime_error if there are more layers and experts than can be shown.
  void add_to(Imported& imported, const std::string& name, const std::string& source, const ImportOptions& options,
              const nlohmann::json& settings);

 private:
  // The values of one layer at one step. NaN: the file has no value.
  struct Layer {
    std::vector<double> load, ratios, bias;
    RouterFrame figures;
    std::size_t bytes() const;
  };
  struct Step {
    Step() { figures.aux_loss = figures.z_loss = kNoValue; }  // until the file has a value
    TelemetryFrame figures;
    double wall = 0;
    std::map<int, Layer> layers;
    std::size_t bytes() const;
  };
  bool choose(Tag& tag);
  void forget(const TagMatch& match);
  void drop(const Restart& restart);
  void keep(std::size_t bytes);
  void work(std::size_t bytes);
  Step& step_at(std::int64_t number, double wall_s);
  Layer& layer_at(Step& step, int layer);
  static std::vector<double>& list_in(Layer& layer, TagMeaning means);
  void take_figure(const TagMatch& match, Step& step, double value);
  void take_experts(const TagMatch& match, Step& step, const std::vector<std::size_t>& shape,
                    const std::vector<double>& values);
  std::size_t n_experts() const;
  // Maps the layer numbers of the log to layers of the model, and adds notes on assumptions.
  std::map<int, int> layers_of_model();
  TelemetryFrame frame_of(std::int64_t number, Step step, double start, std::size_t experts,
                          const std::map<int, int>& layers);

  const TagMap* tags_;
  AccountBook* book_;
  std::string source_;
  std::map<std::int64_t, Step> steps_;
  RestartRule restarts_;
  std::vector<Marker> notes_;
  std::size_t more_notes_ = 0;
  std::int64_t parts_ = 0;  // pairs of step and layer with loads of only some experts
  std::string first_part_;
  std::map<std::string, Tag> known_;
  std::map<std::string, Tag*> shown_;                        // tag that is shown, by meaning
  bool layers_as_text_ = false, layers_as_numbers_ = false;  // forms of layer numbers in the tags
  std::uint64_t read_bytes_ = 0, kept_bytes_ = 0, worked_bytes_ = 0;
};

// True if the tag is for one number, not for values by expert.
bool is_figure(const TagMatch& match);

// Returns the error for a file without known tags: "PATH: none of its tags is known: ...".
RefusedLog no_known_tags(const std::string& path, const AccountBook& book, const BadLines& bad);
// Completes the import of a file. Throws no_known_tags() if it has no run.
Imported finished(Imported imported, const std::string& path, const AccountBook& book, const ImportOptions& options);

}  // namespace moescope

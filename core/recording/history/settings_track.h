// The settings of a run over its steps: the settings at its start, then each live change.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/config/run_settings.h"
#include "core/frame/frame.h"

namespace moescope {

class SettingsTrack {
 public:
  SettingsTrack() : SettingsTrack(RunInfo{}) {}
  // Reads the config of `info`. If there is no config or it is not valid TOML, no setting is known.
  explicit SettingsTrack(const RunInfo& info);

  void add(const Marker& marker);  // a live change, the settings or the program of a log; ignores other markers
  // Forgets later changes.
  void keep_until(std::int64_t step) {
    std::erase_if(changes_, [step](const Change& change) { return change.step > step; });
  }

  std::shared_ptr<const RunSettings> at_start() const { return at_start_; }  // before any change
  std::shared_ptr<const RunSettings> at(std::int64_t step) const;            // with the changes up to `step`

 private:
  struct Change {
    std::int64_t step;
    Setting setting;
    std::string text;
    std::shared_ptr<const RunSettings> settings;  // valid from this change on
  };
  void recompute(std::size_t from);

  int run_ = 0;
  std::shared_ptr<const RunSettings> at_start_;
  std::vector<Change> changes_;  // rising by step
};

}  // namespace moescope

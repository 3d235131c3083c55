// What is known of the settings of a run: all of them if it was trained here, a few if it is the log of another
// program, which states some settings that this program has under other names.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"

namespace moescope {

// The settings of a log of another program: by its own names, as text.
using LogSettings = std::map<std::string, std::string>;

// A setting as a run states it.
struct StatedSetting {
  std::string name, value;  // as its log has them; of a config the name without its section
};
// The one of a log that is `setting` here: router.bias_update_rate is bias_update_rate, load_balance_coeff, ...
std::optional<StatedSetting> find_setting(const LogSettings& settings, Setting setting);

class RunSettings {
 public:
  RunSettings() = default;  // none is known
  explicit RunSettings(const RunConfig& config);
  explicit RunSettings(LogSettings log);

  // Of a run that was trained here; nullptr: another program's.
  const RunConfig* config() const { return complete_ ? &config_ : nullptr; }
  // nullopt: not known.
  template <class Section, class T>
  std::optional<T> value(T Section::*member) const {
    if (!knows(member)) return std::nullopt;
    return section_of<Section>(config_).*member;
  }
  template <class Section>
  bool holds(bool Section::*member) const {
    return value(member) == true;
  }
  // Texts without quotes, numbers as a config or the log writes them; nullopt: not known.
  std::optional<StatedSetting> stated(Setting setting) const;
  std::optional<std::string> text(Setting setting) const;
  const LogSettings& log() const { return log_; }

  // A live change: `text` as to_string() writes values. What is no value of the setting changes nothing.
  void change(Setting setting, const std::string& text);

 private:
  bool knows(Setting setting) const { return complete_ || known_.contains(setting); }
  bool set(Setting setting, const std::string& text);

  RunConfig config_;  // what is not known has its default
  bool complete_ = false;
  std::set<Setting> known_;
  std::map<Setting, StatedSetting> stated_;  // in the log
  LogSettings log_;
};

}  // namespace moescope

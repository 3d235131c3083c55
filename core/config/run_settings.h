// The known settings of a run: all of them if this program trained it. The log of another program holds a few, some of
// them under other names.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"

namespace moescope {

// Settings in the log of another program: that program's name of each setting -> its value as text.
using LogSettings = std::map<std::string, std::string>;

// A name that another program gives to a setting, from the tables [settings] of assets/tags.
struct LogName {
  std::string setting;     // key in [settings]: "aux_coeff"
  std::string name;        // "moe_aux_loss_coeff"
  std::string program;     // "Megatron-LM"; empty: many programs use the name
  bool is_option = false;  // of the program's command line: "--moe-aux-loss-coeff"
};

// All names: those that many programs use first.
const std::vector<LogName>& log_names();

// A setting with its name and value in the source.
struct StatedSetting {
  std::string name, value;  // as in the log; from a config the name without its section
};

class RunSettings {
 public:
  RunSettings() = default;  // no setting is known
  explicit RunSettings(const RunConfig& config);
  // `program` wrote the log; if it is not known, it is the one to which most names of settings belong.
  explicit RunSettings(LogSettings log, std::string program = {});

  // The config of a run that was trained here; nullptr for the log of another program.
  const RunConfig* config() const { return complete_ ? &config_ : nullptr; }
  // Returns the value of a setting; nullopt if unknown.
  template <class Section, class T>
  std::optional<T> value(T Section::*member) const {
    if (!knows(member)) return std::nullopt;
    return section_of<Section>(config_).*member;
  }
  template <class Section>
  bool holds(bool Section::*member) const {
    return value(member).value_or(false);
  }
  // Returns the value of a setting as text: without quotes, numbers as in the config or the log; nullopt if unknown.
  std::optional<StatedSetting> stated(Setting setting) const;
  std::optional<std::string> text(Setting setting) const {
    const auto found = stated(setting);
    return found ? std::optional(found->value) : std::nullopt;
  }
  const LogSettings& log() const { return log_; }
  const std::string& program() const { return program_; }  // empty: not known, or this program
  // Returns the name that the user of that program knows: "--moe-aux-loss-coeff"; empty if it has no such setting.
  // `otherwise`: if the program is not known.
  std::string name_of(Setting setting, const std::string& otherwise) const;

  // Applies a live change; `text` is a value in the form of to_string(). An invalid value changes nothing.
  void change(Setting setting, const std::string& text);

 private:
  bool knows(Setting setting) const { return complete_ || known_.contains(setting); }
  bool set(Setting setting, const std::string& text);

  RunConfig config_;  // unknown settings have their defaults
  bool complete_ = false;
  std::set<Setting> known_;
  std::map<Setting, StatedSetting> stated_;  // settings found in the log
  LogSettings log_;
  std::string program_;
};

}  // namespace moescope

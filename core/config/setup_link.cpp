#include "core/config/setup_link.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "core/config/config_difference.h"
#include "core/config/config_rules.h"
#include "core/config/config_toml.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"

namespace moescope {
namespace {

// Settings of many twins have about 10 kB.
constexpr std::size_t kMaxLinkBytes = std::size_t{64} << 10, kMaxTomlBytes = std::size_t{256} << 10;
constexpr std::string_view kSetupWord = "setup?";

[[noreturn]] void refuse(const std::string& reason) {
  throw std::runtime_error("The set-up cannot be opened: " + reason + ".");
}

std::string without_white_space(std::string_view text) {
  std::string stripped;
  std::ranges::copy_if(text, std::back_inserter(stripped), [](char c) { return c != ' ' && (c < '\t' || c > '\r'); });
  return stripped;
}

// Returns the lines that parse_config() needs to change one config into another.
std::string lines_of(const RunConfig& from, const RunConfig& to) {
  std::string lines = "name = " + toml_value(to.name) + '\n';
  for (const ConfigField& field : config_fields()) {
    const ConfigValue value = field.get(to);
    if (Setting(field) != &RunConfig::name && value != field.get(from))
      lines += field.key + " = " + toml_value(value) + '\n';
  }
  return lines;
}

std::string toml_of(const std::vector<RunConfig>& configs) {
  std::string toml = lines_of({}, configs.front());
  for (std::size_t i = 1; i < configs.size(); ++i)
    if (!difference(configs.front(), configs[i]).empty())
      toml += "[[compare]]\n" + lines_of(configs.front(), configs[i]);
  return toml;
}

std::string compressed(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::string packed(size, '\0');
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(text.data()), text.size(),
            Z_BEST_COMPRESSION);  // `packed` is large enough, so only a lack of memory makes this fail
  packed.resize(size);
  return packed;
}

std::string unpacked(const std::string& packed) {
  std::string text(kMaxTomlBytes, '\0');
  uLongf size = text.size();
  const int result = uncompress(reinterpret_cast<Bytef*>(text.data()), &size,
                                reinterpret_cast<const Bytef*>(packed.data()), packed.size());
  if (result == Z_BUF_ERROR && size == kMaxTomlBytes)
    refuse(fmt::format("its settings are longer than {} KiB", kMaxTomlBytes >> 10));
  if (result != Z_OK) refuse("its settings are damaged or cut off; copy the whole text");
  text.resize(size);
  return text;
}

std::map<std::string, std::string> parameters_of(std::string_view text) {
  std::map<std::string, std::string> parameters;
  while (!text.empty()) {
    const std::string_view part = take_until(text, '&');
    const std::size_t equals = part.find('=');
    if (equals != std::string_view::npos)
      parameters[std::string(part.substr(0, equals))] = std::string(part.substr(equals + 1));
  }
  return parameters;
}

// Returns the value of a parameter, a whole number from 0 to `max`; -1 if the link does not have the parameter.
std::int64_t number_of(const std::map<std::string, std::string>& parameters, const char* name, std::int64_t max) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return -1;
  const std::string& text = found->second;
  std::int64_t value = -1;
  if (!read_number(text, value) || value < 0 || value > max)
    refuse(fmt::format("{} is \"{}\", expected 0 to {}", name, printable(text.substr(0, 40)), max));
  return value;
}

std::string workspace_of(const std::map<std::string, std::string>& parameters) {
  const auto found = parameters.find("workspace");
  if (found == parameters.end()) return {};
  const auto is_of_name = [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; };
  if (found->second.size() > 40 || !std::ranges::all_of(found->second, is_of_name))
    refuse("workspace is \"" + printable(found->second.substr(0, 40)) + "\", which is not a workspace");
  return found->second;
}

void append(std::string& link, const char* name, std::int64_t value) {
  if (value >= 0) link += fmt::format("{}={}&", name, value);
}

}  // namespace

bool is_setup_link(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text.substr(begin).starts_with(kSetupScheme);
}

std::string setup_link(const SharedSetup& setup) {
  std::string link = std::string(kSetupScheme) + std::string(kSetupWord);
  if (!setup.workspace.empty()) link += "workspace=" + setup.workspace + '&';
  append(link, "run", setup.run);
  append(link, "layer", setup.layer);
  append(link, "expert", setup.expert);
  append(link, "step", setup.step);
  const std::string toml = toml_of(setup.configs);
  if (!parse_config(toml, "set-up").problems.empty()) return {};
  return link + "config=" + base64url(compressed(toml));
}

SharedSetup read_setup_link(std::string_view text) {
  if (!is_setup_link(text)) refuse("it does not begin with " + std::string(kSetupScheme));
  if (text.size() > kMaxLinkBytes) refuse(fmt::format("it is longer than {} KiB", kMaxLinkBytes >> 10));
  const std::string link = without_white_space(text);
  const std::string_view action = std::string_view(link).substr(kSetupScheme.size());
  if (!action.starts_with(kSetupWord)) refuse("it is of a kind that this version does not know");
  const auto parameters = parameters_of(action.substr(kSetupWord.size()));
  SharedSetup setup;
  setup.step = number_of(parameters, "step", 1'000'000'000);
  setup.run = to_int(number_of(parameters, "run", 999));
  setup.layer = to_int(number_of(parameters, "layer", 9999));
  setup.expert = to_int(number_of(parameters, "expert", 99999));
  setup.workspace = workspace_of(parameters);
  const auto config = parameters.find("config");
  if (config == parameters.end()) refuse("it has no settings (config=...)");
  const auto packed = from_base64url(config->second);
  if (!packed) refuse("its settings are damaged; copy the whole text");
  const ParsedConfig parsed = parse_config(unpacked(*packed), "set-up");
  if (!parsed.problems.empty()) refuse(printable(parsed.problems.front().text()));
  setup.configs = all_runs(parsed);
  return setup;
}

}  // namespace moescope

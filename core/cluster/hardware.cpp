#include "core/cluster/hardware.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "core/io/assets.h"
#include "core/io/input_file.h"
#include "core/io/text_encoding.h"
#include "core/io/toml_text.h"
#include "core/io/words.h"

namespace moescope {
namespace {

using P = HardwareProfile;
constexpr NamedHardwareNumber kNumbers[] = {
    {"bf16_dense", &P::bf16_dense, true},
    {"fp8_dense", &P::fp8_dense, true},
    {"memory", &P::memory, true},
    {"memory_copy", &P::memory_copy, true},
    {"nvlink", &P::nvlink, true},
    {"network", &P::network, true},
    {"gemm_bf16", &P::gemm_bf16, true},
    {"grouped_gemm_bf16", &P::grouped_gemm_bf16, true},
    {"attention_bf16", &P::attention_bf16, true},
    {"sustained_gemm_slowdown", &P::sustained_gemm_slowdown, false},
    {"mxfp8_grouped_speedup", &P::mxfp8_grouped_speedup, false},
    {"mxfp8_quantize_share", &P::mxfp8_quantize_share, false},
    {"nvlink_all_to_all", &P::nvlink_all_to_all, true},
    {"deep_ep_network", &P::deep_ep_network, true},
    {"all_to_all_latency", &P::all_to_all_latency, true},
};

// Limits that no device exceeds in any of the units. Beyond them, times would become infinite or zero.
constexpr double kLeast = 1e-3, kMost = 1e9;

constexpr Provenance kKinds[] = {Provenance::measured_elsewhere, Provenance::published, Provenance::modelled,
                                 Provenance::fitted, Provenance::assumed};

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw std::runtime_error(file + ": " + what);
}

std::string words(const toml::table& table, const char* key, const std::string& file, const std::string& place) {
  const auto value = table[key].value<std::string>();
  if (!value || value->empty()) fail(file, place + key + ": a text is needed");
  return *value;
}

std::string bracketed(std::string_view key) {
  std::string text(1, '[');
  return text.append(key).append("] ");
}

HardwareNumber read_number(const toml::table& table, const std::string& key, const std::string& file) {
  const std::string place = bracketed(key);
  HardwareNumber number;
  const auto value = table["value"].value<double>();
  if (!value || !(*value >= kLeast && *value <= kMost))
    fail(file, place + "value: a number from 0.001 to 1e9 is needed");
  number.value = *value;
  number.unit = words(table, "unit", file, place);
  number.source = words(table, "source", file, place);
  const std::string kind = words(table, "kind", file, place);
  if (kind == "measured") {  // a measurement in a file was made elsewhere
    number.kind = Provenance::measured_elsewhere;
    return number;
  }
  const auto* known = std::ranges::find(kKinds, kind, provenance_name);
  if (known == std::end(kKinds))
    fail(file, place + "kind: is '" + kind + "'; allowed: " + joined(kKinds, ", ", provenance_name));
  number.kind = *known;
  return number;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

std::span<const NamedHardwareNumber> hardware_numbers() {
  return kNumbers;
}

HardwareProfile parse_hardware(std::string_view text, const std::string& file) {
  toml::table root;
  try {
    root = parse_toml(text, file);
  } catch (const toml::parse_error& error) {
    if (const std::string encoding = text_problem(text); !encoding.empty()) fail(file, encoding);
    fail(file, "line " + std::to_string(error.source().begin.line) + ": not TOML: " + std::string(error.description()));
  }
  HardwareProfile profile;
  profile.name = words(root, "name", file, "");
  profile.gpu = words(root, "gpu", file, "");
  for (const auto& [key, node] : root) {
    const std::string_view name = key.str();
    if (name == "name" || name == "gpu") continue;
    const auto* known = std::ranges::find_if(kNumbers, [&](const auto& number) { return number.key == name; });
    if (known == std::end(kNumbers)) fail(file, bracketed(name) + "no such number");
    if (!node.is_table()) fail(file, std::string(name) + ": a table with value, unit, kind and source is needed");
    profile.*known->number = read_number(*node.as_table(), std::string(name), file);
  }
  for (const NamedHardwareNumber& number : kNumbers)
    if (number.required && (profile.*number.number).value == 0) fail(file, bracketed(number.key) + "is missing");
  if (profile.mxfp8_quantize_share.value >= 1) fail(file, "[mxfp8_quantize_share] value: a share below 1 is needed");
  return profile;
}

std::span<const HardwareProfile> hardware_profiles() {
  static const std::vector<HardwareProfile> profiles = [] {
    std::vector<HardwareProfile> all;
    for (const char* name : {"b200", "h200", "h100"}) {
      const std::string file = std::string("hardware/") + name + ".toml";
      all.push_back(parse_hardware(asset(file), file));
    }
    return all;
  }();
  return profiles;
}

const HardwareProfile* profile_of_gpu(std::string_view gpu) {
  for (const HardwareProfile& profile : hardware_profiles())
    if (gpu == profile.gpu || gpu.starts_with(profile.gpu + " ")) return &profile;
  return nullptr;
}

HardwareProfile hardware_profile(const std::string& name_or_path) {
  std::string allowed;
  for (const HardwareProfile& profile : hardware_profiles()) {
    if (lower(name_or_path) == lower(profile.name)) return profile;
    allowed += lower(profile.name) + ", ";
  }
  if (!name_or_path.ends_with(".toml"))
    throw std::runtime_error("hardware '" + name_or_path + "' is not known; allowed: " + allowed +
                             "or a .toml file of that form");
  return parse_hardware(read_file(name_or_path, std::uint64_t{1} << 20, "hardware profile"), name_or_path);
}

}  // namespace moescope

#include "core/cluster/hardware.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "core/files/assets.h"
#include "core/files/input_file.h"
#include "core/files/text/toml_section.h"
#include "core/files/text/words.h"

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
constexpr double kMinRate = 1e-3, kMaxRate = 1e9;

constexpr Provenance kKinds[] = {Provenance::measured_elsewhere, Provenance::published, Provenance::modelled,
                                 Provenance::fitted, Provenance::assumed};

std::string needed_text(TomlSection& section, std::string_view key) {
  std::string text = section.required_text(key);
  if (section.has(key) && text.empty()) section.problem(key, "must not be empty");
  return text;
}

Provenance read_kind(TomlSection& section) {
  const std::string kind = section.required_text("kind");
  if (kind == "measured") return Provenance::measured_elsewhere;  // a measurement in a file was made elsewhere
  const auto* known = std::ranges::find(kKinds, kind, provenance_name);
  if (known != std::end(kKinds)) return *known;
  section.problem("kind", "is \"" + kind + "\"; allowed: measured, " + joined(kKinds, ", ", provenance_name));
  return {};
}

HardwareNumber hardware_number(TomlSection& section) {
  section.require("value");
  HardwareNumber number;
  number.value = section.number("value", 0, kMinRate, kMaxRate);
  number.unit = needed_text(section, "unit");
  number.source = needed_text(section, "source");
  number.kind = read_kind(section);
  return number;
}

HardwareProfile read_profile(TomlSection& root) {
  HardwareProfile profile;
  profile.name = needed_text(root, "name");
  needed_text(root, "gpu");  // for the reader of the file
  for (const NamedHardwareNumber& number : kNumbers) {
    if (number.required) root.require(number.key);
    root.inside(number.key, [&](TomlSection& section) { profile.*number.number = hardware_number(section); });
  }
  if (profile.mxfp8_quantize_share.value >= 1) root.problem("mxfp8_quantize_share", "must be a share below 1");
  return profile;
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
  HardwareProfile profile;
  read_valid_toml(text, file, [&](TomlSection& root) { profile = read_profile(root); });
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

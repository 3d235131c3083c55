// Rates of a GPU and its links, every number with its source: assets/hardware/*.toml.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/frame/provenance.h"

namespace moescope {

struct HardwareNumber {
  double value = 0;
  std::string unit;
  Provenance kind = Provenance::modelled;
  std::string source;
};

// Units: TFLOP/s without sparsity; GB/s per GPU and direction. Achieved rates are the rates that the step model uses.
struct HardwareProfile {
  std::string name;
  HardwareNumber bf16_dense, fp8_dense;                         // peak
  HardwareNumber memory, memory_copy;                           // peak, and achieved by a copy (bytes read and written)
  HardwareNumber nvlink, network;                               // line rates
  HardwareNumber gemm_bf16, grouped_gemm_bf16, attention_bf16;  // achieved
  HardwareNumber sustained_gemm_slowdown;                       // value 0 if unknown
  HardwareNumber mxfp8_grouped_speedup, mxfp8_quantize_share;   // value 0 if the GPU has no MXFP8
  HardwareNumber nvlink_all_to_all, deep_ep_network;            // achieved
  HardwareNumber all_to_all_latency;                            // us per operation

  bool has_mxfp8() const { return mxfp8_grouped_speedup.value > 0; }
  // Time of GEMMs back to back, as in a step, divided by their time one by one; 1 if unknown.
  double gemm_slowdown() const { return sustained_gemm_slowdown.value > 0 ? sustained_gemm_slowdown.value : 1; }
};

// A number of a profile and its key in the file.
struct NamedHardwareNumber {
  const char* key;
  HardwareNumber HardwareProfile::*number;
  bool required;
};
std::span<const NamedHardwareNumber> hardware_numbers();

// Reads a profile from the text of a .toml file; `file` is for messages. Throws std::runtime_error with file, line,
// key and what is allowed.
HardwareProfile parse_hardware(std::string_view toml, const std::string& file);
// `name_or_path` is "b200", "h200" or "h100", in any case, or a path to a .toml of this form. Throws
// std::runtime_error.
HardwareProfile hardware_profile(const std::string& name_or_path);
std::span<const HardwareProfile> hardware_profiles();

}  // namespace moescope

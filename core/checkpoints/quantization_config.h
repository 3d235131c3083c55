// What config.json says about the quantization of weights. The layout of codes and scales follows from the tensors
// (core/files/tensors/code_scales.h); a weight that contradicts config.json is refused, so that no key decides in
// silence.
//
// Keys are read of the methods fp8 (DeepSeek), mxfp4 (gpt-oss), compressed-tensors, modelopt and quark. Weights are
// what is rounded: the formats of activations and of the cache of keys and values are not used, because activations
// stay in FP32.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/files/tensors/code_scales.h"

namespace moescope {

// Codes and scales of a weight.
struct WeightLayout {
  enum class Codes : std::uint8_t { fp8, int8, fp4 } codes = Codes::fp8;
  enum class Scales : std::uint8_t { tensor, row, tile } per = Scales::tensor;  // a scale for each of these
  ScaleTile tile = {};  // size of a tile; 1 x n: n values along a row

  bool fits(const TensorView& weight) const;
  std::string text() const;  // "FP8 with a scale for 128 x 128 values"
};

struct StatedQuantization {
  // A key and the layouts that it allows.
  struct Statement {
    std::string key;  // "config.json: 'quantization_config.quant_algo'"
    std::vector<WeightLayout> allowed;
  };
  std::vector<Statement> statements;
  bool exists = false;                   // quantized weights are stated, of any layout if `statements` is empty
  std::vector<std::string> unquantized;  // names of modules that are excluded from quantization

  // Returns why a stored weight contradicts config.json; "" if it does not. `weight` has codes and scales.
  std::string problem(const TensorView& weight) const;
};

// Reads an object such as quantization_config. Throws std::runtime_error "PATH: 'KEY' ..." for each key that changes
// what is computed and is not supported. `prefix` is put before keys in messages.
void read_quantization(const nlohmann::json& json, const std::string& path, const std::string& prefix,
                       StatedQuantization& to);

}  // namespace moescope

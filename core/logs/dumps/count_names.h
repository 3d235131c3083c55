// Reads the name of an array of counts: what it counts, and the numbers of the step, layer and expert in it.
//
//   logical_count                                  SGLang: counts
//   records.3.global_physical_count                SGLang: counts of step 3
//   model.layers.7.mlp.tokens_per_expert           counts of layer 7
//   expert_counts.layer_0.12                       JSON: a number, without a meaning yet, in layer 0
//   50_3                                           TensorRT-LLM: step 50, layer 3
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moescope {

struct CountName {
  std::string stem;                           // the name without the numbers: arrays with one stem belong together
  std::int64_t step = -1, rank = -1;          // -1: not in the name
  int layer = -1, expert = -1;                // -1: not in the name
  std::vector<std::int64_t> unnamed_numbers;  // numbers without a word that gives them a meaning, in their order
  bool counts = false;                        // the words say that it counts tokens by expert
  bool is_logits = false;                     // the words say that it holds the logits of a router
  bool is_mask = false;                       // the words say that it marks the experts of tokens
  bool by_layer = false;                      // the words say that its rows are layers
};

// The words in the name of the file count as well, unless the array's own words name something else.
CountName count_name(std::string_view name, const std::string& file = {});

}  // namespace moescope

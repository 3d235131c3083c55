// Readers of dumps of expert statistics: those that have a form of their own, and of arrays of counts, which are found
// by their names. import_expert_counts.cpp chooses among them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/files/tensors/tensor_file.h"
#include "core/logs/runs/log_runs.h"

namespace moescope {

// Reads the tokens of each expert from an importance matrix of llama.cpp (llama-imatrix --output-format gguf): tensors
// blk.LAYER.ffn_gate_exps.weight.counts [experts]. A tensor of attention counts all tokens, from which top_k follows.
// An importance matrix is one total of a text. Format: ggml/docs/gguf.md.
bool begins_like_gguf(std::string_view bytes);
bool is_imatrix(const std::string& path);  // of a GGUF file; throws std::runtime_error if it is damaged

// Throws std::runtime_error if the file is damaged, or has no counts of experts.
Imported import_imatrix(const std::string& path, const ImportOptions& options);

// Reads the logits of routers that a script saved, such as outputs.router_logits of transformers: a tensor [tokens,
// experts] or [sequences, tokens, experts] for each layer, or one tensor [layers, tokens, experts]. A token is taken to
// be sent to the top_k experts with the largest logits, which options.routed.top_k states. Routers with a bias of the
// experts or with groups of experts choose otherwise; a remark says so.
bool is_router_logits(const TensorView& tensor, const TensorFile& file);  // judged by name and shape

// Throws AmbiguousRouting if top_k is not stated; std::runtime_error if a logit is not a number.
Imported import_router_logits(const TensorFile& file, const ImportOptions& options);

// Reads the tokens of each expert that Megatron-LM writes with --save-tokens-per-expert-interval, a file for each rank:
//
//   tokens_per_expert/rank3.jsonl
//   {"iter": 100, "block": "decoder", "layer": 3, "tpe": [[128, 64], [96, 80]]}
//   {"iter": 100, "block": "mtp", "mtp_idx": 0, "layer": 0, "tpe": [[50, 50], [49, 51]]}
//
// `tpe` has a list for each microbatch, with the tokens of the experts of this rank. Microbatches are summed. The
// ranks of a layer are groups of expert parallelism, in the order of ranks: rank r of a group holds the r-th part of
// the experts; groups are summed. The size of a group follows from the stated number of experts, else from the counts:
// in each microbatch a group has tokens x top_k counts, always the same number. Ranks of expert tensor parallelism have
// equal counts, of which one is read. Layers of multi-token prediction follow those of the decoder.
//
// `path`: a file, whose rank must hold all experts, or the folder. Throws std::runtime_error if it cannot be read, if
// files of ranks are missing, or if their counts do not fit together; AmbiguousRouting if the size of a group is
// needed.
Imported import_rank_counts(const std::string& path, const ImportOptions& options);

bool is_rank_counts_line(std::string_view bytes);   // judged by the first line
bool holds_rank_counts(const std::string& folder);  // has such a file

// Finds the axes of arrays of counts, which are steps, layers and experts, and builds runs of them.
//
// The last axis is that of the experts; numbers in the name (CountName) and the axes before the last one are steps
// and layers: [experts], [layers, experts] or [steps, experts], [steps, layers, experts]. If a single axis may be
// either, options.routed.layers decides: the number of rows (all are layers) or 1 (all are steps).
struct CountArray {
  std::string name;                // with the keys of the containers around it: "records.0.global_physical_count"
  std::vector<std::size_t> shape;  // empty for a number
  std::function<std::vector<double>()> values;
};

// True if an array counts tokens by expert, judged by its name.
bool is_count_array(const CountArray& array, const std::string& path);

// Builds a run of every name of counts. `file_shape`: numbers that the file states beside its arrays. Throws
// std::runtime_error if an array cannot be read, AmbiguousRouting if its axes may be layers as well as steps.
Imported runs_of_counts(const std::string& path, const std::vector<CountArray>& arrays, const RoutedShape& file_shape,
                        const ImportOptions& options);

// Collects numbers of tokens by step, layer and expert, as dumps of expert statistics hold them, and builds a run of
// them. A dump is no training log: it has one total or a few, and neither a loss nor settings.
class ExpertCounts {
 public:
  ExpertCounts(std::string source, const ImportOptions& options)
      : source_(std::move(source)), options_(options), top_k_(options.routed.top_k) {}  // `source`: for messages

  // Adds counts of the experts 0, 1, ...; those of a step and layer are summed. `place`: the place in the file, for
  // messages. Throws std::runtime_error if a count is not a number of tokens, or if the counts take more than 1 GiB.
  void add(std::int64_t step, int layer, std::span<const double> counts_E, const std::string& place);
  void add_one(std::int64_t step, int layer, int expert, double count, const std::string& place);
  void expect_experts(int experts);  // there are at least so many, even if the last ones have no count
  void set_top_k(int top_k) { top_k_ = options_.routed.top_k > 0 ? options_.routed.top_k : top_k; }
  bool empty() const { return steps_.empty(); }
  std::int64_t highest_sum() const;  // of the counts of a step and layer
  bool sums_are_multiples_of(std::int64_t tokens) const;
  int experts() const { return experts_; }

  // Gives the steps with tokens to a run of log_of_counts(). Layers without a token are dense, and steps without a
  // token were not recorded: both are left out, and a remark says so. `name`: of the counts. Returns false if
  // cancelled. Throws std::runtime_error if there is no token, or if a stated number contradicts the counts.
  bool add_to(RunBuilder& run, RunInfo info, const std::string& name, std::vector<std::string>& remarks);
  // Returns the only run of a file. `so_far`: what was read before of its lines, and remarks.
  Imported build(const std::string& name, Imported so_far);

 private:
  using Layers = std::map<int, std::vector<std::uint32_t>>;  // counts by expert, as many as were added
  std::vector<std::uint32_t>& counts_at(std::int64_t step, int layer, std::size_t experts);
  void add_to(std::uint32_t& sum, double count, const std::string& place);
  std::set<int> drop_empty(std::vector<std::string>& remarks);  // returns the layers with tokens
  void check_top_k(std::vector<std::string>& remarks) const;
  LogRecord record_of(std::int64_t step, const Layers& layers, const std::string& name) const;

  std::string source_;
  const ImportOptions& options_;
  std::map<std::int64_t, Layers> steps_;
  std::size_t bytes_ = 0;
  int experts_ = 0, top_k_ = 0, stated_experts_ = 0;  // top_k_: 0 if neither the user nor the file states it
  bool has_expert_0_ = false;
};

// Returns a log for runs of counts, for which only the number of experts is stated: the other stated numbers say what
// the axes of the file are, and layers without a token are no MoE layers.
LogRuns log_of_counts(const std::string& path, ImportOptions options, const char* unit);

// Returns a stated number of the file, for messages: "'NAME'[3, 0, 5]".
std::string place_text(const std::string& name, std::span<const std::size_t> place);

// Reads the name of an array of counts: what it counts, and the numbers of the step, layer and expert in it.
//
//   logical_count                                  SGLang: counts
//   records.3.global_physical_count                SGLang: counts of step 3
//   model.layers.7.mlp.tokens_per_expert           counts of layer 7
//   expert_counts.layer_0.12                       JSON: a number, without a meaning yet, in layer 0
//   50_3                                           TensorRT-LLM: step 50, layer 3
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

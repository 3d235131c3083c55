// Readers of dumps of expert statistics: those that have a form of their own, and of arrays of counts, which are found
// by their names (count_names.h). import_expert_counts.cpp chooses among them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/tensors/tensor_file.h"
#include "core/logs/import.h"

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
// The last axis is that of the experts; numbers in the name (count_names.h) and the axes before the last one are steps
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

}  // namespace moescope

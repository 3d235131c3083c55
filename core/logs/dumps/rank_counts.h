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
#pragma once

#include <string>
#include <string_view>

#include "core/logs/import.h"

namespace moescope {

// `path`: a file, whose rank must hold all experts, or the folder. Throws std::runtime_error if it cannot be read, if
// files of ranks are missing, or if their counts do not fit together; AmbiguousRouting if the size of a group is
// needed.
Imported import_rank_counts(const std::string& path, const ImportOptions& options);

bool is_rank_counts_line(std::string_view bytes);   // judged by the first line
bool holds_rank_counts(const std::string& folder);  // has such a file

}  // namespace moescope

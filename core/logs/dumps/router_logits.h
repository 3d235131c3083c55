// Reads the logits of routers that a script saved, such as outputs.router_logits of transformers: a tensor [tokens,
// experts] or [sequences, tokens, experts] for each layer, or one tensor [layers, tokens, experts]. A token is taken to
// be sent to the top_k experts with the largest logits, which options.routed.top_k states. Routers with a bias of the
// experts or with groups of experts choose otherwise; a remark says so.
#pragma once

#include "core/files/tensors/tensor_file.h"
#include "core/logs/import.h"

namespace moescope {

bool is_router_logits(const TensorView& tensor, const TensorFile& file);  // judged by name and shape

// Throws AmbiguousRouting if top_k is not stated; std::runtime_error if a logit is not a number.
Imported import_router_logits(const TensorFile& file, const ImportOptions& options);

}  // namespace moescope

#include "core/recording/limits.h"

#include "core/files/sqlite.h"

namespace moescope {

void check_products(const RunInfo& info, const std::string& place) {
  narrow(static_cast<std::int64_t>(info.moe_layers.size()) * info.n_experts, 0, kMaxLoadColumns,
         place + "number of experts of all layers");
  // The slots by domain and expert are one value of 4 bytes each; half of the limit leaves room for the rest of a row.
  narrow(static_cast<std::int64_t>(info.domains.size()) * info.n_experts, 0, kLongestValue / 8,
         place + "number of domains times experts");
}

}  // namespace moescope
